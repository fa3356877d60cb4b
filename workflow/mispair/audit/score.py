"""Score of a pair: its cosine, less the level of its surroundings, and how its neighbours agree.

A cosine is high for a picture that is near all captions, and for a caption that fits all pictures:
the mean cosine with the nearest ones is that level (cross-domain similarity local scaling, CSLS).
Captions of similar pictures should be alike, and pictures of similar captions (LEMoN). How much
each counts is chosen on the corpus itself, by how often pairs score above random captions: wrong
captions lower this alike for all weights, so none has to be known.

Neighbours are those in the block of `mispair.audit.ranks`, so memory grows with the pairs alone.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import torch
from torch import Tensor

from mispair.core.arithmetic import times

NEAREST = 10
"""Neighbours of a picture or a caption in a block."""

FIT = 5.0
"""Neighbours weigh by exp(FIT × cosine of their own pair), as LEMoN weighs pairs that fit."""

LEVELS = (0.0, 0.5, 1.0)
AGREEMENTS = (0.0, 0.15, 0.3, 0.6, 1.0)
"""Weights that are tried: of the level, and of the agreement of neighbours."""

JUDGED = 20_000
"""Pairs on which weights are tried, at most."""


def evidence(
    scores: Tensor, images: Tensor, texts: Tensor, apart: Tensor, rows: Tensor, columns: Tensor
) -> Tensor:
    """Return the level and the agreement of pictures `rows` with captions `columns`, (2, b, m).

    Parameters
    ----------
    scores : (b, b) Tensor
        Cosines of the pictures of a block with its captions.
    images, texts : (b, e) Tensors
        Of length 1.
    apart : (b, b) bool Tensor
        Pairs that share neither a picture nor a text: others are no neighbours.
    rows, columns : (b, m) int Tensors
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
    similarity: np.ndarray, level: np.ndarray, agreement: np.ndarray
) -> tuple[np.ndarray, tuple[float, float]]:
    """Return scores (n, m), and the weights of level and agreement that were chosen.

    All arrays are (n, m): the first column is the pairs, the others are random captions for the
    same pictures, NaN where there is none.
    """
    some = slice(None, None, -(-len(similarity) // JUDGED))

    def scored(weights: tuple[float, float], rows: slice) -> np.ndarray:
        lifted = similarity[rows] - np.float32(weights[0]) * level[rows]
        random = similarity[some, 1:] - np.float32(weights[0]) * level[some, 1:]
        scale = max(float(np.nanstd(random)), 1e-12) if np.isfinite(random).any() else 1.0
        return lifted + np.float32(weights[1] * scale) * agreement[rows]

    weights = max(product(LEVELS, AGREEMENTS), key=lambda tried: _wins(scored(tried, some)))
    return scored(weights, slice(None)), weights


def _wins(scores: np.ndarray) -> float:
    """Return how often pairs score above random captions; 0 without any."""
    random = np.sort(scores[:, 1:][np.isfinite(scores[:, 1:])])
    if not len(random):
        return 0.0
    return float(np.searchsorted(random, scores[:, 0], "left").mean()) / len(random)
