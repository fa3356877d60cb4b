"""The audit by itself: its jobs, its page, and what a change reruns."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.workflow.conftest import Checkout, new_checkout

TINY = {
    "studies": ["audit"],
    "make_scenes": {"shards": 3, "pairs_per_shard": 400},
    "index_shards": {"shards_per_job": 2},
    "calibrate_audit": {"rates": [0.0, 0.3], "pairs": 1000, "trusted": 100},
}
FOLDER = Path("results/audit/scenes/scenes-small")
REVIEW = Path("results/review/scenes/scenes-small")
REPORT = {
    "draw_suspects": 1, "gather_metrics": 1, "draw_figures": 1,
    "write_report": 1, "record_run": 1,
}  # fmt: skip


def configure(checkout: Checkout, **more: object) -> tuple[str, str]:
    (checkout.folder / "tiny.yaml").write_text(yaml.safe_dump({**TINY, **more}))
    return "--configfile", "tiny.yaml"


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Run the study and its report to the end; tests only plan in this folder."""
    checkout = new_checkout(tmp_path_factory.mktemp("audited") / "mispair")
    checkout.snakemake(*configure(checkout))
    return checkout


OF_TRUTH = re.compile(r"by the known truth of \d+\srandom pair")


def test_the_page_begins_with_the_answer(audited: Checkout) -> None:
    page = (audited.folder / "reports/pages/audit.html").read_text()
    assert OF_TRUTH.search(page)
    assert page.count("data:image/jpeg") >= 12  # the gallery
    review = (audited.folder / "reports/review.html").read_text()
    assert review.count("data:image/jpeg") == 200
    front = (audited.folder / "reports/index.html").read_text()
    assert OF_TRUTH.search(front)
    for name in ("audit_p_values", "audit_calibration", "audit_reliability"):
        figure = audited.folder / f"reports/figures/audit/{name}.vl.json"
        assert "hole" not in json.loads(figure.read_text())["usermeta"]["mispair"], name


def test_known_shares_are_found(audited: Checkout) -> None:
    rows = json.loads((audited.folder / FOLDER / "calibration.json").read_text())["rows"]
    found = {
        (row["injected"], row["scorer"], row["method"]): row["value"]
        for row in rows if row["metric"] == "rate" and row["scheme"] == "random"
    }  # fmt: skip
    assert found[0.0, "untouched", "mixture"] < 0.02
    assert found[0.3, "untouched", "mixture"] == pytest.approx(0.3, abs=0.05)
    assert found[0.3, "untouched", "trusted"] == pytest.approx(0.3, abs=0.05)


def test_no_peer_separates_better_on_scenes(audited: Checkout) -> None:
    """By the pairs that the trials made wrong; scores on photographs have a test of their own."""
    rows = json.loads((audited.folder / FOLDER / "calibration.json").read_text())["rows"]
    areas = pd.DataFrame([row for row in rows if row["metric"] in ("auroc", "auprc")])
    by_method = areas.pivot(index=["scheme", "metric"], columns="method", values="value")
    assert {"cosine", "neighbour-disagreement", "two-gaussians"} < {*by_method.columns}
    peers = by_method.drop(columns="probability").max(axis=1)
    assert (by_method["probability"] >= peers - 0.001).all()


def test_every_pair_has_a_probability_and_lists_balance(audited: Checkout) -> None:
    table = pd.read_parquet(audited.folder / FOLDER / "audit.parquet")
    assert len(table) == 1200
    assert table["probability"].between(0, 1).all()
    lists = audited.folder / FOLDER / "lists"
    kept, removed = ((lists / f"{name}.txt").read_text().split() for name in ("kept", "removed"))
    assert len(kept) + len(removed) == 1200


def test_a_second_run_does_nothing(audited: Checkout) -> None:
    assert audited.planned(*configure(audited)) == {}


def test_another_cut_selects_again_and_audits_nothing(audited: Checkout) -> None:
    options = configure(audited, select_pairs={"cut": 0.9})
    report = {name: jobs for name, jobs in REPORT.items() if name != "draw_suspects"}
    assert audited.planned(*options) == {"select_pairs": 1, "measure_review": 1, **report}


def test_trusted_pairs_rerun_the_audit_alone(audited: Checkout) -> None:
    keys = pd.read_parquet(audited.folder / FOLDER / "audit.parquet")["key"]
    (audited.folder / "trusted.txt").write_text("\n".join(keys[:100]))
    planned = audited.planned(*configure(audited, trusted="trusted.txt"))
    review = {"draw_review": 1, "write_review": 1, "measure_review": 1}
    assert planned == {"audit_pairs": 1, "select_pairs": 1, **review, **REPORT}


def test_its_target_makes_its_results_without_a_report(audited: Checkout) -> None:
    options = configure(audited, select_pairs={"cut": 0.9})
    assert audited.planned("audit", *options) == {
        "select_pairs": 1, "measure_review": 1, "audit": 1
    }  # fmt: skip


def test_a_person_labels_the_sample(audited: Checkout) -> None:
    """The truth plays the person; with labels of a person it does not, and nothing else reruns."""
    folder = audited.folder / REVIEW
    rows = json.loads((folder / "review.json").read_text())["rows"]
    found = {row["metric"]: row for row in rows}
    assert (found["checked_labels"]["value"], found["checked_wrong"]["value"]) == (200, 0)
    assert found["checked_share"]["low"] == 0
    assert found["checked_share"]["high"] < 0.03
    rated = json.loads((audited.folder / FOLDER / "similar_by_labels.json").read_text())
    similar = {row["metric"]: row for row in rated["rows"]}
    assert similar["checked_right_ranked"]["value"] > 100
    assert rated["provenance"]["fault"] in ("", "alike")
    assert similar.get("checked_similar", {"low": 0})["low"] == 0  # all captions are right
    sample = pd.read_parquet(folder / "sample.parquet")
    assert (
        sum(of["pairs"] for of in json.loads((folder / "strata.json").read_text())["strata"])
        == 1200
    )
    sample.assign(label="right").to_csv(audited.folder / "review.csv", columns=["key", "label"])
    report = {name: jobs for name, jobs in REPORT.items() if name != "draw_suspects"}
    planned = audited.planned(*configure(audited, reviewed="review.csv"))
    assert planned == {"measure_review": 1, "rate_similar": 1, **report}


def test_captions_that_are_kept_are_a_caption_table(audited: Checkout) -> None:
    """What is left out is not in the corpus of a run with the cleaned list."""
    table = audited.folder / FOLDER / "lists/captions.parquet"
    shortened = pd.read_parquet(table).iloc[:500]
    path = audited.folder / "cleaned.parquet"
    shortened.to_parquet(path)
    options = configure(
        audited, corpus="cleaned", captions="cleaned.parquet",
        gather_index={"max_quarantined_share": 0.9},
    )  # fmt: skip
    audited.snakemake("results/pairs/cleaned/corpus.parquet", *options)
    corpus = pd.read_parquet(audited.folder / "results/pairs/cleaned/corpus.parquet")
    assert corpus["key"].tolist() == sorted(shortened["key"])


def test_weights_of_the_audit_are_an_arm_whose_gain_is_judged(audited: Checkout, tmp_path: Path):
    run = audited.copy(tmp_path / "copy")
    options = configure(
        run, studies=["audit", "image_text"], evaluation_sets=["scenes-colour"],
        make_evaluation_set={"images": 200, "train_images": 50},
        corrupt_captions={"schemes": ["random"], "rates": [0.0, 0.8]},
        finetune_projection={
            "starts": ["pretrained"], "weights": "audit", "pairs": None, "seeds": 2, "epochs": 3,
            "batch_size": 64,
        },
        measure_purity={"rotations": 1}, measure_semantics={"rotations": 1},
        prune_neurons={"ks": [16], "draws": 1},
    )  # fmt: skip
    planned = run.planned(*options)
    assert (planned["weigh_pairs"], planned["finetune_projection"]) == (2, 4)
    assert not {"encode_features", "audit_pairs", "calibrate_audit"} & planned.keys()
    run.snakemake(*options)
    claims = pd.read_csv(run.folder / "reports/tables/claims.csv").set_index("claim")
    assert claims.at["weights-help", "outcome"] != "not measured"
    differences = pd.read_csv(run.folder / "reports/tables/comparisons.csv")
    weighted = differences[differences["start"] == "audit-weighted"]
    assert set(weighted["reference"]) == {"untouched", "rate 0", "not weighted"}
    assert run.planned(*options) == {}
    fewer = {"starts": ["pretrained"], "pairs": None, "seeds": 2, "epochs": 3, "batch_size": 64}
    assert "finetune_projection" not in run.planned(*configure(run, finetune_projection=fewer))
