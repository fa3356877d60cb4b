"""Two-layer networks with fixed output signs, and their activations.

f(w; x) = (1/m) Σ_j a_j φ(<w_j, x>) with a_j = ±1 in turn; only the first layer w is trained. All
networks of a stack see the same data, so their forward passes are one product of matrices.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, expit

from mispair.stepsize.data_sets import output_signs

# Smooth activations of the two-layer networks, with the constants that the theory uses.

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
    value, slope : callable
        φ and φ' of an array, element by element.
    constants : Constants
        The smallest valid ones.
    linear, softplus : float
        φ(z) = linear · z + softplus · log(1 + e^z), if softplus is not 0. Sums of such an
        activation are faster (`Networks`).
    """

    name: str
    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    constants: Constants
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


def _huber(z: Array) -> Array:
    inside = np.clip(z, 0, HUBER)
    value: Array = inside * inside / (2 * HUBER) + np.maximum(z - HUBER, 0)
    return value


def _mixed(
    name: str, linear: float, scale: float, base: Activation, constants: Constants
) -> Activation:
    """Return the activation linear · z + scale · base(z)."""
    return Activation(
        name,
        lambda z: linear * z + scale * base.value(z),
        lambda z: linear + scale * base.slope(z),
        constants,
        linear,
        scale * base.softplus,
    )


_LOG_2 = math.log(2)

_SOFTPLUS = Activation(
    "softplus", lambda z: np.logaddexp(0, z), expit, Constants(1, 0.25, _LOG_2), softplus=1.0
)  # fmt: skip
_GELU = Activation(
    "gelu", lambda z: z * _cumulative(z), lambda z: _cumulative(z) + z * _normal(z),
    # κ is the supremum of z² times the normal density.
    Constants(
        1.1289041, math.sqrt(2 / math.pi), 2 * math.exp(-1) / math.sqrt(2 * math.pi)
    ),
)  # fmt: skip
_SILU = Activation(
    "silu", lambda z: z * expit(z), _silu_slope, Constants(1.0998394, 0.5, 0.4392288)
)  # fmt: skip
_HUBER_RELU = Activation(
    "huber_relu", _huber, lambda z: np.clip(z / HUBER, 0, 1),
    Constants(1, 1 / HUBER, HUBER / 2),
)  # fmt: skip


def _leaky(base: Activation, lowest: float) -> Activation:
    """Return LEAK · z + (1 − LEAK)/4 · base(z) of a base with this lowest slope."""
    scale, bound = (1 - LEAK) / 4, base.constants
    constants = Constants(LEAK + scale * bound.slope, scale * bound.curvature,
                          scale * bound.homogeneity, LEAK + scale * lowest)  # fmt: skip
    return _mixed(f"leaky_{base.name}", LEAK, scale, base, constants)


ACTIVATIONS = {
    activation.name: activation
    for activation in (
        _SOFTPLUS,
        _GELU,
        _SILU,
        _HUBER_RELU,
        _leaky(_SOFTPLUS, 0.0),
        # The slopes of GELU and SiLU range from −0.1289041 and −0.0998394 to as much above 1.
        _leaky(_GELU, -0.1289041),
        _leaky(_SILU, -0.0998394),
        _leaky(_HUBER_RELU, 0.0),
        _mixed("half_softplus", 0.5, 0.5, _SOFTPLUS, Constants(1, 0.125, _LOG_2 / 2, 0.5)),
    )
}  # fmt: skip
"""By name; ``half_softplus`` is (z + log(1 + e^z)) / 2, of the example with five points."""


BLOCK = 1 << 15
"""Approximate number of pre-activations in a block, which stays in a core's cache."""
WIDEST = 2000
"""Largest number of neurons of a network: products over half of them stay within float64."""

Pull = Callable[[Array], Array]
"""From weights of the points (R, n) to Σ_i weight_i ∇_w f(w; x_i) · m, of shape (R, m, d)."""


class Networks:
    """Evaluates stacks of networks of one width m, at most `WIDEST`, on points (n, d)."""

    def __init__(self, points: Array, activation: Activation, width: int) -> None:
        if width > WIDEST:
            raise ValueError(f"a network has at most {WIDEST} neurons, not {width}")
        self.points, self.activation = np.ascontiguousarray(points), activation
        self.signs = output_signs(width)
        self._passes: dict[int, _SoftplusPass] = {}

    @property
    def runs_at_a_time(self) -> int:
        """Networks whose pre-activations fit into a block."""
        return max(1, BLOCK // (len(self.points) * len(self.signs)))

    def forward(self, weights: Array) -> tuple[Array, Pull]:
        """Return the outputs (R, n) of networks (R, m, d), and their `Pull`.

        Use the second before the next call, which overwrites its memory.
        """
        if not self.activation.softplus:
            return self._plain(weights)
        runs = len(weights)
        if runs not in self._passes:
            self._passes[runs] = _SoftplusPass(self.points, self.activation, self.signs, runs)
        passes = self._passes[runs]
        return passes.outputs(weights), passes.pull

    def _plain(self, weights: Array) -> tuple[Array, Pull]:
        inner = self.inner(weights)
        outputs: Array = self.signs @ self.activation.value(inner) / len(self.signs)
        slopes = self.activation.slope(inner)

        def pull(coefficients: Array) -> Array:
            pulled: Array = (slopes * coefficients[:, None, :]) @ self.points
            return self.signs[:, None] * pulled

        return outputs, pull

    def inner(self, weights: Array) -> Array:
        """Return the pre-activations (R, m, n)."""
        runs, width, dimensions = weights.shape
        product = weights.reshape(runs * width, dimensions) @ self.points.T
        return product.reshape(runs, width, len(self.points))


class _SoftplusPass:
    """Forward and backward pass of φ(z) = c z + q log(1 + e^z), in memory that is used again.

    With τ = tanh(z/2): φ' = c + q/2 + q τ/2, and log(1 + e^z) = (z + |z|)/2 + log 2 − log(1 + |τ|).
    So one tanh per element gives values and slopes. Sums of logarithms over neurons become
    logarithms of products. Terms linear in z are summed over neurons before the data come in.
    """

    def __init__(self, points: Array, activation: Activation, signs: Array, runs: int) -> None:
        self.points, self.half_points = points, np.ascontiguousarray(points.T) / 2
        self.linear = activation.linear + activation.softplus / 2
        self.softplus, self.signs = activation.softplus, signs
        shape = (runs, len(signs), len(points))
        self.half, self.tanh, self.work = np.empty(shape), np.empty(shape), np.empty(shape)

    def outputs(self, weights: Array) -> Array:
        runs, width, dimensions = weights.shape
        flat = self.half.reshape(runs * width, -1)
        np.matmul(weights.reshape(runs * width, dimensions), self.half_points, out=flat)
        np.tanh(self.half, out=self.tanh)
        np.abs(self.tanh, out=self.work)
        self.work += 1
        logs = np.log(
            np.multiply.reduce(self.work[:, 1::2], axis=1)
            / np.multiply.reduce(self.work[:, 0::2], axis=1)
        )
        np.abs(self.half, out=self.half)
        bent = self.signs @ self.half + logs + self.signs.sum() * np.log(2)
        straight = (self.signs @ weights) @ self.half_points * 2
        values: Array = (self.linear * straight + self.softplus * bent) / width
        return values

    def pull(self, coefficients: Array) -> Array:
        runs, width = self.tanh.shape[:2]
        scaled = (self.softplus / 2) * coefficients
        np.multiply(self.tanh, scaled[:, None, :], out=self.work)
        bent = self.work.reshape(runs * width, -1) @ self.points
        pulled: Array = bent.reshape(runs, width, -1)
        pulled += self.linear * (coefficients @ self.points)[:, None, :]
        pulled *= self.signs[:, None]
        return pulled
