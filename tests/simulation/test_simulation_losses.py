"""Both losses and their hand-derived gradients against the definitions, term by term."""

import math

import pytest
import torch
from torch import Tensor

from mispair.simulation.losses import infonce, spectral
from tests.simulation.test_simulation_training import plain_infonce, plain_spectral

PAIRS, NEURONS = 7, 5
LOSSES = {"infonce": infonce, "spectral": spectral}
PLAIN = {"infonce": plain_infonce, "spectral": plain_spectral}  # means over the batch


def features(scale: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    both = scale * torch.randn(2, PAIRS, NEURONS, generator=generator, dtype=torch.float64)
    return both[0], both[1]


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("scale", [0.3, 1.2, 8.0])
@pytest.mark.parametrize(("name", "tau"), [("infonce", 0.1), ("spectral", 0.1), ("spectral", 30.0)])
def test_loss_and_gradients_follow_the_definition(name, tau, scale, reduction) -> None:
    # InfoNCE at 1.2 needs a shift; at 8 the rows' largest terms lie too far apart for one.
    image, text = features(scale)
    found = LOSSES[name](image, text, tau, reduction)
    leaves = [side.clone().requires_grad_() for side in (image, text)]
    loss = PLAIN[name](*leaves, tau) * (PAIRS if reduction == "sum" else 1)
    loss.backward()
    for ours, plain in zip(found, (loss.detach(), *(side.grad for side in leaves)), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-12)


def test_the_scales_above_lead_infonce_down_all_its_paths() -> None:
    paths = []
    for scale in (0.3, 1.2, 8.0):
        both = torch.cat(features(scale))
        peaks = (both @ both.T / 0.1).fill_diagonal_(-math.inf).amax(dim=1)
        spread, largest = float(peaks.max() - peaks.min()), float(peaks.abs().max())
        paths.append("rows" if spread >= 160 else "shifted" if largest > 80 else "plain")
    assert paths == ["plain", "shifted", "rows"]


@pytest.mark.parametrize("name", ["infonce", "spectral"])
def test_the_features_are_left_alone(name: str) -> None:
    image, text = features(1.0)
    before = image.clone(), text.clone()
    LOSSES[name](image, text, 0.1, "mean")
    assert torch.equal(image, before[0])
    assert torch.equal(text, before[1])


def test_infonce_survives_large_features_in_float32() -> None:
    generator = torch.Generator().manual_seed(1)
    image, text = (6 * torch.randn(40, 8, generator=generator).relu()).chunk(2)
    found = [part.double() for part in infonce(image, text, 0.1, "mean")]
    exact = infonce(image.double(), text.double(), 0.1, "mean")
    for ours, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
