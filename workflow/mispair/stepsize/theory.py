"""The theory of large stepsizes: thresholds of the risk, margins, and bounds.

Bounds are compared with measured runs as left side over right side, at most 1 where they hold.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from mispair.stepsize.data_sets import DataSet
from mispair.stepsize.networks import Constants

# The largest margin of a plane through the origin, with a certificate.

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


@dataclass(frozen=True)
class Thresholds:
    """Thresholds of one stepsize η.

    Attributes
    ----------
    stable : float
        1/(η R² (2 C² + B)): once the risk is below this, it never rises again.
    settled : float
        min{1/(2 n e^(κ+2)), 1/(η R² (4 C² + 2 B))}: below this the margin grows.
    """

    stable: float
    settled: float


def thresholds(constants: Constants, stepsize: float, radius: float, points: int) -> Thresholds:
    """Return both thresholds; R enters because not all data sets have points of norm 1 at most."""
    c, b = constants.slope, constants.curvature
    unit = stepsize * radius**2
    return Thresholds(
        1 / (unit * (2 * c * c + b)),
        min(1 / (2 * points * math.exp(constants.homogeneity + 2)),
            1 / (unit * (4 * c * c + 2 * b))),
    )  # fmt: skip


def transition_time(
    constants: Constants, stepsize: float, margin: float, points: int, start: float
) -> float:
    """Return τ, by which `Thresholds.settled` is reached on separable data.

    τ = 128 (1 + 4κ)/(α² γ²) · max{c₂ η, c₁ n, e, u log u, u ‖w₀‖/√m}, u = (c₂ η + c₁ n)/η,
    c₁ = 4 e^(κ+2), c₂ = 8 + 4 B. This is what the proof shows; the printed τ lacks γ² and has c₁
    and c₂ exchanged. η is the stepsize, γ the margin, n the points, and `start` ‖w₀‖/√m; α must be
    positive.
    """
    first = 4 * math.exp(constants.homogeneity + 2)
    second = 8 + 4 * constants.curvature
    together = second * stepsize + first * points
    ratio = together / stepsize
    largest = max(second * stepsize, first * points, math.e, ratio * math.log(ratio), ratio * start)
    factor = 128 * (1 + 4 * constants.homogeneity)
    return factor * largest / (constants.least_slope * margin) ** 2


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
