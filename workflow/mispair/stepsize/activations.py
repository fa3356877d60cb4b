"""Smooth activations of the two-layer networks, with the constants that the theory uses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, expit

Array = NDArray[np.float64]

HUBER = 0.5
"""Width h of the quadratic part of the Huber ReLU."""
LEAK = 0.5
"""Slope c at minus infinity of the leaky activations."""


@dataclass(frozen=True)
class Constants:
    """The constants of an activation φ that the theory uses.

    Attributes
    ----------
    slope : float
        C, the supremum of |φ'|.
    curvature : float
        B, the supremum of |φ''|.
    homogeneity : float
        κ, the supremum of |φ(z) − z φ'(z)|.
    least_slope : float
        α, the infimum of φ'; 0 where it is not positive.
    """

    slope: float
    curvature: float
    homogeneity: float
    least_slope: float = 0.0


@dataclass(frozen=True)
class Activation:
    """An activation with its derivatives.

    Every activation is ``linear · z + scale · base(z)`` of a base that is known in full.

    Attributes
    ----------
    name : str
        As in the configuration.
    value, slope, curvature : callable
        φ, φ' and φ'' of an array, element by element.
    paper, tight : Constants
        The constants as printed, and the smallest valid ones.
    linear, softplus : float
        φ(z) = linear · z + softplus · log(1 + e^z), if softplus is not 0. Sums of such an
        activation are faster (`mispair.stepsize.networks`).
    """

    name: str
    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    curvature: Callable[[Array], Array]
    paper: Constants
    tight: Constants
    linear: float = 0.0
    softplus: float = 0.0


def _normal(z: Array) -> Array:
    """Return the density of the standard normal distribution."""
    density: Array = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return density


def _cumulative(z: Array) -> Array:
    probability: Array = 0.5 * (1 + erf(z / math.sqrt(2)))
    return probability


def _silu_slope(z: Array) -> Array:
    s = expit(z)
    slope: Array = s * (1 + z * (1 - s))
    return slope


def _silu_curvature(z: Array) -> Array:
    s = expit(z)
    curvature: Array = s * (1 - s) * (2 + z * (1 - 2 * s))
    return curvature


def _huber(z: Array) -> Array:
    inside = np.clip(z, 0, HUBER)
    value: Array = inside * inside / (2 * HUBER) + np.maximum(z - HUBER, 0)
    return value


def _mixed(
    name: str, linear: float, scale: float, base: Activation, paper: Constants, tight: Constants
) -> Activation:
    """Return the activation linear · z + scale · base(z)."""
    return Activation(
        name,
        lambda z: linear * z + scale * base.value(z),
        lambda z: linear + scale * base.slope(z),
        lambda z: scale * base.curvature(z),
        paper,
        tight,
        linear,
        scale * base.softplus,
    )


_LOG_2 = math.log(2)

_SOFTPLUS = Activation(
    "softplus", lambda z: np.logaddexp(0, z), expit, lambda z: expit(z) * expit(-z),
    Constants(1, 1, _LOG_2), Constants(1, 0.25, _LOG_2), softplus=1.0,
)  # fmt: skip
_GELU = Activation(
    "gelu", lambda z: z * _cumulative(z), lambda z: _cumulative(z) + z * _normal(z),
    lambda z: (2 - z * z) * _normal(z),
    # As printed, κ is too small: the supremum of z² times the normal density is 0.2935.
    Constants(1.242, 2, 0.242),
    Constants(
        1.1289041, math.sqrt(2 / math.pi), 2 * math.exp(-1) / math.sqrt(2 * math.pi)
    ),
)  # fmt: skip
_SILU = Activation(
    "silu", lambda z: z * expit(z), _silu_slope, _silu_curvature,
    Constants(2, 4, 1), Constants(1.0998394, 0.5, 0.4392288),
)  # fmt: skip
_HUBER_RELU = Activation(
    "huber_relu", _huber, lambda z: np.clip(z / HUBER, 0, 1),
    lambda z: np.where((z > 0) & (z < HUBER), 1 / HUBER, 0.0),
    Constants(1, 1 / HUBER, HUBER / 2), Constants(1, 1 / HUBER, HUBER / 2),
)  # fmt: skip


def _leaky(base: Activation, paper: Constants, lowest: float) -> Activation:
    """Return LEAK · z + (1 − LEAK)/4 · base(z) of a base with this lowest slope."""
    scale, bound = (1 - LEAK) / 4, base.tight
    tight = Constants(LEAK + scale * bound.slope, scale * bound.curvature,
                      scale * bound.homogeneity, LEAK + scale * lowest)  # fmt: skip
    return _mixed(f"leaky_{base.name}", LEAK, scale, base, paper, tight)


ACTIVATIONS = {
    activation.name: activation
    for activation in (
        _SOFTPLUS,
        _GELU,
        _SILU,
        _HUBER_RELU,
        _leaky(_SOFTPLUS, Constants(1, 1, 1, LEAK / 2), 0.0),
        # The slopes of GELU and SiLU range from −0.1289041 and −0.0998394 to as much above 1.
        _leaky(_GELU, Constants(1, 1, 1, LEAK / 2), -0.1289041),
        _leaky(_SILU, Constants(1, 1, 1, LEAK / 2), -0.0998394),
        _leaky(_HUBER_RELU, Constants(1, 1 / (4 * HUBER), HUBER / 2, LEAK), 0.0),
        _mixed(
            "half_softplus", 0.5, 0.5, _SOFTPLUS,
            Constants(1, 0.5, _LOG_2 / 2, 0.5), Constants(1, 0.125, _LOG_2 / 2, 0.5),
        ),
    )
}  # fmt: skip
"""By name; ``half_softplus`` is (z + log(1 + e^z)) / 2, of the example with five points."""
