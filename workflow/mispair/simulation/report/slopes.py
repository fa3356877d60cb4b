"""How a measure changes with the number of features d: slopes of its logarithm on log d.

An order such as Θ(1/d) names no constant, so one d cannot contradict it. The slope over
several d can: it is -1 for Θ(1/d), 0 for Θ(1), and negative for o(1) wherever that is a power of d.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mispair.report.statistics import Effect, effect_of_estimate

FEWEST = 3
"""Fewest d that a slope needs: two points are always on a line."""


@dataclass(frozen=True)
class Slope:
    """A fitted power law.

    Attributes
    ----------
    effect : Effect
        The slope with its intervals, from the spread over trials at each d.
    means : dict of int to float
        The mean over trials by d.
    bounds : frozenset of int
        d at which nothing was counted in any trial; the mean there is an upper bound.
    departure : float
        Largest factor between a mean and the fitted line: 1 on a power law.
    """

    effect: Effect
    means: dict[int, float]
    bounds: frozenset[int]
    departure: float


def slope(
    values: Mapping[int, Sequence[float]],
    confidence: float,
    counted: Mapping[int, float] | None = None,
) -> Slope | None:
    r"""Fit log(mean over trials) = a + b log d by least squares.

    With :math:`x_d = \log d` minus its mean and :math:`c_d = x_d / \sum x^2` the slope is
    :math:`\sum c_d \log m_d`. Trials at each d are independent, and :math:`\log m_d` has the
    variance :math:`s_d^2 / (n_d m_d^2)` (delta method); degrees of freedom are those of
    Satterthwaite. The interval covers only the spread of the means; their distance from a power
    law is `Slope.departure`.

    Parameters
    ----------
    values : mapping of int to sequence of float
        By d, one number at least 0 for each trial.
    confidence : float
        1 - α.
    counted : mapping of int to float, optional
        By d, the number of cases behind a trial's share. Where all shares are 0, the mean is
        replaced by the upper 95 % limit 3 / (cases in all trials), or without it d is left out.

    Returns
    -------
    Slope or None
        None with fewer than `FEWEST` values of d.
    """
    means, variances, freedom, bounds = {}, {}, {}, set()
    for d, replicates in sorted(values.items()):
        observed = np.asarray(replicates, dtype=float)
        observed = observed[np.isfinite(observed)]
        if len(observed) < 2:
            continue
        mean = float(observed.mean())
        cases = (counted or {}).get(d, math.nan) * len(observed)
        if mean > 0:
            means[d] = mean
            variances[d] = float(observed.var(ddof=1)) / (len(observed) * mean**2)
        elif math.isfinite(cases):
            means[d], variances[d] = 3 / cases, 0.0
            bounds.add(d)
        else:
            continue
        freedom[d] = len(observed) - 1
    if len(means) < FEWEST:
        return None
    x = np.log(list(means))
    x -= x.mean()
    weights = x / (x @ x)
    y = np.log(list(means.values()))
    value = float(weights @ y)
    line = y.mean() + value * x
    departure = float(np.exp(np.abs(y - line).max()))
    parts = weights**2 * np.array(list(variances.values()))
    trials = min(freedom.values()) + 1
    error, degrees = math.sqrt(parts.sum()), 0.0
    if error > 0:
        degrees = parts.sum() ** 2 / (parts**2 / np.array(list(freedom.values()))).sum()
    effect = effect_of_estimate(value, error, degrees, trials, confidence, "trial")
    return Slope(effect, means, frozenset(bounds), departure)
