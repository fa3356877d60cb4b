"""Targets of guided models: the messages of belief propagation, layer by layer.

Messages are logarithms with their largest entry shifted to zero. The targets of a model's first L
blocks are the upward messages of its leaves' ancestors, level by level. That of a head's next block
is the root given both modalities; those of its last L blocks are the downward messages. At text
positions of the next-word head, all of these depend on the past alone. The published code's
messages of the heads differ in detail.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mispair.sufficiency.bayes import noisy_evidence
from mispair.sufficiency.belief_propagation import (
    Upward,
    ancestors,
    downward,
    from_the_left,
    prefix_messages,
    upward,
)
from mispair.sufficiency.sampling import Trees

SMALLEST = 1e-20
"""Smallest share of the largest entry that is kept: trees without noise have messages of 0."""


def logs(messages: Tensor) -> Tensor:
    """Return logarithms with the largest entry at zero."""
    scaled = messages / messages.amax(dim=-1, keepdim=True)
    return scaled.clamp_min(SMALLEST).log()


def _at_leaves(messages: Tensor, leaves: int) -> Tensor:
    """Repeat the message of each node for all leaves below it: (batch, leaves, symbols)."""
    return messages.repeat_interleave(leaves // messages.shape[1], dim=1)


def _rising(up: Upward, leaves: int) -> list[Tensor]:
    """Return the upward messages at all leaves: of their parents first, of the root last."""
    return [_at_leaves(logs(messages), leaves) for messages in reversed(up.likelihoods)]


def for_encoder(transitions: Tensor, leaves: Tensor) -> list[Tensor]:
    """Return the targets of an encoder's first blocks: (batch, leaves, symbols) each."""
    return _rising(upward(transitions, leaves), leaves.shape[1])


def for_denoiser(trees: Trees, noisy: Tensor, text: Tensor, sigma: float) -> list[Tensor]:
    """Return the targets of a joint denoiser's 2 L + 1 blocks: image positions, then the text's.

    In the blocks of the image's downward messages, the text's positions keep the root.
    """
    size = trees.size
    read = noisy_evidence(noisy, size.symbols, sigma)
    image = upward(trees.image, (read - read.amax(dim=-1, keepdim=True)).exp())
    messages = upward(trees.text, text)
    root = logs(image.root * messages.root)[:, None].expand(-1, size.leaves, -1)
    rising = zip(_rising(image, size.leaves), _rising(messages, size.leaves), strict=True)
    targets = [torch.cat(both, dim=1) for both in rising]
    targets.append(torch.cat([root, root], dim=1))
    for level, above in enumerate(downward(trees.image, image, messages.root), start=1):
        likelihood = image.likelihoods[level] if level < size.depth else 1.0
        falling = _at_leaves(logs(above * likelihood), size.leaves)
        targets.append(torch.cat([falling, root], dim=1))
    return targets


def for_next_word(trees: Trees, text: Tensor, image: Tensor) -> list[Tensor]:
    """Return the targets of a joint next-word head's 2 L + 1 blocks: the image's, then words'.

    In the blocks of the downward messages, the image's positions keep their root.
    """
    size = trees.size
    seen, text_messages = upward(trees.image, image), upward(trees.text, text)
    past = prefix_messages(trees.text, text_messages)
    kept = logs(seen.root)[:, None].expand(-1, size.leaves, -1)
    targets = [
        torch.cat([picture, logs(message[:, :-1])], dim=1)
        for picture, message in zip(_rising(seen, size.leaves), past, strict=True)
    ]
    root = logs(past[-1][:, :-1] * seen.root[:, None])
    targets.append(torch.cat([kept, root], dim=1))
    for level, prefix in enumerate(from_the_left(trees.text, text_messages, seen.root), start=1):
        of_next = ancestors(size.leaves, size.branching, size.depth - level)[1:]
        targets.append(torch.cat([kept, logs(prefix[:, of_next.to(prefix.device)])], dim=1))
    return targets


def penalty(states: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    """Return the squared distance of the states' first channels, summed; mean over the batch.

    States (batch, tokens, width) are those after each block, targets (batch, tokens, symbols) those
    of the first blocks: further blocks are free.

    Raises
    ------
    ValueError
        If there are fewer blocks than targets, or fewer channels than symbols.
    """
    if len(states) < len(targets):
        raise ValueError(
            f"guidance needs a block for each of its {len(targets)} messages, but there are "
            f"{len(states)}"
        )
    symbols = targets[0].shape[-1]
    if states[0].shape[-1] < symbols:
        raise ValueError(
            f"guidance needs a channel for each of {symbols} symbols: increase the width"
        )
    distance = sum(
        (state[..., :symbols] - target).square().sum()
        for state, target in zip(states, targets, strict=False)
    )
    return torch.as_tensor(distance) / len(states[0])
