"""Searches among the rotations of whitened components: varimax and independent components.

See `mispair.evaluation.identified_basis` for their purpose.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

import numpy as np

ITERATIONS = 500
"""Most iterations of a search."""


Rotation = tuple[np.ndarray, bool]
"""An orthogonal (K, K) matrix, and whether the search ended before `ITERATIONS`.

Whitened components times the matrix are the rotated components.
"""


def varimax(
    scores: np.ndarray, start: np.ndarray, tolerance: float = 1e-6, most: int = ITERATIONS
) -> Rotation:
    """Rotate components until the variances of their squares have the largest sum.

    Parameters
    ----------
    scores : (n, K) array
        Centred components at variance one.
    start : (K, K) array
        Orthogonal matrix from which the search starts. Searches that identify nothing agree only
        by chance if their matrices are independent.
    tolerance : float
        The search ends when an iteration raises the sum of singular values by a smaller share.
    most : int
        Largest number of iterations.

    Notes
    -----
    An iteration takes the orthogonal polar factor of the gradient ``Z' (Y^3 - Y diag(mean Y^2))``
    with ``Y = Z R``, as R's ``stats::varimax`` does (Jennrich 2001, Psychometrika 66, 289). Rows
    are not normalised.
    """
    rotation, before = start, 0.0
    for _ in range(most):
        rotated = scores @ rotation
        squares = rotated**2
        gradient = scores.T @ (rotated * (squares - squares.mean(axis=0))) / len(scores)
        left, values, right = np.linalg.svd(gradient)
        rotation, total = left @ right, float(values.sum())
        if total <= before * (1 + tolerance):
            return rotation, True
        before = total
    return rotation, False


def ica(
    scores: np.ndarray, start: np.ndarray, tolerance: float = 1e-3, most: int = ITERATIONS
) -> Rotation:
    """Rotate components until they are as independent as possible by FastICA's contrast.

    Parameters and result are those of `varimax`; an iteration ends the search if it turns no
    component by more than ``1 - |cos| < tolerance``.
    """
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    search = FastICA(
        algorithm="parallel", whiten=False, fun="logcosh", w_init=start.T, tol=tolerance,
        max_iter=most,
    )  # fmt: skip
    with warnings.catch_warnings():
        # The result states whether it converged.
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(scores)
    return search.components_.T, int(search.n_iter_) < most


SEARCHES: Mapping[str, Callable[[np.ndarray, np.ndarray], Rotation]] = {
    "varimax": varimax,
    "ica": ica,
}
"""The searches by name."""
