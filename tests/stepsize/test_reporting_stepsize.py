"""Claims, tables and figures of the stepsize study, on small runs and on made-up ones."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mispair.report import studies
from mispair.report.charts import Hole
from mispair.report.figures import draw_of
from mispair.report.judge import PartVerdict, Verdict, judge
from mispair.report.measures import NO_TRAINING
from mispair.report.table import Table, general
from mispair.report.tables import Tables, tidy
from mispair.stepsize.report import claims
from mispair.stepsize.report.claims import larger_steps, slopes
from mispair.stepsize.report.pages import PAGES
from mispair.stepsize.report.rows import TABLES as STEPSIZE
from tests.stepsize.stepsize_run import trained

LADDER = [2 ** (k / 2) for k in range(13)]
PARTS = [
    ("sweep", "xor4", "leaky_softplus", [20], [16, 24, 48, 64], 2, 900),
    ("sweep", "digits_parity", "softplus", [10], [32, 96], 2, 150),
    ("activations", "xor4", "gelu", [20], [8, 64], 1, 200),
    ("activations", "xor4", "leaky_huber_relu", [20], [8, 64], 1, 200),
    ("bounds", "two_point", "leaky_softplus", [10], [16, 64, 256], 1, 1500),
    ("bounds", "xor4", "leaky_softplus", [4], [16], 1, 100),
    ("acceleration", "two_point", "leaky_softplus", [10], LADDER, 1, 5000),
]  # fmt: skip


def tables_of(rows: list[dict[str, Any]]) -> Tables:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in STEPSIZE.values()}
    for row in rows:
        found[STEPSIZE[row["kind"]]].append(row)
    return Tables({name: tidy(name, own) for name, own in found.items()})


@pytest.fixture(scope="module")
def whole() -> Tables:
    return tables_of([row for part in PARTS for row in trained(*part)])


def printed(tables: Tables, caption: str) -> Table:
    """Return the table of the page whose caption begins with some words."""
    (table,) = (t for t in PAGES.tables(tables, 0.95) if t.caption.startswith(caption))
    return table


def judged(tables: Tables) -> dict[str, Verdict]:
    found = [judge(claim, tables, 0.95) for claim in claims.CLAIMS]
    return {verdict.claim.key.removeprefix("stepsize-"): verdict for verdict in found}


def theorems(tables: Tables) -> dict[str, PartVerdict]:
    """Return the verdict on each theorem."""
    return {str(part.name)[:2]: part for part in judged(tables)["theorems"].parts}


def changed(tables: Tables, column: str, value: float, **where: Any) -> Tables:
    """Return the tables with a column of some runs set."""
    runs = tables.stepsize_runs.copy()
    runs.loc[(runs[list(where)] == pd.Series(where)).all(axis=1), column] = value
    frames = {name: getattr(tables, name) for name in STEPSIZE.values()}
    return Tables({**frames, "stepsize_runs": runs})


def made_up(runs: list[dict[str, Any]], speedups: list[dict[str, Any]] | None = None) -> Tables:
    """Return tables of runs of the sweep, one for each seed unless they name it."""
    about = {"part": "sweep", "data_set": "xor4", "activation": "leaky_softplus", "width": 20,
             "rises": 3, "settled": 1, "diverged": -1, "steps": 1000}  # fmt: skip
    rows = [
        {"kind": "run", **about, "stepsize": 32, "seed": k, **run} for k, run in enumerate(runs)
    ]
    rows += [{"kind": "speedup", **about, **row} for row in speedups or []]
    return tables_of(rows)


BOUNDS = {
    "conservatism": 10.0, "norm_falls": 0, "modified_falls": 0, "order_breaks": 0,
    "rate_lower": 0.9, "rate_upper_log": -5.0, "average_ratio": 0.1, "potential_ratio": 0.3,
    "settled_step": 10, "transition_bound": 1000, "stable_ratio": 0.2,
}  # fmt: skip


def test_the_theorems_are_kept_by_these_runs(whole: Tables) -> None:
    verdict = judged(whole)["theorems"]
    runs = whole.stepsize_runs
    calm = runs[runs["part"] != "multilayer"].dropna(subset=["conservatism"])
    parts = theorems(whole)
    assert [*parts] == ["T1", "T2", "T3"]
    assert parts["T1"].effect.n == len(calm[["data_set", "seed"]].drop_duplicates())
    assert all(part.effect.value < 1 for part in parts.values())
    assert verdict.measured.gate == ""


def test_the_mean_of_the_largest_ratio_of_each_start_is_below_one() -> None:
    ratios = [0.90, 0.92, 0.95, 0.91]
    runs = [{**BOUNDS, "rate_lower": ratio} for ratio in ratios]
    runs.append({**BOUNDS, "rate_lower": 0.5, "seed": 0, "stepsize": 16})  # of the first start
    parts = theorems(made_up(runs))
    low, high = stats.ttest_1samp(ratios, 0).confidence_interval(0.95)
    effect = parts["T2"].effect
    assert (effect.value, effect.low, effect.high, effect.n) == pytest.approx(
        (np.mean(ratios), low, high, 4)
    )
    assert parts["T2"].outcome == "supports"


@pytest.mark.parametrize(
    ("theorem", "column", "value"),
    [("T1", "conservatism", 0.99), ("T2", "norm_falls", 1), ("T2", "modified_falls", 2),
     ("T2", "order_breaks", 1), ("T2", "rate_lower", 1.01), ("T2", "rate_upper_log", 0.1),
     ("T3", "average_ratio", 1.01), ("T3", "potential_ratio", 1.2), ("T3", "settled_step", 1e12),
     ("T3", "stable_ratio", 1.3)],
)  # fmt: skip
def test_one_run_that_breaks_a_theorem_forbids_support(theorem, column, value) -> None:
    runs = [
        {**BOUNDS, "conservatism": 10 / scale, "rate_lower": 0.9 * scale,
         "potential_ratio": 0.3 * scale, "stable_ratio": 0.2 * scale}
        for scale in np.linspace(0.9, 1, 20)
    ]  # fmt: skip
    assert judged(made_up(runs))["theorems"].outcome == "supports"
    runs[3][column] = value
    verdict = judged(made_up(runs))["theorems"]
    assert (verdict.outcome, verdict.reason, verdict.measured.gate) == (
        "cannot tell", "gate", "broken",
    )  # fmt: skip
    outcomes = {name: part.outcome for name, part in theorems(made_up(runs)).items()}
    assert outcomes == dict.fromkeys(("T1", "T2", "T3"), "supports") | {theorem: "cannot tell"}


def test_a_threshold_that_was_not_reached_in_time_breaks_its_theorem_only_after_tau() -> None:
    runs = [{**BOUNDS, "stable_ratio": 0.4 + k / 100} for k in range(5)]
    late = [*runs, {**BOUNDS, "settled_step": -1, "stable_ratio": np.nan}]
    for bound, expected in ((1000, ("cannot tell", 5)), (1001, ("supports", 6))):
        late[-1]["transition_bound"] = bound  # the run has 1,000 steps
        third = theorems(made_up(late))["T3"]
        assert (third.outcome, third.effect.n) == expected


def test_starts_are_counted_and_not_their_stepsizes() -> None:
    kept = made_up([{"seed": k % 8, "stepsize": 32 + k} for k in range(24)])
    verdict = judged(kept)["phases"]
    assert (verdict.effect.value, verdict.effect.n, verdict.effect.unit) == (1, 8, "start")
    assert verdict.outcome == "supports"  # (2/3)^8 = 0.039
    assert verdict.p == pytest.approx((2 / 3) ** 8)
    assert judged(changed(kept, "seed", 0, seed=7))["phases"].outcome == "cannot tell"
    assert judged(changed(kept, "settled", 0))["phases"].outcome == "contradicts"
    # Two of three runs that never settle, or diverge, lose a start, and one limits the claim.
    one = changed(kept, "settled", 0, stepsize=32.0)
    assert judged(one)["phases"].effect.value == 1
    both = changed(changed(one, "settled", 0, stepsize=40.0), "diverged", 9, stepsize=40.0)
    assert judged(both)["phases"].effect.value == pytest.approx(7 / 8)


def test_failures_limit_the_claim_on_phases() -> None:
    runs = [{"seed": k % 8, "stepsize": 32 + k, "settled": int(k >= 4)} for k in range(24)]
    verdict = judged(made_up(runs))["phases"]
    control = verdict.control("all runs of a start")
    assert (verdict.outcome, control.share, control.finding) == ("supports", 0.5, "limits")


def test_failures_are_counted_among_runs_that_oscillate(whole: Tables) -> None:
    runs = whole.stepsize_runs
    assert int((runs[runs["rises"] > 0]["settled"] == 0).sum()) >= 1  # leaky Huber at η = 64
    assert judged(changed(whole, "settled", 0))["phases"].effect.value == 0


def test_speed_is_judged_at_the_lowest_risk_of_the_monotone_run(whole: Tables) -> None:
    rows = larger_steps(whole)
    assert set(rows["data_set"]) == {"xor4"}  # digits get to no level in so few steps
    assert set(rows["level"]) == {0.05}
    assert (rows["stepsize"] > 24).all()
    assert len(rows) == 4
    verdict = judged(whole)["sooner"]
    assert (verdict.effect.value, verdict.effect.n) == (1, 2)
    assert verdict.outcome == "cannot tell"  # two starts: (2/3)^2


@pytest.mark.parametrize(
    ("quicker", "outcome"), [(9, "supports"), (8, "cannot tell"), (3, "contradicts")]
)
def test_speed_is_a_count_of_starts(quicker: int, outcome: str) -> None:
    speedups = [
        {"seed": seed, "stepsize": eta, "level": 0.1, "steps_to_level": 9, "monotone_stepsize": 16,
         "speedup": 1 if eta == 16 else 2 if seed < quicker else np.nan}
        for seed in range(9) for eta in (16, 32, 64)
    ]  # fmt: skip
    verdict = judged(made_up([{}], speedups))["sooner"]
    assert verdict.outcome == outcome
    held = stats.binomtest(quicker, 9, 2 / 3, "greater" if quicker == 9 else "less")
    if quicker != 8:
        assert verdict.p == pytest.approx(held.pvalue)


def test_lists_without_a_monotone_member_are_named() -> None:
    found = tables_of(trained("sweep", "xor4", "leaky_softplus", [20], [64, 96], 2, 400))
    assert judged(found)["sooner"].outcome == "not measured"
    name = ("sweep", "XOR, four corners", "leaky softplus")
    assert printed(found, "Lists of stepsizes").rows == tuple(
        (*name, *map(general, (20, seed, 64))) for seed in (0, 1)
    )
    hole = draw_of("stepsize_speedup")(found)
    assert isinstance(hole, Hole)
    assert hole.reason.key == "hole_speedup"


def test_runs_that_never_settle_or_diverge_or_stall_are_listed() -> None:
    found = tables_of(trained("sweep", "xor4", "leaky_softplus", [20], [16, 200, 1e9], 1, 60))
    rows = printed(found, "Runs that never settle").rows
    assert [row[3] for row in rows] == [general(200), general(1e9)]
    assert rows[0][5].startswith("its risk still rose at step 5")
    assert "diverged and was stopped at step" in rows[1][5]
    stalled = changed(found, "settled", 1, stepsize=200.0)
    stalled = changed(stalled, "final_risk", 3.0, stepsize=200.0)
    rows = printed(stalled, "Runs that never settle").rows
    assert [row[3] for row in rows] == [general(1e9), general(200)]
    assert rows[1][5].startswith("stalls")


def powers(*found: tuple[str, int, float, float]) -> Tables:
    """Return risks that fall as powers of T: data set, seed, powers of η ∝ T and of a fixed η."""
    return tables_of([
        {"kind": "acceleration", "part": "acceleration", "data_set": data_set,
         "activation": "leaky_softplus", "width": 10, "seed": seed, "stepsize": 1,
         "schedule": name, "budget": T, "risk": 5 * T**-power}
        for data_set, seed, proportional, fixed in found
        for name, power in (("proportional", proportional), ("monotone", fixed), ("one", 1.0))
        for T in (100, 1000, 2000, 5000)
    ])  # fmt: skip


def test_slopes_of_made_up_risks() -> None:
    found = slopes(powers(("two_point", 0, 2.0, 1.0)).stepsize_acceleration)
    assert found == pytest.approx({"monotone": -1, "one": -1, "proportional": -2})


@pytest.mark.parametrize(
    ("gaps", "outcome"),
    [((1.0, 0.9, 1.1), "supports"), ((0.2, 0.21, 0.19), "direction only"),
     ((0.01, -0.01, 0.02), "no such effect"), ((-0.9, -1.0, -1.1), "contradicts"),
     ((1.0,), "cannot tell")],
)  # fmt: skip
def test_acceleration_is_the_difference_of_slopes(gaps: tuple[float, ...], outcome: str) -> None:
    found = powers(*(("digits_3v8", seed, 1 + gap, 1.0) for seed, gap in enumerate(gaps)))
    verdict = judged(found)["acceleration"]
    assert verdict.outcome == outcome
    assert verdict.effect.value == pytest.approx(-np.mean(gaps))
    assert verdict.measured.first == pytest.approx(-1)
    assert verdict.measured.last == pytest.approx(-1 - np.mean(gaps))
    assert (verdict.bound, verdict.effect.n) == (1 / 3, len(gaps))


@pytest.mark.parametrize("fixed", [0.0, 0.2, 1.0])
def test_a_risk_that_does_not_fall_shows_no_acceleration(fixed: float) -> None:
    """Stepsizes in proportion and fixed ones are alike, also after too few steps to learn."""
    gaps = 0.01, -0.01, 0.02
    runs = (("digits_3v8", seed, fixed + gap, fixed) for seed, gap in enumerate(gaps))
    verdict = judged(powers(*runs))["acceleration"]
    assert verdict.outcome == ("no such effect" if fixed == 1 else "cannot tell")
    assert verdict.measured.gate == ("" if fixed == 1 else NO_TRAINING)


@pytest.mark.parametrize("accuracy", [0.5, 0.9])
def test_networks_that_learned_nothing_show_no_gain_on_test_points(accuracy: float) -> None:
    runs = [
        {"seed": seed, "stepsize": stepsize, "rises": rises, "accuracy": accuracy + gap}
        for seed, gap in enumerate((0.001, -0.001, 0.0015, 0.0))
        for stepsize, rises, gap in ((1, 0, 0.0), (32, 3, gap))
    ]
    verdict = judged(made_up(runs))["tests"]
    assert verdict.outcome == ("no such effect" if accuracy > 0.6 else "cannot tell")


def test_each_claim_has_its_figure_and_each_section_a_figure_or_a_table(whole: Tables) -> None:
    figures = studies.figures("stepsize")
    assert {figure.name for figure in figures} == {claim.figure for claim in claims.CLAIMS}
    made = PAGES.tables(whole, 0.95)
    sections = {figure.section for figure in figures} | {each.section for each in made if each.rows}
    assert sections == {*studies.study("stepsize").sections}
    assert all(len(row) == len(table.heads) for table in made for row in table.rows)


def test_the_risk_has_its_threshold_and_the_end_of_its_oscillation(whole: Tables) -> None:
    drawing = draw_of("stepsize_risk")(whole)
    runs = whole.stepsize_runs
    runs = runs[(runs["part"] == "sweep") & (runs["seed"] == 0) & (runs["settled"] == 1)]
    marks = drawing.data[drawing.data["layer"] == "mark"].set_index("stepsize")
    ended = runs[runs["transition"] > 0].set_index("stepsize")
    assert marks["risk"].to_dict() == pytest.approx(ended["transition_risk"].to_dict())
    assert marks["t"].to_dict() == pytest.approx(ended["transition"].to_dict())


def test_test_accuracy_is_compared_by_split(whole: Tables) -> None:
    assert judged(whole)["tests"].effect.n == 2
    better = changed(whole, "accuracy", 0.5, data_set="digits_parity", stepsize=32.0)
    better = changed(better, "accuracy", 0.9, data_set="digits_parity", stepsize=96.0)
    # Two splits with the same difference show no spread.
    verdict = judged(better)["tests"]
    assert (verdict.outcome, verdict.reason) == ("cannot tell", "no spread")
    assert verdict.effect.value == pytest.approx(0.4)
    better = changed(better, "accuracy", 0.91, data_set="digits_parity", stepsize=96.0, seed=1)
    assert judged(better)["tests"].outcome == "supports"
