"""The theory's bounds next to measured runs: each as left side over right side, at most 1."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mispair.stepsize.activations import Constants

Array = NDArray[np.float64]


def _largest(ratios: Array) -> float:
    return float(np.nanmax(ratios)) if np.isfinite(ratios).any() else math.nan


def rate_bounds(
    risk: Array, log_modified: float, settled: int, constants: Constants, stepsize: float,
    radius: float,
) -> tuple[float, float]:  # fmt: skip
    """Return how near the risk comes to the two sides of its rate 1/t after step s.

    The rate is 1/(1/L_s + 3 m η ρ² (t−s)) ≤ L_t ≤ 2/((t−s) m η g_c(w_s)²). The first result is the
    largest left over middle, at most 1. The second is the *logarithm* of the largest middle over
    right, at most 0, because g_c may be tiny.

    Parameters
    ----------
    risk : ndarray (T + 1,)
        Of one run.
    log_modified : float
        log(√m g_c) at step s, with the m of m η g_c².
    settled : int
        s, or −1 if the run never reaches it; both results are then NaN.
    """
    if settled < 0 or settled >= len(risk) - 1:
        return math.nan, math.nan
    after = np.arange(1, len(risk) - settled)
    curve = risk[settled + 1 :]
    grows = 3 * stepsize * (constants.slope * radius) ** 2
    below = 1 / (1 / risk[settled] + grows * after)
    with np.errstate(divide="ignore"):
        above = np.log(curve * after * stepsize / 2) + 2 * log_modified
    return _largest(below / curve), _largest(above)


def average_risk_bound(
    risk: Array, constants: Constants, stepsize: float, margin: float, start: float
) -> tuple[Array, Array]:
    """Return the average risk of the first t steps, and its bound, for t = 1, ..., T.

    The bound is [1 + 8 log²(γ² η t)/α² + 8 κ²/α² + η²]/(γ² η t) + ‖w₀‖²/(m η t); it is given (not
    NaN) where γ² η t ≥ 1, as its proof needs. The risk is (T + 1,), `start` is ‖w₀‖/√m, and α must
    be positive.
    """
    t = np.arange(1, len(risk))
    average = np.cumsum(risk[:-1]) / t
    time = margin**2 * stepsize * t
    alpha2 = constants.least_slope**2
    top = 1 + 8 * np.log(time) ** 2 / alpha2 + 8 * constants.homogeneity**2 / alpha2 + stepsize**2
    bound = top / time + start**2 / (stepsize * t)
    return average, np.where(time >= 1, bound, np.nan)


def average_potential_bound(
    potential: Array, along: Array, constants: Constants, stepsize: float, margin: float, width: int
) -> tuple[Array, Array]:
    """Return the average gradient potential of the first t steps, and its bound.

    The bound is (<w_t, W*> − <w_0, W*>)/(m α γ η t), where W* has the rows a_j w*.
    """
    t = np.arange(1, len(potential))
    average = np.cumsum(potential[:-1]) / t
    scale = width * constants.least_slope * margin * stepsize
    return average, (along[1:] - along[0]) / (scale * t)


def stable_bound_ratio(
    risk: Array, settled: int, constants: Constants, stepsize: float, margin: float
) -> float:
    """Return the largest L_t over its bound 2/(α² γ² η (t−s)) after step s; NaN if s is −1."""
    if settled < 0 or settled >= len(risk) - 1:
        return math.nan
    after = np.arange(1, len(risk) - settled)
    scale = (constants.least_slope * margin) ** 2 * stepsize / 2
    return _largest(risk[settled + 1 :] * after * scale)


def worst(left: Array, right: Array) -> float:
    """Return the largest left over right, NaN where no right side is given."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return _largest(left / right)
