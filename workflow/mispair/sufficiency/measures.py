"""Measures of the encoders and the heads, as rows: each mean with its 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import torch
from scipy.special import stdtrit
from torch import Tensor
from torch.nn import functional as F

from mispair.core import seeds
from mispair.core.devices import upload
from mispair.core.training import AdamW
from mispair.sufficiency import belief_propagation
from mispair.sufficiency.belief_propagation import upward
from mispair.sufficiency.encoders import TreeEncoders, compare, in_parts, match_losses
from mispair.sufficiency.heads import Head, bayes_losses, condition_of, head_losses
from mispair.sufficiency.settings import TASKS, Arm, Task
from mispair.sufficiency.trees import (
    Skeletons,
    TreePairs,
    Trees,
    add_noise,
    draw_leaves,
    draw_pairs,
    trees_at,
)

Row = dict[str, Any]

BAYES, EXACT, UNCONDITIONAL, MISSPECIFIED = "bayes", "exact", "unconditional", "misspecified"
"""Belief propagation with all information; the best similarity, with as many prompts as a model;
belief propagation without the other modality; and with the trees of the training."""

REFERENCES = (UNCONDITIONAL, "untrained", "oracle", "joint")
"""Predictors that every head is compared with at its training p, besides belief propagation."""

FIT_FROM = 10
"""Fewest prompts for a class in the fit of A / M + B: below, single prompts decide."""


@dataclass(frozen=True)
class Setting:
    """The training that is measured, and how.

    `flip` is the flip probability of the training, `seed` that of the training and of the samples,
    and `dtype` the number format of belief propagation.
    """

    skeletons: Skeletons
    flip: float
    seed: int
    device: str
    dtype: torch.dtype

    def trees(self, text_flip: float | None = None, image_flip: float | None = None) -> Trees:
        """Return the trees, with the training's flip probability where none is given."""
        text, image = (self.flip if flip is None else flip for flip in (text_flip, image_flip))
        return trees_at(self.skeletons, text, image, self.device, self.dtype)

    def generator(self, *parts: object) -> torch.Generator:
        """Return a generator named by the parts and the seed."""
        return seeds.torch_generator(self.seed, "measure", *parts)

    def pairs(self, trees: Trees, number: int, *parts: object) -> TreePairs:
        """Draw pairs with the generator of the parts."""
        return draw_pairs(trees, number, self.generator(*parts))


def posteriors(trees: Trees, pairs: TreePairs) -> tuple[Tensor, Tensor]:
    """Return the root's posteriors given the images, and given the texts."""
    image = in_parts(lambda leaves: upward(trees.image, leaves).posterior, pairs.image)
    return image, in_parts(lambda leaves: upward(trees.text, leaves).posterior, pairs.text)


def risks(losses: Mapping[str, Tensor], keys: Row, block: int = 1) -> list[Row]:
    """Return the mean loss of each arm, and its difference from Bayes', sample by sample."""
    rows = []
    for arm, values in losses.items():
        rows.append({**keys, "arm": arm, "metric": "risk", **estimate(values, block)})
        if arm != BAYES:
            rows.append(difference(losses, arm, BAYES, keys, block))
    return rows


def difference(
    losses: Mapping[str, Tensor], arm: str, reference: str, keys: Row, block: int = 1
) -> Row:
    """Return the mean loss of an arm minus that of a reference, sample by sample."""
    gap = estimate(losses[arm] - losses[reference], block)
    return {**keys, "arm": arm, "metric": "difference", "reference": reference, **gap}


def features(encoded: TreeEncoders, images: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the features of images and of texts, (n, symbols) each."""
    return in_parts(encoded.image, images), in_parts(encoded.text, texts)


def contrastive(
    setting: Setting, towers: Mapping[str, TreeEncoders], number: int, candidates: Sequence[int]
) -> list[Row]:
    """Return risks and divergences of each pair of encoders, for every number of candidates."""
    trees = setting.trees()
    pairs = setting.pairs(trees, number, "contrastive")
    best = posteriors(trees, pairs)
    of_arm = {arm: features(encoded, pairs.image, pairs.text) for arm, encoded in towers.items()}
    rows = []
    for k in candidates:
        losses: dict[str, Tensor] = {}
        keys = {"task": "clip", "candidates": k}
        for arm, of_pairs in of_arm.items():
            compared = compare(*of_pairs, *best, k)
            losses[BAYES], losses[arm] = compared["both"].bayes, compared["both"].model
            rows += [
                {**keys, "arm": arm, "metric": "sufficiency", "part": part,
                 **estimate(direction.divergence, k)}
                for part, direction in compared.items()
            ]  # fmt: skip
        rows += risks(losses, keys, k)
    return rows


def root_information(
    setting: Setting, towers: Mapping[str, TreeEncoders], number: int, steps: int
) -> list[Row]:
    """Return how much of the information of the leaves on the root each encoder loses, in nats."""
    trees = setting.trees()
    pairs = setting.pairs(trees, number, "information")
    leaves = {"image": pairs.image, "text": pairs.text}
    best = dict(zip(leaves, posteriors(trees, pairs), strict=True))
    rows = []
    for modality, values in best.items():
        held = estimate(information_held(values))
        keys = {"task": "clip", "part": modality}
        rows.append({**keys, "arm": BAYES, "metric": "information", **held})
        for arm, encoded in towers.items():
            read = in_parts(getattr(encoded, modality), leaves[modality])
            draw = seeds.torch_generator(setting.seed, "information", modality)
            lost = information_lost(read, values, steps, draw)
            rows.append({**keys, "arm": arm, "metric": "information_lost", **estimate(lost)})
    return rows


def classification(
    setting: Setting, towers: Mapping[str, TreeEncoders], number: int, per_class: Sequence[int]
) -> list[Row]:
    """Return zero-shot risks for every number of prompts, and the fit of A / M + B."""
    losses = _zero_shot(setting, setting.flip, towers, number, per_class)
    rows = []
    for position, m in enumerate(per_class):
        losses_at = {arm: values[position] for arm, values in losses.items() if values.dim() == 2}
        losses_at[BAYES] = losses[BAYES]
        keys = {"task": "zsc", "per_class": m}
        rows += risks(losses_at, keys)
        rows += [difference(losses_at, arm, EXACT, keys) for arm in towers]
    fitted = [position for position, m in enumerate(per_class) if m >= FIT_FROM]
    if len(fitted) >= 2:
        for arm in (EXACT, *towers):
            means = [float(losses[arm][position].mean()) for position in fitted]
            values = fit_inverse([per_class[position] for position in fitted], means)
            rows += [
                {"task": "zsc", "arm": arm, "metric": name, "value": value, "n": number}
                for name, value in zip(("slope", "level", "residual"), values, strict=True)
            ]
    return rows


def _zero_shot(
    setting: Setting, flip: float, towers: Mapping[str, TreeEncoders], number: int,
    per_class: Sequence[int],
) -> dict[str, Tensor]:  # fmt: skip
    """Return each image's loss: (images,) of belief propagation, (M, images) with prompts."""
    trees, believed = setting.trees(flip, flip), setting.trees()
    pairs = setting.pairs(trees, number, "zero-shot", flip)
    prompts = draw_prompts(trees, max(per_class), setting.generator("prompts", flip))
    labels = pairs.text[:, 0]
    symbols = trees.size.symbols
    image, _ = posteriors(trees, pairs)
    posterior = in_parts(lambda leaves: upward(trees.text, leaves).posterior, prompts)

    def by_prompts(similarity: Similarity) -> Tensor:
        logs = class_log_probabilities(similarity, number, symbols, per_class)
        return losses_of(logs, labels)

    def by_belief(model: Trees) -> Tensor:
        belief, _ = posteriors(model, pairs)
        return losses_of(belief_propagation.class_probabilities(belief, model.text).log(), labels)

    results = {BAYES: by_belief(trees), MISSPECIFIED: by_belief(believed)}
    results[EXACT] = by_prompts(of_posteriors(image, posterior))
    for arm, encoded in towers.items():
        similarity = of_features(*features(encoded, pairs.image, prompts))
        results[arm] = by_prompts(similarity)
    return results


def shifted_contrastive(
    setting: Setting,
    towers: Mapping[str, TreeEncoders],
    number: int,
    candidates: int,
    flips: list[float],
) -> list[Row]:
    """Return contrastive risks where both trees have other flip probabilities than in training."""
    believed = setting.trees()
    rows = []
    for flip in flips:
        trees = setting.trees(flip, flip)
        pairs = setting.pairs(trees, number, "shifted-contrastive", flip)
        right = posteriors(trees, pairs)
        losses = {
            BAYES: match_losses(*right, candidates),
            MISSPECIFIED: match_losses(*posteriors(believed, pairs), candidates),
        }
        for arm, encoded in towers.items():
            of_pairs = features(encoded, pairs.image, pairs.text)
            losses[arm] = compare(*of_pairs, *right, candidates)["both"].model
        keys = {"task": "clip", "candidates": candidates, "shifted": "both", "test_flip": flip}
        rows += risks(losses, keys, candidates)
    return rows


def shifted_classification(
    setting: Setting,
    towers: Mapping[str, TreeEncoders],
    number: int,
    per_class: int,
    flips: list[float],
) -> list[Row]:
    """Return zero-shot risks, with prompts of the shifted trees too.

    Misspecified belief propagation takes the image's posterior and the first leaf's distribution
    both from the trees of the training.
    """
    rows = []
    for flip in flips:
        losses = _zero_shot(setting, flip, towers, number, [per_class])
        flat = {arm: values.reshape(-1) for arm, values in losses.items()}
        keys = {"task": "zsc", "per_class": per_class, "shifted": "both", "test_flip": flip}
        rows += risks(flat, keys)
    return rows


def transfer(
    setting: Setting, task: Task, heads: Mapping[Arm, tuple[Head, TreeEncoders | None]],
    number: int, sigma: float, flips: Sequence[float],
) -> list[Row]:  # fmt: skip
    """Return risks of heads on common samples, at the training's and at shifted flip probabilities.

    Parameters
    ----------
    heads : mapping
        Trained heads by arm, with the encoders that they read.
    number : int
        Samples.
    sigma : float
        Standard deviation of the images' noise.
    flips : sequence of float
        Probabilities of the shifted tests: of both trees, or of the predicted one alone.
    """
    keys: Row = {"task": task}
    losses = _transfer(setting, task, heads, number, sigma, setting.flip, setting.flip)
    del losses[MISSPECIFIED]  # the trees are those of the training
    rows = risks(losses, keys)
    rows += [
        difference(losses, arm, reference, keys)
        for arm, reference in product(heads, REFERENCES)
        if arm != reference and reference in losses
    ]
    for flip in flips:
        tests = {"both": (flip, flip)}
        if flip != setting.flip:
            tests |= (
                {"image": (setting.flip, flip)} if task == "cdm" else {"text": (flip, setting.flip)}
            )
        for shifted, (text, image) in tests.items():
            results = _transfer(setting, task, heads, number, sigma, text, image)
            rows += risks(results, {**keys, "shifted": shifted, "test_flip": flip})
    return rows


def _transfer(
    setting: Setting, task: Task, heads: Mapping[Arm, tuple[Head, TreeEncoders | None]],
    number: int, sigma: float, text_flip: float, image_flip: float,
) -> dict[str, Tensor]:  # fmt: skip
    trees, believed = setting.trees(text_flip, image_flip), setting.trees()
    draw = setting.generator("transfer", task, text_flip, image_flip)
    pairs = draw_pairs(trees, number, draw)
    noisy = add_noise(pairs.image, sigma, draw) if task == "cdm" else None
    losses = {
        BAYES: bayes_losses(task, trees, pairs, noisy, sigma),
        MISSPECIFIED: bayes_losses(task, believed, pairs, noisy, sigma),
        UNCONDITIONAL: bayes_losses(task, trees, pairs, noisy, sigma, conditional=False),
    }
    features_of: dict[object, Tensor] = {}  # frozen and shallow heads read one feature
    for arm, (head, towers) in heads.items():
        source = arm if towers is None else towers
        if source not in features_of:
            features_of[source] = condition_of(task, arm, believed, pairs, towers)
        losses[arm] = head_losses(head, pairs, noisy, features_of[source], sigma)
    return losses


def bayes_risks(setting: Setting, number: int, candidates: int, sigma: float) -> list[Row]:
    """Return the risks of belief propagation itself, with and without the other modality."""
    trees = setting.trees()
    draw = setting.generator("bayes", setting.flip)
    pairs = draw_pairs(trees, number, draw)
    image, text = posteriors(trees, pairs)
    best = match_losses(image, text, candidates)
    rows = risks({BAYES: best}, {"task": "clip", "candidates": candidates}, candidates)
    logs = belief_propagation.class_probabilities(image, trees.text).log()
    rows += risks({BAYES: losses_of(logs, pairs.text[:, 0])}, {"task": "zsc"})
    noisy = add_noise(pairs.image, sigma, draw)
    for task in TASKS:
        losses = {
            BAYES: bayes_losses(task, trees, pairs, noisy, sigma),
            UNCONDITIONAL: bayes_losses(task, trees, pairs, noisy, sigma, conditional=False),
        }
        rows += risks(losses, {"task": task})
    return rows


# Means with intervals, information that a feature holds, and classification by prompts.

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
