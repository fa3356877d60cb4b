"""Tails and quantiles of distributions, ranks, a line through points, and intervals.

Tails, quantiles, ranks and lines equal those of ``scipy.stats``, the lower binomial tail to
rounding and all others bit by bit. An import of that package takes 0.7 s of processor time, so
they come from ``scipy.special``, which takes 0.2 s where it is needed.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def _special() -> Any:
    from scipy import special

    return special


def t_quantile(share: float, freedom: float) -> float:
    """Return the quantile of Student's t; infinite degrees of freedom are the normal one."""
    return float(_special().stdtrit(freedom, share))


def t_tail(value: float, freedom: float) -> float:
    """Return the probability that Student's t is larger than a value."""
    return float(_special().stdtr(freedom, -value))


def normal_quantile(share: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return float(_special().ndtri(share))


def normal_tail(value: float) -> float:
    """Return the probability that a standard normal number is larger than a value."""
    return float(_special().ndtr(-value))


def gamma_quantile(share: float, shape: float) -> float:
    """Return the quantile of the gamma distribution of scale 1."""
    return float(_special().gammaincinv(shape, share))


def binomial_at_least(count: int, n: int, share: float) -> float:
    """Return the probability of at least `count` successes in `n` trials."""
    return float(_special().betainc(count, n - count + 1, share)) if count > 0 else 1.0


def binomial_at_most(count: int, n: int, share: float) -> float:
    """Return the probability of at most `count` successes in `n` trials."""
    return float(_special().betainc(n - count, count + 1, 1 - share)) if count < n else 1.0


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


# Confidence intervals, 95 % unless another z is given, and limits.

Row = dict[str, Any]

Z95 = 1.959963984540054
"""Quantile of the normal distribution that leaves 2.5 % on either side."""


def lower_limit(value: float, error: float) -> float:
    """Return the one-sided limit of an estimate with a standard error, at a level of 5 %."""
    return value - 1.645 * error


def wilson(
    successes: ArrayLike, trials: ArrayLike, z: float = Z95
) -> tuple[np.ndarray, np.ndarray]:
    """Return Wilson's score interval of a share (Wilson 1927, JASA 22, 209).

    Parameters
    ----------
    successes, trials : array_like
        Counts; where there is no trial, the interval is [0, 1].
    z : float
        Normal quantile.

    Returns
    -------
    low, high : arrays
        Limits in [0, 1], which hold the observed share.
    """
    successes, trials = np.broadcast_arrays(
        np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    )
    n = np.maximum(trials, 1)
    share = successes / n
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # At shares of 0 and 1 a limit is the share itself; rounding must not pass it.
    low = np.where(trials > 0, np.minimum(np.maximum(centre - half, 0.0), share), 0.0)
    high = np.where(trials > 0, np.maximum(np.minimum(centre + half, 1.0), share), 1.0)
    return low, high


def share_row(metric: str, hits: int, n: int, chance: float) -> Row:
    """Return the row of a share of n with Wilson's interval and its value by chance."""
    low, high = wilson(hits, n)
    interval = {"low": low.item(), "high": high.item()}
    return {"metric": metric, "value": hits / n, "n": n, **interval, "chance": chance}


def mean_of_shares(successes: np.ndarray, trials: np.ndarray) -> tuple[float, float]:
    """Return an interval of the unweighted mean of independent shares, such as class recalls.

    The squared distances from each share to its Wilson limits are added, as variances are
    (the MOVER method; Zou and Donner 2008, Statistics in Medicine 27, 1693). With one share
    this is Wilson's interval; unlike the normal one it does not vanish at recalls of 0 or 1.

    Parameters
    ----------
    successes, trials : (k,) arrays
        Counts of each class, each with at least one trial.
    """
    low, high = wilson(successes, trials)
    values, count = successes / trials, len(trials)
    average = values.mean()
    return (
        float(average - np.sqrt(((values - low) ** 2).sum()) / count),
        float(average + np.sqrt(((high - values) ** 2).sum()) / count),
    )


def interval_of_mean(values: np.ndarray) -> tuple[float, float]:
    """Return the normal interval of a mean, from the spread of the values."""
    half = Z95 * np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(np.mean(values) - half), float(np.mean(values) + half)
