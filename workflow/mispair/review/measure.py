"""What the labels of a sample measure: the share of wrong captions, the model, and its lists.

Shares are of a finite population, from a stratified sample, with the limits of a score test.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import gammaincinv, ndtr

from mispair.core.distributions import Z95, wilson
from mispair.core.metrics import Row
from mispair.review.labels import RIGHT, UNSURE, WRONG

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


# What the labels of a sample measure.

Z_BOTH = 2.2414027276049464
"""Quantile at which two intervals hold together with at least 95 % (Bonferroni)."""

FOLDS = 5
PRIOR = 1.0
"""Weight, in labels, of the probabilities as they are, where labels recalibrate them."""

LEAST_LEFT_OUT = 5
"""Labels of pairs beyond a cut that is recommended, at least."""

LEAST_CERTAIN = 1e-4
"""Probabilities are at least this far from 0 and 1 before their logarithm is taken."""


def counted(
    sample: pd.DataFrame, strata: Sequence[Mapping[str, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of each stratum, (H,), and its counts of each label, (H, 3)."""
    pairs = np.array([stratum["pairs"] for stratum in strata], float)
    table = pd.crosstab(sample["stratum"], sample["label"])
    table = table.reindex(index=range(len(pairs)), columns=[RIGHT, WRONG, UNSURE], fill_value=0)
    return pairs, table.to_numpy(float)


def share_rows(sample: pd.DataFrame, strata: Sequence[Mapping[str, int]]) -> list[Row]:
    """Return the share of wrong captions, its bounds, and what the strata gain.

    Parameters
    ----------
    sample : DataFrame
        ``stratum`` and ``label``, from `mispair.review.labels.of_sample`.
    strata : sequence of mapping
        ``pairs`` and ``drawn`` of each stratum.

    Returns
    -------
    list of dict
        Metrics ``checked_share`` (unsure ones count as right), ``checked_share_most`` (as wrong),
        ``checked_unsure_share``, ``checked_share_unaided`` (Horvitz and Thompson's estimate, with
        Wilson's interval of Kish's effective number of labels), ``checked_width`` (width of the
        interval over that of a uniform sample of as many of these pairs with this share).
    """
    pairs, counts = counted(sample, strata)
    labelled, (_, wrong, unsure) = counts.sum(axis=1), counts.T
    n = int(labelled.sum())
    rows = [
        _row("checked_share", interval(pairs, labelled, wrong), n),
        _row("checked_share_most", interval(pairs, labelled, wrong + unsure), n),
        _row("checked_unsure_share", interval(pairs, labelled, unsure), n),
    ]
    share = rows[0]
    worth = effective(np.repeat(pairs / np.maximum(labelled, 1), labelled.astype(int)))
    low, high = wilson(share["value"] * worth, worth)
    rows.append(_row("checked_share_unaided", Share(share["value"], low.item(), high.item()), n))
    uniform = interval([pairs.sum()], [n], [share["value"] * n])
    width = (share["high"] - share["low"]) / (uniform.high - uniform.low)
    return [*rows, {"metric": "checked_width", "value": width, "n": n}]


def _row(metric: str, share: Share, n: int, **keys: Any) -> Row:
    return {"metric": metric, **keys, "value": share.estimate, "n": n,
            "low": share.low, "high": share.high}  # fmt: skip


def effective(weights: np.ndarray) -> float:
    """Return Kish's effective number of observations with weights; 0 without any."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0


def further_labels(
    sample: pd.DataFrame, strata: Sequence[Mapping[str, int]], half_width: float
) -> int | None:
    """Return how many more labels an interval of ± `half_width` needs; None if none suffice.

    Labels of all strata are multiplied by one factor, with the shares that were found, up to all
    pairs.
    """
    pairs, counts = counted(sample, strata)
    labelled, wrong = counts.sum(axis=1), counts[:, 1]

    def half(factor: float) -> float:
        more = np.minimum(labelled * factor, pairs)
        share = interval(pairs, more, wrong * more / np.maximum(labelled, 1))
        return float(share.high - share.low) / 2

    low, high = 1.0, float((pairs / np.maximum(labelled, 1)).max())
    if not labelled.all() or half(high) > half_width:
        return None
    if half(low) <= half_width:
        return 0
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if half(middle) <= half_width else (middle, high)
    return math.ceil(np.minimum(labelled * high, pairs).sum() - labelled.sum())


# The model's probabilities, by the labels.


def weighed(sample: pd.DataFrame, strata: Sequence[Mapping[str, int]]) -> pd.DataFrame:
    """Return pairs that are labelled right or wrong and have a probability, with their ``weight``.

    The weight is that of Horvitz and Thompson, the number of pairs that a label stands for, and is
    1 on average. ``wrong`` is 0 or 1.
    """
    pairs, counts = counted(sample, strata)
    each = pairs / np.maximum(counts[:, :2].sum(axis=1), 1)
    chosen = sample["label"].isin([RIGHT, WRONG]) & np.isfinite(sample["probability"].astype(float))
    of = sample[chosen].assign(weight=each[sample.loc[chosen, "stratum"]])
    wrong = (of["label"] == WRONG).astype(float)
    return of.assign(wrong=wrong, weight=of["weight"] / of["weight"].mean() if len(of) else 1.0)


def recalibration(of: pd.DataFrame) -> tuple[float, float]:
    """Return a and b of a logistic regression, logit P(wrong) = a + b logit(probability).

    It is weighted, and a prior of `PRIOR` labels is for a = 0 and b = 1, so that few labels change
    little (Platt 1999, with weights).
    """
    x, y, weight = _logit(of["probability"]), of["wrong"].to_numpy(), of["weight"].to_numpy()
    design = np.stack([np.ones_like(x), x], axis=1)
    prior, theta = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    spread = np.array([1.0, max(float(np.average(x**2, weights=weight)), 1.0)]) * PRIOR / 4
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(design @ theta, -30, 30)))
        gradient = design.T @ (weight * (y - p)) - spread * (theta - prior)
        curvature = (design * (weight * p * (1 - p))[:, None]).T @ design + np.diag(spread)
        change = np.linalg.solve(curvature, gradient)
        theta = theta + change * min(1.0, 2.0 / max(float(np.abs(change).max()), 1e-12))
    return float(theta[0]), float(theta[1])


def recalibrated(probability: Any, line: tuple[float, float]) -> np.ndarray:
    """Return probabilities by a line of `recalibration`, (n,); NaN stays."""
    return np.asarray(1 / (1 + np.exp(-(line[0] + line[1] * _logit(probability)))))


def _logit(probability: Any) -> np.ndarray:
    p = np.clip(np.asarray(probability, float), LEAST_CERTAIN, 1 - LEAST_CERTAIN)
    return np.asarray(np.log(p) - np.log1p(-p))


def model_rows(of: pd.DataFrame) -> list[Row]:
    """Return how well probabilities separate and fit the labels of `weighed`; none without both.

    Metrics ``checked_auroc`` (weighted, with Hanley and McNeil's interval for effective numbers),
    ``checked_error`` and ``checked_error_recalibrated`` (Brier's score; the second one on labels
    that the recalibration did not use, in `FOLDS` folds).
    """
    from sklearn.metrics import roc_auc_score

    wrong = of["wrong"].to_numpy() > 0
    if not wrong.any() or wrong.all():
        return []
    p, y, weight = (of[name].to_numpy(float) for name in ("probability", "wrong", "weight"))
    area = float(roc_auc_score(wrong, p, sample_weight=weight))
    first, second = effective(weight[wrong]), effective(weight[~wrong])
    variance = area * (1 - area) + (first - 1) * (area / (2 - area) - area**2)
    variance += (second - 1) * (2 * area**2 / (1 + area) - area**2)
    half = Z95 * math.sqrt(max(variance, 0.0) / first / second)
    fold = np.arange(len(of)) % FOLDS
    anew = np.empty(len(of))
    for one in range(FOLDS):
        anew[fold == one] = recalibrated(p[fold == one], recalibration(of[fold != one]))
    area_share = Share(area, max(area - half, 0.0), min(area + half, 1.0))
    return [
        _row("checked_auroc", area_share, len(of)),
        {"metric": "checked_error", "value": float(np.average((p - y) ** 2, weights=weight))},
        {"metric": "checked_error_recalibrated",
         "value": float(np.average((anew - y) ** 2, weights=weight))},
    ]  # fmt: skip


def reliability_rows(sample: pd.DataFrame, strata: Sequence[Mapping[str, int]]) -> list[Row]:
    """Return the share of wrong ones in each stratum (``at``: the mean probability there)."""
    pairs, counts = counted(sample, strata)
    mean = sample["probability"].astype(float).groupby(sample["stratum"]).mean()
    return [
        _row("checked_reliability", interval([pairs[h]], [n], [wrong]), int(n), at=mean[h])
        for h, (n, wrong) in enumerate(zip(counts.sum(axis=1), counts[:, 1], strict=True))
        if n and math.isfinite(mean[h])
    ]


# Lists that a cut of the probability leaves.


def cut_rows(
    sample: pd.DataFrame, strata: Sequence[Mapping[str, int]], cut: float, precision: float
) -> list[Row]:
    """Return precision and recall of what a cut leaves out, and the cut for a wanted precision.

    Metrics ``checked_precision`` (share of wrong ones among pairs that are left out) and
    ``checked_recall`` (share of wrong ones that are left out), both ``at`` the cut; and
    ``checked_cut``, the smallest cut whose precision is at least that wanted (``at``). Unsure ones
    count as right. None without probabilities.
    """
    if not np.isfinite(sample["probability"].astype(float)).all():
        return []
    found = _at(sample, strata, cut)
    n = int((sample["label"] != "").sum())
    rows = [_row(f"checked_{name}", share, n, at=cut) for name, share in found.items()]
    pairs, counts = counted(sample, strata)
    each = (pairs / np.maximum(counts.sum(axis=1), 1))[sample["stratum"]]
    weight = np.where(sample["label"] != "", each, 0.0)
    chance, wrong = sample["probability"].to_numpy(float), sample["label"].to_numpy() == WRONG
    for at in (round(0.01 * step, 2) for step in range(1, 100)):
        out = weight * (chance >= at)
        if np.count_nonzero(out) >= LEAST_LEFT_OUT and out @ wrong >= precision * out.sum():
            return [*rows, {"metric": "checked_cut", "at": precision, "value": at}]
    return rows


def _at(sample: pd.DataFrame, strata: Sequence[Mapping[str, int]], cut: float) -> dict[str, Share]:
    """Return precision and recall at a cut, as far as there is anything to count.

    Each stratum has a part that is left out and one that is kept, of sizes as in the sample. Both
    shares of wrong ones are those of stratified samples. Recall is P a / (P a + Q b), with P and Q
    the shares among a pairs that are left out and b that are kept; its limits are those of both.
    """
    out = sample["probability"].to_numpy(float) >= cut
    sides = []
    for side in (out, ~out):
        of = sample[side]
        drawn = np.bincount(of["stratum"], minlength=len(strata))
        every = np.array([stratum["pairs"] / max(stratum["drawn"], 1) for stratum in strata])
        labelled = np.bincount(of["stratum"], of["label"] != "", len(strata))
        wrong = np.bincount(of["stratum"], of["label"] == WRONG, len(strata))
        sides.append((drawn * every, labelled, wrong))
    if not all(labelled.any() for _, labelled, _ in sides):
        return {"precision": interval(*sides[0])} if sides[0][1].any() else {}
    both = [interval(*side, z=Z_BOTH) for side in sides]
    a, b = (side[0].sum() for side in sides)

    def recall(p: float, q: float) -> float:
        return p * a / (p * a + q * b) if p * a + q * b > 0 else math.nan

    of_recall = Share(
        recall(both[0].estimate, both[1].estimate),
        recall(both[0].low, both[1].high), recall(both[0].high, both[1].low),
    )  # fmt: skip
    found = {"precision": interval(*sides[0])}
    return found | ({"recall": of_recall} if math.isfinite(of_recall.estimate) else {})
