"""Exact silhouette with the cosine distance, without a distance matrix.

For vectors of length one the mean distance from x to a cluster is ``1 - <x, m>``, with m the
mean of the cluster's vectors. So all mean distances are one product with the K means: the score
takes O(n K d) operations instead of O(n^2 d), and memory for the means and one block of rows.
"""

from __future__ import annotations

import numpy as np

ROUNDING = 1e-12
"""Distances below this are those of identical directions."""

BLOCK_ENTRIES = 1 << 18
"""Entries of the largest temporary matrix: two megabytes, which stay in the cache."""


class CosineSilhouette:
    """Silhouettes of one set of labels, for any number of representations of its samples.

    Sums over clusters are fastest if the samples of each cluster are adjacent.

    Parameters
    ----------
    labels : (n,) int array
        Cluster of each sample. Clusters without a sample are ignored.

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
                f"a silhouette needs 2 to n - 1 classes with images; there are "
                f"{len(self._counts)} classes and n = {len(self._cluster)} images"
            )
        order = np.argsort(self._cluster, kind="stable")
        self._members = [
            _as_slice(members) for members in np.split(order, np.cumsum(self._counts)[:-1])
        ]

    def samples(self, features: np.ndarray, squares: np.ndarray | None = None) -> np.ndarray:
        """Return the silhouette of every sample, as scikit-learn defines it.

        With a the mean distance to the other samples of its own cluster and b the smallest mean
        distance to another cluster, ``(b - a) / max(a, b)``; 0 for the only sample of a cluster
        and where a and b are both 0.

        Parameters
        ----------
        features : (n, d) array
            Rows of any length; a row of zeros has distance 1 to all others, as in scikit-learn.
        squares : (n,) array, optional
            Squared lengths of the rows, if they are known already.

        Returns
        -------
        (n,) float64 array
            Values in [-1, 1], computed in double precision.
        """
        if squares is None:
            squares = np.einsum("ij,ij->i", features, features, dtype=np.float64)
        inverse = np.zeros(len(features))
        np.divide(1.0, np.sqrt(squares), out=inverse, where=squares > 0)
        means = np.empty((len(self._counts), features.shape[1]))
        for mean, members, count in zip(means, self._members, self._counts, strict=True):
            np.matmul(inverse[members] / count, _double(features[members]), out=mean)
        scores = np.empty(len(features))
        block = max(1, BLOCK_ENTRIES // max(means.shape))
        for start in range(0, len(features), block):
            rows = slice(start, start + block)
            products = _double(features[rows]) @ means.T
            scores[rows] = self._scores(products, self._cluster[rows], inverse[rows])
        return scores

    def _scores(self, products: np.ndarray, cluster: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        """Turn products of rows with the cluster means (m, K), overwritten, into scores (m,).

        Rows have the length ``1 / inverse``, or 0 where `inverse` is 0.
        """
        rows = np.arange(len(cluster))
        size = self._counts[cluster]
        # The mean over the own cluster includes the sample's distance to itself: 0 for a unit
        # vector, but 1 by the formula for a row of zeros.
        inside = size * (1 - inverse * products[rows, cluster]) - (inverse == 0)
        inside /= np.maximum(size - 1, 1)
        products[rows, cluster] = -np.inf
        nearest = products.argmax(axis=1)  # several times as fast as max
        outside = 1 - inverse * products[rows, nearest]
        inside = np.where(inside < ROUNDING, 0.0, inside)
        outside = np.where(outside < ROUNDING, 0.0, outside)
        largest = np.maximum(inside, outside)
        scores = np.zeros_like(largest)
        np.divide(outside - inside, largest, out=scores, where=(largest > 0) & (size > 1))
        return scores


def _as_slice(rows: np.ndarray) -> slice | np.ndarray:
    """Return ascending row numbers without a gap as a slice, which selects them without a copy."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first == len(rows) - 1 else rows


def _double(rows: np.ndarray) -> np.ndarray:
    return rows.astype(np.float64, copy=False)


def silhouette_samples(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cosine silhouette of every sample; see `CosineSilhouette`."""
    return CosineSilhouette(labels).samples(features)
