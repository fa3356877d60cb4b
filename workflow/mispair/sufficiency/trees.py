"""The two trees, text and image, that share a root: transition matrices, and pairs drawn from them.

Every node has the same number of children and as many possible symbols as the root. Child number c
of a node on level l - 1 with symbol a has the distribution in row a of

    P[l, c] = (1 - p) Π[l] + p softmax(G[l, c]),

where Π[l] is a permutation that all children of a level share, G[l, c] is a matrix of normals, the
softmax is along rows, and p is the flip probability. One draw of Π and G serves every p: a shift of
p changes the weight of the mixture and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mispair.core.devices import choose_device, upload
from mispair.core.files import read_tensors
from mispair.sufficiency.settings import Size


@dataclass(frozen=True)
class Skeleton:
    """The random draws of one tree, before p is chosen.

    Attributes
    ----------
    permutations : ndarray of int (depth, symbols)
        Where each symbol goes if it is not flipped.
    noise : ndarray (depth, branching, symbols, symbols)
        G, row by row the logits of a flipped child.
    """

    permutations: np.ndarray
    noise: np.ndarray

    def transitions(self, flip: float) -> np.ndarray:
        """Return P for a flip probability: float64 (depth, branching, symbols, symbols).

        Raises
        ------
        ValueError
            If `flip` is not a probability.
        """
        if not 0 <= flip <= 1:
            raise ValueError(f"a flip probability p must be between 0 and 1, not {flip:g}")
        kept = np.eye(self.noise.shape[-1])[self.permutations][:, None]
        weights = np.exp(self.noise - self.noise.max(axis=-1, keepdims=True))
        return (1 - flip) * kept + flip * weights / weights.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class Skeletons:
    """Both trees."""

    text: Skeleton
    image: Skeleton

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name, as `of_arrays` takes them."""
        return {
            f"{name}.{key}": value
            for name, tree in (("text", self.text), ("image", self.image))
            for key, value in vars(tree).items()
        }

    @classmethod
    def of_arrays(cls, arrays: dict[str, np.ndarray]) -> Skeletons:
        """Build the trees from what `arrays` returned."""
        text, image = (
            Skeleton(arrays[f"{name}.permutations"], arrays[f"{name}.noise"])
            for name in ("text", "image")
        )
        return cls(text, image)

    @property
    def size(self) -> Size:
        """Depth, branching and number of symbols."""
        return Size(*self.text.noise.shape[:3])


def draw_skeletons(seed: int, size: Size, scale: float = 1.0) -> Skeletons:
    """Draw both trees, the text's first, with logits of flipped children of deviation `scale`.

    The generator is NumPy's legacy one (MT19937, ``RandomState``). The order is permutation, then
    the children's normals, level by level. For the seed 42 and the published size this gives the
    trees of the published numbers.
    """
    draw = np.random.RandomState(seed)

    def skeleton() -> Skeleton:
        permutations, noise = [], []
        for _ in range(size.depth):
            permutations.append(draw.permutation(size.symbols))
            noise.append(scale * draw.normal(size=(size.branching, size.symbols, size.symbols)))
        return Skeleton(np.array(permutations), np.array(noise))

    text = skeleton()
    return Skeletons(text, skeleton())


Metadata = dict[str, str]


def read_trees(path: Path) -> tuple[Skeletons, Metadata]:
    """Read what draw_trees wrote."""
    arrays, metadata = read_tensors(path)
    return Skeletons.of_arrays(arrays), metadata


def prepared(device: str) -> str:
    """Return the device to compute on; on a CPU make sums run in one order on every machine."""
    chosen = choose_device(device)
    if chosen == "cpu":
        torch.set_num_threads(1)
    return chosen


# Pairs of text and image that descend from one root.


@dataclass(frozen=True)
class Trees:
    """Transition matrices of both trees at a flip probability, on a device.

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
    skeletons: Skeletons, flip: float, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> Trees:
    """Return both trees' matrices for a flip probability."""
    return Trees(
        *(
            torch.from_numpy(tree.transitions(flip)).to(device, dtype)
            for tree in (skeletons.text, skeletons.image)
        )
    )


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
