"""What is measured on finished runs: margins, bounds, speed, and what of it does not apply."""

import math
from typing import Any

import numpy as np
import pytest

from mispair.stepsize.descent import descend, phases
from mispair.stepsize.networks import ACTIVATIONS, Constants
from mispair.stepsize.theory import margins, thresholds, transition_time
from tests.stepsize.stepsize_run import trained
from tests.stepsize.test_stepsize_descent import stack

Row = dict[str, Any]


def of_kind(rows: list[Row], kind: str) -> list[Row]:
    return [row for row in rows if row["kind"] == kind]


def test_thresholds_by_hand() -> None:
    constants = Constants(0.5, 0.25, 0.1, 0.5)
    found = thresholds(constants, stepsize=80, radius=2**0.5, points=4)
    assert found.stable == pytest.approx(1 / (80 * 2 * (2 * 0.25 + 0.25)))
    assert found.settled == pytest.approx(1 / (80 * 2 * (4 * 0.25 + 0.5)))
    tiny = thresholds(constants, stepsize=0.01, radius=1, points=4)
    assert tiny.settled == pytest.approx(1 / (8 * math.exp(2.1)))


def test_the_transition_time_grows_with_the_stepsize_and_by_hand() -> None:
    constants = ACTIVATIONS["leaky_softplus"].constants
    # Known of a prototype, two points: for stepsizes 16, 64, 256.
    assert [transition_time(constants, eta, 0.1, 2, 0) for eta in (16, 64, 256)] == pytest.approx(
        [9e6, 3.6e7, 1.4e8], rel=0.03
    )
    tiny = transition_time(constants, 1e-3, 0.1, 2, 0)
    c1, c2 = 4 * math.exp(constants.homogeneity + 2), 8 + 4 * constants.curvature
    u = (c2 * 1e-3 + c1 * 2) / 1e-3
    factor = 128 * (1 + 4 * constants.homogeneity) / (0.5 * 0.1) ** 2
    assert tiny == pytest.approx(factor * u * math.log(u))
    assert transition_time(constants, 1e-3, 0.1, 2, 1e3) == pytest.approx(factor * u * 1e3)


def test_margins_by_hand_and_in_the_order_of_the_theory() -> None:
    constants = Constants(1, 0.25, math.log(2), 0)
    q, norm = np.array([[3.0, 12.0], [14.0, 20.0]]), np.array([2.0, 5.0])
    risk = np.log1p(np.exp(-q)).mean(axis=1)
    found = margins(risk, q.min(axis=1), norm, constants, 3.0, 1.0, 2)
    assert found.normalised == pytest.approx([1.5, 2.8])
    assert found.smoothed[1] == pytest.approx(-math.log(risk[1]) / 5)
    depth = math.log(2 * 2 * 2 * risk[1])
    assert found.auxiliary[1] == pytest.approx(-depth / 5)
    modified = math.exp(math.log(-depth) + (1 + (4 + 0.5) * 3) / depth) / 5
    assert math.exp(found.log_modified[1]) == pytest.approx(modified)
    assert modified <= found.auxiliary[1] <= found.normalised[1] <= found.smoothed[1]
    high = margins(np.array([0.5]), np.zeros(1), np.zeros(1), constants, 3.0, 1.0, 2)
    assert np.isnan(high.log_modified[0])
    assert np.isnan(high.normalised[0])


def test_the_bounds_on_two_points_are_as_near_as_a_prototype_found() -> None:
    rows = of_kind(
        trained("bounds", "two_point", "leaky_softplus", [10], [16, 64, 256], 1, 20000), "run"
    )
    assert [row["settled_step"] for row in rows] == [676, 522, 301]
    assert max(row["average_ratio"] for row in rows) < 0.0129
    assert max(row["potential_ratio"] for row in rows) == pytest.approx(0.903, abs=5e-4)
    assert max(row["stable_ratio"] for row in rows) == pytest.approx(0.38, abs=5e-3)
    for row in rows:
        assert row["bounded"] == 1
        assert row["settled_step"] < row["transition_bound"]
        assert 0 < row["rate_lower"] <= 1
        assert row["rate_upper_log"] < 0
        assert row["transition"] <= row["stable_step"] <= row["settled_step"]
        assert (row["norm_falls"], row["modified_falls"], row["order_breaks"]) == (0, 0, 0)


def test_bounds_by_a_loop_over_steps() -> None:
    """The same from what the formulas say, step by step, for one run that oscillates."""
    rows = trained("bounds", "two_point", "leaky_softplus", [10], [64], 1, 300, points=200)
    curves = {row["t"]: row for row in of_kind(rows, "curve")}
    gamma, alpha, kappa, eta = 0.1, 0.5, ACTIVATIONS["leaky_softplus"].constants.homogeneity, 64.0
    average = np.mean([0.6931471805599453] + [curves[t]["risk"] for t in (1, 2)])
    t = 3
    assert curves[t]["average_risk"] == pytest.approx(average)
    time = gamma**2 * eta * t
    bound = 1 + 8 * math.log(time) ** 2 / alpha**2 + 8 * kappa**2 / alpha**2 + eta**2
    assert curves[t]["risk_bound"] == pytest.approx(bound / time, rel=1e-5)
    assert math.isnan(curves[1]["risk_bound"])  # γ² η t < 1
    potential = np.mean([0.5] + [curves[k]["potential"] for k in (1, 2)])
    assert curves[t]["average_potential"] == pytest.approx(potential)
    assert curves[t]["average_potential"] <= curves[t]["potential_bound"]


@pytest.mark.parametrize(
    ("data_set", "activation"),
    [("xor4", "leaky_softplus"), ("two_point", "softplus"), ("five_point", "half_softplus")],
)
def test_bounds_are_left_out_where_their_conditions_are_not_met(data_set, activation) -> None:
    """Not separable; no lower bound of the slope; points of norms above 1."""
    rows = trained("bounds", data_set, activation, [10], [8], 1, 50)
    (row,) = of_kind(rows, "run")
    assert row["bounded"] == 0
    assert math.isnan(row["separation"]) == (data_set == "xor4")
    for name in ("average_ratio", "potential_ratio", "transition_bound", "stable_ratio"):
        assert math.isnan(row[name])
    assert "risk_bound" not in of_kind(rows, "curve")[0]


def test_speed_is_measured_against_the_largest_monotone_stepsize() -> None:
    rows = trained("sweep", "xor4", "leaky_softplus", [20], [16, 24, 32, 64], 1, 800)
    rows = [row for row in of_kind(rows, "speedup") if row["level"] == 0.1]
    assert {row["monotone_stepsize"] for row in rows} == {24}
    assert [row["steps_to_level"] for row in rows] == [365, 243, 174, 153]
    assert [row["speedup"] for row in rows] == pytest.approx([243 / 365, 1, 243 / 174, 243 / 153])
    # Without a monotone stepsize there is nothing to compare with.
    rows = trained("sweep", "xor4", "leaky_softplus", [20], [64, 96], 1, 400)
    rows = of_kind(rows, "speedup")
    assert [row["steps_to_level"] for row in rows if row["level"] == 0.1] == [153, 343]
    assert all(math.isnan(row["speedup"]) for row in rows)
    assert all(math.isnan(row["monotone_stepsize"]) for row in rows)


def test_acceleration_takes_the_stepsize_nearest_its_schedule() -> None:
    ladder = [2 ** (k / 4) for k in range(29)]
    rows = trained("acceleration", "two_point", "leaky_softplus", [10], ladder, 1, 1000,
                   budgets=[100, 400, 1000, 2000])  # fmt: skip
    found = {(row["schedule"], row["budget"]): row for row in of_kind(rows, "acceleration")}
    assert {budget for _, budget in found} == {100, 400, 1000}  # no run has 2,000 steps
    assert found["one", 400]["stepsize"] == found["proportional", 100]["stepsize"] == 1
    assert found["proportional", 400]["stepsize"] == pytest.approx(4)
    assert found["proportional", 1000]["stepsize"] == pytest.approx(2 ** (13 / 4))  # 9.51
    assert found["monotone", 400]["stepsize"] == pytest.approx(2 ** (22 / 4))  # 45.25
    risks = {row["stepsize"]: row["final_risk"] for row in of_kind(rows, "run")}
    assert found["one", 1000]["risk"] == risks[1.0]


def test_a_run_that_diverges_is_reported_with_what_is_known_of_it() -> None:
    rows = trained("sweep", "xor4", "leaky_softplus", [20], [16, 1e9], 1, 30)
    good, bad = of_kind(rows, "run")
    assert (good["diverged"], good["settled"]) == (-1, 1)
    assert bad["diverged"] > 0
    assert bad["settled"] == 0
    assert bad["peak"] > 1e6
    assert math.isnan(bad["final_risk"])
    speed = [row for row in of_kind(rows, "speedup") if row["stepsize"] == 1e9]
    assert all(row["monotone_stepsize"] == 16 for row in speed)


def test_widths_and_seeds_are_runs_of_their_own() -> None:
    every = trained("widths", "xor4", "leaky_softplus", [4, 20], [16, 64], 2, 60)
    rows = of_kind(every, "run")
    assert len({(r["width"], r["stepsize"], r["seed"]) for r in rows}) == 8
    alone = descend(stack("xor4", "leaky_softplus", 20, [64.0], (1,)), 60).risk[:, 0]
    (same,) = [r for r in rows if (r["width"], r["stepsize"], r["seed"]) == (20, 64, 1)]
    assert same["final_risk"] == pytest.approx(alone[-1], rel=1e-10)
    assert same["rises"] == phases(alone).rises
    assert {row["seed"] for row in of_kind(every, "curve")} == {0}
