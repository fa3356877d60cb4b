"""Rates of a corpus, and how likely each caption is wrong, by the local false discovery rate."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mispair.audit.pairs import project
from mispair.audit.rate import (
    LEAST_POWER,
    Rate,
    Z,
    like_random,
    trusted_excess,
    trusted_rates,
    untrusted_rates,
)
from mispair.audit.score import Ranks, deal, rank
from mispair.audit.similar import audited_similar_rate
from mispair.core import seeds
from mispair.core.distributions import lower_limit
from mispair.core.metrics import Row
from mispair.core.words import percent
from mispair.towers.features import PairedFeatures

FOLDS = 2
CUTS = 2000
"""Bins of similarity between which densities are compared, at most."""

LEAST_IN_BIN = 20
"""Pairs in a bin, at least: the extreme bin is chosen because few pairs are in it."""

TIE_BREAK = 1e-6
"""Most that the order of similarities adds to a probability, so that no two are equal."""


def judged(
    ranked: Ranks,
    seed: int,
    trusted: np.ndarray | None = None,
    near: np.ndarray | None = None,
    swapped: np.ndarray | None = None,
    traits: Sequence[np.ndarray] = (),
) -> tuple[list[Row], str, np.ndarray]:
    """Return the rates of n pairs, why there is none (or ""), and the probability of each pair.

    Probabilities, (n,), are NaN without a rate. See `rate_rows` for `traits`; `near` and
    `swapped` are its ranks among the most similar captions. Without trusted pairs there are none.
    """
    n = len(ranked.similarity)
    trusted = np.zeros(n, bool) if trusted is None else trusted
    near = np.full(n, np.nan) if near is None else near
    swapped = np.empty(0) if swapped is None else swapped
    rows, refused = rate_rows(ranked.histograms, ranked.p_values, near, swapped, trusted, traits)
    if refused:
        return rows, refused, np.full(n, np.nan)
    share = next(row["value"] for row in rows if row["metric"] == "wrong_captions")
    return rows, "", probabilities_of(ranked, share, seed)


def probabilities_of(ranked: Ranks, rate: float, seed: int) -> np.ndarray:
    """Return `probabilities` of ranked pairs, (n,), in folds that the seed draws."""
    folds = seeds.generator(seed, "audit", "folds").integers(0, FOLDS, len(ranked.score))
    return probabilities(ranked.score, ranked.reference_score, rate, folds)


def probabilities(
    similarity: np.ndarray, reference: np.ndarray, rate: float, folds: np.ndarray
) -> np.ndarray:
    """Return the probability that each caption is wrong, given its score (`mispair.audit.score`).

    ``rate × density of random captions / density of all pairs``, which can only fall with the
    similarity (isotonic regression). Each fold is judged by the densities of the others.

    Parameters
    ----------
    similarity : (n,) array
        Of each pair.
    reference : (n, r) array
        Of each picture with captions of other pairs; NaN is left out.
    rate : float
        Share of wrong captions.
    folds : (n,) int array
        Fold of each pair, 0 or 1.

    Returns
    -------
    (n,) float64 array
        In [0, 1], strictly falling with the similarity.

    Notes
    -----
    Efron, "Large-scale simultaneous hypothesis testing", J. Am. Stat. Assoc. 2004.
    """
    raw = np.empty(len(similarity))
    for fold in range(FOLDS):
        judged, others = folds == fold, folds != fold
        centres, share = _share_of_random(similarity[others], reference[others])
        # Odds of a random caption in the pooled sample, over those of the two sample sizes.
        odds = share / np.maximum(1 - share, 1e-12)
        raw[judged] = np.interp(similarity[judged], centres, np.minimum(rate * odds, 1))
    # The folds may break the order slightly, so one more regression is on all pairs.
    order = np.argsort(similarity, kind="stable")
    smooth = np.empty(len(order))
    smooth[order] = _falling(raw[order])
    _, rank = np.unique(similarity, return_inverse=True)
    places = 1 - (rank + 1) / (rank.max() + 2)
    return (1 - TIE_BREAK) * smooth + TIE_BREAK * places


def _share_of_random(
    similarity: np.ndarray, reference: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return centres of bins of similarity, and the share of random captions in each bin.

    The share is for equal numbers of random captions and pairs; it falls with the similarity.
    """
    random = reference[np.isfinite(reference)]
    pooled = np.concatenate([similarity, random])
    bins = int(np.clip(len(similarity) // LEAST_IN_BIN, 2, CUTS))
    edges = np.unique(np.quantile(similarity, np.linspace(0, 1, bins + 1)))
    if len(edges) < 3:
        return np.array([pooled.mean()]), np.array([0.5])
    inner = edges[1:-1]
    of_pairs, null = (
        np.bincount(np.searchsorted(inner, part, "right"), minlength=len(edges) - 1) / len(part)
        for part in (similarity, random)
    )
    weight = of_pairs + null
    kept = weight > 0
    centres = ((edges[:-1] + edges[1:]) / 2)[kept]
    return centres, _falling(null[kept] / weight[kept], weight[kept])


def _falling(values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the falling values that are nearest to given ones by weighted squares, (n,)."""
    from scipy.optimize import isotonic_regression  # sklearn's takes a second more to import

    fitted: np.ndarray = isotonic_regression(values, weights=weights, increasing=False).x
    return fitted


def reliability(probability: np.ndarray, wrong: np.ndarray) -> list[tuple[float, float, int]]:
    """Return for ten bins of probability its mean, the share of wrong pairs, and their number."""
    edges = np.linspace(0, 1, 11)
    bins = np.clip(np.searchsorted(edges, probability, "right") - 1, 0, len(edges) - 2)
    return [
        (float(probability[members].mean()), float(wrong[members].mean()), int(members.sum()))
        for members in (bins == number for number in np.unique(bins))
    ]


# How much each pair weighs in a fine-tuning: the probability that its caption is right.


@dataclass(frozen=True)
class PairWeights:
    """Weights of n pairs, float32 (n,), and what is known of them (`what_is_known`)."""

    weights: np.ndarray
    known: Known


def pair_weights(
    features: PairedFeatures,
    draw: int,
    projections: tuple[np.ndarray, np.ndarray],
    seed: int,
    device: str = "cpu",
    trusted: np.ndarray | None = None,
) -> PairWeights:
    """Return the probability that the caption of each pair of a draw is right.

    Parameters
    ----------
    features : PairedFeatures
        Features before the projections; of images with several crops the first is taken.
    draw : int
        Which draw of pairs.
    projections : two (d, e) arrays
        Of images and of texts, by a model that was not trained on these pairs.
    seed : int
        Of blocks, ties, bootstrap and folds.
    device : {"cpu", "cuda"}
        Where to compute.
    trusted : (n,) bool array, optional
        Pairs of the draw whose captions are known to be right.

    Raises
    ------
    ValueError
        If a feature is zero or not finite, or the audit refuses.
    """
    texts = features.text_rows[draw]
    n = len(texts)
    images = np.arange(n) if features.image_rows is None else features.image_rows[draw]
    blocks = (
        (
            pairs,
            project(features.image_features[images[pairs] * features.crops], projections[0]),
            project(features.text_features[texts[pairs]], projections[1]),
        )
        for pairs in deal(n, seed)
    )
    ranked = rank(blocks, (images, texts), seed, device, scored=True)
    rows, refused, chance = judged(ranked, seed, trusted)
    if refused:
        raise ValueError(f"the audit of these pairs refuses: {refused.rstrip('.')}")
    return PairWeights((1 - chance).astype(np.float32), what_is_known(rows, refused))


# The rates of a corpus as rows of metrics.

CONDITION = {
    "limit": "An upper limit, if each wrong caption, or its picture, ranks like a random one. "
    "Right captions that the model ranks like random ones count as wrong, so no lower limit is "
    "known without trusted pairs.",
    "interval": "An interval, if all wrong captions, or all of their pictures, rank like random "
    "ones, and trusted pairs are right, and a random part of all right ones.",
    "contradiction": "An upper limit, if each wrong caption, or its picture, ranks like a random "
    "one. The ranks of all pairs contradict that trusted pairs are a random part of all right "
    "ones, so no lower limit is known.",
}
"""What a reported share assumes, by what is identified."""

Known = dict[str, Any]


def what_is_known(rows: Sequence[Row], refused: str) -> Known:
    """Return what is known of the share of wrong captions, for metadata of what depends on it.

    ``identified`` is an ``interval`` (with trusted pairs), a ``limit`` above the share (without,
    or where ranks contradict them), or ``nothing``; ``condition`` is what that assumes, and
    ``trusted_excess`` by how much ranks contradict trusted pairs. Probabilities are for the
    ``share`` of wrong captions, which is estimated with an interval and assumed with a limit.

    Parameters
    ----------
    rows, refused
        From `judged`.
    """
    values = {row["metric"]: row["value"] for row in rows}
    excess = values.get("trusted_excess", 0.0)
    identified = "interval" if "trusted" in values and excess == 0 else "limit"
    identified = "nothing" if refused else identified
    held = "contradiction" if excess > 0 and not refused else identified
    share = {} if refused else {"share": values["wrong_captions"]}
    return {
        "identified": identified, "trusted_excess": excess, "condition": CONDITION.get(held, ""),
        **share,
    }  # fmt: skip


def least_known(parts: Sequence[Known]) -> Known:
    """Return what is known of the part of which least is: a limit, and the most contradicted."""
    return min(parts, key=lambda of: (of["identified"] == "interval", -of["trusted_excess"]))


def power_of(wins: float, error: float, share: float) -> Rate:
    """Return estimated wins of right captions over random ones, with their lower limit.

    Wrong captions win half of their comparisons, so right ones win ½ + (wins − ½) / (1 − share).
    The estimated share counts right captions that rank like random ones as wrong, so all right
    captions together win about this often or less.

    Parameters
    ----------
    wins, error : float
        Wins of all captions, and their standard error.
    share : float
        Estimated share of wrong captions.
    """
    right = max(1 - share, 1e-6)
    leads = (wins - 0.5) / right, (lower_limit(wins, error) - 0.5) / right
    value, low = (min(1.0, max(0.0, 0.5 + lead)) for lead in leads)
    return Rate(value, low, np.nan)


def rate_rows(
    histograms: np.ndarray,
    p_values: np.ndarray,
    neighbour_p_values: np.ndarray,
    swapped: np.ndarray,
    trusted: np.ndarray,
    traits: Sequence[np.ndarray] = (),
) -> tuple[list[Row], str]:
    """Return the rates of a corpus as rows of metrics, and why there is none, or "".

    ``wrong_captions`` is the share of captions of unrelated pictures. With trusted pairs it has an
    interval (`trusted_rates`). Without them, or where the ranks of all pairs contradict them
    (``trusted_excess`` above 0), it has an upper limit, ``high``, and no lower one: `low` is NaN,
    and the value is the estimate of `mixture_rate`, by which probabilities are computed. The limit
    of a contradiction is the larger one, with and without them.
    ``similar_captions`` is the share of captions that were swapped for similar ones; it needs
    trusted pairs, and is left out where `audited_similar_rate` does not know it. Many of these
    captions are a contradiction themselves, so it is kept in one. The two rates are
    separate. ``trusted_excess`` is by how much trusted pairs contradict the scores of all pairs,
    and ``trusted_like_random`` is `like_random`. ``power`` is how often right captions
    beat random ones: that of trusted pairs, or `power_of`.

    Parameters
    ----------
    histograms, p_values : (3, 2, 1 + replicates, bins), (2, n) arrays
        As `mispair.audit.score.Ranks` has them.
    neighbour_p_values : (n,) array
        Ranks among the most similar captions; NaN where there are none.
    swapped : (m,) array
        Ranks among the most similar captions, of trusted pairs with a similar caption.
    trusted : (n,) bool array
        Pairs known to be right.
    traits : sequence of (n,) arrays
        As `trusted_excess` takes them.
    """
    of_captions = p_values[0]
    n = len(of_captions)
    storey, without = untrusted_rates(histograms)
    wins, error = _wins(of_captions, storey.dispersion)
    power = power_alone = power_of(wins, error, without.value)
    if trusted.any():
        power = _two_sided(*_wins(of_captions[trusted], storey.dispersion))
    rows: list[Row] = [
        _row("wins_against_random", _two_sided(wins, error), n),
        _row("power", power, int(trusted.sum()) or n),
        {"metric": "best_five_percent", "value": float((of_captions < 0.05).mean()), "n": n},
        _row("storey", storey, n, tail=storey.tail),
        {"metric": "mixture", "value": without.value, "n": n},
        {"metric": "dispersion", "value": storey.dispersion, "n": n},
    ]  # fmt: skip
    if not trusted.any():
        refused = _too_weak(wins, power_alone)
        return (rows, refused) if refused else ([*rows, _row("wrong_captions", without, n)], "")
    try:
        reported = trusted_rates(p_values, trusted)
    except ValueError as fault:
        return rows, str(fault)
    with_trusted = reported
    excess = trusted_excess(of_captions, trusted, reported, storey.high, traits)
    random = like_random(of_captions[trusted], histograms.shape[3])
    rows += [
        _row("trusted", reported, n),
        {"metric": "trusted_excess", "value": excess, "n": int(trusted.sum())},
        _row("trusted_like_random", random, int(trusted.sum())),
    ]
    if excess > 0:
        if refused := _too_weak(wins, power_alone):
            return rows, f"The ranks of all pairs contradict the trusted ones. {refused}"
        reported = replace(without, high=max(reported.high, without.high))
    rows.append(_row("wrong_captions", reported, n))
    with suppress(ValueError):
        hard = audited_similar_rate(
            neighbour_p_values, trusted, swapped, of_captions, with_trusted, histograms.shape[3],
            storey.dispersion,
        )  # fmt: skip
        if hard.is_known:
            ranked = int(np.isfinite(neighbour_p_values).sum())
            rows.append(_row("similar_captions", hard, ranked))
    return rows, ""


def _too_weak(wins: float, power: Rate) -> str:
    """Return why a model is refused that no trusted pair supports, or ""."""
    if power.low >= LEAST_POWER:
        return ""
    return (
        f"Captions beat random ones in {percent(wins, 1)} of comparisons (right ones, by estimate: "
        f"{percent(power.value, 0)}; lower limit: {percent(power.low, 0)}; needed: "
        f"{percent(LEAST_POWER, 0)}): either nearly all captions are wrong, or the model "
        "cannot judge this corpus. Check a sample by eye (reports/review.html), give pairs known "
        "to be right (the key trusted), or another model (the key towers)."
    )


def _wins(p_values: np.ndarray, dispersion: float) -> tuple[float, float]:
    """Return how often captions beat random ones, and the standard error."""
    error = float(p_values.std()) * (dispersion / len(p_values)) ** 0.5
    return 1 - float(p_values.mean()), error


def _two_sided(value: float, error: float) -> Rate:
    return Rate(value, max(0.0, value - Z * error), min(1.0, value + Z * error))


def _row(metric: str, rate: Rate, n: int, **more: float) -> Row:
    return {
        "metric": metric, "value": rate.value, "n": n, "low": rate.low, "high": rate.high, **more,
    }  # fmt: skip
