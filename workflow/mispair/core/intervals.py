"""Confidence intervals, 95 % unless another z is given."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Row = dict[str, Any]

Z95 = 1.959963984540054
"""Quantile of the normal distribution that leaves 2.5 % on either side."""


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


def mean_of_shares(
    successes: np.ndarray, trials: np.ndarray, z: float = Z95
) -> tuple[float, float]:
    """Return an interval of the unweighted mean of independent shares, such as class recalls.

    The squared distances from each share to its Wilson limits are added, as variances are
    (the MOVER method; Zou and Donner 2008, Statistics in Medicine 27, 1693). With one share
    this is Wilson's interval; unlike the normal one it does not vanish at recalls of 0 or 1.

    Parameters
    ----------
    successes, trials : (k,) arrays
        Counts of each class, each with at least one trial.
    """
    low, high = wilson(successes, trials, z)
    values, count = successes / trials, len(trials)
    average = values.mean()
    return (
        float(average - np.sqrt(((values - low) ** 2).sum()) / count),
        float(average + np.sqrt(((high - values) ** 2).sum()) / count),
    )


def mean(values: np.ndarray, z: float = Z95) -> tuple[float, float]:
    """Return the normal interval of a mean, from the spread of the values."""
    half = z * np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(np.mean(values) - half), float(np.mean(values) + half)
