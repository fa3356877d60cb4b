"""The tests behind the verdicts: trends over a sweep, paired differences, places among draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from mispair import seeds

PERMUTATIONS = 9_999
"""Random permutations of a trend test, where there are too many to go through all."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence limits; limits are NaN where there is nothing to tell."""

    value: float
    low: float
    high: float
    n: int

    @property
    def known(self) -> bool:
        """Whether there are limits."""
        return math.isfinite(self.low) and math.isfinite(self.high)


@dataclass(frozen=True)
class Trend:
    """A monotone trend: mean rank correlation within blocks, and one permutation p each way."""

    rho: float
    p_rise: float
    p_fall: float
    n: int
    blocks: int


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the mean of independent values with its t interval."""
    return stratified_interval([values], confidence)


def stratified_interval(strata: Sequence[Sequence[float]], confidence: float = 0.95) -> Interval:
    """Return the unweighted mean of the strata's means, with the t interval of fixed strata.

    The spread is pooled within strata, with ``sum(n_g - 1)`` degrees of freedom: a difference
    between strata (an effect that grows with C_s) is no noise. Missing values are left out.

    Parameters
    ----------
    strata : sequence of sequences of float
        Independent values of each stratum.
    confidence : float
        Probability that the interval holds the mean.

    Returns
    -------
    Interval
        ``n`` counts the values.

    Examples
    --------
    >>> stratified_interval([[1.0, 3.0]])
    Interval(value=2.0, low=-10.7..., high=14.7..., n=2)
    """
    groups = [np.asarray(group, dtype=float) for group in strata]
    groups = [group[np.isfinite(group)] for group in groups]
    groups = [group for group in groups if len(group)]
    count = sum(len(group) for group in groups)
    if not groups:
        return Interval(math.nan, math.nan, math.nan, 0)
    mean = float(np.mean([group.mean() for group in groups]))
    freedom = count - len(groups)
    if freedom < 1:
        return Interval(mean, math.nan, math.nan, count)
    variance = sum(((group - group.mean()) ** 2).sum() for group in groups) / freedom
    error = math.sqrt(variance * sum(1 / len(group) for group in groups)) / len(groups)
    half = float(stats.t.ppf((1 + confidence) / 2, freedom)) * error
    return Interval(mean, mean - half, mean + half, count)


def prediction_interval(draws: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the interval in which one more random draw would lie, from the spread of draws.

    ``mean ± t · s · sqrt(1 + 1/n)``: a strategy outside it is better or worse than chance.
    """
    values = np.asarray(draws, dtype=float)
    values = values[np.isfinite(values)]
    count = len(values)
    if count < 2:
        return Interval(float(values.mean()) if count else math.nan, math.nan, math.nan, count)
    half = float(stats.t.ppf((1 + confidence) / 2, count - 1))
    half *= float(values.std(ddof=1)) * math.sqrt(1 + 1 / count)
    return Interval(float(values.mean()), values.mean() - half, values.mean() + half, count)


def trend(x: Sequence[float], y: Sequence[float], blocks: Sequence[object] | None = None) -> Trend:
    """Test whether y rises or falls with x within blocks, by permutation.

    The statistic is the mean over blocks of Spearman's rank correlation. Under the null
    hypothesis the values of a block may be exchanged among its x; all such permutations are gone
    through where there are at most `PERMUTATIONS`, else as many random ones are drawn (from a
    fixed stream) and the observed one is counted in.

    Parameters
    ----------
    x, y : sequences of float
        Values; those with a missing y are left out.
    blocks : sequence, optional
        What belongs together: the seed, or the seed and the evaluation set.

    Returns
    -------
    Trend
        ``p_rise`` is the share of permutations that rise at least as much, ``p_fall`` the share
        that fall at least as much: a claim names its direction, and is tested in it. NaN
        without a block of at least three values.
    """
    names = [0] * len(x) if blocks is None else blocks
    grouped: dict[object, list[tuple[float, float]]] = {}
    for name, here, value in zip(names, x, y, strict=True):
        if math.isfinite(value) and math.isfinite(here):
            grouped.setdefault(name, []).append((float(here), float(value)))
    pairs = []
    for name in sorted(grouped, key=str):
        points = np.array(grouped[name])
        if len(points) >= 3 and len(np.unique(points[:, 0])) > 1:
            pairs.append((_unit_ranks(points[:, 0]), _unit_ranks(points[:, 1])))
    if not pairs:
        return Trend(math.nan, math.nan, math.nan, 0, 0)
    observed = float(np.mean([a @ b for a, b in pairs]))
    number = math.prod(math.factorial(len(a)) for a, _ in pairs)
    exact = number <= PERMUTATIONS
    null = np.fromiter(_exact(pairs) if exact else _random(pairs), dtype=float)
    own = 0 if exact else 1  # the observed order is one of all orders
    rising = int((null >= observed - 1e-9).sum()) + own
    falling = int((null <= observed + 1e-9).sum()) + own
    total = len(null) + own
    return Trend(
        observed, rising / total, falling / total, sum(len(a) for a, _ in pairs), len(pairs)
    )


def _unit_ranks(values: np.ndarray) -> np.ndarray:
    ranks = stats.rankdata(values) - (len(values) + 1) / 2
    norm = float(np.linalg.norm(ranks))
    return ranks / norm if norm else ranks


def _exact(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[float]:
    each = [[float(a @ np.array(b)) for b in itertools.permutations(b)] for a, b in pairs]
    return (sum(values) / len(pairs) for values in itertools.product(*each))


def _random(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[float]:
    draw = seeds.generator(0, "reporting", "trend")
    statistics = np.zeros(PERMUTATIONS)
    for a, b in pairs:
        statistics += draw.permuted(np.tile(b, (PERMUTATIONS, 1)), axis=1) @ a / len(pairs)
    return iter(statistics.tolist())
