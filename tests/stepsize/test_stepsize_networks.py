"""Activations and gradients of the two-layer networks against independent references."""

import numpy as np
import pytest
import torch

from mispair.stepsize.data_sets import DataSet, output_signs
from mispair.stepsize.networks import ACTIVATIONS, Networks

NAMES = sorted(ACTIVATIONS)
TORCH = {
    "softplus": torch.nn.functional.softplus,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "huber_relu": lambda z: torch.where(z < 0, 0 * z, torch.where(z < 0.5, z * z, z - 0.25)),
}


def by_torch(name: str, z: torch.Tensor) -> torch.Tensor:
    if name == "half_softplus":
        return (z + TORCH["softplus"](z)) / 2
    if name.startswith("leaky_"):
        return 0.5 * z + 0.125 * TORCH[name.removeprefix("leaky_")](z)
    return TORCH[name](z)


def random_data(n: int = 7, d: int = 3) -> DataSet:
    rng = np.random.default_rng(5)
    return DataSet(rng.standard_normal((n, d)), np.where(np.arange(n) % 3 == 0, -1.0, 1.0))


def risk_by_torch(data: DataSet, name: str, w: torch.Tensor) -> torch.Tensor:
    a = torch.from_numpy(output_signs(len(w)))
    f = by_torch(name, torch.from_numpy(data.points) @ w.T) @ a / len(w)
    return torch.nn.functional.softplus(-torch.from_numpy(data.labels) * f).mean()


@pytest.mark.parametrize("name", NAMES)
def test_risks_and_gradients_are_those_of_torch(name: str) -> None:
    data, activation = random_data(), ACTIVATIONS[name]
    weights = np.random.default_rng(1).standard_normal((3, 5, 3)) * 2
    networks = Networks(data.points, activation, 5)
    outputs, pull = networks.forward(weights)
    doubts = 1 / (1 + np.exp(outputs * data.labels))
    gradients = -pull(doubts * data.labels) / (5 * len(data.labels))
    for run, own in enumerate(weights):
        w = torch.from_numpy(own.copy()).requires_grad_()
        risk = risk_by_torch(data, name, w)
        (expected,) = torch.autograd.grad(risk, w)
        assert np.allclose(gradients[run], expected.numpy(), rtol=1e-10, atol=1e-14)
        assert np.logaddexp(0, -outputs[run] * data.labels).mean() == pytest.approx(
            float(risk.detach()), rel=1e-12
        )


@pytest.mark.parametrize("scale", [1e-3, 30, 3000])
def test_the_fused_pass_is_exact_for_tiny_and_huge_activations(scale: float) -> None:
    data = random_data(n=50)
    weights = np.random.default_rng(2).standard_normal((2, 41, 3)) * scale  # an odd width
    for name in ("softplus", "leaky_softplus"):
        networks = Networks(data.points, ACTIVATIONS[name], 41)
        fused, pull = networks.forward(weights)
        coefficients = np.random.default_rng(3).standard_normal(fused.shape)
        fused_pull = pull(coefficients)
        plain, plain_pull = networks._plain(weights)
        size = np.abs(networks.inner(weights)).max()
        assert np.abs(fused - plain).max() < 1e-14 * max(1, size)
        assert np.abs(fused_pull - plain_pull(coefficients)).max() < 1e-12


@pytest.mark.parametrize("name", NAMES)
def test_the_constants_are_those_of_a_fine_grid(name: str) -> None:
    activation, z = ACTIVATIONS[name], np.linspace(-60, 60, 1_200_001)
    slope, constants = activation.slope(z), activation.constants
    assert np.abs(slope).max() == pytest.approx(constants.slope, abs=1e-6)
    curvature = np.abs(np.diff(slope) / np.diff(z)).max()
    assert curvature == pytest.approx(constants.curvature, abs=1e-6)
    assert np.abs(activation.value(z) - z * slope).max() == pytest.approx(
        constants.homogeneity, abs=1e-6
    )
    if constants.least_slope:
        assert slope.min() == pytest.approx(constants.least_slope, abs=1e-6)
    else:
        assert slope.min() < 1e-12


def test_networks_too_wide_for_products_of_float64_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 2000 neurons"):
        Networks(np.zeros((1, 1)), ACTIVATIONS["softplus"], 2001)
    data = random_data(n=2)
    outputs, _ = Networks(data.points, ACTIVATIONS["softplus"], 2000).forward(
        np.full((1, 2000, 3), 1e5)
    )
    assert np.isfinite(outputs).all()
