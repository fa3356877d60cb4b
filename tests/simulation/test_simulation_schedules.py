"""Thresholds and phases on weights whose growth is prescribed.

The trainings that are compared with autograd follow the definitions of the schedules once more, and
those that are resumed restore them (`test_simulation_training`).
"""

import pytest
import torch
from torch import Tensor

from mispair.simulation.encoder import Encoders, Phases, ThresholdSchedule
from mispair.simulation.study import Study

M, D1 = 3, 4


def weights_at(step: int, rate: float) -> Tensor:
    """Weights (2, M, D1) that grow."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(2, M, D1, generator=generator, dtype=torch.float64)
    neurons = 1 + 0.2 * torch.arange(M, dtype=torch.float64)  # neuron i grows faster than i - 1
    return start * torch.exp(rate * step * neurons)[:, None]


def run(name: str, rate: float, steps: int, phase2_steps: int = 7) -> tuple[Tensor, Phases]:
    """Return thresholds (steps, 2, M), and the phases."""
    study = Study(d=6, classes=2, test_margin=1, phase2_steps=phase2_steps, phase2_growth=0.5)
    schedule = ThresholdSchedule(name, study)
    weights = weights_at(0, rate)
    now = Encoders("symmetric-relu", weights, torch.full_like(weights[..., 0], 9.0))
    schedule.begin(now)
    found = []
    for step in range(steps):
        now.weights.copy_(weights_at(step, rate))
        schedule.advance(step, now, 0.3)
        found.append(now.biases.clone())
    return torch.stack(found), schedule.phases(now)


@pytest.mark.parametrize("name", ["theory", "practical"])
def test_phases_have_the_norms_of_their_first_steps(name: str) -> None:
    thresholds, phases = run(name, 0.11, 40)
    assert phases.second is not None
    assert phases.third is not None
    assert 0 < phases.second < phases.third < 39
    for norms, step in ((phases.norms_first, phases.second), (phases.norms_second, phases.third)):
        torch.testing.assert_close(norms, (weights_at(step, 0.11) ** 2).sum(dim=-1))
    assert not thresholds[: phases.second].any()
    assert (thresholds[phases.second :] > 0).all()
    assert torch.equal(thresholds[phases.third], thresholds[-1])


@pytest.mark.parametrize("name", ["theory", "practical", "zero"])
def test_phases_that_never_begin_are_none_and_their_norms_those_of_the_end(name: str) -> None:
    thresholds, phases = run(name, 0.001, 20)
    assert not thresholds.any()
    assert (phases.second, phases.third) == (None, None)
    end = (weights_at(19, 0.001) ** 2).sum(dim=-1)
    torch.testing.assert_close(phases.norms_first, end)
    torch.testing.assert_close(phases.norms_second, end)


def test_training_that_ends_in_the_second_phase_has_no_third() -> None:
    _, phases = run("practical", 0.1, 20, phase2_steps=100)
    assert phases.second is not None
    assert phases.third is None


def test_a_second_phase_without_steps_leaves_the_thresholds_at_zero() -> None:
    thresholds, phases = run("practical", 0.1, 20, phase2_steps=0)
    assert phases.second == phases.third is not None
    assert not thresholds.any()


def test_biases_that_are_no_thresholds_are_left_alone() -> None:
    thresholds, _ = run("none", 0.1, 5)
    assert bool((thresholds == 9.0).all())
