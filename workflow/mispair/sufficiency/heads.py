"""The two downstream tasks: denoising an image given its text, and the next word given an image.

An arm names what a head reads of the other modality, and how it is trained:

- ``frozen``: the feature of the trained contrastive encoder, which is not trained on;
- ``shallow``: the same with a head of fewer blocks;
- ``untrained``: the feature of the encoder's random first weights, a control;
- ``oracle``: the logarithm of the root's exact posterior, which holds all information;
- ``joint``: all leaves, read by the head itself.
"""

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mispair.core import seeds
from mispair.core.files import read_tensors
from mispair.core.training import LossOfStep
from mispair.sufficiency import belief_propagation
from mispair.sufficiency.belief_propagation import upward
from mispair.sufficiency.encoders import (
    Block,
    TreeEncoders,
    in_parts,
    load_weights,
    oracle_feature,
    run_blocks,
    seeded,
)
from mispair.sufficiency.settings import Arm, Size, Task
from mispair.sufficiency.trees import (
    Metadata,
    Skeletons,
    TreePairs,
    Trees,
    add_noise,
    draw_pairs,
)

HeadInput = Literal["feature", "tokens"]
"""What a head reads of the other modality: one vector, or all its leaves."""


class _Conditioned(nn.Module):
    """A transformer on tokens of one modality and on a condition from the other modality."""

    def __init__(
        self, leaves: int, size: int, symbols: int, width: int, blocks: int, condition: HeadInput
    ) -> None:
        super().__init__()
        if width < symbols:
            raise ValueError(
                f"a width of {width} has no room for {symbols} symbols: increase the width"
            )
        self.conditions = leaves if condition == "tokens" else 1
        self.width, self.symbols = width, symbols
        self.other = nn.Embedding(symbols, width) if condition == "tokens" else None
        self.position = nn.Parameter(torch.randn(size + self.conditions, width))
        self.blocks = nn.ModuleList([Block(width) for _ in range(blocks)])

    def condition(self, given: Tensor) -> Tensor:
        """Return tokens of a condition: symbols (batch, leaves) or features (batch, S)."""
        if self.other is not None:
            return self.other(given)
        return F.pad(given, (0, self.width - given.shape[-1]))[:, None]


class Denoiser(_Conditioned):
    """Estimate every clean image leaf from the noisy ones and a condition on the text."""

    def __init__(
        self, leaves: int, symbols: int, width: int, blocks: int, condition: HeadInput
    ) -> None:
        super().__init__(leaves, leaves, symbols, width, blocks, condition)
        self.readout = nn.Linear(width, 1)
        self.leaves = leaves

    def forward(self, evidence: Tensor, given: Tensor) -> Tensor:
        """Return the estimates (batch, leaves).

        `evidence` holds log-likelihoods of the noisy leaves, (batch, leaves, symbols).
        """
        image = F.pad(evidence, (0, self.width - evidence.shape[-1]))
        tokens = torch.cat([image, self.condition(given)], dim=1) + self.position
        last = run_blocks(self.blocks, tokens)[-1]
        return self.readout(last[:, : self.leaves])[..., 0]


class NextWord(_Conditioned):
    """Predict each text leaf but the first from those before it and a condition on the image."""

    def __init__(
        self, leaves: int, symbols: int, width: int, blocks: int, condition: HeadInput
    ) -> None:
        super().__init__(leaves, leaves - 1, symbols, width, blocks, condition)
        self.embedding = nn.Embedding(symbols, width)
        self.readout = nn.Linear(width, symbols)
        self.register_buffer("mask", _mask(self.conditions, leaves - 1), persistent=False)
        self.mask: Tensor

    def forward(self, text: Tensor, given: Tensor) -> Tensor:
        """Return logits (batch, leaves - 1, symbols) of the leaves 2, 3, ... of whole texts."""
        tokens = torch.cat([self.condition(given), self.embedding(text[:, :-1])], dim=1)
        last = run_blocks(self.blocks, tokens + self.position, self.mask)[-1]
        return self.readout(last[:, self.conditions :])


def _mask(conditions: int, symbols: int) -> Tensor:
    """Return the mask added to logits: conditions see conditions, a word these and its past."""
    position = torch.arange(conditions + symbols)
    seen = (position[None] < conditions) | (position[None] <= position[:, None])
    seen[:conditions, conditions:] = False
    return torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)


Head = Denoiser | NextWord


def start_head(task: Task, arm: Arm, size: Size, width: int, blocks: int, seed: int) -> Head:
    """Return a head with random weights that task, arm and seed decide."""
    condition: HeadInput = "tokens" if arm == "joint" else "feature"
    kind = Denoiser if task == "cdm" else NextWord
    with seeded(seed, "head", task, arm):
        return kind(size.leaves, size.symbols, width, blocks, condition)


def read_head(path: Path, skeletons: Skeletons, device: str) -> tuple[Head, Metadata]:
    """Read a trained head, for evaluation only."""
    arrays, metadata = read_tensors(path)
    task: Task = "cdm" if metadata["task"] == "cdm" else "vlm"
    arm: Arm = metadata["arm"]  # type: ignore[assignment]
    head = start_head(task, arm, skeletons.size, int(metadata["width"]), int(metadata["blocks"]), 0)
    return load_weights(head, arrays, "trained", device), metadata


def condition_of(
    task: Task, arm: Arm, trees: Trees, pairs: TreePairs, towers: TreeEncoders | None
) -> Tensor:
    """Return what a head reads of the other modality of some pairs.

    Parameters
    ----------
    trees : Trees
        At the flip probability of the training, which the oracle assumes.
    towers : TreeEncoders, optional
        For arms `mispair.sufficiency.settings.OF_ENCODERS`: trained, or random for ``untrained``.
    """
    source = pairs.text if task == "cdm" else pairs.image
    if arm == "joint":
        return source
    if arm == "oracle":
        transitions = trees.text if task == "cdm" else trees.image
        return oracle_feature(upward(transitions, source).posterior).float()
    assert towers is not None, arm
    return in_parts(towers.text if task == "cdm" else towers.image, source)


def _losses(
    head: Head, pairs: TreePairs, noisy: Tensor | None, given: Tensor, sigma: float
) -> Tensor:
    """Return each pair's loss: (batch,).

    Squared errors are summed over the image's leaves; cross-entropies of the next word are averaged
    over the positions.
    """
    if isinstance(head, NextWord):
        logits = head(pairs.text, given)
        return F.cross_entropy(logits.mT, pairs.text[:, 1:], reduction="none").mean(dim=-1)
    assert noisy is not None
    evidence = belief_propagation.noisy_evidence(noisy, head.symbols, sigma)
    return (head(evidence, given) - pairs.image).square().sum(dim=-1)


def loss_of_step(
    task: Task,
    arm: Arm,
    head: Head,
    trees: Trees,
    towers: TreeEncoders | None,
    *,
    batch_size: int,
    sigma: float,
    seed: int,
) -> LossOfStep:
    """Return the loss of a step, which draws its pairs, the same for all arms."""

    def loss(step: int) -> Tensor:
        draw = seeds.torch_generator(seed, "train-head", step)
        pairs = draw_pairs(trees, batch_size, draw)
        noisy = add_noise(pairs.image, sigma, draw) if task == "cdm" else None
        given = condition_of(task, arm, trees, pairs, towers)
        return _losses(head, pairs, noisy, given, sigma).mean()

    return loss


def bayes_losses(
    task: Task, trees: Trees, pairs: TreePairs, noisy: Tensor | None, sigma: float,
    conditional: bool = True,
) -> Tensor:  # fmt: skip
    """Return each pair's loss of the best predictor under given trees: (batch,).

    If not `conditional`, the predictor does not read the other modality.
    """

    def denoised(image: Tensor, reading: Tensor, text: Tensor) -> Tensor:
        mean = belief_propagation.denoise(trees, reading, text if conditional else None, sigma)
        return (mean - image).square().sum(dim=-1)

    def predicted(image: Tensor, text: Tensor) -> Tensor:
        logs = belief_propagation.next_words(trees, text, image if conditional else None)
        return -logs.gather(-1, text[:, 1:, None])[..., 0].mean(dim=-1)

    if task == "vlm":
        return in_parts(predicted, pairs.image, pairs.text)
    assert noisy is not None
    return in_parts(denoised, pairs.image, noisy, pairs.text)


def head_losses(
    head: Head, pairs: TreePairs, noisy: Tensor | None, given: Tensor, sigma: float
) -> Tensor:
    """Return each pair's loss of a trained head, some pairs at a time: (batch,)."""

    def losses(
        root: Tensor, text: Tensor, image: Tensor, reading: Tensor, features: Tensor
    ) -> Tensor:
        part = TreePairs(root, text, image)
        return _losses(head, part, reading, features, sigma)

    reading = pairs.image if noisy is None else noisy
    return in_parts(losses, *pairs, reading, given)
