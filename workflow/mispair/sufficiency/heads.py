"""The two downstream tasks: denoising an image given its text, and the next word given an image.

An arm names what a head reads of the other modality, and how it is trained:

- ``frozen``: the feature of the trained contrastive encoder, which is not trained on;
- ``shallow``: the same with a head of fewer blocks;
- ``untrained``: the feature of the encoder's random first weights, a control;
- ``oracle``: the logarithm of the root's exact posterior, which holds all information;
- ``joint``: all leaves, read by the head itself;
- ``guided``: as joint, with the messages of belief propagation shown to its blocks.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional as F

from mispair.core import seeds
from mispair.core.training import LossOfStep
from mispair.sufficiency import belief_propagation
from mispair.sufficiency.belief_propagation import upward
from mispair.sufficiency.encoders import (
    for_denoiser,
    for_next_word,
    in_parts,
    oracle_feature,
    penalty,
    seeded,
)
from mispair.sufficiency.sampling import TreePairs, Trees, add_noise, draw_pairs
from mispair.sufficiency.settings import READ_LEAVES, Arm, Task
from mispair.sufficiency.sizes import Size
from mispair.sufficiency.transformer import Condition, Denoiser, NextWord, TreeEncoders

Head = Denoiser | NextWord


def start_head(task: Task, arm: Arm, size: Size, width: int, blocks: int, seed: int) -> Head:
    """Return a head with random weights that task, arm and seed decide."""
    condition: Condition = "tokens" if arm in READ_LEAVES else "feature"
    kind = Denoiser if task == "cdm" else NextWord
    with seeded(seed, "head", task, arm):
        return kind(size.leaves, size.symbols, width, blocks, condition)


def condition_of(
    task: Task, arm: Arm, trees: Trees, pairs: TreePairs, towers: TreeEncoders | None
) -> Tensor:
    """Return what a head reads of the other modality of some pairs.

    Parameters
    ----------
    trees : Trees
        At the flip probability of the training, which the oracle assumes.
    towers : Towers, optional
        For arms `names.OF_ENCODERS`: trained, or random for ``untrained``.
    """
    source = pairs.text if task == "cdm" else pairs.image
    if arm in READ_LEAVES:
        return source
    if arm == "oracle":
        transitions = trees.text if task == "cdm" else trees.image
        return oracle_feature(upward(transitions, source).posterior).float()
    assert towers is not None, arm
    return in_parts(towers.text if task == "cdm" else towers.image, source)


def _states(
    head: Head, pairs: TreePairs, noisy: Tensor | None, given: Tensor, sigma: float
) -> list[Tensor]:
    """Return the tokens of a head after each block."""
    if isinstance(head, NextWord):
        return head.states(pairs.text, given)
    assert noisy is not None
    return head.states(belief_propagation.noisy_evidence(noisy, head.symbols, sigma), given)


def _losses(head: Head, tokens: Tensor, pairs: TreePairs) -> Tensor:
    """Return each pair's loss (batch,) from the tokens after the last block.

    Squared errors are summed over the image's leaves; cross-entropies of the next word are averaged
    over the positions.
    """
    output = head.read(tokens)
    if isinstance(head, Denoiser):
        return (output - pairs.image).square().sum(dim=-1)
    return F.cross_entropy(output.mT, pairs.text[:, 1:], reduction="none").mean(dim=-1)


def loss_of_step(
    task: Task,
    arm: Arm,
    head: Head,
    trees: Trees,
    towers: TreeEncoders | None,
    *,
    batch_size: int,
    sigma: float,
    guidance_weight: float,
    seed: int,
) -> LossOfStep:
    """Return the loss of a step, which draws its pairs, the same for all arms."""

    def loss(step: int) -> Tensor:
        draw = seeds.torch_generator(seed, "train-head", step)
        pairs = draw_pairs(trees, batch_size, draw)
        noisy = add_noise(pairs.image, sigma, draw) if task == "cdm" else None
        given = condition_of(task, arm, trees, pairs, towers)
        states = _states(head, pairs, noisy, given, sigma)
        value = _losses(head, states[-1], pairs).mean()
        if arm == "guided":
            if noisy is not None:
                targets = for_denoiser(trees, noisy, pairs.text, sigma)
            else:
                targets = for_next_word(trees, pairs.text, pairs.image)
            value = value + guidance_weight * penalty(states, targets)
        return value

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
        return _losses(head, _states(head, part, reading, features, sigma)[-1], part)

    reading = pairs.image if noisy is None else noisy
    return in_parts(losses, *pairs, reading, given)
