"""The largest margin of a plane through the origin, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from mispair.stepsize.data_sets import DataSet

Array = NDArray[np.float64]

SUM_WEIGHT = 1e4
"""Weight of the row that keeps the multipliers' sum at 1."""
LARGEST = 1_000_000
"""Most numbers in the points of a data set that is searched for a plane: more takes hours."""


@dataclass(frozen=True)
class Separation:
    """A unit vector w* and the margin γ that every labelled point has along it."""

    direction: Array
    margin: float


def separation(data: DataSet) -> Separation | None:
    """Return the plane of largest margin through the origin, or None if no plane separates.

    Its normal is the shortest convex combination of the labelled points y_i x_i (the dual
    problem), by non-negative least squares. ``margin`` is the certificate min_i y_i <x_i, w*>
    itself, which is at most the largest margin, so bounds that use it hold. Data sets of more than
    `LARGEST` numbers are not searched.
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
    direction = shortest / length
    margin = float((signed @ direction).min())
    return Separation(direction, margin) if margin > 0 else None
