"""Share of captions that belong to an unrelated picture, from the p-values of all pairs.

Assumption: a wrong caption ranks like one more caption drawn at random, or its picture like one
more picture, so its p-value is uniform (`mispair.audit.score`). The larger of both p-values is then
no smaller than a uniform one, for each wrong caption by whichever of its ranks: the upper limit is
by these. An interval is what those by captions and by pictures cover together, and holds if all
wrong captions rank like random ones, or all of their pictures. p-values are then a mixture: a share
of uniform ones, the rate, and those of right captions. The share that is uniform is identified only
up to right captions that rank like random ones, so without pairs known to be right there is an
upper limit and no lower one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from mispair.core.distributions import gamma_quantile, lower_limit
from mispair.core.words import count, percent

SHIFTS = (0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
"""By how many standard deviations scores of right captions beat random ones, in `mixture_rate`."""

LIMITS = (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.36, 0.48, 0.6)
"""Limits below which p-values of right captions are uniform, in `mixture_rate`.

These and `SHIFTS` are the assumption: every kind of right caption beats a random one in at least 70
of 100 comparisons.
"""

MOST_TAIL = 0.8
"""Largest λ in `storey_rate`: a fifth of the pairs with uniform p-values is beyond it."""

LIKELIHOOD_DROP = 1.92
"""Half of the 95 % quantile of chi-squared with one degree of freedom."""

Z = 1.96

CONFIDENCE = 0.95
"""Of intervals, which have two sides, and of the upper limit, which has one."""

LEAST_EXCESS = 0.005
"""Share of pairs by which trusted pairs contradict the ranks of all, at least, to be reported; also
the share of trusted pairs that rank like random ones, at its lower limit."""

Z_BELOW = 2.576
"""For a share below 0, at a level of 0.5 %: each audit with trusted pairs makes this test."""

PARTS, Z_OF_PARTS = 10, 3.63
"""Quantiles of trusted pairs at which they are compared with all, from both ends, and the standard
errors there: a level of 0.5 % for all of them, by ranks and by one further trait."""

LEAST_TRUSTED = 20
"""Trusted pairs that an estimate needs, and others: with 10 others 36 of 45 intervals held."""

LEAST_POWER = 0.8
"""Least lower limit of the estimated wins of right captions (`power_of`) without trusted pairs.

By simulation (600 to 20,000 pairs, none to 80 % of them wrong): models whose right captions win 52
to 65 % of comparisons do not reach it; 28 to 93 % of right captions would count as wrong there.
Models that win 87 % reach it with up to half of the captions wrong (at 80 % wrong in two of three
corpora of 4,000 pairs, and never of 600), and their estimate is off by 0.02 on average. That is for
right captions of one kind. Where half of them are generic, models of 65 % reach it in up to 42 % of
corpora of 20,000 pairs: their limit holds, and no rule without trusted pairs can tell. A test of
wins against chance cannot refuse: 52 % of 5,000 comparisons are four standard errors above it.
"""

MOST_WIDTH = 0.5
"""Widest interval of a share that is reported with trusted pairs: half of all possible shares."""


@dataclass(frozen=True)
class Rate:
    """An estimated share of wrong captions, and its 95 % interval; all in [0, 1].

    `low` is NaN where only an upper limit is known.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of_part(cls, value: float, error: float, share: float, z: float = Z) -> Rate:
        """Return the rate of all pairs, where it is estimated for a share of them.

        Limits are `z` standard errors `error` from the value.
        """
        numbers = (value, value - z * error, value + z * error)
        return cls(*(share * min(1.0, max(0.0, number)) for number in numbers))


def mixture_rate(histogram: np.ndarray, dispersion: float = 1.0) -> Rate:
    """Return the share of `mixture_share` with its profile-likelihood interval.

    The interval holds every rate whose likelihood is near enough to the largest: it is wide if
    right captions could pass for wrong ones. It needs the assumption on right captions; the limit
    of `storey_rate` does not. Parameters are those of `mixture_share`.
    """
    from scipy.optimize import brentq

    counts, right = histogram / dispersion, _right_components(len(histogram))
    best, shares = _largest_likelihood(counts, _with_uniform(right))
    value, of_right = float(shares[0]), shares[1:]

    def excess(rate: float) -> float:
        reached, _ = _largest_likelihood(counts, right, rate, of_right)
        return best - LIKELIHOOD_DROP - reached

    low, high = 0.0, 1.0
    if value > 0 and excess(value) < 0 < excess(0.0):
        low = float(brentq(excess, 0.0, value, xtol=1e-5))
    if value < 1 and excess(value) < 0 < excess(1 - 1e-9):
        high = float(brentq(excess, value, 1 - 1e-9, xtol=1e-5))
    return Rate(value, low, high)


def mixture_share(histogram: np.ndarray, dispersion: float = 1.0) -> float:
    """Fit the share of uniform p-values by maximum likelihood; right captions are a mixture.

    The p-value of a right caption is that of a normal score which beats random ones by a shift, or
    uniform below a limit. Each of `SHIFTS` and `LIMITS` has a share of its own, so hard and easy
    right captions may be mixed in any proportion.

    Parameters
    ----------
    histogram : (bins,) array
        Pairs by p-value.
    dispersion : float
        Variance of counts over that of independent pairs, at least 1.

    Notes
    -----
    Mixtures with a normal null and shifted normals: Stephens, "False discovery rates: a new deal",
    Biostatistics 2017. Profile likelihood with a nuisance mixture: Murphy and van der Vaart, 2000.
    """
    right = _right_components(len(histogram))
    return float(_largest_likelihood(histogram / dispersion, _with_uniform(right))[1][0])


def _right_components(bins: int) -> np.ndarray:
    """Return the distribution of p-values of each kind of right caption, (kinds, bins)."""
    from scipy.special import ndtr, ndtri

    edges = np.arange(bins + 1) / bins
    return np.diff(
        [
            *(ndtr(shift + ndtri(edges)) for shift in SHIFTS),
            *(np.minimum(edges / limit, 1) for limit in LIMITS),
        ]
    )


def _with_uniform(right: np.ndarray) -> np.ndarray:
    return np.vstack([np.full(right.shape[1], 1 / right.shape[1]), right])


def _largest_likelihood(
    counts: np.ndarray,
    components: np.ndarray,
    uniform: float = 0.0,
    start: np.ndarray | None = None,
) -> tuple[float, np.ndarray]:
    """Return the largest log likelihood of shares of components, and these shares.

    A share `uniform` is given to uniform p-values, the others sum to the rest.
    """
    from scipy.optimize import minimize

    used = counts > 0
    of_bins, number = components[:, used], len(components)
    observed = counts[used] / counts.sum()
    begin = np.ones(number) if start is None else start + 1e-3

    def loss(shares: np.ndarray) -> tuple[float, np.ndarray]:
        density = np.maximum(uniform / len(counts) + shares @ of_bins, 1e-12)
        return -float(observed @ np.log(density)), -(of_bins @ (observed / density))

    fit = minimize(
        loss,
        begin / begin.sum() * (1 - uniform),
        jac=True,
        method="SLSQP",
        bounds=[(0, 1)] * number,
        constraints={
            "type": "eq",
            "fun": lambda shares: shares.sum() - (1 - uniform),
            "jac": lambda shares: np.ones(number),
        },
        options={"maxiter": 300, "ftol": 1e-12},
    )
    return -float(fit.fun) * counts.sum(), fit.x


@dataclass(frozen=True)
class Storey(Rate):
    """Storey's estimate, an upper bound in expectation, and its one-sided upper limit `high`.

    Attributes
    ----------
    tail : float
        The λ beyond which p-values are taken for those of wrong captions, mean of both halves.
    dispersion : float
        Variance of the share of p-values above ½ over that of independent pairs, at least 1.
    """

    tail: float
    dispersion: float


def storey_rate(histograms: np.ndarray) -> Storey:
    """Return the share of p-values beyond λ over the share of uniform ones there.

    Right captions beyond λ are counted as wrong, so the rate is on average too large, never too
    small, and so it is if p-values of wrong captions are larger than uniform ones. One half of the
    pairs chooses λ for the other: that at which the rate and its standard error are least.

    So `high`, a one-sided 95 % limit of this estimate, is an upper limit of the share of wrong
    captions whatever right captions do: their p-values beyond λ can only raise it. That holds for
    weak models and generic captions too, where the likelihood of a mixture of `SHIFTS` and `LIMITS`
    depends on these. The limit is that of a weighted sum of Poisson counts, with the variance
    of the bootstrap, and holds without any pair beyond λ (Fay and Feuer).

    Parameters
    ----------
    histograms : (2, 1 + replicates, bins) array
        Pairs of both halves by p-value, measured and in bootstrap replicates.

    Notes
    -----
    Storey, "A direct approach to false discovery rates", J. R. Stat. Soc. B 2002. Fay and Feuer,
    "Confidence intervals for directly standardized rates", Statistics in Medicine 1997.
    """
    bins = histograms.shape[2]
    rates, tails = [], []
    for chooses, estimates in ((0, 1), (1, 0)):
        start = _start_of_tail(histograms[chooses, 0])
        beyond = histograms[estimates, :, start:].sum(axis=1)
        share = beyond / np.maximum(histograms[estimates].sum(axis=1), 1)
        rates.append(share / (1 - start / bins))
        tails.append(start / bins)
    value, *replicates = np.mean(rates, axis=0)
    variance = float(np.var(replicates)) if replicates else 0.0
    whole = histograms.sum(axis=0)
    n = whole[0].sum()
    above = whole[:, bins // 2 :].sum(axis=1) / np.maximum(whole.sum(axis=1), 1)
    independent = max(above[0] * (1 - above[0]), 1 / n) / n
    dispersion = max(1.0, float(np.var(above[1:])) / independent) if replicates else 1.0
    # One more pair beyond λ, at its weight: the limit of no pair is then that of three pairs.
    one = 1 / (n * (1 - float(np.mean(tails))))
    scale = (variance + one**2) / (value + one)
    high = scale * gamma_quantile(CONFIDENCE, (value + one) / scale)
    return Storey(min(1.0, float(value)), np.nan, min(1.0, high), float(np.mean(tails)), dispersion)


def _start_of_tail(histogram: np.ndarray) -> int:
    """Return the first bin of the tail whose rate, with its standard error, is least."""
    bins = len(histogram)
    starts = np.unique(np.geomspace(0.01, MOST_TAIL, 40) * bins).astype(int)
    beyond = histogram.sum() - np.cumsum(histogram)[starts - 1]
    return int(starts[np.argmin((beyond + np.maximum(beyond, 1) ** 0.5) / (bins - starts))])


def trusted_rate(p_values: np.ndarray, trusted: np.ndarray) -> Rate:
    """Return the rate from the mean p-value and that of pairs known to be right.

    ``(mean − mean of trusted) / (½ − mean of trusted)`` of the pairs that are not trusted, as a
    share of all pairs. The mean p-value of wrong captions is ½, and trusted pairs give that of
    right ones, so the model may be weak. The interval is Fieller's, which holds for a ratio with an
    uncertain denominator.

    Parameters
    ----------
    p_values : (n,) array
        Of all pairs.
    trusted : (n,) bool array
        Pairs whose caption is known to be right: a random part of all right ones.

    Raises
    ------
    ValueError
        If fewer than 20 pairs are trusted, or left, or trusted captions rank so little better
        than random ones, or all are so few, that the interval is wider than `MOST_WIDTH`. The
        message is a refusal.
    """
    of_trusted, others = p_values[trusted], p_values[~trusted]
    if len(others) < LEAST_TRUSTED:
        raise ValueError(
            f"{count(len(others), 'pair')} of {len(p_values):,} "
            f"{'is' if len(others) == 1 else 'are'} left to judge besides the trusted ones, and an "
            f"interval needs {LEAST_TRUSTED}. Give a random part of the right pairs (the key "
            "trusted), or none for an upper limit alone."
        )
    if len(of_trusted) < LEAST_TRUSTED:
        raise ValueError(
            f"Only {count(len(of_trusted), 'pair')} of {len(p_values):,} "
            f"{'is' if len(of_trusted) == 1 else 'are'} trusted, and an interval needs "
            f"{LEAST_TRUSTED}. Give more (the key trusted), or none for an upper limit alone."
        )
    shares = _share_of_means(of_trusted, others, Z)
    if shares is None or shares[2] - shares[1] > MOST_WIDTH:
        wins, given = 1 - float(of_trusted.mean()), count(len(of_trusted), "trusted pair")
        beat = f"beat random ones in {percent(wins, 0)} of comparisons"
        if lower_limit(wins, float(of_trusted.std()) / len(of_trusted) ** 0.5) >= LEAST_POWER:
            raise ValueError(
                f"{given} and {count(len(others), 'other')} are too few for an interval, though "
                f"right captions {beat}. Give more of both, or no trusted ones (the key trusted) "
                "for an upper limit alone."
            )
        raise ValueError(
            f"The model cannot tell right captions from wrong ones: those of {given} {beat}. Give "
            "more trusted pairs, or another model (the key towers)."
        )
    part = len(others) / len(p_values)
    value, low, high = (part * min(1.0, max(0.0, share)) for share in shares)
    # No upper limit is below one pair. Rare right captions that rank badly may be missing among
    # trusted ones, so a lower limit below one of these is none.
    low = low if low >= 1 / len(of_trusted) else 0.0
    return Rate(value, low, max(high, 1 / len(p_values)))


def trusted_rates(p_values: Iterable[np.ndarray], trusted: np.ndarray) -> Rate:
    """Return the mean of `trusted_rate` by captions and by pictures, and what both intervals cover.

    Where pictures rank too badly for an estimate, it is that of captions.

    Raises
    ------
    ValueError
        As `trusted_rate` of captions.
    """
    of_captions, of_pictures = p_values
    rates = [trusted_rate(of_captions, trusted)]
    with suppress(ValueError):
        rates.append(trusted_rate(of_pictures, trusted))
    return Rate(
        sum(rate.value for rate in rates) / len(rates),
        min(rate.low for rate in rates),
        max(rate.high for rate in rates),
    )


def _share_of_means(
    of_trusted: np.ndarray, others: np.ndarray, z: float
) -> tuple[float, float, float] | None:
    """Return the share by mean p-values and Fieller's limits, which may be outside of [0, 1].

    `z` is a quantile of the normal distribution; None stands for limits that do not exist.
    """
    lead, lead_of_trusted = 0.5 - float(others.mean()), 0.5 - float(of_trusted.mean())
    variance, of_lead = (float(x.var(ddof=1)) / len(x) for x in (others, of_trusted))
    g = z**2 * of_lead / lead_of_trusted**2 if lead_of_trusted > 0 else 1.0
    if g >= 1:
        return None
    right = lead / lead_of_trusted
    half = z / lead_of_trusted * ((1 - g) * variance + right**2 * of_lead) ** 0.5
    return 1 - right, 1 - (right + half) / (1 - g), 1 - (right - half) / (1 - g)


def trusted_excess(
    p_values: np.ndarray,
    trusted: np.ndarray,
    reported: Rate,
    most: float,
    traits: Sequence[np.ndarray] = (),
) -> float:
    """Return by how much trusted pairs contradict the ranks of all pairs; 0 if they do not.

    If trusted pairs are a random part of the right ones, and wrong captions rank like random ones,
    then the interval of `trusted_rate` begins below the upper limit that needs no trusted pair;
    trusted captions do not rank worse than all; and there are as many pairs of high rank, of low
    rank, and at both ends of every trait, as the least possible share of right pairs has, by
    trusted ones. More than 0 is the share by which the interval is above the limit or such pairs
    are missing (trusted pairs fit too well, such as the more similar half, are of one kind, such as
    short captions, or wrong captions rank better than random ones), or by which the interval is
    below 0 (trusted pairs fit too badly, or some are wrong).

    Parameters
    ----------
    p_values, trusted : (n,) arrays
        As `trusted_rate` takes them.
    reported : Rate
        From `trusted_rates`.
    most : float
        Upper limit of `untrusted_rates`.
    traits : sequence of (n,) arrays
        What else the pairs are told apart by, such as the number of words.
    """
    of_trusted, others = p_values[trusted], p_values[~trusted]
    shares = _share_of_means(of_trusted, others, Z_BELOW)
    missing = max(
        _missing_low(sign * trait[trusted], sign * trait[~trusted], most)
        for trait in (p_values, *traits)
        for sign in (1, -1)
    )
    excess = max(reported.low - most, -shares[2] if shares else 0.0, missing)
    return excess if excess > LEAST_EXCESS else 0.0


def like_random(p_values: np.ndarray, bins: int) -> Rate:
    """Return the share of trusted pairs that rank like random ones, from their p-values (t,).

    It is that of `mixture_rate`. They may be wrong, or the model does not understand them.
    """
    return mixture_rate(np.histogram(p_values, bins, (0, 1))[0])


def _missing_low(of_trusted: np.ndarray, others: np.ndarray, most: float) -> float:
    """Return the share of other pairs that low values lack, at a lower limit; negative for none.

    At most a share `most` of all pairs is wrong. So the share of others with values up to t is at
    least that of right pairs, times what of the others is right.
    """
    right = max(0.0, 1 - most * (len(of_trusted) + len(others)) / len(others))
    limits = np.quantile(of_trusted, np.arange(1, PARTS) / PARTS)
    trusted_below, others_below = (
        (x[:, None] <= limits).mean(axis=0) for x in (of_trusted, others)
    )
    error = np.sqrt(
        right**2 * trusted_below * (1 - trusted_below) / len(of_trusted)
        + others_below * (1 - others_below) / len(others)
    )
    return float((right * trusted_below - others_below - Z_OF_PARTS * error).max())


def untrusted_rates(histograms: np.ndarray) -> tuple[Storey, Rate]:
    """Return what is known without trusted pairs, from histograms of `mispair.audit.score.Ranks`.

    That is Storey's estimate with the larger upper limit, of captions or of pictures, which trusted
    pairs have to keep, and the rate that is reported: the share of `mixture_share`, no lower limit,
    and the upper limit by the larger p-value of each pair. The dispersion is that of captions.
    """
    of_captions, of_pictures, of_larger = map(storey_rate, histograms)
    share = mixture_share(histograms[0, :, 0].sum(axis=0), of_captions.dispersion)
    storey = of_captions if of_captions.high >= of_pictures.high else of_pictures
    storey = replace(storey, dispersion=of_captions.dispersion)
    return storey, Rate(min(share, of_larger.high), np.nan, of_larger.high)
