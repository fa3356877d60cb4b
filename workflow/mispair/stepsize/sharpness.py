"""The largest eigenvalue of the risk's Hessian, by its analytic action on vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.special import expit

from mispair.stepsize.activations import Activation
from mispair.stepsize.data_sets import DataSet, output_signs

Array = NDArray[np.float64]

DENSE = 120
"""Weights up to which all eigenvalues are computed; beyond, Lanczos finds the largest."""
TOLERANCE = 1e-4
"""Relative accuracy of Lanczos."""


class Hessian:
    """The Hessian of L at one network's weights (m, d).

    H v = (1/n) Σ_i [s_i (1 − s_i) J_i <J_i, v> + c_i], with s_i = σ(−q_i), J_i = ∇_w f(w; x_i), and
    row j of c_i = −s_i y_i (a_j/m) φ''(<w_j, x_i>) <x_i, v_j> x_i.
    """

    def __init__(self, data: DataSet, activation: Activation, weights: Array) -> None:
        width = len(weights)
        signs = output_signs(width) / width
        inner = weights @ data.points.T
        doubts = expit(-data.labels * (signs @ activation.value(inner)))
        self.points = data.points
        self.slopes = signs[:, None] * activation.slope(inner)  # J_i has rows slopes_ji x_i
        self.outer = doubts * (1 - doubts) / len(data.labels)
        bend = -doubts * data.labels / len(data.labels)
        self.bends = bend * signs[:, None] * activation.curvature(inner)
        self.shape = weights.shape

    def times(self, vector: Array) -> Array:
        """Return H v; both v and H v have m·d numbers."""
        along = vector.reshape(self.shape) @ self.points.T
        share = self.outer * (self.slopes * along).sum(axis=0)
        product: Array = (self.slopes * share + self.bends * along) @ self.points
        return product.ravel()

    def dense(self) -> Array:
        """Return H as a matrix."""
        width, dimensions = self.shape
        rows = (self.slopes[:, None, :] * self.points.T).reshape(width * dimensions, -1)
        hessian: Array = (rows * self.outer) @ rows.T
        blocks = np.einsum("ji,ik,il->jkl", self.bends, self.points, self.points)
        for j in range(width):
            block = slice(j * dimensions, (j + 1) * dimensions)
            hessian[block, block] += blocks[j]
        return hessian


def top_eigenvalue(data: DataSet, activation: Activation, weights: Array) -> float:
    """Return the largest eigenvalue, in the algebraic sense, of the Hessian at weights (m, d)."""
    hessian = Hessian(data, activation, weights)
    size = weights.size
    if size <= DENSE:
        return float(np.linalg.eigvalsh(hessian.dense())[-1])
    operator = LinearOperator((size, size), matvec=hessian.times, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)  # fixed: the same bytes each time
    values = eigsh(operator, k=1, which="LA", v0=start, tol=TOLERANCE, return_eigenvectors=False)
    return float(values[0])


def sharpness(data: DataSet, activation: Activation, weights: Array) -> Array:
    """Return the largest eigenvalue (R,) at each of the weights (R, m, d); NaN if not finite."""
    return np.array([
        top_eigenvalue(data, activation, weight) if np.isfinite(weight).all() else np.nan
        for weight in weights
    ])  # fmt: skip
