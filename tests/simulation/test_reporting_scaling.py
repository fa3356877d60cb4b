"""Slopes over d against least squares of a library, and asymptotic claims on made-up sweeps."""

import functools
import math
from typing import Any

import numpy as np
import pytest

from mispair.report.judge import Verdict, judge
from mispair.report.tables import Tables, tidy
from mispair.simulation.report import claims_scaling
from mispair.simulation.report.claims_scaling import slope
from mispair.simulation.report.pages import slopes
from tests.simulation.scaling_run import AS_STATED, DIMENSIONS, Laws, sweep

CLAIMS = {claim.key: claim for claim in claims_scaling.CLAIMS}


# Slopes


def law(exponent: float, rng: np.random.Generator, trials: int = 10, noise: float = 0.1):
    return {d: (d**exponent * (1 + noise * rng.normal(size=trials))).tolist() for d in DIMENSIONS}


def test_the_slope_is_that_of_least_squares() -> None:
    values = law(-1.3, np.random.default_rng(2), noise=0.3)
    means = [np.mean(values[d]) for d in DIMENSIONS]
    (expected, _) = np.polyfit(np.log(DIMENSIONS), np.log(means), 1)
    found = slope(values, 0.9)
    assert found.effect.value == pytest.approx(expected)
    low, high = found.effect.limits(0.2)
    assert found.effect.low < low < high < found.effect.high


def test_intervals_hold_the_exponent_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    runs = [slope(law(-1.0, rng, trials=6, noise=0.2), 0.9) for _ in range(1000)]
    held = np.mean([run.effect.low < -1 < run.effect.high for run in runs if run is not None])
    assert held == pytest.approx(0.9, abs=0.03)


def test_what_never_happened_is_an_upper_bound() -> None:
    values = {20: [1e-2, 2e-2], 40: [1e-4, 2e-4], 80: [0.0, 0.0], 160: [0.0, 0.0]}
    assert slope(values, 0.95) is None  # without counts two values of d are left
    found = slope(values, 0.95, {80: 1e5, 160: 1e6})
    assert found.bounds == {80, 160}
    assert found.means[80] == pytest.approx(3 / 2e5)
    assert found.effect.value < -3


def test_a_bend_is_told() -> None:
    values = {d: [v, v * 1.01] for d, v in zip(DIMENSIONS, (0.2, 0.1, 0.05, 0.1, 0.2), strict=True)}
    found = slope(values, 0.95)
    assert found.departure > 1.8


def test_equal_trials_show_no_spread() -> None:
    found = slope({d: [1 / d, 1 / d] for d in DIMENSIONS}, 0.95)
    assert (found.effect.value, found.departure) == pytest.approx((-1, 1))
    assert not found.effect.known
    assert math.isnan(found.effect.p)


# Claims


def judged(key: str, rows: list[dict[str, Any]]) -> Verdict:
    return judge(CLAIMS[key], Tables({"simulation": tidy("simulation", rows)}), 0.95)


@functools.cache
def stated(factor: float = 1.0) -> dict[str, Verdict]:
    """Return the verdicts on what the theorems state, with constants times a factor."""
    laws = {name: (lambda d, law=law: factor * law(d)) for name, law in AS_STATED.items()}
    rows = sweep(laws)
    return {key: judged(key, rows) for key in CLAIMS}


def test_what_the_theorems_state_is_supported() -> None:
    found = stated()
    assert {verdict.outcome for verdict in found.values()} == {"supports"}
    assert found["filtered-succeeds"].effect.value == pytest.approx(-1, abs=0.05)
    assert found["raw-fails"].effect.value == pytest.approx(0, abs=0.05)
    assert {part.name for part in found["neurons-residual"].parts} == {"raw", "filtered"}
    assert {part.name for part in found["captions-repaired"].parts} == {"missing", "wrong"}


@pytest.mark.parametrize("factor", [0.01, 3.0])
def test_the_level_at_one_d_decides_nothing(factor: float) -> None:
    assert {verdict.outcome for verdict in stated(factor).values()} == {"supports"}


@pytest.mark.parametrize(
    ("key", "change", "expected"),
    [("raw-fails", {"failure raw": lambda d: 6 / d}, "contradicts"),
     ("filtered-succeeds", {"failure filtered": lambda d: 0.1}, "no such effect"),
     ("filtered-succeeds", {"failure filtered": lambda d: d**-0.15}, "direction only"),
     ("filtered-succeeds", {"failure filtered": lambda d: d / 500}, "contradicts"),
     ("captions-repaired", {"wrong": lambda d: 0.2 * d**-0.5}, "contradicts"),
     ("captions-repaired", {"missing": lambda d: 0.1}, "contradicts"),
     ("captions-repaired", {"missing": lambda d: 50 * d**-3.0}, "supports"),
     ("neurons-residual", {"residual_share": lambda d: 0.3}, "contradicts"),
     ("neurons-residual", {"residual_share_pure": lambda d: d**-0.77}, "cannot tell")],
)  # fmt: skip
def test_what_goes_otherwise_with_d_is_not(key: str, change: Laws, expected: str) -> None:
    assert judged(key, sweep({**AS_STATED, **change})).outcome == expected


@pytest.mark.parametrize(("unpurified", "has_power"), [(0.98, False), (0.3, True)])
def test_encoders_that_purify_nothing_show_no_law_of_d(unpurified: float, has_power: bool) -> None:
    """A training that changes nothing gives the same numbers at every d."""
    rows = sweep({**dict.fromkeys(AS_STATED, lambda d: 0.3), "unpurified": lambda d: unpurified})
    outcomes = {
        "neurons-residual": "contradicts", "captions-repaired": "contradicts",
        "raw-fails": "supports", "filtered-succeeds": "no such effect",
    }  # fmt: skip
    assert {key: judged(key, rows).outcome for key in CLAIMS} == (
        outcomes if has_power else dict.fromkeys(CLAIMS, "cannot tell")
    )


def test_probabilities_of_zero_are_upper_bounds() -> None:
    laws = {**AS_STATED, "wrong": lambda d: 0.02 if d < 40 else 0.0}
    assert judged("captions-repaired", sweep(laws)).outcome == "supports"


def test_a_bend_and_features_without_a_neuron_limit_what_a_slope_says() -> None:
    bent = {
        **AS_STATED,
        "failure filtered": lambda d: max(10 / d, 0.2),
        "unpurified": lambda d: 0.1,
    }
    verdict = judged("filtered-succeeds", sweep(bent))
    assert verdict.outcome == "supports"
    assert set(verdict.limited) == {"The upper half of the d", "Features that no neuron purifies"}
    assert stated()["filtered-succeeds"].limited == ()


def test_a_sweep_with_more_neurons_is_a_control_and_not_mixed_in() -> None:
    flat = {**AS_STATED, "failure filtered": lambda d: 0.1}
    rows = sweep(AS_STATED) + sweep(flat, dimensions=(20, 40, 80), suffix="~4")
    verdict = judged("filtered-succeeds", rows)
    assert verdict.effect == stated()["filtered-succeeds"].effect
    assert verdict.limited == ("More neurons for each feature",)


def test_short_captions_that_hold_everything_limit_what_is_missing() -> None:
    rows = sweep(AS_STATED)
    for share, limits in ((0.1, True), (0.9, False)):
        scaled = [
            {**row, "source": "rescaled", "value": 1 - share * (1 - row["value"])}
            for row in rows
            if (row["metric"], row.get("source")) == ("caption_true", "generated")
        ]
        verdict = judged("captions-repaired", rows + scaled)
        found = verdict.control(
            "Missing features of captions read at their own length, of all missing ones"
        )
        assert found.share == pytest.approx(share)
        assert (found.finding == "limits") == limits


@pytest.mark.parametrize("about", [{"dimensions": (20, 40)}, {"trials": 1}])
def test_two_dimensions_or_one_trial_measure_nothing(about: dict[str, Any]) -> None:
    rows = sweep(AS_STATED, **about)
    assert {judged(key, rows).outcome for key in CLAIMS} == {"not measured"}


def test_the_table_has_means_with_trials_and_slopes_with_intervals() -> None:
    tables = Tables({"simulation": tidy("simulation", sweep(AS_STATED))})
    table = slopes(tables, 0.95)
    fits = claims_scaling.fitted(claims_scaling.of_sweep(tables), 0.95)
    rows = {(row[0], row[1]): row for row in table.rows}
    assert set(rows) == {(claims_scaling.MEASURES[key], name) for key, name in fits}
    row, fit = rows[claims_scaling.MEASURES["failure"], "raw"], fits["failure", "raw"]
    assert {cell.n for cell in row[2:-2]} == {6}
    assert [cell.value for cell in row[2:-2]] == pytest.approx([*fit.means.values()])
    slope = (row[-2].value, row[-2].low, row[-2].high)
    assert slope == (fit.effect.value, fit.effect.low, fit.effect.high)
    assert row[-1].value == fit.departure
