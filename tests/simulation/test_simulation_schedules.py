"""Thresholds and phases on weights whose growth is prescribed, against one neuron at a time."""

import math
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from mispair.simulation.encoder import Encoders, Phases, ThresholdSchedule
from mispair.simulation.study import Study

M, D1, FEATURES, SCALE, ETA = 3, 4, 6, 1.2, 0.3


def weights_at(step: int, rate: float) -> Tensor:
    """Weights (2, M, D1) that grow."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(2, M, D1, generator=generator, dtype=torch.float64)
    neurons = 1 + 0.2 * torch.arange(M, dtype=torch.float64)  # neuron i grows faster than i - 1
    return start * torch.exp(rate * step * neurons)[:, None]


@dataclass
class Plain:
    """The same in Python numbers, one neuron at a time."""

    name: str
    phase2_steps: int
    growth: float
    second: int | None = None
    third: int | None = None
    thresholds: list[float] = field(default_factory=lambda: [0.0] * M)

    def advance(self, step: int, weights: Tensor) -> None:
        w, v = (weights**2).sum(dim=-1).tolist()
        if step == 0:
            self.start = [a + b for a, b in zip(w, v, strict=True)]
        now = [a + b for a, b in zip(w, v, strict=True)]
        anew = [
            SCALE * math.sqrt(math.log(FEATURES) / FEATURES * both / 2) for both in now
        ]  # Eq. 79
        if self.second is None:
            if self.name == "theory":
                doubled = all(s / 2 >= s0 for s, s0 in zip(now, self.start, strict=True))
            else:
                doubled = sum(now) >= 2 * sum(self.start)
            if doubled:
                self.second, self.first = step, w
                self.thresholds = anew
        elif self.third is None and self.name == "theory":
            self.thresholds = [(1 + ETA / FEATURES) * b for b in self.thresholds]  # Eq. 80
            bound = self.growth * FEATURES
            if all(a >= bound * a0 for a, a0 in zip(w, self.first, strict=True)):  # Eq. 81
                self.third = step
        elif self.third is None:
            if step == self.second + self.phase2_steps:
                self.third = step
            else:
                self.thresholds = anew


def schedule(name: str, phase2_steps: int = 7, growth: float = 0.5) -> ThresholdSchedule:
    study = Study(d=FEATURES, classes=2, test_margin=1, bias_scale=SCALE,
                  phase2_steps=phase2_steps, phase2_growth=growth)  # fmt: skip
    return ThresholdSchedule(name, study)


def encoders(weights: Tensor) -> Encoders:
    return Encoders("symmetric-relu", weights, torch.full_like(weights[..., 0], 9.0))


def run(ours: ThresholdSchedule, rate: float, steps: int) -> tuple[Tensor, Phases]:
    """Return thresholds (steps, 2, M), and the phases."""
    now = encoders(weights_at(0, rate).clone())
    ours.begin(now)
    found = []
    for step in range(steps):
        now.weights.copy_(weights_at(step, rate))
        ours.advance(step, now, ETA)
        found.append(now.biases.clone())
    return torch.stack(found), ours.phases(now)


@pytest.mark.parametrize("name", ["theory", "practical"])
@pytest.mark.parametrize("rate", [0.05, 0.11])
def test_thresholds_follow_the_definition(name: str, rate: float) -> None:
    thresholds, phases = run(schedule(name), rate, 40)
    plain = Plain(name, 7, 0.5)
    for step in range(40):
        plain.advance(step, weights_at(step, rate))
        for tower in thresholds[step]:
            assert tower.tolist() == pytest.approx(plain.thresholds, rel=1e-12)
    assert phases.second == plain.second
    assert phases.third == plain.third
    assert phases.second is not None
    assert phases.third is not None
    assert 0 < phases.second < phases.third < 39  # all phases were gone through
    for norms, step in ((phases.norms_first, phases.second), (phases.norms_second, phases.third)):
        torch.testing.assert_close(norms, (weights_at(step, rate) ** 2).sum(dim=-1))


@pytest.mark.parametrize("name", ["theory", "practical", "zero"])
def test_phases_that_never_begin_are_none_and_their_norms_those_of_the_end(name: str) -> None:
    thresholds, phases = run(schedule(name), 0.001, 20)
    assert not thresholds.any()
    assert (phases.second, phases.third) == (None, None)
    end = (weights_at(19, 0.001) ** 2).sum(dim=-1)
    torch.testing.assert_close(phases.norms_first, end)
    torch.testing.assert_close(phases.norms_second, end)


def test_training_that_ends_in_the_second_phase_has_no_third() -> None:
    _, phases = run(schedule("practical", phase2_steps=100), 0.1, 20)
    assert phases.second is not None
    assert phases.third is None


def test_a_second_phase_without_steps_leaves_the_thresholds_at_zero() -> None:
    thresholds, phases = run(schedule("practical", phase2_steps=0), 0.1, 20)
    assert phases.second == phases.third is not None
    assert not thresholds.any()


def test_biases_that_are_no_thresholds_are_left_alone() -> None:
    thresholds, phases = run(schedule("none"), 0.1, 5)
    assert bool((thresholds == 9.0).all())
    assert isinstance(phases, Phases)


@pytest.mark.parametrize("name", ["theory", "practical"])
def test_a_restored_schedule_goes_on_as_the_one_saved(name: str) -> None:
    whole, phases = run(schedule(name), 0.11, 40)
    for stop in range(1, 40, 6):
        first, second = schedule(name), schedule(name)
        now = encoders(weights_at(0, 0.11).clone())
        first.begin(now)
        for step in range(stop):
            now.weights.copy_(weights_at(step, 0.11))
            first.advance(step, now, ETA)
        other = encoders(weights_at(stop, 0.11).clone())
        second.begin(other)
        second.restore({key: values.clone() for key, values in first.state().items()})
        other.biases.copy_(now.biases)
        for step in range(stop, 40):
            other.weights.copy_(weights_at(step, 0.11))
            second.advance(step, other, ETA)
            assert torch.equal(other.biases, whole[step])
        found = second.phases(other)
        assert (found.second, found.third) == (phases.second, phases.third)
