"""The repair by itself: its jobs, its ledger, its page, and what a change reruns."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from safetensors.numpy import load_file

from mispair.repair.report.claims import at_rate
from tests.workflow.conftest import Checkout, new_checkout

TINY = {
    "studies": ["repair"],
    "make_scenes": {"shards": 3, "pairs_per_shard": 200},
    "index_shards": {"shards_per_job": 2},
    "evaluation_sets": ["scenes-digit", "scenes-retrieval"],
    "make_evaluation_set": {"images": 100, "train_images": 50, "retrieval_images": 20},
    "corrupt_captions": {"rates": [0.5]},
    "trust_pairs": {"share": 0.3},
    "recaption_pairs": {
        "steps": 60,
        "train_batch_size": 32,
        "max_same_share": 1.0,
        "use_if_not_better": True,
    },
    "filter_captions": {
        "rules": ["raw", "factor", "drop", "posterior", "oracle"],
        "rates": [0.0, 0.5],
    },
    "finetune_projection": {"pairs": 400, "seeds": 2, "epochs": 2, "batch_size": 32},
    "measure_purity": {"rotations": 2},
}
FOLDER = Path("results/repair/scenes/scenes-small")
RULES = {"raw", "factor", "drop", "posterior", "oracle"}


def configure(checkout: Checkout, **more: object) -> tuple[str, str]:
    sections = {
        name: {**value, **more.pop(name, {})} if isinstance(value, dict) else value
        for name, value in TINY.items()
    }
    (checkout.folder / "tiny.yaml").write_text(yaml.safe_dump({**sections, **more}))
    return "--configfile", "tiny.yaml"


@pytest.fixture(scope="module")
def repaired(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Run the study and its report to the end; tests only plan in this folder."""
    checkout = new_checkout(tmp_path_factory.mktemp("repaired") / "mispair")
    checkout.snakemake(*configure(checkout))
    return checkout


def ledger(checkout: Checkout, rule: str, rate: str = "0.5") -> list[dict]:
    path = checkout.folder / FOLDER / f"random~{rate}" / f"{rule}.json"
    return json.loads(path.read_text())["rows"]


def test_ledgers_balance_and_agree_with_the_pairings(repaired: Checkout) -> None:
    trusted = set(pd.read_parquet(repaired.folder / FOLDER.parent / "trusted.parquet")["key"])
    assert len(trusted) == 180
    raw = pd.read_parquet(repaired.folder / FOLDER / "random~0.5/raw.parquet")
    assert not raw.loc[raw["key"].isin(trusted), "swapped"].any()
    for rule in RULES:
        table = pd.read_parquet(repaired.folder / FOLDER / f"random~0.5/{rule}.parquet")
        for draw, ending in enumerate(("", "_1")):
            rows = [row for row in ledger(repaired, rule) if row["seed"] == draw]
            counts = {row["metric"]: row["value"] for row in rows if "before" not in row}
            parts = [counts[name] for name in ("kept", "replaced", "dropped", "failed")]
            assert sum(parts) == counts["read"] == len(table) == 600
            cells = [row["value"] for row in rows if row["metric"] == "pairs"]
            assert sum(cells) == 600
            assert counts["dropped"] == (~table[f"kept{ending}"]).sum()
            if rule != "oracle":
                other = table[f"caption_id{ending}"] != raw[f"caption_id{ending}"]
                assert counts["replaced"] == other.sum()
                assert not other[table["key"].isin(trusted)].any()


def test_the_arms_are_measured_and_compared(repaired: Checkout) -> None:
    arms = pd.read_csv(repaired.folder / "reports/tables/repaired_arms.csv")
    assert set(arms["rule"]) == RULES
    assert set(arms.loc[arms["rate"] == 0, "rule"]) == RULES - {"oracle"}
    differences = pd.read_csv(repaired.folder / "reports/tables/repair_differences.csv")
    compared = {tuple(pair) for pair in differences[["rule", "reference"]].to_numpy()}
    assert {("factor", "raw"), ("factor", "drop"), ("raw", "oracle")} <= compared
    assert pd.read_csv(repaired.folder / "reports/tables/purity.csv").empty
    claims = pd.read_csv(repaired.folder / "reports/tables/claims.csv").set_index("claim")
    assert claims.loc["repair-accuracy", "outcome"] != "not measured"
    page = (repaired.folder / "reports/pages/repair.html").read_text()
    assert f"Ledger {at_rate(0.5)}" in page
    assert 12 <= page.count('src="data:image/jpeg') == page.count("New caption</b>") <= 24


def test_the_export_is_a_caption_table_of_the_corpus(repaired: Checkout) -> None:
    folder = repaired.folder / FOLDER / "random~0/factor"
    captions = pd.read_parquet(folder / "captions.parquet")
    assert captions["key"].tolist() == (folder / "kept.txt").read_text().split()
    assert captions["caption"].str.len().gt(0).all()
    card = (folder / "README.md").read_text()
    assert yaml.safe_load(card.split("---")[1])["tags"]
    options = configure(repaired, captions=str(folder / "captions.parquet"), studies=["image_text"])
    assert repaired.planned(*options)["read_captions"] == 1


def test_every_result_has_a_record(repaired: Checkout) -> None:
    record = json.loads((repaired.folder / "reports/run.json").read_text())["record"]
    assert record["steps"]["export_repaired"]["jobs"] > 0
    assert record["unrecorded"] == []


def test_a_second_run_does_nothing_and_a_change_reruns_what_it_concerns(repaired: Checkout) -> None:
    assert repaired.planned(*configure(repaired)) == {}
    factor = repaired.planned(*configure(repaired, filter_captions={"factor": 1.5}))
    # At both rates: factor and drop; their ledgers, arms and what compares them.
    assert factor["filter_captions"] == factor["finetune_projection"] == 4
    assert not {"recaption_pairs", "score_captions", "judge_pairs"} & {*factor}
    card = repaired.planned(*configure(repaired, export_repaired={"licence": "mit"}))
    assert card == {"export_repaired": 2, "record_run": 1, "write_report": 1}
    more = [*TINY["filter_captions"]["rules"], "all"]
    planned = repaired.planned(*configure(repaired, filter_captions={"rules": more}))
    assert (planned["filter_captions"], planned["finetune_projection"]) == (2, 2)
    assert "recaption_pairs" not in planned


def test_mistakes_are_told_before_any_job(repaired: Checkout) -> None:
    def refusal(**more: object) -> str:
        return repaired.snakemake(*configure(repaired, **more), "--dry-run", check=False)

    given = {"captioner": "given", "model": "nowhere.parquet"}
    assert "nowhere.parquet" in refusal(recaption_pairs=given)
    assert "nowhere.txt is no file" in refusal(trusted="nowhere.txt")
    assert "filter_captions.scorer" in refusal(filter_captions={"scorer": "nowhere"})
    assert "write untouched" in refusal(filter_captions={"scorer": "shipped"})


def test_a_table_of_captions_and_other_towers_take_the_place_of_captioner_and_scorer(
    repaired: Checkout, tmp_path: Path
) -> None:
    checkout = repaired.copy(tmp_path / "mispair")
    corpus = pd.read_parquet(checkout.folder / "results/pairs/scenes/corpus.parquet")
    keys = corpus["key"].tolist()
    table = pd.DataFrame({"key": keys[:300], "caption": ["a red circle", "a green 7"] * 150})
    table.to_parquet(checkout.folder / "mine.parquet")
    options = configure(
        checkout,
        recaption_pairs={"captioner": "given", "model": "mine.parquet", "max_same_share": 1.0},
        filter_captions={"rules": ["raw", "all", "factor"], "rates": [0.0], "scorer": "shipped-1"},
        export_repaired={"rules": ["all"]},
    )
    targets = [f"{FOLDER}/random~0/{rule}.json" for rule in ("all", "factor")]
    checkout.snakemake(*targets, *options)
    scores = load_file(checkout.folder / FOLDER / "random~0/scores~scenes-small-1.safetensors")
    own = load_file(checkout.folder / FOLDER / "random~0/scores~raw.safetensors")
    assert scores["old"].shape == own["old"].shape == (2, 600)
    assert np.array_equal(scores["old"][0], scores["old"][1])  # one model, uncorrupted captions
    assert not np.allclose(scores["old"], own["old"], atol=0.01)
    assert np.corrcoef(scores["old"][0], own["old"][0])[0, 1] > 0.1
    trusted = pd.read_parquet(checkout.folder / FOLDER.parent / "trusted.parquet")["key"]
    counts = {row["metric"]: row["value"] for row in ledger(checkout, "all", "0")
              if row["seed"] == 0 and "before" not in row}  # fmt: skip
    untrusted = set(keys) - set(trusted)
    assert counts["replaced"] == len(untrusted & set(keys[:300]))
    assert counts["failed"] == len(untrusted) - counts["replaced"]
    assert counts["read"] == counts["kept"] + counts["replaced"] + counts["failed"]
