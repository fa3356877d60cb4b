"""The contrastive encoders: first weights, loss, oracle feature, evaluation in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from mispair.core import seeds
from mispair.core.training.loop import LossOfStep
from mispair.sufficiency.contrastive import contrastive_loss
from mispair.sufficiency.guidance import for_encoder, penalty
from mispair.sufficiency.sampling import Trees, draw_pairs
from mispair.sufficiency.sizes import Size
from mispair.sufficiency.transformer import Towers

UNTRAINED = "untrained"
"""The control: the weights that the standard encoders began with."""

FLOOR = 1e-4
"""Least probability in the oracle feature."""


def start_towers(size: Size, width: int, blocks: int, seed: int) -> Towers:
    """Return towers with random weights that depend only on the seed."""
    with seeded(seed, "towers"):
        return Towers(size.leaves, size.symbols, width, blocks)


@contextmanager
def seeded(*parts: object) -> Iterator[None]:
    """Seed PyTorch's generator, from which modules draw their first weights, for a block."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeds.integer(*parts))
        yield


def loss_of_step(
    towers: Towers,
    trees: Trees,
    *,
    batch_size: int,
    candidates: int | None,
    guidance_weight: float,
    seed: int,
) -> LossOfStep:
    """Return the loss of a step, which draws its pairs.

    Every variant gets the same pairs in the same order.
    """

    def loss(step: int) -> Tensor:
        draw = seeds.torch_generator(seed, "train-encoders", step)
        pairs = draw_pairs(trees, batch_size, draw)
        image, text = towers.image.states(pairs.image), towers.text.states(pairs.text)
        value = contrastive_loss(
            towers.image.read(image[-1]), towers.text.read(text[-1]), candidates
        )
        if guidance_weight:
            value = value + guidance_weight * (
                penalty(image, for_encoder(trees.image, pairs.image))
                + penalty(text, for_encoder(trees.text, pairs.text))
            )
        return value

    return loss


def oracle_feature(posterior: Tensor) -> Tensor:
    """Return the feature that belief propagation would give: centred logs of the posterior."""
    logs = posterior.clamp_min(FLOOR).log()
    return logs - logs.mean(dim=-1, keepdim=True)


ROWS, ROWS_OF_A_CORE = 2000, 250
"""Pairs that are computed at a time: on a GPU, and on a core, where they fit into the cache."""


def in_parts(function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Apply a function to a few samples at a time, without gradients."""
    rows = ROWS if inputs[0].is_cuda else ROWS_OF_A_CORE
    with torch.no_grad():
        return torch.cat(
            [
                function(*(values[first : first + rows] for values in inputs))
                for first in range(0, len(inputs[0]), rows)
            ]
        )


def weights_of(module: nn.Module, name: str) -> dict[str, Tensor]:
    """Return copies of a module's weights, each under a name that begins with `name`."""
    return {f"{name}.{key}": value.detach().clone() for key, value in module.state_dict().items()}


def load_weights(module: nn.Module, tensors: dict[str, Tensor], name: str) -> None:
    """Give a module the weights that `weights_of` returned."""
    start = f"{name}."
    by_name = {
        key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)
    }
    module.load_state_dict(by_name)
