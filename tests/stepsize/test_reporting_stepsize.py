"""Claims, tables and figures of the stepsize study, on small runs and on made-up ones."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from mispair.report import studies, verdicts
from mispair.report.figures import compose
from mispair.report.tables import Tables, tidy
from mispair.stepsize.report import claims as claims_stepsize
from mispair.stepsize.report.rows import TABLES as STEPSIZE
from mispair.stepsize.report.runs import larger_steps, onset, slopes, without_monotone
from mispair.stepsize.report.tables import stepsize
from tests.stepsize.stepsize_run import trained

LADDER = [2 ** (k / 2) for k in range(13)]
PARTS = [
    ("sweep", "xor4", "leaky_softplus", [20], [16, 24, 48, 64], 2, 900),
    ("sweep", "digits_parity", "softplus", [10], [32, 96], 2, 150),
    ("sharpness", "xor4", "leaky_softplus", [20], [24, 64], 1, 100),
    ("onset", "xor4", "leaky_softplus", [20], [20, 24, 29, 35], 1, 200),
    ("activations", "xor4", "gelu", [20], [8, 64], 1, 200),
    ("activations", "xor4", "leaky_huber_relu", [20], [8, 64], 1, 200),
    ("widths", "xor4", "leaky_softplus", [4, 20], [16, 64], 1, 200),
    ("bounds", "two_point", "leaky_softplus", [10], [16, 64, 256], 1, 1500),
    ("bounds", "xor4", "leaky_softplus", [4], [16], 1, 100),
    ("acceleration", "two_point", "leaky_softplus", [10], LADDER, 1, 5000),
    ("neurons", "five_point", "half_softplus", [2], [1.5], 1, 200),
]  # fmt: skip


def tables_of(rows: list[dict[str, Any]]) -> Tables:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in STEPSIZE.values()}
    for row in rows:
        found[STEPSIZE[row["kind"]]].append(row)
    return Tables({name: tidy(name, own) for name, own in found.items()})


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [row for part in PARTS for row in trained(*part)]


@pytest.fixture(scope="module")
def whole(rows: list[dict[str, Any]]) -> Tables:
    return tables_of(rows)


def judged(tables: Tables) -> dict[str, verdicts.Verdict]:
    found = claims_stepsize.judge(tables, 0.95)
    return {verdict.claim.key.removeprefix("stepsize-"): verdict for verdict in found}


def changed(tables: Tables, column: str, value: float, **where: Any) -> Tables:
    """Return the tables with a column of some runs set."""
    runs = tables.stepsize_runs.copy()
    runs.loc[(runs[list(where)] == pd.Series(where)).all(axis=1), column] = value
    frames = {name: getattr(tables, name) for name in STEPSIZE.values()}
    return Tables({**frames, "stepsize_runs": runs})


def test_the_theorys_claims_are_kept_by_these_runs(whole: Tables) -> None:
    found = judged(whole)
    for key in ("stable", "margin", "average", "transition", "acceleration", "lower-bound"):
        assert found[key].outcome == "supports", found[key]
    assert "52 more are outside" not in found["average"].sample
    assert len(found["margin"].parts) == 5
    assert found["acceleration"].published == "slopes of −2 and −1"


@pytest.mark.parametrize(
    ("key", "column", "value"),
    [
        ("stable", "transition", 1e5),
        ("margin", "norm_falls", 1),
        ("margin", "modified_falls", 2),
        ("margin", "order_breaks", 1),
        ("margin", "rate_lower", 1.01),
        ("margin", "rate_upper_log", 0.1),
        ("average", "average_ratio", 1.01),
        ("average", "potential_ratio", 1.2),
        ("transition", "settled_step", 1e12),
        ("transition", "stable_ratio", 1.3),
        ("lower-bound", "least_time_risk_late", 0.01),
    ],
)
def test_one_run_that_breaks_a_claim_contradicts_it(
    whole: Tables, key: str, column: str, value: float
) -> None:
    where = {"part": "bounds", "data_set": "two_point", "stepsize": 16.0}
    verdict = judged(changed(whole, column, value, **where))[key]
    assert verdict.outcome == "contradicts"
    assert verdict.reason.startswith("broken in 1 of ")


def test_a_threshold_that_was_not_reached_in_time_breaks_its_claim_only_after_tau(
    whole: Tables,
) -> None:
    where = {"part": "bounds", "data_set": "two_point", "stepsize": 16.0}
    late = changed(whole, "settled_step", -1, **where)
    assert judged(late)["transition"].outcome == "supports"
    over = changed(late, "transition_bound", 1000, **where)  # the run has 1,500 steps
    assert judged(over)["transition"].outcome == "contradicts"


def test_failures_count_in_the_claim_on_phases(whole: Tables) -> None:
    found = judged(whole)["phases"]
    runs = whole.stepsize_runs
    oscillating = runs[runs["rises"] > 0]
    lost = int((oscillating["settled"] == 0).sum())
    assert lost >= 1  # leaky Huber at η = 64
    assert found.measured.startswith(f"{len(oscillating) - lost} of {len(oscillating)} ")
    assert found.limited == ("runs that fail",)
    assert judged(changed(whole, "settled", 0))["phases"].outcome == "contradicts"


def test_speed_is_judged_at_the_lowest_risk_of_the_monotone_run(whole: Tables) -> None:
    rows = larger_steps(whole)
    assert set(rows["data_set"]) == {"xor4"}  # digits get to no level in so few steps
    assert set(rows["level"]) == {0.05}
    assert (rows["stepsize"] > 24).all()
    assert len(rows) == 4
    assert judged(whole)["sooner"].outcome == "supports"


def test_lists_without_a_monotone_member_are_said(rows: list[dict[str, Any]]) -> None:
    found = tables_of(trained("sweep", "xor4", "leaky_softplus", [20], [64, 96], 2, 400))
    assert list(without_monotone(found.stepsize_runs)["smallest"]) == [64, 64]
    verdict = judged(found)["sooner"]
    assert verdict.outcome == "not measured"
    (table,) = [t for t in stepsize(found) if t.caption.startswith("Lists of stepsizes without")]
    assert table.rows[0] == ("sweep", "XOR, four corners", "leaky softplus", "20", "0", "64")
    figure = next(f for f in studies.figures("stepsize") if f.name == "stepsize_speedup")
    spec, _ = compose(figure, found, 12, 10_000)
    assert "no stepsize list has a monotone member" in str(spec["usermeta"])


def test_data_that_no_plane_separates_are_named_with_the_reason(whole: Tables) -> None:
    (table,) = [t for t in stepsize(whole) if "do not apply" in t.caption]
    cells = {row[:2]: row[2:] for row in table.rows}
    assert cells["XOR, four corners", "leaky softplus"] == (
        "no plane through the origin separates the points", "yes",
    )  # fmt: skip
    assert cells["digits, even or odd", "softplus"][0] == (
        "the slope of the activation has no positive lower bound"
    )
    assert cells["five points", "half softplus"][0] == "points have norms above 1"
    assert ("two points", "leaky softplus") not in cells


def test_runs_that_never_settle_or_diverge_or_stall_are_listed() -> None:
    found = tables_of(trained("sweep", "xor4", "leaky_softplus", [20], [16, 200, 1e9], 1, 60))
    (table,) = [t for t in stepsize(found) if t.section == "Runs that fail" and t.rows]
    assert [row[3] for row in table.rows] == ["200", "1e+09"]
    assert table.rows[0][5].startswith("its risk still rose at step 5")
    assert "diverged and was stopped at step" in table.rows[1][5]
    stalled = changed(found, "settled", 1, stepsize=200.0)
    stalled = changed(stalled, "final_risk", 3.0, stepsize=200.0)
    (table,) = [t for t in stepsize(stalled) if t.section == "Runs that fail" and t.rows]
    assert [row[5].split(":")[0] for row in table.rows] == [
        table.rows[0][5], "stalls",
    ]  # fmt: skip


def test_onsets_are_read_off_the_finest_list(whole: Tables) -> None:
    found = onset(whole)
    row = found[(found["data_set"] == "xor4") & (found["seed"] == 0) & (found["width"] == 20)
                & (found["activation"] == "leaky_softplus")]  # fmt: skip
    (one,) = row.to_dict("records")
    assert (one["monotone"], one["rising"], one["part"]) == (24, 29, "onset")
    assert one["critical"] == pytest.approx(24.76, abs=0.01)


def test_slopes_of_made_up_risks() -> None:
    rows = [
        {"kind": "acceleration", "part": "acceleration", "data_set": "two_point",
         "activation": "leaky_softplus", "width": 10, "seed": 0, "stepsize": 1,
         "schedule": name, "budget": T, "risk": 5 * T**-power}
        for name, power in (("proportional", 2.0), ("monotone", 1.0), ("one", 1.0))
        for T in (100, 1000, 2000, 5000)
    ]  # fmt: skip
    tables = tables_of(rows)
    assert slopes(tables) == pytest.approx({"monotone": -1, "one": -1, "proportional": -2})


@pytest.mark.parametrize(
    ("slopes", "expected"),
    [((-2.1, -1.0), "supports"), ((-1.5, -1.0), "cannot tell"), ((-0.9, -1.0), "contradicts"),
     ((float("nan"), -1.0), "not measured")],
)  # fmt: skip
def test_the_rule_of_slopes(slopes: tuple[float, float], expected: str) -> None:
    assert claims_stepsize.decide_slopes(*slopes)[0] == expected


@pytest.mark.parametrize(
    ("yes", "no", "expected"),
    [(2, 1, "supports"), (1, 2, "contradicts"), (3, 2, "cannot tell"), (1, 0, "cannot tell"),
     (0, 0, "not measured")],
)  # fmt: skip
def test_the_rule_of_two_thirds(yes: int, no: int, expected: str) -> None:
    assert verdicts.decide_two_thirds(yes, no)[0] == expected


@pytest.mark.parametrize(
    ("held", "failed", "expected"),
    [(2, 0, "supports"), (1, 0, "cannot tell"), (99, 1, "contradicts"), (0, 0, "not measured")],
)
def test_the_rule_of_what_always_holds(held: int, failed: int, expected: str) -> None:
    assert verdicts.decide_always(held, failed)[0] == expected


def test_every_figure_is_drawn_with_few_enough_points(whole: Tables) -> None:
    for figure in studies.figures("stepsize"):
        spec, data = compose(figure, whole, 12, 10_000)
        about = spec["usermeta"]["mispair"]
        assert "hole" not in about, figure.name
        assert 1 < len(data) < 5_000, figure.name
        assert "nan" not in about["sentence"], about
        assert len(about["sentence"]) > 20
    assert len(studies.figures("stepsize")) == 12


def test_every_section_of_the_page_has_tables_or_figures(whole: Tables) -> None:
    (study,) = [study for study in studies.studies() if study.key == "stepsize"]
    figures = {figure.section for figure in studies.figures("stepsize")}
    printed = stepsize(whole)
    assert figures | {table.section for table in printed if table.rows} == set(study.sections)
    for table in printed:
        assert all(len(row) == len(table.heads) for row in table.rows), table.caption
        assert not any("nan" in cell for row in table.rows for cell in row), table.caption
    assert any("0.2935" in cell for t in printed for row in t.rows for cell in row)


def test_test_accuracy_is_compared_by_split(whole: Tables) -> None:
    verdict = judged(whole)["tests"]
    assert verdict.sample.startswith("2 splits")
    better = changed(whole, "accuracy", 0.5, data_set="digits_parity", stepsize=32.0)
    better = changed(better, "accuracy", 0.9, data_set="digits_parity", stepsize=96.0)
    # Two splits with the same difference show no spread.
    assert judged(better)["tests"].outcome == "cannot tell"
    assert judged(better)["tests"].measured.startswith("+0.400")
    better = changed(better, "accuracy", 0.91, data_set="digits_parity", stepsize=96.0, seed=1)
    assert judged(better)["tests"].outcome == "supports"
