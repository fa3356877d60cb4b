"""Tails and quantiles of distributions, ranks, and a line through points.

They equal those of ``scipy.stats``, the lower binomial tail to rounding and all others bit by bit.
An import of that package takes 0.7 s of processor time, so they come from ``scipy.special``.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special


def t_quantile(share: float, freedom: float) -> float:
    """Return the quantile of Student's t; infinite degrees of freedom are the normal one."""
    return float(special.stdtrit(freedom, share))


def t_tail(value: float, freedom: float) -> float:
    """Return the probability that Student's t is larger than a value."""
    return float(special.stdtr(freedom, -value))


def normal_quantile(share: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return float(special.ndtri(share))


def normal_tail(value: float) -> float:
    """Return the probability that a standard normal number is larger than a value."""
    return float(special.ndtr(-value))


def gamma_quantile(share: float, shape: float) -> float:
    """Return the quantile of the gamma distribution of scale 1."""
    return float(special.gammaincinv(shape, share))


def binomial_at_least(count: int, n: int, share: float) -> float:
    """Return the probability of at least `count` successes in `n` trials."""
    return float(special.betainc(count, n - count + 1, share)) if count > 0 else 1.0


def binomial_at_most(count: int, n: int, share: float) -> float:
    """Return the probability of at most `count` successes in `n` trials."""
    return float(special.betainc(n - count, count + 1, 1 - share)) if count < n else 1.0


def ranks(values: ArrayLike) -> np.ndarray:
    """Return the rank of each value, from 1; equal values share the mean of their ranks."""
    _, position, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: np.ndarray = ((last - counts + 1 + last) / 2)[position]
    return mean


def rank_correlation(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    """Return Spearman's correlation and its two-sided p value, of n > 2 pairs not all equal.

    The p value is that of Student's t with n - 2 degrees of freedom.
    """
    freedom = len(a) - 2
    value = float(np.corrcoef(ranks(a), ranks(b))[1, 0])
    with np.errstate(divide="ignore"):
        t = value * np.sqrt(np.maximum(freedom / np.float64((value + 1.0) * (1.0 - value)), 0))
    return value, 2 * t_tail(abs(t), freedom)


def line(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Return the slope of the least-squares line with an intercept, and its standard error."""
    xx, xy, _, yy = np.cov(np.asarray(x), np.asarray(y), bias=True).flat
    correlation = xy / np.sqrt(xx * yy) if yy > 0 else 0.0
    left = max(1 - correlation**2, 0.0) * yy / xx / (len(np.asarray(x)) - 2)
    return float(xy / xx), float(np.sqrt(left))
