"""The best possible predictor of each task, by belief propagation."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from mispair.sufficiency.belief_propagation import from_the_left, leaf_beliefs, upward
from mispair.sufficiency.sampling import Trees


def first_leaf(transitions: Tensor) -> Tensor:
    """Return the distribution of the first leaf given the root: (symbols, symbols)."""
    return reduce(torch.matmul, transitions[:, 0])


def class_probabilities(image_posterior: Tensor, text_transitions: Tensor) -> Tensor:
    """Return the distribution of the first text leaf given an image: (batch, symbols)."""
    return image_posterior @ first_leaf(text_transitions)


def noisy_evidence(noisy: Tensor, symbols: int, sigma: float) -> Tensor:
    """Return the log-likelihood of each symbol of a leaf given its noisy reading.

    For readings (batch, leaves) this is a view (batch, leaves, symbols) with the batch contiguous,
    as belief propagation needs it.
    """
    levels = torch.arange(symbols, device=noisy.device, dtype=noisy.dtype)
    distances = noisy.T.contiguous()[:, None] - levels[:, None]
    return (-(distances**2) / (2 * sigma**2)).permute(2, 0, 1)


def denoise(trees: Trees, noisy: Tensor, text: Tensor | None, sigma: float) -> Tensor:
    """Return the posterior mean of every image leaf: (batch, leaves).

    Parameters
    ----------
    trees : Trees
        At the flip probabilities that the predictor assumes.
    noisy : Tensor (batch, leaves)
        Image with Gaussian noise.
    text : Tensor of int (batch, leaves), or None
        The text of the pair; None for a prediction without it.
    sigma : float
        Standard deviation of the noise.
    """
    symbols = trees.size.symbols
    logs = noisy_evidence(noisy.to(trees.image.dtype), symbols, sigma)
    evidence = (logs - logs.amax(dim=-1, keepdim=True)).exp()
    external = None if text is None else upward(trees.text, text).root
    beliefs = leaf_beliefs(trees.image, evidence, external)
    levels = torch.arange(symbols, device=noisy.device, dtype=beliefs.dtype)
    return (beliefs * levels).sum(dim=-1)


def next_words(trees: Trees, text: Tensor, image: Tensor | None) -> Tensor:
    """Return log-probabilities of the leaves 2, 3, ... of a text given those before.

    Parameters
    ----------
    trees : Trees
        At the flip probabilities that the predictor assumes.
    text : Tensor of int (batch, leaves)
        Whole texts; each position is predicted from its past alone.
    image : Tensor of int (batch, leaves), or None
        The image of the pair; None for a prediction without it.

    Returns
    -------
    Tensor (batch, leaves - 1, symbols)
        The first leaf, which has no past, is not predicted.
    """
    external = None if image is None else upward(trees.image, image).root
    return from_the_left(trees.text, upward(trees.text, text), external)[-1][:, 1:].log()
