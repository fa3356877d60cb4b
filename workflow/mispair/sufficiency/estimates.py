"""Means with intervals, information that a feature holds, and classification by prompts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy.special import stdtrit
from torch import Tensor
from torch.nn import functional as F

from mispair.core.devices import upload
from mispair.core.training import AdamW
from mispair.sufficiency.sampling import Trees, draw_leaves

CONFIDENCE = 0.95


def estimate(values: Tensor, block: int = 1) -> dict[str, Any]:
    """Return mean, number and 95 % interval of values of independent samples.

    Parameters
    ----------
    values : Tensor (samples,)
        One number for each sample.
    block : int
        Samples within this distance may depend on each other, like pairs with a common candidate:
        the spread is that of the means of blocks of this size.

    Returns
    -------
    dict
        ``value``, ``n``, ``low`` and ``high``; limits are NaN with fewer than two blocks.
    """
    array = values.double().cpu().numpy()
    blocks = len(array) // block
    summary: dict[str, Any] = {"value": float(array.mean()), "n": len(array)}
    if blocks < 2:
        return {**summary, "low": float("nan"), "high": float("nan")}
    means = array[: blocks * block].reshape(blocks, block).mean(axis=1)
    error = float(means.std(ddof=1)) / blocks**0.5
    half = float(stdtrit(blocks - 1, (1 + CONFIDENCE) / 2)) * error
    return {**summary, "low": summary["value"] - half, "high": summary["value"] + half}


def fit_inverse(numbers: Sequence[int], risks: Sequence[float]) -> tuple[float, float, float]:
    """Fit risk = A / M + B by least squares; return A, B and the root mean square residual.

    Raises
    ------
    ValueError
        If there are fewer than two different M.

    Examples
    --------
    >>> fit_inverse([10, 20, 50], [2.5, 2.25, 2.1])
    (5.0, 2.0, 0.0)
    """
    if len(set(numbers)) < 2:
        raise ValueError("a fit of A / M + B needs two numbers of prompts")
    inverse = 1 / np.asarray(numbers, dtype=float)
    values = np.asarray(risks, dtype=float)
    design = np.stack([inverse, np.ones_like(inverse)], axis=1)
    (slope, level), *_ = np.linalg.lstsq(design, values, rcond=None)
    rest = values - design @ np.array([slope, level])
    return float(slope), float(level), float(np.sqrt((rest**2).mean()))


# Information on the root that a feature of the leaves loses.

HIDDEN, LR = 64, 1e-2


def information_lost(
    features: Tensor, posteriors: Tensor, steps: int, generator: torch.Generator
) -> Tensor:
    """Return KL(posterior given the leaves || posterior given the feature) of held-out samples.

    Its mean is I(root; leaves) - I(root; feature), or more: the posterior given the feature is that
    of a perceptron with one hidden layer, fitted to the first half of the samples.

    Features and the exact posteriors of the root given the leaves are (samples, symbols). Each step
    of Adam is on all samples of the first half; the generator draws the first weights. The result
    is for the samples of the second half, in nats.
    """
    half = len(features) // 2
    inputs = (features - features[:half].mean(dim=0)) / features[:half].std(dim=0).clamp_min(1e-12)
    # Samples last: a softmax over a few symbols is vectorised along them.
    inputs, posteriors = inputs.float().T.contiguous(), posteriors.float().T.contiguous()
    symbols = len(posteriors)
    weights = []
    for outputs, inputs_of_layer in ((HIDDEN, len(inputs)), (symbols, HIDDEN)):
        start = torch.randn(outputs, inputs_of_layer, generator=generator) * inputs_of_layer**-0.5
        weights += [start.to(inputs.device), torch.zeros(outputs, 1, device=inputs.device)]
    for values in weights:
        values.requires_grad_()
    optimiser = AdamW(weights, decay=0.0)

    def logs(inputs: Tensor) -> Tensor:
        hidden, its_bias, output, bias = weights
        return (output @ F.gelu(hidden @ inputs + its_bias) + bias).log_softmax(dim=0)

    for step in range(steps):
        loss = -(posteriors[:, :half] * logs(inputs[:, :half])).sum() / half
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            optimiser.step(gradients, LR * (1 + math.cos(math.pi * step / steps)) / 2)
    held = posteriors[:, half:]
    with torch.no_grad():
        return (torch.special.xlogy(held, held) - held * logs(inputs[:, half:])).sum(dim=0)


def information_held(posteriors: Tensor) -> Tensor:
    """Return KL(posterior || uniform) of each sample: its mean is I(root; leaves), in nats."""
    symbols = posteriors.shape[1]
    return torch.special.xlogy(posteriors, posteriors * symbols).sum(dim=-1)


# Zero-shot classification of images by the first leaf of their text, with texts as prompts.

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
