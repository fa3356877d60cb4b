"""The interval of a share from a stratified sample of a finite population."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv, ndtr

from mispair.core.distributions import Z95

FEW = 6
"""Labels of a stratum, on average, up to which the shares of strata are fitted too closely.

It was chosen by simulation (``python -m bench.review``): without a correction, intervals of 20 to
50 labels in ten strata cover in 88 to 92 of 100 draws.
"""

RARE = 3
"""Wrong labels, or right ones, up to which the nearer limit is that of a Poisson distribution."""

LOWEST, HIGHEST, HALVINGS = -14.0, 36.0, 60
"""Logarithms of the multipliers between which a limit is sought, and how often they are halved."""


class Share(NamedTuple):
    """A share with its limits; numbers for one sample, arrays for several."""

    estimate: Any
    low: Any
    high: Any


def interval(pairs: ArrayLike, labelled: ArrayLike, wrong: ArrayLike, z: float = Z95) -> Share:
    """Return the share of wrong ones in a population, from a random sample of each stratum.

    Parameters
    ----------
    pairs, labelled : (H,) arrays
        Members of each stratum (N_h), and how many of them are labelled (n_h).
    wrong : (..., H) array
        How many of those are wrong (y_h); several samples at once have further axes.
    z : float
        Normal quantile.

    Returns
    -------
    Share
        Numbers, or arrays of the leading axes of `wrong`. Without any label the estimate is NaN,
        and the interval [0, 1].

    Notes
    -----
    The estimate is θ̂ = Σ W_h y_h / n_h with W_h = N_h / N. Its limits are those θ that a score test
    does not reject: the two ends of (θ̂ - θ)² ≤ z² Σ W_h² p_h (1 - p_h) / m_h, where p_h are the
    most likely shares of the strata for which Σ W_h p_h = θ. By a multiplier λ, p_h is the root of

        λ W_h p² - (m_h + λ W_h) p + m_h y_h / n_h = 0        in [0, 1],

    with λ > 0 below the estimate and λ < 0 above it. m_h = f n_h (N_h - 1) / (N_h - n_h) is the
    effective number, which corrects for the finite stratum, and by f = 1 - min(1, 6 H / n)²
    (H - 1 / H) / n for shares of H strata that are fitted to n labels in all. Each end is found by
    `HALVINGS` halvings of log |λ| between `LOWEST` and `HIGHEST`. With one stratum this is Wilson's
    interval; it has a width where none is wrong.

    Wilson's interval covers too rarely where one to three wrong ones are found: its lower limit is
    too high. There the lower limit is at most that of a Poisson distribution, θ̂ λ / y with the
    quantile λ of χ² / 2 with 2 y degrees of freedom (Brown, Cai and DasGupta 2001, Statistical
    Science 16, 101), and so is the upper one where few are right. No limit contradicts the pairs
    that are labelled.

    A stratum without a label counts as all right in the lower limit and as all wrong in the upper
    one; the estimate is that of the other strata.

    Wilson 1927, JASA 22, 209; for strata: Yan and Su 2010, Statistics in Biopharmaceutical Research
    2, 273; for the constrained shares: Miettinen and Nurminen 1985, Statistics in Medicine 4, 213.

    Examples
    --------
    >>> [round(value, 4) for value in interval([10**9], [200], [0])]
    [0.0, 0.0, 0.0188]
    """
    every, taken = np.asarray(pairs, float), np.asarray(labelled, float)
    hits = np.asarray(wrong, float)
    sampled = taken > 0
    if not sampled.any():
        none = np.zeros(hits.shape[:-1])
        return _plain(none + np.nan, none, none + 1)
    part = every[sampled].sum() / every.sum()
    weight = every[sampled] / every[sampled].sum()
    n, y = taken[sampled], hits[..., sampled] / taken[sampled]
    left = every[sampled] - n
    free, number = max(float((left > 0).sum()), 1.0), max(float(n[left > 0].sum()), 1.0)
    fitted = min(1.0, FEW * free / number) ** 2 * (free - 1 / free) / number
    m = n * (1 - fitted) * (every[sampled] - 1) / np.maximum(left, 1e-9)
    m = np.where(left > 0, m, 1e12)
    estimate, found = y @ weight, hits[..., sampled].sum(axis=-1)
    low = np.minimum(_end(y, m, weight, estimate, 1.0, z), estimate * _rare(found, z))
    high = np.maximum(
        _end(y, m, weight, estimate, -1.0, z), 1 - (1 - estimate) * _rare(n.sum() - found, z)
    )
    low = np.maximum(low, found / every[sampled].sum())
    high = np.minimum(high, 1 - (n.sum() - found) / every[sampled].sum())
    return _plain(estimate, part * low, part * high + (1 - part))


def _rare(count: np.ndarray, z: float) -> np.ndarray:
    """Return the part of an estimate from a few labels that its limit has; 1 from more."""
    few = np.where((count > 0) & (count <= RARE), count, RARE)
    limit = gammaincinv(few, 2 * ndtr(-z)) / few
    return np.where((count > 0) & (count <= RARE), limit, 1.0)


def _plain(*shares: np.ndarray) -> Share:
    """Return numbers where there is one sample."""
    return Share(*(share if np.ndim(share) else float(share) for share in shares))


def _end(
    y: np.ndarray, m: np.ndarray, weight: np.ndarray, estimate: np.ndarray, sign: float, z: float
) -> np.ndarray:
    """Return the lower limit (sign 1) or the upper one (sign -1) of (..., H) samples."""
    low = np.full(estimate.shape, LOWEST)
    high = np.full(estimate.shape, HIGHEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        p = _shares(sign * np.exp(middle), y, m, weight)
        distance, variance = estimate - p @ weight, (p * (1 - p) / m) @ weight**2
        beyond = distance**2 > z**2 * variance + 1e-13
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.asarray(_shares(sign * np.exp(high), y, m, weight) @ weight)


def _shares(multiplier: np.ndarray, y: np.ndarray, m: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the most likely shares of the strata for a multiplier, (..., H)."""
    a = multiplier[..., None] * weight
    b = m + a
    root = np.sqrt(np.maximum(b**2 - 4 * a * m * y, 0.0))
    # Two forms of one root, each where it subtracts no nearly equal numbers.
    positive = 2 * m * y / np.where(b > 0, b + root, 1.0)
    negative = (b - root) / np.where(b > 0, 1.0, 2 * a)
    return np.clip(np.where(b > 0, positive, negative), 0.0, 1.0)
