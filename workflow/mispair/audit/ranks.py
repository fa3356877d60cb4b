"""Rank of a caption among captions drawn at random, for the same picture.

Assumption on how captions go wrong: a wrong caption is one more draw from the captions of the
corpus. Then its rank among captions of other pairs is uniform, whatever the model, and no mismatch
has to be known. Captions of similar pictures, text that fits every picture, and pairs that a filter
by cosines left rank better than that: `mispair.audit.trials` tries these.
Pairs are dealt at random into blocks. One product of a block's pictures with its captions ranks
each caption among captions and each picture among pictures; no matrix of all pairs is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mispair.audit.score import combined, evidence
from mispair.core import seeds
from mispair.core.arithmetic import times

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
    reference_similarity : (n, r) float32 array
        Cosines of the picture with captions of other pairs, drawn at random; NaN where the draw is
        no other pair's.
    score, reference_score : (n,), (n, r) float32 arrays
        What pairs are ordered by, and the same of the captions of other pairs: by
        `mispair.audit.score`, or the cosines.
    score_weights : tuple of float
        Of level and agreement in the score.
    histograms : (2, 1 + replicates, bins) float64 array
        Number of pairs of both halves by p-value: as measured, and in bootstrap replicates of the
        pairs, in which the captions that a caption is ranked among are drawn again as well.
    excluded : int
        Comparisons left out because the two pairs share a picture or a text.
    """

    similarity: np.ndarray
    p_value: np.ndarray
    picture_p_value: np.ndarray
    reference_similarity: np.ndarray
    score: np.ndarray
    reference_score: np.ndarray
    score_weights: tuple[float, float]
    histograms: np.ndarray
    excluded: int


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
    """
    n = len(same[0])
    cosines = np.empty((n, 1 + REFERENCES), np.float32)  # of the pair, and of random captions
    surroundings = np.zeros((2 if scored else 0, n, 1 + REFERENCES), np.float32)
    p_value, picture_p_value = np.empty(n), np.empty(n)
    histograms = torch.zeros((2, (1 + replicates) * BINS), dtype=torch.float64)
    excluded = done = 0
    for number, (pairs, images, texts) in enumerate(blocks):
        b = len(pairs)
        # Drawn on the CPU, so that every device gets the same numbers.
        generator = seeds.torch_generator(seed, "audit", "block", number)
        coins = torch.rand((2, b), generator=generator)
        others = torch.randint(1, max(b, 2), (b, REFERENCES), generator=generator)
        weights = torch.poisson(torch.ones(b, replicates), generator=generator)
        weights = torch.cat([torch.ones(b, 1), weights], dim=1).to(device)

        pictures, captions = _on(images, device), _on(texts, device)
        scores = times(pictures, captions.mT)
        apart = torch.ones((b, b), dtype=torch.bool)
        for names in same:
            of_block = torch.from_numpy(names[pairs])
            apart &= of_block[:, None] != of_block[None, :]
        excluded += b * (b - 1) - int(apart.sum())
        apart = apart.to(device)

        paired = scores.diagonal().clone()
        better, rivals = _better(scores, paired[:, None], apart, coins[0].to(device)[:, None])
        counts, draws = times(better, weights), times(rivals, weights)
        p_values = (counts + coins[0].to(device)[:, None]) / (draws + 1)
        for half in (0, 1):
            histograms[half] += _histograms(p_values[half::2].cpu(), weights[half::2].cpu())
        better, rivals = _better(scores, paired[None, :], apart, coins[1].to(device)[None, :])
        of_pictures = (better.sum(dim=0) + coins[1].to(device)) / (rivals.sum(dim=0) + 1)

        rows = torch.arange(b)[:, None].expand(b, 1 + REFERENCES).to(device)
        columns = torch.cat([torch.arange(b)[:, None], (rows[:, 1:].cpu() + others) % b], dim=1)
        columns = columns.to(device)
        drawn = scores.gather(1, columns)
        drawn[:, 1:][~apart.gather(1, columns[:, 1:])] = torch.nan
        cosines[pairs] = drawn.cpu().numpy()
        if scored and b > 1:
            found = evidence(scores, pictures, captions, apart, rows, columns)
            surroundings[:, pairs] = found.cpu().numpy()
        p_value[pairs], picture_p_value[pairs] = p_values[:, 0].cpu(), of_pictures.cpu()
        done += b
        progress(done)
    score, chosen = combined(cosines, *surroundings) if scored else (cosines, (0.0, 0.0))
    return Ranks(
        cosines[:, 0], p_value, picture_p_value, cosines[:, 1:],
        score[:, 0], score[:, 1:], chosen,
        histograms.view(2, 1 + replicates, BINS).numpy(), excluded,
    )  # fmt: skip


def _on(embeddings: np.ndarray, device: str) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(embeddings, np.float32)).to(device)


def _better(scores: Tensor, paired: Tensor, apart: Tensor, coins: Tensor) -> tuple[Tensor, Tensor]:
    """Return which others beat a pair's own score, where a tie counts as its coin, and the rivals.

    float32 (b, b) each.
    """
    better = (scores > paired).float()
    ties = (scores == paired) & apart
    if ties.is_cuda or ties.any():
        better = torch.where(ties, coins.expand_as(scores), better)
    rivals = apart.float()
    return better * rivals, rivals


def _histograms(p_values: Tensor, weights: Tensor) -> Tensor:
    """Count weights (b, replicates) by p-value, replicate by replicate; flat, float64."""
    bins = (p_values * BINS).long().clamp_(max=BINS - 1)
    bins += torch.arange(bins.shape[1]) * BINS
    return torch.bincount(bins.flatten(), weights.double().flatten(), bins.shape[1] * BINS)
