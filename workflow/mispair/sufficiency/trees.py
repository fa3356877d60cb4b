"""Transition matrices of the two trees, text and image, that share a root.

Every node has the same number of children and as many possible symbols as the root. Child number c
of a node on level l - 1 with symbol a has the distribution in row a of

    P[l, c] = (1 - p) Π[l] + p softmax(G[l, c]),

where Π[l] is a permutation that all children of a level share, G[l, c] is a matrix of normals, the
softmax is along rows, and p is the flip probability. One draw of Π and G serves every p: a shift of
p changes the weight of the mixture and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mispair.sufficiency.sizes import Size


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
