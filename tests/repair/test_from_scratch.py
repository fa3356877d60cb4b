"""Towers trained from scratch on repaired captions: their jobs, and what the report concludes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mispair.core import metrics
from mispair.core.files import UserError
from mispair.dag import Dag
from mispair.repair import dag as jobs
from mispair.repair import paths
from mispair.repair.report import figures, pages
from mispair.repair.report.claims import CLAIMS, LABELS
from mispair.repair.report.rows import rows
from mispair.report.charts import Hole
from mispair.report.judge import Verdict, judge
from mispair.report.tables import Tables, tidy

ACCURACY = {"raw": 0.50, "factor": 0.70, "drop": 0.52, "trusted-alone": 0.55, "oracle": 0.80}
OVERLAP = {"raw": 0.12, "factor": 0.09, "drop": 0.115, "trusted-alone": 0.115, "oracle": 0.08}


def configured(**filters: Any) -> Dag:
    content = {"studies": ["repair"], "filter_captions": {"trains": ["towers"], **filters}}
    return Dag(content, "test")


class Wildcards(dict[str, str]):
    repair = property(lambda self: self["repair"])


def test_every_rule_of_the_loop_is_trained_in_every_draw() -> None:
    dag = configured(rules=["factor", "posterior", "oracle"], rates=[0.0, 0.8])
    files = dag.repair.files()
    folder = "results/repair/scenes/from-scratch"
    trained = {path for path in files if path.endswith("mixing.json")}
    assert trained == {
        f"{folder}/random~{rate}/draw~{draw}/{rule}/mixing.json"
        for draw in range(3)
        for rate, rule in (("0", "raw"), ("0", "factor"), ("0.8", "raw"), ("0.8", "factor"),
                           ("0.8", "oracle"))
    }  # fmt: skip
    assert {path.replace("/mixing.json", ".json") for path in trained} == {*files} - trained
    assert dag.repair.exports() == []


def test_projections_and_towers_are_trained_side_by_side() -> None:
    both, towers, default = (
        {*Dag({"studies": ["repair"], **({"filter_captions": {"trains": trains}}
                                         if trains else {})}, "test").repair.files()}
        for trains in (["projections", "towers"], ["towers"], None)
    )  # fmt: skip
    assert both == towers | default
    assert not towers & default
    assert not [path for path in default if "from-scratch" in path]


@pytest.mark.parametrize(
    ("rule", "new", "scored"),
    [("raw", False, False), ("oracle", False, False), ("trusted-alone", False, False),
     ("all", True, False), ("factor", True, True), ("drop", True, True)],
)  # fmt: skip
def test_a_rule_reads_what_it_decides_by(rule: str, new: bool, scored: bool) -> None:
    wildcards = Wildcards(corpus="c", scheme="random", rate="0.8", draw="1", repair=rule)
    folder = "results/repair/c/from-scratch/random~0.8/draw~1/raw"
    assert jobs.if_read("new", paths.RAW_RECAPTIONS)(wildcards) == (
        [f"{folder}/recaptions.parquet"] if new else []
    )
    assert jobs.if_read("cosines", paths.RAW_SCORES)(wildcards) == (
        [f"{folder}/scores.safetensors"] if scored else []
    )
    texts = jobs.written_of_draw(wildcards)
    assert texts[0] == "results/pretraining/c/random~0.8/draw~1/captions.parquet"
    assert texts[1:] == ([f"{folder}/recaption_texts.parquet"] if new else [])


def test_another_captioner_is_refused() -> None:
    content = {"studies": ["repair"], "filter_captions": {"trains": ["towers"]},
               "recaption_pairs": {"captioner": "pkg.module:function"}}  # fmt: skip
    with pytest.raises(UserError, match="captioner: trained"):
        Dag(content, "test").repair.files()


def test_a_corpus_without_true_features_is_refused(tmp_path: Path) -> None:
    (tmp_path / "00000.tar").touch()
    content = {"studies": ["repair"], "filter_captions": {"trains": ["towers"]},
               "shards": str(tmp_path / "*.tar")}  # fmt: skip
    with pytest.raises(UserError, match="true features"):
        Dag(content, "test")


def made_up(
    accuracy: Mapping[str, float] = ACCURACY, overlap: Mapping[str, float] = OVERLAP, seeds: int = 5
) -> Tables:
    """Return tables of towers; each seed shifts all rules, and each rule by a little."""
    draw = np.random.default_rng(0)
    shift, noise = draw.normal(0, 0.02, seeds), draw.normal(0, 0.0005, (len(accuracy), seeds))
    made = []
    for number, rule in enumerate(accuracy):
        for seed in range(seeds):
            here = {"rule": rule, "scheme": "random", "rate": 0.8, "seed": seed}
            more = float(shift[seed] + noise[number, seed])
            made += [
                {**here, "metric": "acc1", "evaluation_set": name, "chance": 0.1,
                 "protocol": "clip_benchmark", "value": accuracy[rule] + apart + more}
                for name, apart in (("one", -0.1), ("two", 0.1))
            ]  # fmt: skip
            for tower in ("image", "text"):
                made.append({**here, "tower": tower, "metric": "mean_abs_cosine",
                             "value": overlap[rule] + more})  # fmt: skip
                made.append({**here, "tower": tower, "basis": "identified", "metric": "recovery",
                             "value": 0.4 + more})  # fmt: skip
    return Tables({"repaired_towers": tidy("repaired_towers", made)})


def judged(tables: Tables) -> Verdict:
    (claim,) = (claim for claim in CLAIMS if claim.key == "repair-learned-accuracy")
    return judge(claim, tables, 0.95)


def test_nothing_trained_is_no_verdict() -> None:
    assert judged(Tables({})).outcome == "not measured"
    assert isinstance(figures.repair_from_scratch(Tables({})), Hole)
    assert pages.PAGES.tables(Tables({}), 0.95) == []


def test_known_effects_are_judged_as_they_are() -> None:
    found = judged(made_up())
    assert found.outcome == "supports"
    assert found.effect.value == pytest.approx(0.2, abs=0.002)
    assert found.effect.n == 5
    assert found.effect.high - found.effect.low < 0.004  # seeds differ by 0.02, rules by 0.0005
    assert found.limited == ()


@pytest.mark.parametrize(
    ("accuracy", "outcome", "gate"),
    [
        ({"factor": 0.40}, "contradicts", ""),
        ({"factor": 0.50}, "no such effect", ""),
        ({"oracle": 0.50}, "cannot tell", "no cost"),  # nothing was lost
        ({"oracle": 0.40}, "cannot tell", "no cost"),  # wrong captions did better
        (dict.fromkeys(ACCURACY, 0.15), "cannot tell", "not learnt"),
    ],
)
def test_accuracy_can_come_out_either_way(accuracy, outcome, gate) -> None:
    found = judged(made_up({**ACCURACY, **accuracy}))
    assert (found.outcome, found.measured.gate) == (outcome, gate)


def test_what_needs_no_new_captions_limits_the_claim() -> None:
    found = judged(made_up({**ACCURACY, "trusted-alone": 0.68}))
    assert found.limited == ("Trusted pairs alone",)


def test_tables_and_the_figure_hold_the_numbers() -> None:
    tables = made_up()
    arms, *_ = pages.PAGES.tables(tables, 0.95)
    assert len(arms.rows) == len(ACCURACY)
    place = arms.heads.index("accuracy")
    by_rule = {row[0]: row[place] for row in arms.rows}
    assert by_rule[LABELS["factor"]].value == pytest.approx(0.7, abs=0.005)
    gains = {row[0]: row[-1] for row in arms.rows}
    assert gains[LABELS["factor"]].value == pytest.approx(19.95, abs=0.01)
    drawing = figures.repair_from_scratch(tables)
    assert set(drawing.data["rule"]) == set(ACCURACY)


def test_results_become_rows(tmp_path: Path) -> None:
    folder = tmp_path / "draw~2"
    trained = {"repair": "factor", "scheme": "random", "rate": "0.8", "draw": "2"}
    metrics.write_metrics(
        folder / "factor" / "mixing.json",
        [{"scheme": "random", "rate": 0.8, "seed": 2, "metric": "acc1", "value": 0.5}],
        {"trained": trained},
    )
    metrics.write_metrics(
        folder / "factor.json",
        [{"seed": 0, "metric": "read", "value": 10}],
        {"repair": "factor", "scheme": "random", "nominal": "0.8"},
    )
    found = rows({"towers": [folder / "factor" / "mixing.json"],
                  "tower_ledger": [folder / "factor.json"]}, {})  # fmt: skip
    assert found["repaired_towers"][0]["rule"] == "factor"
    (ledger,) = found["tower_repairs"]
    assert (ledger["rule"], ledger["rate"], ledger["seed"]) == ("factor", 0.8, 2)
    assert not found["repairs"]
