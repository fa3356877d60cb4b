"""Pairs of text and image that descend from one root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mispair.core.devices import upload
from mispair.sufficiency.sizes import Size
from mispair.sufficiency.trees import Skeletons


@dataclass(frozen=True)
class Trees:
    """Transition matrices of both trees at chosen flip probabilities, on a device.

    Each is (depth, branching, symbols, symbols); rows sum to one.
    """

    text: Tensor
    image: Tensor

    @property
    def size(self) -> Size:
        """Depth, branching and number of symbols."""
        return Size(*self.text.shape[:3])


class TreePairs(NamedTuple):
    """Texts and images of the same roots: roots (batch,), the others (batch, leaves), integers."""

    root: Tensor
    text: Tensor
    image: Tensor


def trees_at(
    skeletons: Skeletons,
    text_flip: float,
    image_flip: float,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Trees:
    """Return both trees' matrices for their flip probabilities."""
    text = torch.from_numpy(skeletons.text.transitions(text_flip))
    image = torch.from_numpy(skeletons.image.transitions(image_flip))
    return Trees(text.to(device, dtype), image.to(device, dtype))


def draw_pairs(trees: Trees, number: int, generator: torch.Generator) -> TreePairs:
    """Draw independent pairs on the trees' device; the generator is on the CPU."""
    roots = torch.randint(trees.size.symbols, (number,), generator=generator)
    roots = upload(roots, trees.text.device)
    text = draw_leaves(trees.text, roots, generator)
    return TreePairs(roots, text, draw_leaves(trees.image, roots, generator))


def draw_leaves(transitions: Tensor, roots: Tensor, generator: torch.Generator) -> Tensor:
    """Draw the leaves below given roots: integers (batch, leaves), from left to right."""
    symbols = roots[:, None]
    cumulative = transitions.cumsum(dim=-1)
    child = torch.arange(transitions.shape[1], device=roots.device)
    for level in cumulative:
        chances = level[child, symbols[..., None]]  # (batch, parents, branching, symbols)
        uniform = upload(torch.rand(chances.shape[:-1], generator=generator), roots.device)
        # The last bound is left out: it is one up to rounding.
        symbols = (uniform[..., None] > chances[..., :-1]).sum(dim=-1).flatten(1)
    return symbols


def add_noise(image: Tensor, sigma: float, generator: torch.Generator) -> Tensor:
    """Read symbols as the numbers 0, 1, ... and add Gaussian noise."""
    noise = upload(torch.randn(image.shape, generator=generator), image.device)
    return image + sigma * noise
