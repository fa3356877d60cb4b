"""Thresholds of the risk between the phases, and the time to reach them, by the theory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mispair.stepsize.activations import Constants

BELOW_MARGIN = 1e-6
"""Relative amount by which bounds lower margins, which are exact only up to rounding errors."""


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
