"""Runs of gradient descent: stacked as alone, resumed, diverged, and numbers known beforehand."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from bench.stepsize import naive
from mispair.stepsize.data_sets import MADE, start_weights
from mispair.stepsize.descent import Curves, RunStack, accuracy, descend, first_below, phases
from mispair.stepsize.networks import ACTIVATIONS


def stack(
    name: str, activation: str, width: int, stepsizes: list[float], seeds: tuple[int, ...] = (0,)
) -> RunStack:
    data = MADE[name](seeds[0])
    starts = [start_weights(name, width, data.points.shape[1], seed) for seed in seeds]
    return RunStack(
        data, ACTIVATIONS[activation], np.tile(stepsizes, len(seeds)),
        np.repeat(np.stack(starts), len(stepsizes), axis=0), np.eye(data.points.shape[1])[0],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "activation", "width", "stepsizes"),
    # A SiLU network that passes a saddle makes more of a rounding error: its steps are small here.
    [("xor4", "leaky_softplus", 20, [16.0, 96.0, 200.0]), ("xor4", "silu", 5, [0.5, 1.0, 2.0]),
     ("digits_3v8", "softplus", 40, [16.0, 96.0, 200.0])],
)  # fmt: skip
def test_stacked_runs_are_those_of_a_plain_loop(name, activation, width, stepsizes) -> None:
    every = stack(name, activation, width, stepsizes, (0, 1))
    found = descend(every, 60)
    for r in range(6):
        risks, last = naive(every.data, every.activation, every.stepsizes[r], every.start[r], 60)
        assert np.allclose(found.risk[:, r], risks, rtol=1e-12, atol=0)
        assert np.allclose(found.final[r], last, rtol=1e-9, atol=1e-10)
        q = every.data.labels * _outputs(every, last)
        assert found.least[-1, r] == pytest.approx(q.min(), rel=1e-9)
        assert found.potential[-1, r] == pytest.approx((1 / (1 + np.exp(q))).mean(), rel=1e-9)
        assert found.norm[-1, r] == pytest.approx(np.linalg.norm(last))
        signs = np.where(np.arange(width) % 2 == 0, 1, -1)
        assert found.along[-1, r] == pytest.approx(signs @ last[:, 0], rel=1e-9)
    assert (np.diff(found.risk[:, 0]) <= 0).all(), "small steps are monotone"
    alone = descend(stack(name, activation, width, stepsizes[1:2], (1,)), 60)
    assert np.allclose(alone.risk[:, 0], found.risk[:, 4], rtol=1e-12, atol=0)


def _outputs(every: RunStack, weights: np.ndarray) -> np.ndarray:
    signs = np.where(np.arange(every.width) % 2 == 0, 1, -1)
    value = every.activation.value(every.data.points @ weights.T)
    return value @ signs / every.width


def same(one: Curves, other: Curves) -> bool:
    return all(
        np.array_equal(value, getattr(other, name), equal_nan=True)
        for name, value in vars(one).items()
    )


class Killed(Exception):  # noqa: N818
    """The job is at an end."""


class Memory:
    """Keeps the state after `patience` questions, and ends the job then."""

    def __init__(self, patience: int) -> None:
        self.patience, self.state = patience, None

    def load(self) -> Any:
        return self.state

    def due(self) -> bool:
        self.patience -= 1
        return self.patience == 0

    def save(self, state: Mapping[str, np.ndarray]) -> None:
        self.state = {name: array.copy() for name, array in state.items()}
        raise Killed


def test_a_run_is_the_same_to_the_bit_again_and_from_its_state() -> None:
    runs = stack("xor4", "leaky_softplus", 20, [16, 96, 1e9])
    whole = descend(runs, 200)
    assert same(whole, descend(runs, 200))
    memory = Memory(patience=2)  # asked at steps 64, 128
    with pytest.raises(Killed):
        descend(runs, 200, memory)
    assert memory.state is not None
    assert memory.state["step"] == 128
    assert same(whole, descend(runs, 200, memory))


def test_a_run_that_diverges_is_stopped_and_leaves_the_others_as_they_are() -> None:
    runs = stack("xor4", "leaky_softplus", 20, [16, 1e9, 64])
    found = descend(runs, 50)
    assert found.diverged[0] == found.diverged[2] == -1
    at = int(found.diverged[1])
    assert 0 < at < 50
    assert found.risk[at, 1] > 1e6 > found.risk[at - 1, 1]
    assert np.isnan(found.risk[at + 1 :, 1]).all()
    ended = phases(found.risk[:, 1])
    assert not ended.settled
    assert ended.peak > 1e6
    alone = descend(stack("xor4", "leaky_softplus", 20, [64]), 50)
    assert np.allclose(alone.risk[:, 0], found.risk[:, 2], rtol=1e-12)


def test_phases_and_levels_of_a_curve_by_hand() -> None:
    risk = np.array([0.7, 0.9, 0.5, 0.6, 0.2, *np.geomspace(0.1, 0.001, 95)])
    found = phases(risk)
    assert (found.rises, found.transition, found.peak) == (2, 3, 0.9)
    assert found.settled
    assert found.lowest_rise == 0.5
    assert (first_below(risk, 0.2), first_below(risk, 1e-9)) == (4, -1)
    late = phases(np.concatenate([risk, [0.002]]))
    assert late.transition == len(risk)
    assert not late.settled
    # A rise by rounding alone is none.
    flat = phases(np.array([0.5, 0.5 * (1 + 1e-14), 0.4]))
    assert (flat.rises, flat.transition, flat.settled) == (0, 0, True)
    assert np.isnan(flat.lowest_rise)


XOR = {
    24.0: (0, None, {0.1: 243, 0.01: 2294}),
    32.0: (8, 1.11, {0.1: 174, 0.01: 1712}),
    48.0: (51, 2.01, {0.1: 87, 0.01: 1088}),
    64.0: (141, 2.85, {0.1: 153, 0.01: 726, 0.002: 4004}),
    96.0: (339, 5.01, {0.1: 343, 0.01: 343, 0.002: 1624}),
}
TWO_POINTS = {
    45.0: (0, None, {0.001: 6978}), 64.0: (11, None, {0.001: 4904}),
    128.0: (14, None, {0.001: 2441}), 512.0: (12, None, {0.001: 23}),
}  # fmt: skip
NOISY = {128.0: (0, None, {0.001: 359}), 256.0: (2, None, {0.001: 58}),
         512.0: (2, None, {0.001: 4})}  # fmt: skip
THREE_OR_EIGHT = {
    128.0: (4, 2.2, {0.01: 587}), 256.0: (5, 6.7, {0.01: 398}),
    512.0: (6, 14.8, {0.01: 93}), 1024.0: (6, 30.9, {0.01: 67}),
}  # fmt: skip
PARITY = {16.0: (0, None, {}), 48.0: (33, 0.82, {0.1: 442}), 96.0: (4, 1.02, {0.1: 406})}


@pytest.mark.parametrize(
    ("name", "activation", "width", "expected", "steps"),
    [("xor4", "leaky_softplus", 20, XOR, 4010),
     ("xor4", "leaky_softplus", 4, {64.0: (1351, None, {})}, 1650),
     ("xor4", "leaky_softplus", 400, {64.0: (63, None, {})}, 360),
     ("two_point", "leaky_softplus", 10, TWO_POINTS, 6990),
     ("xor_noise", "softplus", 20, NOISY, 370),
     ("digits_3v8", "leaky_softplus", 40, THREE_OR_EIGHT, 600),
     ("digits_parity", "softplus", 40, PARITY, 500)],
)  # fmt: skip
def test_phases_and_speeds_are_those_of_a_prototype(name, activation, width, expected, steps):
    """By stepsize: transition, peak, and steps to each risk, of code that was written apart."""
    found = descend(stack(name, activation, width, list(expected)), steps)
    for r, (transition, peak, levels) in enumerate(expected.values()):
        ended = phases(found.risk[:, r])
        assert ended.transition == transition
        digits = 1 if name == "digits_3v8" else 2
        assert peak is None or round(ended.peak, digits) == peak
        assert {level: first_below(found.risk[:, r], level) for level in levels} == levels


def test_accuracy_is_the_share_of_right_test_points() -> None:
    runs = stack("digits_parity", "softplus", 40, [16, 96])
    found = descend(runs, 100)
    right = accuracy(runs, found.final)
    by_hand = [
        ((ACTIVATIONS["softplus"].value(runs.data.test_points @ w.T) @ np.tile([1, -1], 20) > 0)
         == (runs.data.test_labels > 0)).mean()
        for w in found.final
    ]  # fmt: skip
    assert right == pytest.approx(by_hand)
    assert (right > 0.7).all()
