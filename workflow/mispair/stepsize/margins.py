"""The four margins of a run: normalised, smoothed, auxiliary and modified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mispair.stepsize.activations import Constants

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Margins:
    """Margins at every step; NaN where a definition does not apply.

    Attributes
    ----------
    normalised : ndarray
        g = min_i q_i / ‖w‖.
    smoothed : ndarray
        g_a = −log L / ‖w‖.
    auxiliary : ndarray
        g_b = −log(2 n e^κ L) / ‖w‖, for 2 n e^κ L < 1.
    log_modified : ndarray
        log g_c = Φ(L) − log ‖w‖, Φ(x) = log(−log(2 n e^κ x)) + (1 + (4ρ² + 2β) m η)/log(2 n e^κ x):
        g_c itself is too small for a float where η is large.
    """

    normalised: Array
    smoothed: Array
    auxiliary: Array
    log_modified: Array


def margins(
    risk: Array, least: Array, norm: Array, constants: Constants, stepsize: float, radius: float,
    points: int,
) -> Margins:  # fmt: skip
    """Return the margins of one run from its logged curves (T + 1,).

    With ρ² = C² R²/m and β = B R²/m the width cancels from (4ρ² + 2β) m η.
    """
    bend = (4 * constants.slope**2 + 2 * constants.curvature) * radius**2 * stepsize
    with np.errstate(divide="ignore", invalid="ignore"):
        depth = np.log(2 * points) + constants.homogeneity + np.log(risk)  # log(2 n e^κ L)
        depth = np.where(depth < 0, depth, np.nan)
        size = np.where(norm > 0, norm, np.nan)
        return Margins(
            least / size,
            -np.log(risk) / size,
            -depth / size,
            np.log(-depth) + (1 + bend) / depth - np.log(size),
        )
