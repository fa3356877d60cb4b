"""The study of towers trained from scratch by itself: jobs, what a change reruns, its page."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from mispair.pairs.corruption.scheme import schemes
from tests.workflow.conftest import Checkout, new_checkout

TINY: dict[str, Any] = {
    "studies": ["pretraining"],
    "make_scenes": {"shards": 2, "pairs_per_shard": 80},
    "index_shards": {"shards_per_job": 1},
    "evaluation_sets": ["scenes-digit", "scenes-retrieval"],
    "make_evaluation_set": {"images": 40, "train_images": 10},
    "train_small_towers": {
        "schemes": ["random", "spurious"], "seeds": 1, "held_out": 100, "epochs": 1,
        "batch_size": 20, "channels": 3, "width": 16, "embedding": 8,
    },
    "measure_mixing": {"components": 4},
}  # fmt: skip
FOLDER = Path("results/pretraining/scenes")


def configure(checkout: Checkout, name: str = "tiny", **towers: Any) -> tuple[str, str]:
    """Write a configuration of this study alone; return the options that name it."""
    content = {**TINY, "train_small_towers": {**TINY["train_small_towers"], **towers}}
    (checkout.folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return "--configfile", f"{name}.yaml"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Run the study and its report to the end; tests only plan in this folder."""
    checkout = new_checkout(tmp_path_factory.mktemp("trained") / "mispair")
    printed = checkout.snakemake(*configure(checkout))
    assert "double '/'" not in printed  # in the paths of a study that is not run
    return checkout


def test_clean_captions_and_every_scheme_are_measured(trained: Checkout) -> None:
    results = sorted((trained.folder / FOLDER).glob("*/draw~0/mixing.json"))
    assert [path.parts[-3] for path in results] == ["random~0", "random~0.4", "spurious~0.4"]
    names = {json.loads(path.read_text())["rows"][0]["scheme"] for path in results}
    assert names == {"clean", "random", "spurious"}
    assert not list((trained.folder / FOLDER).rglob("*.checkpoint"))


def test_the_page_of_the_study_is_written(trained: Checkout) -> None:
    page = (trained.folder / "reports/pages/pretraining.html").read_text()
    assert "mixing score" in page.lower()
    table = (trained.folder / "reports/tables/pretraining.csv").read_text()
    assert {"clean", "random", "spurious"} <= {row.split(",")[0] for row in table.splitlines()}


def planned(checkout: Checkout, *options: str) -> dict[str, int]:
    """Return how many jobs of each rule a dry run of the study would start, without its report."""
    # A word between the options that take several and the target.
    return checkout.planned("--nolock", "pretraining", *options)


def test_another_seed_trains_no_other_again(trained: Checkout) -> None:
    jobs = planned(trained, *configure(trained, "more", seeds=2))
    assert jobs == {
        "corrupt_captions_of_draw": 3, "train_small_towers": 3, "measure_mixing": 3,
        "pretraining": 1,
    }  # fmt: skip


def test_other_epochs_decode_and_corrupt_nothing_again(trained: Checkout) -> None:
    jobs = planned(trained, *configure(trained, "longer", epochs=2))
    assert jobs == {"train_small_towers": 3, "measure_mixing": 3, "pretraining": 1}


def test_towers_are_trained_on_any_scheme_that_is_declared(trained: Checkout) -> None:
    jobs = planned(trained, *configure(trained, "all-schemes", schemes=[*schemes()]))
    assert jobs["train_small_towers"] == len(schemes()) - 2  # random and spurious are there


RULES = {"raw", "factor", "all", "trusted-alone", "oracle"}


def test_towers_learn_from_the_captions_of_each_rule_without_any_frozen_towers(trained, tmp_path):
    checkout = trained.copy(tmp_path / "mispair")
    content = {
        **TINY,
        "studies": ["repair"],
        "corrupt_captions": {"schemes": ["random"], "rates": [0.5]},
        "trust_pairs": {"share": 0.4},
        "recaption_pairs": {
            "steps": 60,
            "train_batch_size": 32,
            "max_same_share": 1.0,
            "use_if_not_better": True,
        },
        "filter_captions": {"rules": sorted(RULES), "rates": [0.5], "trains": ["towers"]},
    }
    (checkout.folder / "repair.yaml").write_text(yaml.safe_dump(content))
    options = ("--configfile", "repair.yaml")
    jobs = checkout.planned("--nolock", "repair", *options)
    assert (jobs["train_repaired_towers"], jobs["measure_repaired_towers"]) == (5, 5)
    frozen = {"encode_features", "encode_captions", "finetune_projection", "score_captions"}
    assert not (frozen | {"decode_pictures", "make_scenes"}) & jobs.keys()
    checkout.snakemake("repair", *options)
    folder = checkout.folder / "results/repair/scenes/from-scratch/random~0.5/draw~0"
    tables = {path.stem: pd.read_parquet(path) for path in folder.glob("*.parquet")}
    assert tables.keys() == RULES
    trusted = set(pd.read_parquet(folder.parents[2] / "trusted.parquet")["key"])
    spared = tables["raw"]["key"].isin(trusted)
    assert spared.sum() == 64
    assert not tables["raw"].loc[spared, "swapped"].any()
    assert tables["raw"]["swapped"].sum() > 30
    assert (tables["trusted-alone"]["kept"] == spared).all()
    corpus = pd.read_parquet(checkout.folder / "results/pairs/scenes/corpus.parquet")
    own = corpus.set_index("key")["caption_id"].reindex(tables["oracle"]["key"]).to_numpy()
    assert (tables["oracle"]["caption_id"] == own).all()
    new = pd.read_parquet(folder / "raw/recaptions.parquet").set_index("key")["caption_id"]
    given = tables["all"][tables["all"]["caption_id"] != tables["raw"]["caption_id"]]
    assert len(given) > 50
    assert not given["key"].isin(trusted).any()
    assert (given["caption_id"].to_numpy() == new.reindex(given["key"]).to_numpy()).all()
    measured = {path.parent.name: json.loads(path.read_text()) for path in
                folder.glob("*/mixing.json")}  # fmt: skip
    assert measured.keys() == RULES
    for rule, found in measured.items():
        assert found["provenance"]["trained"]["repair"] == rule
        assert {row["metric"] for row in found["rows"]} >= {"acc1", "mean_abs_cosine", "recovery"}
    assert "train_repaired_towers" not in checkout.planned("--nolock", "repair", *options)
