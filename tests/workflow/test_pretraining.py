"""The study of towers trained from scratch by itself: jobs, what a change reruns, its page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

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
    "measure_mixing": {"components": 4, "rotations": 2},
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


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"held_out": 150}, "fewer than a batch"),
        ({"crop": 32}, "decode_pictures.side"),
        ({"embedding": 3}, "measure_mixing.components"),
    ],
)
def test_sizes_that_do_not_fit_stop_before_any_job(
    empty: Checkout, changes: dict[str, int], problem: str
) -> None:
    printed = empty.snakemake(
        "pretraining", "--dry-run", *configure(empty, "wrong", **changes), check=False
    )
    assert problem in printed
    assert not (empty.folder / "results").exists()
