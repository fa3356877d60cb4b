"""Measures of the encoders and the heads, as rows: each mean with its 95 % interval."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from scipy.special import stdtrit
from torch import Tensor

from mispair.core import seeds
from mispair.core.devices import upload
from mispair.core.metrics import Row, write_metrics
from mispair.sufficiency.belief_propagation import class_probabilities, upward
from mispair.sufficiency.encoders import ROWS, TreeEncoders, compare, in_parts
from mispair.sufficiency.heads import Head, bayes_losses, condition_of, head_losses
from mispair.sufficiency.settings import TASKS, Arm, Measuring, Task, refuse_too_large
from mispair.sufficiency.trees import (
    Metadata,
    Skeletons,
    TreePairs,
    Trees,
    add_noise,
    draw_leaves,
    draw_pairs,
    prepared,
    read_trees,
    trees_at,
)

BAYES, EXACT, UNCONDITIONAL = "bayes", "exact", "unconditional"
"""Belief propagation with all information; the best similarity, with as many prompts as a model;
and belief propagation without the other modality."""


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

    @property
    def trees(self) -> Trees:
        """The trees at the training's flip probability."""
        return trees_at(self.skeletons, self.flip, self.device, self.dtype)

    def generator(self, *parts: object) -> torch.Generator:
        """Return a generator named by the parts and the seed."""
        return seeds.torch_generator(self.seed, "measure", *parts)


def read_setting(
    step: str, settings: Measuring, trees: Path, flip: float, seed: int | None, samples: int
) -> tuple[Setting, Metadata]:
    """Read the trees that a step measures on, with their metadata.

    Without a `seed`, the seed of the trees is used.

    Raises
    ------
    UserError
        If the samples do not fit into the memory of the machine, or of its GPU.
    """
    device = prepared(settings.device)
    dtype: torch.dtype = getattr(torch, settings.precision)
    skeletons, metadata = read_trees(trees)
    size = skeletons.size
    refuse_too_large(
        size.bytes_of_samples(samples) + size.bytes_of_messages(min(ROWS, samples), dtype.itemsize),
        device,
        f"{step}: {samples:,} pairs of {size.leaves:,} leaves each",
        f"lower {step}.samples, or draw_trees.depth or branching",
    )
    seed = int(metadata["tree"]) if seed is None else seed
    return Setting(skeletons, flip, seed, device, dtype), metadata


def write_measures(
    path: Path, rows: Sequence[Row], setting: Setting, settings: Measuring, metadata: Metadata
) -> None:
    """Write the measurements of one training, each row with its trees, flip and seed."""
    keys = {**tree_columns(metadata), "flip": setting.flip, "seed": setting.seed}
    provenance = {"settings": settings.model_dump(), "trees": metadata, "device": setting.device}
    write_metrics(path, [{**keys, **row} for row in rows], provenance)


def tree_columns(metadata: Metadata) -> dict[str, Any]:
    """Return the columns that name trees."""
    return {"size": metadata["size"], "tree": int(metadata["tree"])}


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
            gap = estimate(values - losses[BAYES], block)
            rows.append({**keys, "arm": arm, "metric": "difference", **gap})
    return rows


def features(encoded: TreeEncoders, images: Tensor, texts: Tensor) -> tuple[Tensor, Tensor]:
    """Return the features of images and of texts, (n, symbols) each."""
    return in_parts(encoded.image, images), in_parts(encoded.text, texts)


def contrastive(
    setting: Setting, towers: Mapping[str, TreeEncoders], number: int, candidates: Sequence[int]
) -> list[Row]:
    """Return risks and divergences of each pair of encoders, for every number of candidates."""
    pairs = draw_pairs(setting.trees, number, setting.generator("contrastive"))
    best = posteriors(setting.trees, pairs)
    of_arm = {arm: features(encoded, pairs.image, pairs.text) for arm, encoded in towers.items()}
    rows = []
    for k in candidates:
        losses: dict[str, Tensor] = {}
        keys = {"task": "clip", "candidates": k}
        for arm, of_pairs in of_arm.items():
            compared = compare(*of_pairs, *best, k)
            losses[BAYES], losses[arm] = compared.bayes, compared.model
            divergence = estimate(compared.divergence, k)
            rows.append({**keys, "arm": arm, "metric": "sufficiency", **divergence})
        rows += risks(losses, keys, k)
    return rows


def classification(
    setting: Setting, towers: Mapping[str, TreeEncoders], number: int, per_class: Sequence[int]
) -> list[Row]:
    """Return zero-shot risks for every number of prompts, next to those of belief propagation."""
    trees, flip = setting.trees, setting.flip
    pairs = draw_pairs(trees, number, setting.generator("zero-shot", flip))
    prompts = draw_prompts(trees, max(per_class), setting.generator("prompts", flip))
    labels = pairs.text[:, 0]
    image, _ = posteriors(trees, pairs)
    of_prompts = in_parts(lambda leaves: upward(trees.text, leaves).posterior, prompts)
    similarities = {EXACT: of_posteriors(image, of_prompts)} | {
        arm: of_features(*features(encoded, pairs.image, prompts))
        for arm, encoded in towers.items()
    }
    losses = {
        arm: losses_of(
            class_log_probabilities(similarity, number, trees.size.symbols, per_class), labels
        )
        for arm, similarity in similarities.items()
    }
    bayes = losses_of(class_probabilities(image, trees.text).log(), labels)
    rows = []
    for position, m in enumerate(per_class):
        at_m = {arm: values[position] for arm, values in losses.items()}
        rows += risks({BAYES: bayes, **at_m}, {"task": "zsc", "per_class": m})
    return rows


def transfer(
    setting: Setting, task: Task, heads: Mapping[Arm, tuple[Head, TreeEncoders | None]],
    number: int, sigma: float,
) -> list[Row]:  # fmt: skip
    """Return risks of heads on common samples.

    Parameters
    ----------
    heads : mapping
        Trained heads by arm, with the encoders that they read.
    number : int
        Samples.
    sigma : float
        Standard deviation of the images' noise.
    """
    trees, flip = setting.trees, setting.flip
    draw = setting.generator("transfer", task, flip, flip)
    pairs = draw_pairs(trees, number, draw)
    noisy = add_noise(pairs.image, sigma, draw) if task == "cdm" else None
    losses = {
        BAYES: bayes_losses(task, trees, pairs, noisy, sigma),
        UNCONDITIONAL: bayes_losses(task, trees, pairs, noisy, sigma, conditional=False),
    }
    features_of: dict[object, Tensor] = {}  # frozen and shallow heads read one feature
    for arm, (head, towers) in heads.items():
        source = arm if towers is None else towers
        if source not in features_of:
            features_of[source] = condition_of(task, arm, trees, pairs, towers)
        losses[arm] = head_losses(head, pairs, noisy, features_of[source], sigma)
    return risks(losses, {"task": task})


def bayes_risks(setting: Setting, number: int, candidates: int, sigma: float) -> list[Row]:
    """Return the risks of belief propagation itself, with and without the other modality."""
    trees = setting.trees
    draw = setting.generator("bayes", setting.flip)
    pairs = draw_pairs(trees, number, draw)
    image, text = posteriors(trees, pairs)
    best = compare(image, text, image, text, candidates).bayes
    rows = risks({BAYES: best}, {"task": "clip", "candidates": candidates}, candidates)
    logs = class_probabilities(image, trees.text).log()
    rows += risks({BAYES: losses_of(logs, pairs.text[:, 0])}, {"task": "zsc"})
    noisy = add_noise(pairs.image, sigma, draw)
    for task in TASKS:
        losses = {
            BAYES: bayes_losses(task, trees, pairs, noisy, sigma),
            UNCONDITIONAL: bayes_losses(task, trees, pairs, noisy, sigma, conditional=False),
        }
        rows += risks(losses, {"task": task})
    return rows


# Means with intervals.

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
