"""Two-layer networks with fixed output signs, many of one width side by side.

f(w; x) = (1/m) Σ_j a_j φ(<w_j, x>) with a_j = ±1 in turn; only the first layer w is trained. All
networks of a stack see the same data, so their forward passes are one product of matrices.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mispair.stepsize.activations import Activation
from mispair.stepsize.data_sets import output_signs

Array = NDArray[np.float64]

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
