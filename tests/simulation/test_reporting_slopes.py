"""Slopes over d against made-up power laws, least squares of a library, and their coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mispair.simulation.report.slopes import slope

DIMENSIONS = (20, 30, 50, 80, 120)


def law(exponent: float, rng: np.random.Generator, trials: int = 10, noise: float = 0.1):
    return {d: (d**exponent * (1 + noise * rng.normal(size=trials))).tolist() for d in DIMENSIONS}


@pytest.mark.parametrize("exponent", [-2.0, -1.0, 0.0, 0.5])
def test_a_power_law_gives_its_exponent(exponent: float) -> None:
    found = slope(law(exponent, np.random.default_rng(1)), 0.95)
    assert found is not None
    assert found.effect.low < exponent < found.effect.high
    assert found.effect.value == pytest.approx(exponent, abs=0.1)
    assert (found.effect.n, found.effect.unit) == (10, "trial")
    assert found.departure == pytest.approx(1, abs=0.1)


def test_the_slope_is_that_of_least_squares() -> None:
    values = law(-1.3, np.random.default_rng(2), noise=0.3)
    means = [np.mean(values[d]) for d in DIMENSIONS]
    (expected, _) = np.polyfit(np.log(DIMENSIONS), np.log(means), 1)
    found = slope(values, 0.9)
    assert found is not None
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
    assert found is not None
    assert found.bounds == {80, 160}
    assert found.means[80] == pytest.approx(3 / 2e5)
    assert found.effect.value < -3


def test_a_bend_is_told() -> None:
    values = {d: [v, v * 1.01] for d, v in zip(DIMENSIONS, (0.2, 0.1, 0.05, 0.1, 0.2), strict=True)}
    found = slope(values, 0.95)
    assert found is not None
    assert found.departure > 1.8


def test_equal_trials_show_no_spread() -> None:
    found = slope({d: [1 / d, 1 / d] for d in DIMENSIONS}, 0.95)
    assert found is not None
    assert found.effect.value == pytest.approx(-1)
    assert not found.effect.known
    assert math.isnan(found.effect.p)


def test_two_dimensions_or_single_trials_give_none() -> None:
    assert slope({20: [1.0, 2.0], 40: [1.0, 2.0]}, 0.95) is None
    assert slope({d: [1.0] for d in DIMENSIONS}, 0.95) is None
