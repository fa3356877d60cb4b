"""How much the activations of neurons overlap: correlations in the metric of the features.

The activation of neuron j is ``x · v_j`` with x the feature before the projection and v_j a column
of it. The correlation of two activations is the cosine of the columns in the metric of the
covariance C of the features: ``v_i' C v_j / sqrt(v_i' C v_i · v_j' C v_j)``. The plain cosine
also measures directions in which features do not vary. The remainder of a random start in those
directions changes the cosine, but no activation.
"""

from __future__ import annotations

import numpy as np

DEFINITION = (
    "The mean |correlation| of activations is the mean over pairs of neurons of the absolute "
    "Pearson correlation of x·vᵢ and x·vⱼ over the features x of the corpus (of distinct images "
    "or captions) before the projection."
)
"""The measure in words, for readers of the report."""


class Covariance:
    """Covariance of vectors, from one pass over blocks of them.

    Parameters
    ----------
    width : int
        Length d of the vectors.
    """

    def __init__(self, width: int) -> None:
        self.size = 0
        self._mean, self._products = np.zeros(width), np.zeros((width, width))

    def add(self, block: np.ndarray) -> None:
        """Add a block of vectors (m, d).

        Sums of two samples are combined as by Chan, Golub and LeVeque (1983, The American
        Statistician 37, 242), which loses no digits to large means.
        """
        rows = np.asarray(block, np.float64)
        mean, total = rows.mean(axis=0), self.size + len(rows)
        deviations, shift = rows - mean, mean - self._mean
        self._products += deviations.T @ deviations
        self._products += np.outer(shift, shift) * (self.size * len(rows) / total)
        self._mean += shift * (len(rows) / total)
        self.size = total

    def matrix(self) -> np.ndarray:
        """Return the covariance (d, d), divided by the number of vectors.

        Raises
        ------
        ValueError
            If there are fewer than two vectors.
        """
        if self.size < 2:
            raise ValueError(f"{self.size} vectors have no covariance")
        return self._products / self.size


def mean_abs_correlation(projection: np.ndarray, covariance: np.ndarray) -> float:
    """Return the mean absolute correlation of the activations of different neurons.

    The projection (d, e) has a neuron in each column; the covariance (d, d) is that of the features
    before it.

    Raises
    ------
    ValueError
        If widths do not match, or an activation does not vary.
    """
    if covariance.shape != (len(projection),) * 2:
        raise ValueError(
            f"the covariance is of {len(covariance)} features, the projection has {len(projection)}"
        )
    columns = np.asarray(projection, np.float64)
    products = columns.T @ covariance @ columns
    variance = np.diag(products)
    if not (variance > 0).all():
        raise ValueError(f"the activation of neuron {int(np.argmin(variance))} does not vary")
    deviation = np.sqrt(variance)
    correlations = np.abs(products / deviation / deviation[:, None])
    neurons = len(correlations)
    return float((correlations.sum() - neurons) / (neurons * (neurons - 1)))
