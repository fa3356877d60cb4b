"""Statistics of the verdicts: effects with intervals, trends over a sweep, random draws."""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mispair.core import distributions, seeds
from mispair.core.words import count

IMAGE_AND_SEED = "image and seed"
"""The unit of an effect over images and seeds, both of which are drawn at random."""

FEW = 30
"""Fewer degrees of freedom of an effect over images and seeds are printed: seeds decide it."""

PERMUTATIONS = 9_999
"""Random permutations of a trend test, where there are too many to go through all."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence limits, which may be NaN."""

    value: float
    low: float
    high: float
    n: int

    @property
    def known(self) -> bool:
        """Whether there are limits."""
        return math.isfinite(self.low) and math.isfinite(self.high)


@dataclass(frozen=True)
class Effect:
    """A number that a claim is about, with its uncertainty over independent replicates.

    Attributes
    ----------
    value : float
        The estimate, in the unit of the measure.
    error : float
        Its standard error; NaN where the replicates cannot give one. With ``fisher`` that of the
        inverse hyperbolic tangent of the value.
    freedom : float
        Degrees of freedom of t; infinite for the normal distribution.
    p : float
        Two-sided p value against zero; NaN without a test.
    n : int
        Number of independent replicates.
    unit : str
        What a replicate is: "trial", "seed", "neuron", "image and seed", "model".
    confidence : float
        1 − α of the interval from `low` to `high`.
    fisher : bool
        Whether the limits are symmetric on Fisher's scale, as those of correlations.
    error_above : float
        Standard error of the upper limit, if it differs; NaN otherwise.
    seeds : int
        Number of seeds, if the unit is `IMAGE_AND_SEED` and it is known.
    """

    value: float
    error: float
    freedom: float
    p: float
    n: int
    unit: str
    confidence: float = 0.95
    fisher: bool = False
    error_above: float = math.nan
    seeds: int = 0

    def limits(self, tail: float) -> tuple[float, float]:
        """Return two one-sided limits, each of which errs with the probability `tail`."""
        if not math.isfinite(self.error):
            return math.nan, math.nan
        quantile = distributions.t_quantile(1 - tail, self.freedom)
        below = quantile * self.error
        above = quantile * (self.error_above if math.isfinite(self.error_above) else self.error)
        if self.fisher:
            middle = math.atanh(self.value)
            return math.tanh(middle - below), math.tanh(middle + above)
        return self.value - below, self.value + above

    @functools.cached_property
    def _outer(self) -> tuple[float, float]:
        return self.limits((1 - self.confidence) / 2)

    @property
    def low(self) -> float:
        """Lower end of the two-sided interval at 1 − α."""
        return self._outer[0]

    @property
    def high(self) -> float:
        """Upper end of the two-sided interval at 1 − α."""
        return self._outer[1]

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return math.isfinite(self.value) and math.isfinite(self.error)

    @property
    def replicates(self) -> str:
        """The number of replicates with their unit, and few degrees of freedom."""
        if self.unit == IMAGE_AND_SEED:
            few = self.known and self.freedom < FEW
            of_t = f" ({self.freedom:.1f} degrees of freedom)" if few else ""
            seeds = count(self.seeds, "seed") if self.seeds else "their seeds"
            return f"{count(self.n, 'image')} and {seeds}{of_t}"
        plural = f"{self.unit[:-2]}es" if self.unit.endswith("is") else None
        return count(self.n, self.unit, plural)


@dataclass(frozen=True)
class TrendTest:
    """A monotone trend: mean rank correlation within blocks, and one permutation p each way."""

    rho: float
    p_rise: float
    p_fall: float
    n: int
    blocks: int

    @property
    def p(self) -> float:
        """The two-sided p value: twice the smaller of the two, at most 1."""
        return min(1.0, 2 * min(self.p_rise, self.p_fall))


def unknown_effect(value: float, n: int, unit: str) -> Effect:
    """Return an effect without an interval."""
    return Effect(value, math.nan, math.nan, math.nan, n, unit)


def effect_of_mean(
    values: Sequence[float], confidence: float, unit: str, resolution: float = 0.0
) -> Effect:
    """Return the mean of independent replicates, with t intervals and the t test against zero.

    Parameters
    ----------
    values : sequence of float
        One number for each replicate; missing ones are left out.
    confidence : float
        1 − α: probability that the interval holds the mean.
    unit : str
        What a replicate is, such as "trial".
    resolution : float
        The smallest difference that a value can show, such as 1 of a count. The standard deviation
        is taken to be at least that of rounding to it, ``resolution / sqrt(12)``.

    Returns
    -------
    Effect
        Without an interval if there are fewer than two replicates, or if all are equal and no
        resolution is given: equal replicates do not measure their spread.

    Examples
    --------
    >>> effect_of_mean([1.0, 3.0], 0.95, "trial")
    Effect(value=2.0, error=1.0, freedom=1, p=0.29..., n=2, unit='trial', ...)
    """
    kept = np.asarray(values, dtype=float)
    kept = kept[np.isfinite(kept)]
    number = len(kept)
    if number == 0:
        return unknown_effect(math.nan, 0, unit)
    mean = float(kept.mean())
    if number < 2:
        return unknown_effect(mean, number, unit)
    deviation = max(float(kept.std(ddof=1)), resolution / math.sqrt(12))
    if deviation <= 1e-12 * float(np.abs(kept).max()):  # equal up to rounding
        return unknown_effect(mean, number, unit)
    error = deviation / math.sqrt(number)
    return effect_of_estimate(mean, error, number - 1, number, confidence, unit)


def effect_of_estimate(
    value: float, error: float, freedom: float, n: int, confidence: float, unit: str
) -> Effect:
    """Return the effect of an estimate with its standard error and degrees of freedom."""
    if not (math.isfinite(error) and error > 0 and freedom > 0):
        return unknown_effect(value, n, unit)
    p = 2 * distributions.t_tail(abs(value) / error, freedom)
    return Effect(value, error, freedom, p, n, unit, confidence)


def effect_of_comparison(row: pd.Series, confidence: float) -> Effect:
    """Return the effect in a row of a comparison of arms, over images and seeds."""
    effect = effect_of_estimate(
        float(row["value"]), float(row["error"]), float(row["freedom"]), int(row["n"]),
        confidence, IMAGE_AND_SEED,
    )  # fmt: skip
    return replace(effect, seeds=int(row["seeds"]) if row["seeds"] > 0 else 0)


def effect_of_interval(
    value: float, low: float, high: float, n: int, unit: str, confidence: float = 0.95
) -> Effect:
    """Return the effect of an estimate with a given interval, which may be asymmetric.

    Each side is taken as normal, so that other levels have limits as well.
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return unknown_effect(value, n, unit)
    quantile = distributions.normal_quantile((1 + confidence) / 2)
    below, above = (max(side, 1e-12) / quantile for side in (value - low, high - value))
    p = 2 * distributions.normal_tail(abs(value) / (below if value > 0 else above))
    return Effect(value, below, math.inf, p, n, unit, confidence, error_above=above)


def trial_means(values: pd.Series) -> list[float]:
    """Return the mean over C_s of each trial: its values at different C_s are not independent.

    Only trials that were measured at the most values of C_s count: a mean over fewer values would
    mix an effect of C_s into the spread of trials.

    Parameters
    ----------
    values : Series
        Indexed by levels ``spurious_probability`` and ``trial``; missing values are left out.
    """
    grouped = values.dropna().groupby(level="trial")
    if not len(grouped):
        return []
    sizes = grouped.size()
    means = grouped.mean()[sizes == sizes.max()]
    return [float(mean) for mean in means]


def contrasts(series: pd.DataFrame, confidence: float, unit: str = "seed") -> dict[float, Effect]:
    """Return, for each rate above the lowest, the value there − at the lowest, paired by seed.

    Parameters
    ----------
    series : DataFrame
        Columns ``rate``, ``seed`` and ``value``, one row each.
    confidence : float
        1 − α.
    unit : str
        What a seed is a replicate of.
    """
    wide = series.dropna(subset=["rate", "value"]).pivot_table(
        index="seed", columns="rate", values="value"
    )
    lowest, *higher = wide.columns if len(wide.columns) else (math.nan,)
    return {
        float(rate): effect_of_mean((wide[rate] - wide[lowest]).tolist(), confidence, unit)
        for rate in higher
    }


def contrast(series: pd.DataFrame, confidence: float, unit: str = "seed") -> Effect:
    """Return the value at the largest rate − at the lowest, paired by seed: see `contrasts`."""
    by_rate = contrasts(series, confidence, unit)
    return by_rate[max(by_rate)] if by_rate else unknown_effect(math.nan, 0, unit)


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return the mean of independent values with its t interval: see `effect_of_mean`.

    Examples
    --------
    >>> mean_interval([1.0, 3.0])
    Interval(value=2.0, low=-10.7..., high=14.7..., n=2)
    """
    effect = effect_of_mean(values, confidence, "value")
    return Interval(effect.value, effect.low, effect.high, effect.n)


def trend(
    x: Sequence[float], y: Sequence[float], blocks: Sequence[object] | None = None
) -> TrendTest:
    """Test whether y rises or falls with x within blocks, by permutation.

    The statistic is the mean over blocks of Spearman's rank correlation. Under the null
    hypothesis the values of a block may be exchanged among its x. All permutations are used if
    there are at most `PERMUTATIONS`, else as many random ones (from a fixed stream) and the
    observed one.

    Parameters
    ----------
    x, y : sequences of float
        Values; those with a missing y are left out.
    blocks : sequence, optional
        The block of each value: the seed, or the seed and the evaluation set.

    Returns
    -------
    Trend
        ``p_rise`` is the share of permutations that rise at least as much, ``p_fall`` the share
        that fall at least as much. NaN without a block of at least three values.
    """
    names = [0] * len(x) if blocks is None else blocks
    grouped: dict[object, list[tuple[float, float]]] = {}
    for name, x_value, value in zip(names, x, y, strict=True):
        if math.isfinite(value) and math.isfinite(x_value):
            grouped.setdefault(name, []).append((float(x_value), float(value)))
    pairs = []
    for name in sorted(grouped, key=str):
        points = np.array(grouped[name])
        if len(points) >= 3 and len(np.unique(points[:, 0])) > 1:
            pairs.append((_unit_ranks(points[:, 0]), _unit_ranks(points[:, 1])))
    if not pairs:
        return TrendTest(math.nan, math.nan, math.nan, 0, 0)
    observed = float(np.mean([a @ b for a, b in pairs]))
    number = math.prod(math.factorial(len(a)) for a, _ in pairs)
    exact = number <= PERMUTATIONS
    null = np.fromiter(_exact(pairs) if exact else _random(pairs), dtype=float)
    itself = 0 if exact else 1  # the observed order is one of all orders
    rising = int((null >= observed - 1e-9).sum()) + itself
    falling = int((null <= observed + 1e-9).sum()) + itself
    total = len(null) + itself
    return TrendTest(
        observed, rising / total, falling / total, sum(len(a) for a, _ in pairs), len(pairs)
    )


def _unit_ranks(values: np.ndarray) -> np.ndarray:
    ranks = distributions.ranks(values) - (len(values) + 1) / 2
    norm = float(np.linalg.norm(ranks))
    return ranks / norm if norm else ranks


def _exact(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[float]:
    products = [[float(a @ np.array(b)) for b in itertools.permutations(b)] for a, b in pairs]
    return (sum(values) / len(pairs) for values in itertools.product(*products))


def _random(pairs: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[float]:
    draw = seeds.generator(0, "reporting", "trend")
    statistics = np.zeros(PERMUTATIONS)
    for a, b in pairs:
        statistics += draw.permuted(np.tile(b, (PERMUTATIONS, 1)), axis=1) @ a / len(pairs)
    return iter(statistics.tolist())
