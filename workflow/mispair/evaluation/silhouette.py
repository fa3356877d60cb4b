"""Exact silhouette with the cosine distance, without a distance matrix.

For vectors of length one the mean distance from x to a cluster is ``1 - <x, m>``, with m the
mean of the cluster's vectors. So all mean distances are one product with the K means: the
score costs O(n K d) instead of O(n^2 d), and memory of one block of rows.
"""

from __future__ import annotations

import numpy as np

ROUNDING = 1e-12
"""Distances below this are those of identical directions."""

BLOCK_ENTRIES = 1 << 18
"""Entries of the largest temporary matrix: two megabytes, which stay in the cache."""


class CosineSilhouette:
    """Silhouettes of one set of labels, for any number of representations of its samples.

    Parameters
    ----------
    labels : (n,) int array
        Cluster of each sample. Clusters without a sample play no part.

    Raises
    ------
    ValueError
        If there are not 2 to n - 1 clusters with samples: the score is not defined.
    """

    def __init__(self, labels: np.ndarray) -> None:
        _, self._cluster, self._counts = np.unique(
            np.asarray(labels), return_inverse=True, return_counts=True
        )
        if not 2 <= len(self._counts) < len(self._cluster):
            raise ValueError(
                f"a silhouette needs 2 to n - 1 classes with images; here are "
                f"{len(self._counts)} classes and n = {len(self._cluster)} images"
            )
        # Samples of a cluster side by side: its sum is one run over consecutive rows.
        self._order = np.argsort(self._cluster, kind="stable")
        self._starts = np.concatenate([[0], np.cumsum(self._counts)[:-1]])

    def samples(self, features: np.ndarray) -> np.ndarray:
        """Return the silhouette of every sample, as scikit-learn defines it.

        With a the mean distance to the other samples of its own cluster and b the smallest mean
        distance to another cluster, ``(b - a) / max(a, b)``; 0 for the only sample of a cluster
        and where a and b are both 0.

        Parameters
        ----------
        features : (n, d) array
            Any length of row; a row of zeros has distance 1 to all others, as in scikit-learn.

        Returns
        -------
        (n,) float64 array
            Values in [-1, 1].
        """
        features = np.asarray(features, dtype=np.float64)
        squares = np.einsum("ij,ij->i", features, features)
        inverse = np.zeros_like(squares)
        np.divide(1.0, np.sqrt(squares), out=inverse, where=squares > 0)
        unit = features[self._order]
        unit *= inverse[self._order, None]
        means = np.add.reduceat(unit, self._starts, axis=0) / self._counts[:, None]
        scores = np.empty(len(unit))
        block = max(1, BLOCK_ENTRIES // len(means))
        for start in range(0, len(unit), block):
            rows = slice(start, min(start + block, len(unit)))
            own = self._cluster[self._order[rows]]
            is_zero = squares[self._order[rows]] == 0
            scores[rows] = self._scores(unit[rows] @ means.T, own, is_zero)
        result = np.empty_like(scores)
        result[self._order] = scores
        return result

    def _scores(self, products: np.ndarray, own: np.ndarray, is_zero: np.ndarray) -> np.ndarray:
        """Turn products with the cluster means (m, K), which it overwrites, into scores (m,)."""
        rows = np.arange(len(own))
        size = self._counts[own]
        # The mean over the own cluster holds the sample's distance to itself: 0 of a unit vector,
        # but 1 by the formula for a row of zeros.
        inside = (size * (1 - products[rows, own]) - is_zero) / np.maximum(size - 1, 1)
        products[rows, own] = -np.inf
        outside = 1 - products.max(axis=1)
        inside = np.where(inside < ROUNDING, 0.0, inside)
        outside = np.where(outside < ROUNDING, 0.0, outside)
        largest = np.maximum(inside, outside)
        scores = np.zeros_like(largest)
        np.divide(outside - inside, largest, out=scores, where=(largest > 0) & (size > 1))
        return scores


def silhouette_samples(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cosine silhouette of every sample; see `CosineSilhouette`."""
    return CosineSilhouette(labels).samples(features)
