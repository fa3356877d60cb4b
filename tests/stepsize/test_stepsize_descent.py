"""Runs of gradient descent: stacked as alone, resumed, diverged, and numbers known beforehand."""

from __future__ import annotations

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
def test_stacked_runs_are_those_of_a_plain_loop(
    name: str, activation: str, width: int, stepsizes: list[float]
) -> None:
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

    def look(weights: np.ndarray) -> np.ndarray:
        return weights[:, 0]

    at = [0, 3, 150, 200]
    whole = descend(runs, 200, look, at)
    assert same(whole, descend(runs, 200, look, at))
    assert np.array_equal(whole.looked[0], runs.start[:, 0])
    memory = Memory(patience=2)  # asked at steps 64, 128
    with pytest.raises(Killed):
        descend(runs, 200, look, at, memory)
    assert memory.state is not None
    assert memory.state["step"] == 128
    assert same(whole, descend(runs, 200, look, at, memory))


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


GOLDEN = {
    # η: transition, rises, peak, steps to risks of .1, .01 and .002
    24.0: (0, 0, None, 243, 2294, 11218),
    32.0: (8, 7, 1.11, 174, 1712, 8405),
    48.0: (51, 27, 2.01, 87, 1088, 5460),
    64.0: (141, 69, 2.85, 153, 726, 4004),
    96.0: (339, 170, 5.01, 343, 343, 1624),
    128.0: (6929, 3467, 5.72, 6932, 6932, 6935),
}
"""Numbers of a prototype that was written apart from this code."""


def test_xor_has_the_phases_and_speeds_that_a_prototype_had() -> None:
    found = descend(stack("xor4", "leaky_softplus", 20, list(GOLDEN)), 11500)
    for r, (transition, rises, peak, *levels) in enumerate(GOLDEN.values()):
        own = phases(found.risk[:, r])
        assert (own.transition, own.rises) == (transition, rises)
        if peak is not None:
            assert own.peak == pytest.approx(peak, abs=0.005)
        for level, step in zip((0.1, 0.01, 0.002), levels, strict=True):
            assert first_below(found.risk[:, r], level) == step
    margins = found.least / found.norm
    assert margins[51, 2] == pytest.approx(-0.0175, abs=5e-5)
    assert margins[339, 4] == pytest.approx(-0.0024, abs=5e-5)


@pytest.mark.parametrize(
    ("name", "activation", "width", "expected"),
    [("two_point", "leaky_softplus", 10,
      {45.0: (0, 6978), 64.0: (11, 4904), 128.0: (14, 2441), 256.0: (12, 1014), 512.0: (12, 23)}),
     ("xor_noise", "softplus", 20, {128.0: (0, 359), 256.0: (2, 58), 512.0: (2, 4)})],
)  # fmt: skip
def test_other_data_sets_have_the_speeds_that_a_prototype_had(
    name: str, activation: str, width: int, expected: dict[float, tuple[int, int]]
) -> None:
    found = descend(stack(name, activation, width, list(expected)), max(
        step for _, step in expected.values()) + 10)  # fmt: skip
    for r, (transition, steps) in enumerate(expected.values()):
        assert phases(found.risk[:, r]).transition == transition
        assert first_below(found.risk[:, r], 0.001) == steps


def test_the_phase_of_narrow_networks_lasts_as_long_as_a_prototype_had_it() -> None:
    for width, transition in {4: 1351, 100: 67, 400: 63}.items():
        found = descend(stack("xor4", "leaky_softplus", width, [64.0]), transition + 300)
        assert phases(found.risk[:, 0]).transition == transition


def test_three_and_eight_have_the_phases_and_speeds_that_a_prototype_had() -> None:
    expected = {
        # η: transition, peak, steps to a risk of .01
        64.0: (0, None, 1210), 128.0: (4, 2.2, 587), 256.0: (5, 6.7, 398), 512.0: (6, 14.8, 93),
        1024.0: (6, 30.9, 67),
    }  # fmt: skip
    found = descend(stack("digits_3v8", "leaky_softplus", 40, list(expected)), 1220)
    for r, (transition, peak, steps) in enumerate(expected.values()):
        own = phases(found.risk[:, r])
        assert own.transition == transition
        assert peak is None or own.peak == pytest.approx(peak, abs=0.05)
        assert first_below(found.risk[:, r], 0.01) == steps


def test_digits_have_the_phases_that_a_prototype_had_and_are_classified() -> None:
    runs = stack("digits_parity", "softplus", 40, [16, 48, 96])
    found = descend(runs, 500)
    own = [phases(found.risk[:, r]) for r in range(3)]
    assert [p.transition for p in own] == [0, 33, 4]
    assert own[1].peak == pytest.approx(0.82, abs=0.005)
    assert own[2].peak == pytest.approx(1.02, abs=0.005)
    assert first_below(found.risk[:, 1], 0.1) == 442
    assert first_below(found.risk[:, 2], 0.1) == 406
    right = accuracy(runs, found.final)
    by_hand = [
        ((ACTIVATIONS["softplus"].value(runs.data.test_points @ w.T) @ np.tile([1, -1], 20) > 0)
         == (runs.data.test_labels > 0)).mean()
        for w in found.final
    ]  # fmt: skip
    assert right == pytest.approx(by_hand)
    assert (right > 0.8).all()
