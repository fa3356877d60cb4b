"""Score of a pair, by its cosine, its surroundings and its neighbours, and ranks of its caption.

A cosine is high for a picture that is near all captions, and for a caption that fits all pictures:
the mean cosine with the nearest ones is that level (cross-domain similarity local scaling, CSLS).
Captions of similar pictures should be alike, and pictures of similar captions (LEMoN). How much
each counts is chosen on the corpus itself, by how often right captions score above wrong ones.
Wrong ones are like random captions, as many as cosines let expect, and like texts that checks of
the text alone find empty, such as names of files. Pairs count as right by their cosines, alike for
all weights, so no mismatch has to be known.

Neighbours are those in the block in which pairs are ranked, so memory grows with the pairs alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import torch
from torch import Tensor

from mispair.core import seeds
from mispair.core.training import times

NEAREST = 10
"""Neighbours of a picture or a caption in a block."""

FIT = 5.0
"""Neighbours weigh by exp(FIT × cosine of their own pair), as LEMoN weighs pairs that fit."""

LEVELS = (0.0, 0.5, 1.0)
AGREEMENTS = (0.0, 0.15, 0.3, 0.6, 1.0)
"""Weights that are tried: of the level, and of the agreement of neighbours."""

JUDGED = 20_000
"""Pairs on which weights are tried, at most."""

MOST_EMPTY = 0.9
"""Share of pairs whose text describes nothing, at most."""

STEPS = 20
"""Bins of how often pairs win, between 0 and 1."""


def evidence(
    scores: Tensor, images: Tensor, texts: Tensor, apart: Tensor, rows: Tensor, columns: Tensor
) -> Tensor:
    """Return the level and the agreement of pictures `rows` with captions `columns`, (2, b, m).

    Parameters
    ----------
    scores : (b, b) Tensor
        Cosines of the pictures of a block with its captions.
    images, texts : Tensor (b, e)
        Of length 1.
    apart : (b, b) bool Tensor
        Pairs that share neither a picture nor a text: others are no neighbours.
    rows, columns : Tensor (b, m) of int
        The first column is the pairs themselves, the others random captions, by which the
        agreement has a mean of 0 and a variance of 1.
    """
    k = min(NEAREST, len(scores) - 1)
    others = scores.masked_fill(~apart, -torch.inf)
    levels = [_mean(others.topk(k, dim=side).values, side) for side in (1, 0)]
    level = (levels[0][rows] + levels[1][columns]) / 2
    of_captions = _agreement(images, texts, scores, apart)[rows, columns]
    of_pictures = _agreement(texts, images, scores, apart)[columns, rows]
    counted = apart[rows[:, 1:], columns[:, 1:]]
    parts = []
    for part in (of_captions, of_pictures):
        random = part[:, 1:][counted]
        spread = random.std() if random.numel() > 1 else torch.zeros(())
        parts.append((part - random.mean()) / spread if spread > 0 else torch.zeros_like(part))
    return torch.stack([level, parts[0] + parts[1]])


def _mean(values: Tensor, side: int) -> Tensor:
    """Return means of finite values, 0 without any."""
    finite = values.isfinite()
    return torch.where(finite, values, 0).sum(dim=side) / finite.sum(dim=side).clamp_min(1)


def _agreement(near: Tensor, opposite: Tensor, scores: Tensor, apart: Tensor) -> Tensor:
    """Return cosines of what the nearest of each row have with what each column has, (b, b).

    A column that is itself among the nearest does not count: it would agree with itself.
    """
    cosines = times(near, near.mT).masked_fill_(~apart, -torch.inf)
    nearest = cosines.topk(min(NEAREST, len(near) - 1), dim=1)
    fit = (FIT * scores.diagonal()[nearest.indices]).masked_fill(
        ~nearest.values.isfinite(), -torch.inf
    )
    weights = torch.softmax(fit, dim=1).nan_to_num(0.0)
    mean = torch.einsum("bk,bke->be", weights, opposite[nearest.indices])
    share = torch.zeros_like(scores).scatter_(1, nearest.indices, weights)
    return (times(mean, opposite.mT) - share) / (1 - share).clamp_min(1e-3)


def combined(
    similarity: np.ndarray,
    level: np.ndarray,
    agreement: np.ndarray,
    empty: np.ndarray | None = None,
) -> tuple[np.ndarray, tuple[float, float]]:
    """Return scores (n, m), and the weights of level and agreement that were chosen.

    Parameters
    ----------
    similarity, level, agreement : (n, m) arrays
        The first column is the pairs, the others are random captions for the same pictures, NaN
        where there is none.
    empty : (n,) bool array, optional
        Pairs whose text describes nothing. They count as wrong as far as their cosine lets expect.
        If they are nearly all pairs, they count like others: random captions are like them.
    """
    some = slice(None, None, -(-len(similarity) // JUDGED))
    is_empty = np.zeros(len(similarity), bool) if empty is None else empty
    is_empty = is_empty[some] & (is_empty[some].mean() < MOST_EMPTY)
    wins = _wins(similarity[some])
    right, wrong_share = _right(wins[~is_empty])
    wrong = 1 - _right(wins)[0][is_empty]
    numbers = wrong_share * len(right) + 1, wrong.sum()

    def separation(scores: np.ndarray) -> float:
        over_random = _average(_wins(scores)[~is_empty], right)
        over_empty = _average(_above(scores[~is_empty, 0], scores[is_empty, 0], wrong), right)
        return float(np.average([over_random, over_empty], weights=numbers))

    def scored(weights: tuple[float, float], rows: slice) -> np.ndarray:
        lifted = similarity[rows] - np.float32(weights[0]) * level[rows]
        random = similarity[some, 1:] - np.float32(weights[0]) * level[some, 1:]
        scale = max(float(np.nanstd(random)), 1e-12) if np.isfinite(random).any() else 1.0
        return lifted + np.float32(weights[1] * scale) * agreement[rows]

    weights = max(product(LEVELS, AGREEMENTS), key=lambda tried: separation(scored(tried, some)))
    return scored(weights, slice(None)), weights


def _wins(scores: np.ndarray) -> np.ndarray:
    """Return the share of random captions above which each pair scores, (n,); 0 without any."""
    random = scores[:, 1:][np.isfinite(scores[:, 1:])]
    return _above(scores[:, 0], random, np.ones(len(random)))


def _above(scores: np.ndarray, others: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weight of the others below each score, as a share; 0 without any."""
    order = np.argsort(others, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(weights[order])])
    places = np.searchsorted(others[order], scores, "left")
    return np.asarray(below[places] / max(below[-1], 1e-12))


def _right(wins: np.ndarray) -> tuple[np.ndarray, float]:
    """Return how likely each pair is right by how often it wins, (n,), and the share of wrong ones.

    Wrong pairs win as often as not, so twice the share of those that win less often is wrong.
    """
    if not len(wins):
        return np.zeros(0), 0.0
    wrong = min(1.0, 2 * float((wins < 0.5).mean()))
    bins = np.minimum((wins * STEPS).astype(int), STEPS - 1)
    density = np.bincount(bins, minlength=STEPS) * STEPS / len(wins)
    return np.maximum(0.0, 1 - wrong / density[bins]), wrong


def _average(values: np.ndarray, weights: np.ndarray) -> float:
    """Return a weighted mean; the plain one if all weights are 0."""
    return float(np.average(values, weights=weights + (weights.sum() <= 0)))


# Rank of a caption among captions drawn at random, for the same picture.
#
# Assumption on how captions go wrong: a wrong caption is one more draw from the captions of the
# corpus. Then its rank among captions of other pairs is uniform, whatever the model, and no
# mismatch has to be known. If it is no such draw (a caption of another corpus, an empty text), but
# its picture is one more draw from the pictures, the rank of the picture is uniform, so pictures
# are ranked as well. Captions of similar pictures, captions that are wrong in part, text that was
# chosen to fit, and pairs that a filter by cosines left rank better both ways:
# `mispair.audit.trials` tries some of these. Pairs
# are dealt at random into blocks. One product of a block's pictures with its captions ranks each
# caption among captions and each picture among pictures; no matrix of all pairs is made.

BLOCK = 2048
"""Pairs of a block: a caption is ranked among nearly as many others."""

BINS = 200
"""Bins of p-values between 0 and 1."""

REPLICATES = 200
"""Bootstrap replicates."""

REFERENCES = 10
"""Captions of other pairs whose similarity to a picture is kept, for each pair."""


@dataclass(frozen=True)
class Ranks:
    """Ranks of n pairs, and the null distribution from their block.

    Attributes
    ----------
    similarity : (n,) float32 array
        Cosine of picture and caption.
    p_value : (n,) float64 array
        Rank of the caption among captions of other pairs for the same picture, in (0, 1): near 0
        if hardly any fits better. Uniform for a caption that was drawn at random. Ties are broken
        at random.
    picture_p_value : (n,) float64 array
        Rank of the picture among pictures of other pairs for the same caption.
    score, reference_score : (n,), (n, r) float32 arrays
        What pairs are ordered by, and the same of the picture with captions of other pairs, drawn
        at random: `combined`, or cosines. NaN where the draw is no other pair's.
    score_weights : tuple of float
        Of level and agreement in the score.
    histograms : (3, 2, 1 + replicates, bins) float64 array
        Number of pairs of both halves by their rank of captions, of pictures, and the larger of
        both: as measured, and in bootstrap replicates of the pairs, in which the captions that a
        caption is ranked among are drawn again as well.
    excluded : int
        Comparisons left out because the two pairs share a picture or a text.
    """

    similarity: np.ndarray
    p_value: np.ndarray
    picture_p_value: np.ndarray
    score: np.ndarray
    reference_score: np.ndarray
    score_weights: tuple[float, float]
    histograms: np.ndarray
    excluded: int

    @property
    def p_values(self) -> np.ndarray:
        """The ranks of captions, then of pictures, (2, n)."""
        return np.stack([self.p_value, self.picture_p_value])


def deal(n: int, seed: int, size: int = BLOCK) -> list[np.ndarray]:
    """Return the pairs of each block: positions 0 to n - 1, dealt at random, sizes nearly equal."""
    order = seeds.generator(seed, "audit", "blocks").permutation(n)
    return np.array_split(order, max(1, n // size))


def rank(
    blocks: Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]],
    same: tuple[np.ndarray, np.ndarray],
    seed: int,
    device: str = "cpu",
    replicates: int = REPLICATES,
    progress: Callable[[int], None] = lambda pairs: None,
    scored: bool = False,
    empty: np.ndarray | None = None,
) -> Ranks:
    """Rank the caption of each pair among those of its block.

    Parameters
    ----------
    blocks : iterator of (positions, images, texts)
        For each block the pairs (b,), as `deal` gives them, and their embeddings of length 1,
        (b, e) each, of any floating-point type.
    same : two (n,) int arrays
        Pictures and texts by number: pairs that share one are not compared.
    seed : int
        Of ties and of the bootstrap.
    device : {"cpu", "cuda"}
        Where blocks are multiplied.
    replicates : int
        Bootstrap replicates.
    progress : callable
        Receives the number of pairs that are ranked.
    scored : bool
        Whether scores have more than cosines.
    empty : (n,) bool array, optional
        Pairs whose text describes nothing, as `combined` takes them.
    """
    n = len(same[0])
    cosines = np.empty((n, 1 + REFERENCES), np.float32)  # of the pair, and of random captions
    surroundings = np.zeros((2 if scored else 0, n, 1 + REFERENCES), np.float32)
    p_value, picture_p_value = np.empty(n), np.empty(n)
    histograms = torch.zeros((3, 2, (1 + replicates) * BINS), dtype=torch.float64)
    excluded = done = 0
    for number, (pairs, images, texts) in enumerate(blocks):
        b = len(pairs)
        coins, others, weights = _draws(seed, number, b, replicates)
        weights = weights.to(device)

        pictures, captions = _on(images, device), _on(texts, device)
        scores = times(pictures, captions.mT)
        rivals, room = _rivals(same, pairs, device)
        rivals_of_captions = rivals.sum(dim=0)
        excluded += b * (b - 1) - int(rivals_of_captions.sum(dtype=torch.float64))

        paired, first, second = scores.diagonal().clone(), *coins.to(device)
        better = _better(scores, paired[:, None], rivals, first[:, None], room)
        counts, draws = times(better, weights), _draws_of_rivals(weights, same, pairs)
        p_values = (counts + first[:, None]) / (draws + 1)
        better = _better(scores, paired[None, :], rivals, second[None, :], room)
        of_pictures = (better.sum(dim=0) + second) / (rivals_of_captions + 1)
        both = p_values.cpu(), of_pictures.cpu()[:, None].expand(p_values.shape)
        for (way, ranks), half in product(enumerate((*both, torch.maximum(*both))), (0, 1)):
            histograms[way, half] += _histograms(ranks[half::2], weights[half::2].cpu())

        rows = torch.arange(b)[:, None].expand(b, 1 + REFERENCES).to(device)
        columns = torch.cat([torch.arange(b)[:, None], (rows[:, 1:].cpu() + others) % b], dim=1)
        columns = columns.to(device)
        drawn = scores.gather(1, columns)
        drawn[:, 1:][rivals.gather(1, columns[:, 1:]) == 0] = torch.nan
        cosines[pairs] = drawn.cpu().numpy()
        if scored and b > 1:
            found = evidence(scores, pictures, captions, rivals.bool(), rows, columns)
            surroundings[:, pairs] = found.cpu().numpy()
        p_value[pairs], picture_p_value[pairs] = p_values[:, 0].cpu(), of_pictures.cpu()
        done += b
        progress(done)
    score, chosen = cosines, (0.0, 0.0)
    if scored:
        level, agreement = surroundings
        score, chosen = combined(cosines, level, agreement, empty)
    return Ranks(
        cosines[:, 0], p_value, picture_p_value, score[:, 0], score[:, 1:], chosen,
        histograms.view(3, 2, 1 + replicates, BINS).numpy(), excluded,
    )  # fmt: skip


def _on(embeddings: np.ndarray, device: str) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(embeddings, np.float32)).to(device)


@lru_cache(maxsize=16)
def _draws(seed: int, number: int, b: int, replicates: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return coins (2, b), random others (b, references), and how often replicates draw each pair.

    The first column of the last, (b, 1 + replicates), is all pairs once. All corpora that are
    dealt alike share these draws; they are made on the CPU, alike for every device.
    """
    generator = seeds.torch_generator(seed, "audit", "block", number)
    coins = torch.rand((2, b), generator=generator)
    others = torch.randint(1, max(b, 2), (b, REFERENCES), generator=generator)
    weights = torch.poisson(torch.ones(b, replicates), generator=generator)
    return coins, others, torch.cat([torch.ones(b, 1), weights], dim=1)


def _draws_of_rivals(
    weights: Tensor, same: tuple[np.ndarray, np.ndarray], pairs: np.ndarray
) -> Tensor:
    """Return how often replicates draw the rivals of each pair, of the shape of `weights`.

    They are all pairs but those with its picture or its text. Sums of whole numbers have no
    rounding, so this is the product of the matrix of rivals with the weights.
    """
    names = torch.from_numpy(np.stack([of_pairs[pairs] for of_pairs in same]))
    excluded = torch.zeros_like(weights)
    for sign, columns in ((1, names[:1]), (1, names[1:]), (-1, names)):
        groups, group = torch.unique(columns, dim=1, return_inverse=True)
        group = group.to(weights.device)
        sums = weights.new_zeros(groups.shape[1], weights.shape[1]).index_add_(0, group, weights)
        excluded += sign * sums[group]
    return weights.sum(dim=0) - excluded


def _rivals(
    same: tuple[np.ndarray, np.ndarray], pairs: np.ndarray, device: str
) -> tuple[Tensor, Tensor]:
    """Return 1 where two pairs of a block share neither picture nor text, else 0, and room.

    Both are float32 (b, b): torch compares numbers of one type into that type many times faster
    than into truth values that are converted.
    """
    rivals, room = torch.empty((2, len(pairs), len(pairs)), device=device)
    of_block = [np.unique(names[pairs], return_inverse=True)[1] for names in same]
    for names, out in zip(of_block, (rivals, room), strict=True):
        numbers = _on(names, device)
        torch.ne(numbers[:, None], numbers[None, :], out=out)
    return rivals.mul_(room), room


def _better(scores: Tensor, paired: Tensor, rivals: Tensor, coins: Tensor, room: Tensor) -> Tensor:
    """Return which rivals beat a pair's own score, float32 (b, b); a tie counts as its coin.

    `room` of that shape and type is written over.
    """
    ties = torch.eq(scores, paired, out=room).mul_(rivals)
    if not (ties.is_cuda or ties.sum()):
        return torch.gt(scores, paired, out=room).mul_(rivals)
    better = (scores > paired).float().mul_(rivals)
    return torch.where(ties > 0, coins.expand_as(scores), better)


def _histograms(p_values: Tensor, weights: Tensor) -> Tensor:
    """Count weights (b, replicates) by p-value, replicate by replicate; flat, float64."""
    bins = (p_values * BINS).long().clamp_(max=BINS - 1)
    bins += torch.arange(bins.shape[1]) * BINS
    return torch.bincount(bins.flatten(), weights.double().flatten(), bins.shape[1] * BINS)
