"""The two downstream tasks: denoising an image given its text, and the next word given an image.

An arm says what a head is told of the other modality, and how it is trained:

- ``frozen``: the feature of the trained contrastive encoder, which is not trained on;
- ``shallow``: the same with a head of fewer blocks;
- ``untrained``: the feature of the encoder's random first weights, a control;
- ``oracle``: the logarithm of the root's exact posterior, which is all that there is to know;
- ``joint``: all leaves, read by the head itself;
- ``guided``: as joint, with the messages of belief propagation shown to its blocks.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

from mispair.core import seeds
from mispair.sufficiency import bayes
from mispair.sufficiency.belief_propagation import upward
from mispair.sufficiency.encoders import in_parts, oracle_feature, seeded
from mispair.sufficiency.guidance import for_denoiser, for_next_word, penalty
from mispair.sufficiency.names import Arm, Task
from mispair.sufficiency.sampling import Pairs, Trees, add_noise, draw_pairs
from mispair.sufficiency.sizes import Size
from mispair.sufficiency.transformer import Condition, Denoiser, NextWord, Towers

Head = Denoiser | NextWord


def start_head(task: Task, arm: Arm, size: Size, width: int, blocks: int, seed: int) -> Head:
    """Return a head with random weights that task, arm and seed decide."""
    condition: Condition = "tokens" if arm in ("joint", "guided") else "feature"
    kind = Denoiser if task == "cdm" else NextWord
    with seeded(seed, "head", task, arm):
        return kind(size.leaves, size.symbols, width, blocks, condition)


def guidance_of(task: Task, arm: Arm, trees: Trees, pairs: Pairs, towers: Towers | None) -> Tensor:
    """Return what a head is told of the other modality of some pairs.

    Parameters
    ----------
    trees : Trees
        At the flip probability of the training: what the oracle believes in.
    towers : Towers, optional
        For arms `names.OF_ENCODERS`: trained, or random for ``untrained``.
    """
    source = pairs.text if task == "cdm" else pairs.image
    if arm in ("joint", "guided"):
        return source
    if arm == "oracle":
        transitions = trees.text if task == "cdm" else trees.image
        return oracle_feature(upward(transitions, source).posterior).float()
    assert towers is not None, arm
    return in_parts(towers.text if task == "cdm" else towers.image, source)


def losses_of(
    head: Head, pairs: Pairs, noisy: Tensor | None, given: Tensor, sigma: float
) -> Tensor:
    """Return each pair's loss: (batch,).

    Squared errors are summed over the image's leaves; cross-entropies of the next word are averaged
    over the positions.
    """
    return _losses(head, head.read(_states(head, pairs, noisy, given, sigma)[-1]), pairs)


def _states(
    head: Head, pairs: Pairs, noisy: Tensor | None, given: Tensor, sigma: float
) -> list[Tensor]:
    if isinstance(head, NextWord):
        return head.states(pairs.text, given)
    assert noisy is not None
    return head.states(bayes.noisy_evidence(noisy, head.symbols, sigma), given)


def _losses(head: Head, output: Tensor, pairs: Pairs) -> Tensor:
    if isinstance(head, Denoiser):
        return (output - pairs.image).square().sum(dim=-1)
    return F.cross_entropy(output.mT, pairs.text[:, 1:], reduction="none").mean(dim=-1)


def loss_of_step(
    task: Task,
    arm: Arm,
    head: Head,
    trees: Trees,
    towers: Towers | None,
    *,
    batch_size: int,
    sigma: float,
    guidance_weight: float,
    seed: int,
) -> Callable[[int], Tensor]:
    """Return what draws the pairs of a step, the same for all arms, and returns their loss."""

    def loss(step: int) -> Tensor:
        draw = seeds.torch_generator(seed, "train-head", step)
        pairs = draw_pairs(trees, batch_size, draw)
        noisy = add_noise(pairs.image, sigma, draw) if task == "cdm" else None
        given = guidance_of(task, arm, trees, pairs, towers)
        states = _states(head, pairs, noisy, given, sigma)
        value = _losses(head, head.read(states[-1]), pairs).mean()
        if arm == "guided":
            if noisy is not None:
                targets = for_denoiser(trees, noisy, pairs.text, sigma)
            else:
                targets = for_next_word(trees, pairs.text, pairs.image)
            value = value + guidance_weight * penalty(states, targets)
        return value

    return loss


def bayes_losses(
    task: Task,
    trees: Trees,
    pairs: Pairs,
    noisy: Tensor | None,
    sigma: float,
    guidance: bool = True,
) -> Tensor:
    """Return each pair's loss of the best predictor under given trees: (batch,).

    Without `guidance` it knows nothing of the other modality.
    """

    def denoised(image: Tensor, reading: Tensor, text: Tensor) -> Tensor:
        mean = bayes.denoise(trees, reading, text if guidance else None, sigma)
        return (mean - image).square().sum(dim=-1)

    def predicted(image: Tensor, text: Tensor) -> Tensor:
        logs = bayes.next_words(trees, text, image if guidance else None)
        return -logs.gather(-1, text[:, 1:, None])[..., 0].mean(dim=-1)

    if task == "vlm":
        return in_parts(predicted, pairs.image, pairs.text)
    assert noisy is not None
    return in_parts(denoised, pairs.image, noisy, pairs.text)


def head_losses(
    task: Task, head: Head, pairs: Pairs, noisy: Tensor | None, given: Tensor, sigma: float
) -> Tensor:
    """Return each pair's loss of a trained head, some pairs at a time: (batch,)."""

    def losses(
        root: Tensor, text: Tensor, image: Tensor, reading: Tensor, features: Tensor
    ) -> Tensor:
        return losses_of(head, Pairs(root, text, image), reading, features, sigma)

    reading = pairs.image if noisy is None else noisy
    return in_parts(losses, *pairs, reading, given)
