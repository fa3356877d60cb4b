"""The sizes of trees and the memory that they take, computed before anything is allocated."""

from __future__ import annotations

import re
from typing import NamedTuple

from mispair.core.devices import MEMORY_SHARE, free_memory
from mispair.core.files import UserError


class Size(NamedTuple):
    """Levels below the root, children of a node, and symbols of the alphabet.

    Examples
    --------
    >>> Size(4, 3, 10).leaves, str(Size(4, 3, 10)), Size.of("2x3x10").depth
    (81, '4x3x10', 2)
    """

    depth: int
    branching: int
    symbols: int

    @classmethod
    def of(cls, text: str) -> Size:
        """Read what ``str`` wrote.

        Raises
        ------
        ValueError
            If the text is no size, or one that no tree can have.
        """
        if not re.fullmatch(r"\d+x\d+x\d+", text):
            raise ValueError(f"a size is depth x branching x symbols, as in 2x3x10, not {text}")
        size = cls(*map(int, text.split("x")))
        if size.symbols < 2:
            raise ValueError(
                f"an alphabet of {size.symbols} is too small: it takes 2 symbols or more"
            )
        if size.depth < 1 or size.branching < 1:
            raise ValueError("depth and branching must be 1 or more")
        return size

    def __str__(self) -> str:
        return "x".join(map(str, self))

    @property
    def leaves(self) -> int:
        """Number of leaves of one tree."""
        return int(self.branching**self.depth)

    @property
    def nodes(self) -> int:
        """Number of nodes below the root of one tree."""
        return int(sum(self.branching**level for level in range(1, self.depth + 1)))

    def bytes_of_matrices(self) -> int:
        """Return the bytes of the matrices of both trees in double precision."""
        return 2 * 8 * self.depth * self.branching * self.symbols**2

    def bytes_of_messages(self, batch: int, itemsize: int) -> int:
        """Return the bytes of belief propagation in a batch, up and down, in both trees."""
        # Evidence, messages to the parent, beliefs, and one intermediate of each on the way.
        return 2 * 5 * batch * self.nodes * self.symbols * itemsize

    def bytes_of_samples(self, number: int) -> int:
        """Return the bytes needed to draw `number` pairs at once, and to keep them."""
        return number * self.leaves * (3 * 8 + 3 * 4 * self.symbols)

    def bytes_of_training(self, batch: int, width: int, blocks: int, tokens: int) -> int:
        """Return the bytes that a transformer's step keeps for gradients, in single precision."""
        # Per token and block: two norms, three projections, attention, two sums, 3 x 4 width.
        return 4 * batch * blocks * tokens * (20 * width + 3 * tokens)


def refuse_too_large(needed: int, device: str, what: str, remedy: str) -> None:
    """Stop before an allocation of `needed` bytes that cannot work.

    Raises
    ------
    UserError
        If the memory of the machine, or of its GPU, is too small, with both numbers.
    """
    available = free_memory(device)
    if needed > MEMORY_SHARE * available:
        raise UserError(
            f"{what} would take {needed / 1e9:,.1f} GB of memory, but there are "
            f"{available / 1e9:,.1f} GB: {remedy}."
        )
