"""Captions that were swapped for a similar one: their ranks and their share.

Such a caption is much better than random ones, so it is ranked among the captions most similar to
it, for the same picture. What share ranks badly there by nature is known from right pairs alone.
"""

from dataclasses import dataclass

import numpy as np

from mispair.audit.pairs import PairEmbeddings
from mispair.audit.rate import LEAST_TRUSTED, MOST_WIDTH, Z_BELOW, Rate, Z, mixture_rate
from mispair.core import seeds

_PAIRS = 1024


def similar_ranks(
    embeddings: PairEmbeddings,
    pairs: np.ndarray,
    source: np.ndarray,
    trusted: np.ndarray,
    nearest: np.ndarray,
    same: tuple[np.ndarray, np.ndarray],
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return ranks of pairs, and of trusted pairs with a similar caption in place of their own.

    Parameters and values of p are those of `neighbour_p_values`; `trusted` (t,) are pairs whose
    own caption is right.
    """
    generator = seeds.generator(seed, "audit", "swapped trusted pairs")
    swapped = draw_similar(trusted, same[1], nearest, generator)
    moved = same[1][swapped] != same[1][trusted]
    return (
        neighbour_p_values(embeddings, pairs, source, nearest, same, seed),
        neighbour_p_values(embeddings, trusted[moved], swapped[moved], nearest, same, seed),
    )


def neighbour_p_values(
    embeddings: PairEmbeddings,
    pairs: np.ndarray,
    source: np.ndarray,
    nearest: np.ndarray,
    same: tuple[np.ndarray, np.ndarray],
    seed: int,
) -> np.ndarray:
    """Return the rank of captions among their nearest captions, (m,) in (0, 1); NaN without any.

    A caption that was swapped for a similar one is hardly better than its neighbours, although it
    is much better than random captions.

    Parameters
    ----------
    embeddings : PairEmbeddings
        Of all n pairs.
    pairs, source : (m,) int arrays
        Whose picture, and whose caption.
    nearest : (n, k) int array
        Pairs with the captions most similar to that of each pair; -1 is none.
    same : two (n,) int arrays
        Pictures and texts by number. Captions with the same words as the ranked one are no rivals.
        Further captions of the same picture are no rivals, either. Nor is its own caption where it
        has another one: in a corpus in which a caption was swapped, the right one is not there.
    seed : int
        Of ties.
    """
    m = len(pairs)
    coins = seeds.generator(seed, "audit", "neighbours", m).random(m)
    p_values = np.full(m, np.nan)
    if not nearest.shape[1]:
        return p_values
    pictures, texts = same
    for start in range(0, m, _PAIRS):
        rows = slice(start, start + _PAIRS)
        one, caption_of = pairs[rows], source[rows]
        others = nearest[caption_of]
        rivals = (others >= 0) & (texts[others] != texts[caption_of, None])
        # Captions of the picture are as right as the ranked one, or gone where that is wrong.
        rivals &= pictures[others] != pictures[one, None]
        vectors = embeddings.texts_of(others.ravel()).reshape(*others.shape, -1)
        picture = embeddings.images_of(one)
        score = np.einsum("ne,ne->n", picture, embeddings.texts_of(caption_of))[:, None]
        scores = np.einsum("ne,nke->nk", picture, vectors)
        better = ((scores > score) & rivals).sum(axis=1)
        ties = ((scores == score) & rivals).sum(axis=1)
        number = rivals.sum(axis=1)
        ranked = (better + coins[rows] * (1 + ties)) / (number + 1)
        p_values[rows] = np.where(number > 0, ranked, np.nan)
        embeddings.release()
    return p_values


def draw_similar(
    pairs: np.ndarray, texts: np.ndarray, nearest: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Return for each of m pairs a random pair with a similar caption of other words, (m,).

    A pair stays as it is if no other caption is similar to its own.
    """
    if not nearest.shape[1]:
        return pairs
    usable = (nearest[pairs] >= 0) & (texts[nearest[pairs]] != texts[pairs, None])
    drawn = np.floor(generator.random(len(pairs)) * usable.sum(axis=1)).astype(np.int64)
    nth = np.argmax(np.cumsum(usable, axis=1) > drawn[:, None], axis=1)
    return np.where(usable.any(axis=1), nearest[pairs, nth], pairs)


@dataclass(frozen=True)
class SimilarRate(Rate):
    """A share of captions of similar pictures; `is_known` states whether an audit reports it."""

    is_known: bool


def audited_similar_rate(
    near: np.ndarray,
    trusted: np.ndarray,
    swapped: np.ndarray,
    p_values: np.ndarray,
    of_trusted: Rate,
    bins: int,
    dispersion: float,
) -> SimilarRate:
    """Return the share of captions that were swapped for a similar one, of an audit.

    `similar_rate` by the mixture's share of unrelated captions. Among mostly unrelated captions
    this share is too small at times, and the rest seems similar: the lower limit is the smaller one
    of this and of that by `of_trusted`. An audit reports the rate where it is narrower than
    `MOST_WIDTH`, and above 0 at the level of `Z_BELOW`, as of every test that an audit with trusted
    pairs makes. That test has the spread of right ranks that holds if it is 0: ranks of few trusted
    pairs are skewed, and a small mean has a small spread.

    Parameters
    ----------
    near, trusted, swapped
        As `similar_rate` takes them.
    p_values : (n,) array
        Ranks among random captions.
    of_trusted : Rate
        Share of unrelated captions by trusted pairs.
    bins : int
        Of the histogram of p-values.
    dispersion : float
        As `mixture_rate` takes it.

    Raises
    ------
    ValueError
        As `similar_rate`.
    """
    counts, _ = np.histogram(p_values[np.isfinite(near)], bins, (0, 1))
    unrelated = mixture_rate(counts, dispersion)
    found = similar_rate(near, trusted, swapped, unrelated)
    low = min(found.low, similar_rate(near, trusted, swapped, of_trusted).low)
    least = min(
        similar_rate(near, trusted, swapped, of, Z_BELOW, if_none=True).low
        for of in (unrelated, of_trusted)
    )
    is_known = least > 0 and found.high - low <= MOST_WIDTH
    return SimilarRate(found.value, low, found.high, is_known)


def similar_rate(
    p_values: np.ndarray,
    trusted: np.ndarray,
    swapped: np.ndarray,
    unrelated: Rate,
    z: float = Z,
    if_none: bool = False,
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
        Share of captions of unrelated pictures among the ranked pairs, trusted ones included.
    z : float
        Standard errors from the value to its limits.
    if_none : bool
        Whether right ranks have at least the variance that other pairs give them if no caption is
        that of a similar picture.

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
    # No trusted pair is wrong, so among the others the share is larger.
    more = (len(others) + len(of_trusted)) / len(others)
    of_others = min(1.0, more * unrelated.value)
    value, slopes = _swapped_share(mean, right, wrong, of_others)
    if wrong - right < 3 * (errors[1] + errors[2]) ** 0.5:
        raise ValueError("captions of trusted pairs rank no better than similar captions")
    if if_none and of_others < 1:
        # Uniform ranks have a mean of 1/2, and their squares one of 1/3.
        left = (mean - of_others / 2) / (1 - of_others)
        squares = (float((others**2).mean()) - of_others / 3) / (1 - of_others)
        errors[1] = max(errors[1], (squares - left**2) / len(of_trusted))
    errors.append((more * (unrelated.high - unrelated.low) / (2 * Z)) ** 2)
    variance = sum(slope**2 * error for slope, error in zip(slopes, errors, strict=True))
    found = Rate.of_part(value, variance**0.5, 1 / more, z)
    rest = max(0.0, 1 - unrelated.low)  # both shares together are at most all
    return Rate(*(min(rest, share) for share in (found.value, found.low, found.high)))


def _swapped_share(
    mean: float, right: float, swapped: float, unrelated: float
) -> tuple[float, tuple[float, ...]]:
    """Return the share of swapped captions by mean ranks, and its slope in each of the four.

    mean = (1 - unrelated - share) right + unrelated / 2 + share swapped.
    """
    gap = swapped - right
    if gap <= 0:
        return 0.0, (0.0, 0.0, 0.0, 0.0)
    share = (mean - right - unrelated * (0.5 - right)) / gap
    return share, (1 / gap, (unrelated - 1 + share) / gap, -share / gap, (right - 0.5) / gap)


def similar_rate_by_labels(
    p_values: np.ndarray,
    own: np.ndarray,
    swapped: np.ndarray,
    stratum: np.ndarray,
    pairs: np.ndarray,
    unrelated: Rate,
) -> Rate:
    """Return the share of captions that were swapped for a similar one, from a person's labels.

    The mixture is that of `similar_rate`. Pairs that are labelled right are a random part of the
    right ones of their stratum, and not of all: means weigh each by the pairs that its label stands
    for (Hájek 1971), and the variance is that of a stratified sample of the labels, right or not.

    Parameters
    ----------
    p_values : (m,) array
        Ranks of captions among their most similar ones, of random pairs; NaN where there are none.
    own, swapped : (l,) arrays
        Of each label: the rank of the pair's caption, and that of a similar one in its place. NaN
        where there is none, and where the label is not right.
    stratum : (l,) int array
        Of each label.
    pairs : (H,) array
        Pairs of each stratum.
    unrelated : Rate
        Share of captions of unrelated pictures among pairs that have a rank.

    Returns
    -------
    Rate
        As a share of all pairs.

    Raises
    ------
    ValueError
        ``few`` if fewer than `LEAST_TRUSTED` pairs have both ranks, ``alike`` if their right
        captions rank no better than similar ones, ``wide`` if the interval is wider than
        `MOST_WIDTH`.
    """
    from mispair.core.distributions import t_quantile

    both = np.isfinite(own) & np.isfinite(swapped)
    if both.sum() < LEAST_TRUSTED:
        raise ValueError("few")
    labelled = np.bincount(stratum, minlength=len(pairs))
    weight = np.where(labelled > 0, pairs, 0) / max(pairs[labelled > 0].sum(), 1)
    each = (weight / np.maximum(labelled, 1))[stratum]
    own, swapped = np.where(both, own, 0.0), np.where(both, swapped, 0.0)
    part = float(each @ both)
    right, wrong = float(each @ own) / part, float(each @ swapped) / part

    def variance(influence: np.ndarray) -> float:
        """Return that of a weighted sum of labels; strata of one label have the pooled one."""
        mean = np.bincount(stratum, influence, len(pairs)) / np.maximum(labelled, 1)
        squares = np.bincount(stratum, (influence - mean[stratum]) ** 2, len(pairs))
        pooled = squares.sum() / max(len(stratum) - int((labelled > 0).sum()), 1)
        spread = np.where(labelled > 1, squares / np.maximum(labelled - 1, 1), pooled)
        left = 1 - labelled / np.maximum(pairs, 1)
        return float((weight**2 * left * spread / np.maximum(labelled, 1)).sum())

    apart = [np.where(both, ranks - mean, 0.0) / part
             for ranks, mean in ((own, right), (swapped, wrong))]  # fmt: skip
    ranked = p_values[np.isfinite(p_values)]
    value, slopes = _swapped_share(float(ranked.mean()), right, wrong, unrelated.value)
    if wrong - right < 3 * variance(apart[1] - apart[0]) ** 0.5:
        raise ValueError("alike")
    error = variance(slopes[1] * apart[0] + slopes[2] * apart[1])
    error += slopes[0] ** 2 * float(ranked.var(ddof=1)) / len(ranked)
    error += (slopes[3] * (unrelated.high - unrelated.low) / (2 * Z)) ** 2
    half = t_quantile(0.975, int(both.sum()) - 1) / Z * error**0.5
    found = Rate.of_part(value, half, len(ranked) / len(p_values))
    if found.high - found.low > MOST_WIDTH:
        raise ValueError("wide")
    return found
