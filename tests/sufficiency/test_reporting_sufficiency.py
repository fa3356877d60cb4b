"""The sufficiency study in the report: claims, tables and figures."""

import copy
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mispair.report import published, studies
from mispair.report.charts import Hole
from mispair.report.figures import draw_of
from mispair.report.judge import Verdict, judge
from mispair.report.measures import NO_TRAINING
from mispair.report.table import Table, general
from mispair.report.tables import Tables, tidy
from mispair.sufficiency.report import claims
from mispair.sufficiency.report.pages import PAGES
from tests.sufficiency import sufficiency_run as run


def tables(rows: list[dict[str, Any]]) -> Tables:
    return Tables({"sufficiency": tidy("sufficiency", rows)})


def judged(rows: list[dict[str, Any]]) -> dict[str, Verdict]:
    return {claim.key: judge(claim, tables(rows), 0.95) for claim in claims.CLAIMS}


def printed(rows: list[dict[str, Any]], caption: str) -> Table:
    """Return the table of the page whose caption begins with some words."""
    (table,) = (t for t in PAGES.tables(tables(rows), 0.95) if t.caption.startswith(caption))
    return table


def changed(where: dict[str, Any], change: Any) -> list[dict[str, Any]]:
    """Return the rows of a whole run with another value, and its limits, where keys match."""
    rows = copy.deepcopy(run.everything())
    matched = 0
    for row in rows:
        if all(row.get(key) == value for key, value in where.items()):
            shift = change(row["value"]) - row["value"]
            for name in ("value", "low", "high"):
                if name in row:
                    row[name] += shift
            matched += 1
    assert matched, where
    return rows


# The published numbers ----------------------------------------------------------------------------


def test_published_tables_are_whole() -> None:
    risks = published.sufficiency_risks()
    assert set(risks["flip"]) == {0.02, 0.1, 0.2, 0.3, 0.4}
    models = risks.groupby("task")["model"].agg(set)
    four = {"bayes", "standard", "guided", "shallow"}
    five = {"bayes", "frozen", "guided", "shallow", "joint"}
    assert dict(models) == {"clip": four, "zsc": four, "cdm": five, "vlm": five}
    assert len(risks) == 5 * (4 + 4 + 5 + 5)
    assert not risks.duplicated(["flip", "task", "model"]).any()
    prompts = published.sufficiency_prompts()
    assert len(prompts) == 24
    assert set(prompts["model"]) == {"standard", "guided", "shallow"}


def test_the_worth_of_the_text_is_next_to_what_the_published_denoiser_loses() -> None:
    """With the worth that was measured, the loss does not show that the feature is used."""
    table = printed(run.bayes({"cdm": 0.42, "vlm": 0.0197}), "Least possible risks")
    (row,) = (row for row in table.rows if row[0] == general(0.2))
    cells = dict(zip(table.heads[9:], row[9:], strict=True))
    assert cells["worth of the text"].value == pytest.approx(0.42)
    assert row[10].value == pytest.approx(33.604 - 33.041)
    assert (row[5].value, row[6].value) == (33.041, 33.041)  # Bayes, ours and published


# Claims -------------------------------------------------------------------------------------------


def test_claims_on_a_run_that_does_as_claimed() -> None:
    found = judged(run.everything())
    assert {key: (verdict.outcome, verdict.limited) for key, verdict in found.items()} == {
        "sufficient": ("supports", ()),
        "prompts-help": ("supports", ()),
        "feature-transfers": ("supports", ("next word on the feature of an untrained encoder",)),
        # Guided encoders come closer by a quarter, and as published it would be nine tenths.
        "guided-closer": ("direction only", ()),
    }


def test_effects_are_shares_within_a_run_over_independent_runs() -> None:
    found = judged(run.everything())
    shares = [
        2.5 * 0.08 * shift / (2.5 * 2.3 * shift**2) for shift in (1.0, 1.02, 1.02, 1.04)
    ]  # two pairs of trees by two seeds
    low, high = stats.ttest_1samp(shares, 0).confidence_interval(0.95)
    effect = found["sufficient"].effect
    assert (effect.value, effect.low, effect.high) == pytest.approx((np.mean(shares), low, high))
    assert (effect.n, effect.unit) == (4, "run")
    transfers = {part.name: part for part in found["feature-transfers"].parts}
    assert transfers["denoising"].effect.value == pytest.approx(1 - 0.3 / 0.9 * 1.02)
    assert transfers["next word"].effect.value == pytest.approx(1 - 0.025 / 0.14 * 1.02)
    assert [part.bound for part in transfers.values()] == [1 / 3, 1 / 3]
    closer = {part.name: part for part in found["guided-closer"].parts}
    assert closer["shallow"].effect.value == pytest.approx(1.25 * 1.02 - 1)
    assert closer["shallow"].bound == pytest.approx((0.7015 - 0.6410) / (0.6410 - 0.5814) / 3)
    assert found["prompts-help"].effect.value == pytest.approx(-1)


def test_one_run_decides_nothing_and_none_is_not_measured() -> None:
    found = judged([*run.measured(), *run.transferred()])
    assert {verdict.outcome for verdict in found.values()} == {"cannot tell"}
    assert {verdict.outcome for verdict in judged(run.bayes()).values()} == {"not measured"}


def test_each_claim_can_be_contradicted() -> None:
    def noise(seed: int) -> float:
        return 0.01 * seed

    measured = [
        run.measured(seed, excess={
            "guided": 1.6 + noise(seed), "standard": 1.0, "shallow": 0.5 + noise(seed),
            "untrained": 2.3,
        })
        for seed in (0, 1)
    ]  # fmt: skip
    heads = [
        run.transferred(seed, gaps={
            task: {**gaps, "frozen": 2.0 + noise(seed), "untrained": 0.01}
            for task, gaps in run.GAPS.items()
        })
        for seed in (0, 1)
    ]  # fmt: skip
    found = judged([row for rows in (*measured, *heads) for row in rows])
    for key in ("sufficient", "feature-transfers", "guided-closer"):
        assert found[key].outcome == "contradicts", key
    rising = changed({"task": "zsc", "arm": "standard", "metric": "risk"}, lambda v: -v)
    assert judged(rising)["prompts-help"].outcome == "contradicts"


@pytest.mark.parametrize("trained", [True, False])
def test_encoders_and_heads_that_learned_nothing_show_nothing(trained: bool) -> None:
    """Equal divergences, and heads that gain nothing, are what no training gives as well."""
    excess = dict.fromkeys(run.EXCESS, 1.0) | {"untrained": 2.3 if trained else 1.01}
    frozen = {"frozen": 0.999, "joint": 0.5 if trained else 1.0, "oracle": 1.0, "untrained": 1.0}
    gaps = {
        task: {arm: frozen.get(arm, 1.0) * of["unconditional"] for arm in of}
        for task, of in run.GAPS.items()
    }
    rows = []
    for seed in range(4):
        noisy = {
            arm: value + 0.001 * (seed % 2) * (arm != "standard") for arm, value in excess.items()
        }
        rows += run.measured(seed, excess=noisy)
        rows += run.transferred(seed, gaps=gaps)
    found = judged(rows)
    expected = {
        "sufficient": "contradicts", "guided-closer": "no such effect",
        "feature-transfers": "no such effect",
    }  # fmt: skip
    for key, outcome in expected.items():
        assert found[key].outcome == (outcome if trained else "cannot tell"), key
        assert found[key].measured.gate == ("" if trained else NO_TRAINING), key


def test_a_modality_that_is_worth_nothing_leaves_nothing_to_gain() -> None:
    nothing = changed(
        {"task": "vlm", "arm": "unconditional", "metric": "difference", "seed": 1}, lambda v: 0.0005
    )
    verdict = judged(nothing)["feature-transfers"]
    assert (verdict.outcome, verdict.reason) == ("cannot tell", "gate")
    assert verdict.measured.gate == "no worth"
    assert {part.name: part.outcome for part in verdict.parts}["denoising"] == "supports"


@pytest.mark.parametrize(("untrained", "finding"), [(0.13, "does not limit"), (0.05, "limits")])
def test_what_an_untrained_encoder_gives_limits_the_claim(untrained: float, finding: str) -> None:
    gaps = {**run.GAPS, "vlm": {**run.GAPS["vlm"], "untrained": untrained}}
    rows = [
        row
        for tree in (42, 43)
        for seed in (0, 1)
        for row in run.transferred(seed, tree, gaps=gaps)
    ]
    verdict = judged(rows)["feature-transfers"]
    control = verdict.control("next word on the feature of an untrained encoder")
    assert control.finding == finding
    shares = [1 - gap / 0.14 * 1.02 for gap in (untrained, 0.025)]
    assert control.share == pytest.approx(shares[0] / shares[1])


# Tables and figures -------------------------------------------------------------------------------


def test_intervals_are_over_runs_and_of_evaluation_for_one() -> None:
    def cell(rows: list[dict[str, Any]]) -> tuple[float, ...]:
        table = printed(rows, "Zero-shot risk")
        (row,) = (row for row in table.rows if row[0] == general(250))
        found = row[table.heads.index("standard")]
        return found.value, found.low, found.high

    alone = 1.32 + 0.02 + 3 / 250
    assert cell(run.measured()) == pytest.approx((alone, alone - 1.96 * 0.01, alone + 1.96 * 0.01))
    apart = changed(
        {"task": "zsc", "arm": "standard", "metric": "risk", "per_class": 250, "tree": 43},
        lambda v: v + 0.1,
    )
    spread = math.sqrt(4 * 0.05**2 / 3 / 4) * 3.1824  # four runs, two values twice each
    mean = alone + 0.05
    assert cell(apart) == pytest.approx((mean, mean - spread, mean + spread), abs=1e-5)


def test_each_section_of_the_page_has_a_figure_or_a_table() -> None:
    found = PAGES.tables(tables(run.everything()), 0.95)
    figures = {figure.section for figure in studies.figures("sufficiency")}
    sections = {table.section for table in found if table.rows} | figures
    assert sections == {*studies.study("sufficiency").sections}
    assert all(len(row) == len(table.heads) for table in found for row in table.rows)
    assert PAGES.tables(tables([]), 0.95) == []
    alone = PAGES.tables(tables(run.bayes()), 0.95)
    assert {table.section for table in alone if table.rows} == {"At the published size"}


@pytest.mark.parametrize("name", [figure.name for figure in studies.figures("sufficiency")])
def test_figures_are_drawn_or_say_why_not(name: str) -> None:
    drawing = draw_of(name)(tables(run.everything()))
    assert drawing.data.groupby("arm")[["tree", "seed"]].nunique().eq(2).all(axis=None)
    nothing = draw_of(name)(tables([]))
    assert isinstance(nothing, Hole)
    assert nothing.reason.key == "hole_not_run"
