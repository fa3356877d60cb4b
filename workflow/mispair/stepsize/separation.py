"""The largest margin of a plane through the origin, with a certificate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from mispair.stepsize.data_sets import DataSet

Array = NDArray[np.float64]

SUM_WEIGHT = 1e4
"""Weight of the row that keeps the multipliers' sum at 1."""
LARGEST = 1_000_000
"""Most numbers in the points of a data set that is searched for a plane: more takes hours."""


def separation(data: DataSet) -> Array | None:
    """Return the unit normal w* (d,) of the plane of largest margin through the origin.

    It is the shortest convex combination of the labelled points y_i x_i (the dual problem), by
    non-negative least squares. The margin min_i y_i <x_i, w*> is positive, and at most the largest
    one, so bounds that use it hold. The result is None if no plane separates the points, and for
    data sets of more than `LARGEST` numbers, which are not searched.
    """
    if data.points.size > LARGEST:
        return None
    signed = data.points * data.labels[:, None]
    system = np.vstack([signed.T, np.full(len(signed), SUM_WEIGHT)])
    target = np.append(np.zeros(signed.shape[1]), SUM_WEIGHT)
    try:
        multipliers, _ = nnls(system, target)
    except RuntimeError:  # no solution within its iterations
        return None
    shortest = signed.T @ (multipliers / multipliers.sum())
    length = np.linalg.norm(shortest)
    if length == 0:
        return None
    direction: Array = shortest / length
    return direction if (signed @ direction).min() > 0 else None
