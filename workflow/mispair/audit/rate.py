"""Share of captions that do not belong to their picture, from the p-values of all pairs.

A caption that has nothing to do with its picture has a uniform p-value (`mispair.audit.ranks`), so
p-values are a mixture: a share of uniform ones, the rate, and those of right captions.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from mispair.core.metrics import Row

SHIFTS = (0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
"""By how many standard deviations scores of right captions beat random ones, in `mixture_rate`."""

LIMITS = (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.06, 0.08, 0.12, 0.16, 0.24, 0.36, 0.48, 0.6)
"""Limits below which p-values of right captions are uniform, in `mixture_rate`.

These and `SHIFTS` are the assumption: every kind of right caption beats a random one in at least 70
of 100 comparisons.
"""

LIKELIHOOD_DROP = 1.92
"""Half of the 95 % quantile of chi-squared with one degree of freedom."""

Z = 1.96

LEAST_TRUSTED = 20
"""Trusted pairs that an estimate needs."""

LEAST_Z = 4.0
"""Standard errors by which captions must beat random ones on average."""


@dataclass(frozen=True)
class Rate:
    """An estimated share of wrong captions, and its 95 % interval; all in [0, 1]."""

    value: float
    low: float
    high: float

    @classmethod
    def of_part(cls, value: float, error: float, share: float) -> Rate:
        """Return the rate of all pairs, where it is estimated for a share of them."""
        numbers = (value, value - Z * error, value + Z * error)
        return cls(*(share * min(1.0, max(0.0, number)) for number in numbers))


@dataclass(frozen=True)
class Mixture(Rate):
    """A rate, and how well the model ranks right captions.

    Attributes
    ----------
    power : float
        Probability that a right caption beats a random one; 0.5 is chance.
    """

    power: float


def mixture_rate(histogram: np.ndarray, dispersion: float = 1.0) -> Mixture:
    """Fit the share of uniform p-values by maximum likelihood; right captions are a mixture.

    The p-value of a right caption is that of a normal score which beats random ones by a shift, or
    uniform below a limit. Each of `SHIFTS` and `LIMITS` has a share of its own, so hard and easy
    right captions may be mixed in any proportion. The interval holds every rate whose likelihood
    is near enough to the largest: it is wide if right captions could pass for wrong ones.

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
    from scipy.optimize import brentq
    from scipy.stats import norm

    bins, counts = len(histogram), histogram / dispersion
    edges = np.arange(bins + 1) / bins
    right = np.diff(
        [
            *(norm.cdf(shift + norm.ppf(edges)) for shift in SHIFTS),
            *(np.minimum(edges / limit, 1) for limit in LIMITS),
        ]
    )
    best, shares = _largest_likelihood(counts, np.vstack([np.full(bins, 1 / bins), right]))
    value, of_right = float(shares[0]), shares[1:]

    def excess(rate: float) -> float:
        reached, _ = _largest_likelihood(counts, right, rate, of_right)
        return best - LIKELIHOOD_DROP - reached

    low, high = 0.0, 1.0
    if value > 0 and excess(value) < 0 < excess(0.0):
        low = float(brentq(excess, 0.0, value, xtol=1e-5))
    if value < 1 and excess(value) < 0 < excess(1 - 1e-9):
        high = float(brentq(excess, value, 1 - 1e-9, xtol=1e-5))
    wins = 1 - right @ (edges[:-1] + 0.5 / bins)
    power = float(of_right @ wins / of_right.sum()) if of_right.sum() > 0 else 0.5
    return Mixture(value, low, high, power)


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
    """Storey's estimate, an upper bound in expectation.

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
    small. One half of the pairs chooses λ for the other: halfway between 1 and the smallest λ
    beyond which p-values do not get rarer.

    Parameters
    ----------
    histograms : (2, 1 + replicates, bins) array
        Pairs of both halves by p-value, measured and in bootstrap replicates.

    Notes
    -----
    Storey, "A direct approach to false discovery rates", J. R. Stat. Soc. B 2002.
    """
    bins = histograms.shape[2]
    rates, tails = [], []
    for chooses, estimates in ((0, 1), (1, 0)):
        flat = _flat_from(histograms[chooses, 0])
        start = (flat + bins) // 2
        beyond = histograms[estimates, :, start:].sum(axis=1)
        share = beyond / np.maximum(histograms[estimates].sum(axis=1), 1)
        rates.append(share / (1 - start / bins))
        tails.append(start / bins)
    value, *replicates = np.mean(rates, axis=0)
    spread = float(np.std(replicates)) if replicates else 0.0
    whole = histograms.sum(axis=0)
    n = whole[0].sum()
    above = whole[:, bins // 2 :].sum(axis=1) / np.maximum(whole.sum(axis=1), 1)
    independent = max(above[0] * (1 - above[0]), 1 / n) / n
    dispersion = max(1.0, float(np.var(above[1:])) / independent) if replicates else 1.0
    return Storey(
        min(1.0, float(value)),
        max(0.0, float(value) - Z * spread),
        # Zero pairs beyond λ are compatible with up to three expected ones (rule of three).
        min(1.0, max(float(value) + Z * spread, 3 / (n * (1 - float(np.mean(tails)))))),
        float(np.mean(tails)),
        dispersion,
    )


def _flat_from(histogram: np.ndarray) -> int:
    """Return the first bin from which on p-values are no smaller than uniform ones on average."""
    bins = len(histogram)
    starts = np.unique(np.geomspace(0.01, 0.9, 40) * bins).astype(int)
    centres = (np.arange(bins) + 0.5) / bins
    for start in starts:
        tail = histogram[start:]
        middle = (1 + start / bins) / 2
        if tail.sum() == 0 or (tail @ centres[start:]) / tail.sum() >= middle:
            return int(start)
    return int(starts[-1])


def trusted_rate(p_values: np.ndarray, trusted: np.ndarray) -> Rate:
    """Return the rate from the mean p-value and that of pairs known to be right.

    ``(mean − mean of trusted) / (½ − mean of trusted)`` of the pairs that are not trusted, as a
    share of all pairs, with an interval by the delta method. The mean p-value of wrong captions
    is ½, and trusted pairs give that of right ones, so the model may be weak.

    Parameters
    ----------
    p_values : (n,) array
        Of all pairs.
    trusted : (n,) bool array
        Pairs whose caption is known to be right: a random part of all right ones.

    Raises
    ------
    ValueError
        If fewer than 20 pairs are trusted, none is left, or trusted captions rank no better than
        random ones, so that the model cannot tell.
    """
    of_trusted, others = p_values[trusted], p_values[~trusted]
    if len(of_trusted) < LEAST_TRUSTED or not len(others):
        raise ValueError(
            f"{len(of_trusted)} trusted pairs of {len(p_values)}: at least {LEAST_TRUSTED} are "
            "needed"
        )
    a, b = float(others.mean()), float(of_trusted.mean())
    variance_a, variance_b = (float(x.var(ddof=1)) / len(x) for x in (others, of_trusted))
    gap = 0.5 - b
    if gap < 3 * variance_b**0.5 or gap <= 0.02:
        raise ValueError(
            f"the captions of trusted pairs beat random ones in {1 - b:.0%} of comparisons, which "
            "is not enough to tell right from wrong"
        )
    value = (a - b) / gap
    # d/da = 1/gap, d/db = (a − ½)/gap²
    error = (variance_a / gap**2 + variance_b * ((a - 0.5) / gap**2) ** 2) ** 0.5
    return Rate.of_part(value, error, len(others) / len(p_values))


def similar_rate(
    p_values: np.ndarray, trusted: np.ndarray, swapped: np.ndarray, unrelated: Rate
) -> Rate:
    """Return the share of captions that were swapped for a similar one, from trusted pairs.

    Ranks among the most similar captions are a mixture of three kinds: right captions, as those of
    trusted pairs; captions of unrelated pictures, ½ on average; and captions swapped for a similar
    one, as those of trusted pairs after a swap. Ranks among random captions give the share of the
    second kind; the share of the third follows from the mean.

    Parameters
    ----------
    p_values : (n,) array
        Rank of each caption among its most similar ones, NaN where there are none.
    trusted : (n,) bool array
        Pairs known to be right.
    swapped : (m,) array
        Ranks of trusted pairs with a similar caption in place of their own.
    unrelated : Rate
        Share of captions of unrelated pictures.

    Raises
    ------
    ValueError
        If too few pairs are trusted, or their right captions rank no better than similar ones.
    """
    ranked = np.isfinite(p_values)
    of_trusted, others = p_values[ranked & trusted], p_values[ranked & ~trusted]
    swapped = swapped[np.isfinite(swapped)]
    if min(len(of_trusted), len(swapped)) < LEAST_TRUSTED or not len(others):
        raise ValueError(f"{len(of_trusted)} trusted pairs have similar captions: too few")
    mean, right, wrong = float(others.mean()), float(of_trusted.mean()), float(swapped.mean())
    errors = [float(part.var(ddof=1)) / len(part) for part in (others, of_trusted, swapped)]
    gap = wrong - right
    if gap < 3 * (errors[1] + errors[2]) ** 0.5:
        raise ValueError("captions of trusted pairs rank no better than similar captions")
    value = (mean - right - unrelated.value * (0.5 - right)) / gap
    slopes = 1 / gap, (unrelated.value - 1 + value) / gap, -value / gap
    of_unrelated = ((unrelated.high - unrelated.low) / (2 * Z) * (0.5 - right) / gap) ** 2
    variance = sum(slope**2 * error for slope, error in zip(slopes, errors, strict=True))
    error = (variance + of_unrelated) ** 0.5
    return Rate.of_part(value, error, len(others) / (len(others) + len(of_trusted)))


def untrusted_rates(histograms: np.ndarray) -> tuple[Storey, Mixture]:
    """Return both estimates that need no trusted pairs, from histograms as `storey_rate` takes."""
    storey = storey_rate(histograms)
    return storey, mixture_rate(histograms[:, 0].sum(axis=0), storey.dispersion)


def rate_rows(
    histograms: np.ndarray,
    p_values: np.ndarray,
    neighbour_p_values: np.ndarray,
    swapped: np.ndarray,
    trusted: np.ndarray,
) -> tuple[list[Row], str]:
    """Return the rates of a corpus as rows of metrics, and why there is none, or "".

    ``wrong_captions`` is the share of captions of unrelated pictures: with trusted pairs by
    `trusted_rate`, without by `mixture_rate`. ``similar_captions`` is the share of captions that
    were swapped for similar ones; it needs trusted pairs. The two rates are separate.

    Parameters
    ----------
    histograms : (2, 1 + replicates, bins) array
        As `mispair.audit.ranks.Ranks` has them.
    p_values, neighbour_p_values : (n,) arrays
        Ranks among random captions and among the most similar ones; NaN where there are none.
    swapped : (m,) array
        Ranks among the most similar captions, of trusted pairs with a similar caption.
    trusted : (n,) bool array
        Pairs known to be right.
    """
    n = len(p_values)
    storey, mixture = untrusted_rates(histograms)
    wins = 1 - float(p_values.mean())
    error = float(p_values.std()) * (storey.dispersion / n) ** 0.5
    against_random = Rate(wins, wins - Z * error, wins + Z * error)
    rows: list[Row] = [
        _row("wins_against_random", against_random, n),
        {"metric": "power", "value": mixture.power},
        {"metric": "best_five_percent", "value": float((p_values < 0.05).mean()), "n": n},
        _row("storey", storey, n, tail=storey.tail),
        _row("mixture", mixture, n),
    ]  # fmt: skip
    reported: Rate = mixture
    if not trusted.any():
        if wins - 0.5 < LEAST_Z * error:
            return rows, (
                f"Captions beat random ones in {wins:.1%} of comparisons, no more than chance: "
                "either nearly all captions are wrong, or the model cannot judge this corpus. Only "
                "trusted pairs (the key trusted) can tell."
            )
        return [*rows, _row("wrong_captions", reported, n)], ""
    try:
        reported = trusted_rate(p_values, trusted)
    except ValueError as fault:
        return rows, f"The model cannot tell right captions from wrong ones: {fault}."
    rows += [_row("trusted", reported, n), _row("wrong_captions", reported, n)]
    with suppress(ValueError):
        hard = similar_rate(neighbour_p_values, trusted, swapped, mixture)
        rows.append(_row("similar_captions", hard, int(np.isfinite(neighbour_p_values).sum())))
    return rows, ""


def _row(metric: str, rate: Rate, n: int, **more: float) -> Row:
    return {
        "metric": metric, "value": rate.value, "n": n, "low": rate.low, "high": rate.high, **more,
    }  # fmt: skip
