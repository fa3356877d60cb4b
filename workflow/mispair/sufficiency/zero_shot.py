"""Zero-shot classification of images by the first leaf of their text, with texts as prompts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from mispair.core.devices import upload
from mispair.sufficiency.sampling import Trees, draw_leaves

CHUNK = 1_000_000
"""Similarities that are computed at a time."""

Similarity = Callable[[slice], Tensor]
"""Similarities of some test images with all prompts: (images, prompts)."""


def draw_prompts(trees: Trees, per_class: int, generator: torch.Generator) -> Tensor:
    """Draw texts until each class, a symbol of the first leaf, has `per_class` of them.

    Returns
    -------
    Tensor of int (symbols * per_class, leaves)
        Ordered by class. Each is drawn from the trees given its first leaf.
    """
    symbols = trees.size.symbols
    texts = torch.zeros(0, trees.size.leaves, dtype=torch.long, device=trees.text.device)
    while bool((texts[:, 0].bincount(minlength=symbols) < per_class).any()):
        roots = torch.randint(symbols, (2 * per_class * symbols,), generator=generator)
        more = draw_leaves(trees.text, upload(roots, trees.text.device), generator)
        texts = torch.cat([texts, more])
    return torch.cat([texts[texts[:, 0] == name][:per_class] for name in range(symbols)])


def class_log_probabilities(
    similarity: Similarity, images: int, symbols: int, per_class: Sequence[int]
) -> Tensor:
    """Return log-probabilities of the classes with the first M prompts of each.

    The score of a class is the logarithm of the mean over its prompts of exp(similarity). Prompts
    are in the order of `draw_prompts`. The result is (len(per_class), images, symbols).
    """
    numbers = sorted(set(per_class))
    rows = max(1, CHUNK // (symbols * numbers[-1]))
    positions = torch.tensor([numbers.index(m) for m in per_class])
    results = []
    for first in range(0, images, rows):
        values = similarity(slice(first, first + rows)).unflatten(-1, (symbols, -1))
        # The sum over the prompts that each M adds, then over all prompts up to each M.
        parts = [values[..., a:b].logsumexp(dim=-1) for a, b in pairwise([0, *numbers])]
        sums = torch.stack(parts).logcumsumexp(dim=0)[positions.to(values.device)]
        means = sums - values.new_tensor(per_class).log()[:, None, None]
        results.append(means.log_softmax(dim=-1))
    return torch.cat(results, dim=1)


def of_features(images: Tensor, prompts: Tensor) -> Similarity:
    """Return the product of features as a similarity."""
    return lambda chosen: images[chosen] @ prompts.mT


def of_posteriors(images: Tensor, prompts: Tensor) -> Similarity:
    """Return log P(image, text) / (P(image) P(text)) from the root's posteriors given either.

    This is the similarity at which the contrastive risk is least.
    """
    return lambda chosen: (images[chosen] @ prompts.mT).log() + math.log(images.shape[-1])


def losses_of(log_probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return the cross-entropy of each image: (..., images) for (..., images, symbols)."""
    index = labels.expand(log_probabilities.shape[:-1])[..., None]
    return -log_probabilities.gather(-1, index)[..., 0]
