"""Many small random choices at little cost: from one NumPy generator, or from a stream by key."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from mispair.core import seeds

T = TypeVar("T")


class Draws:
    """Scalar draws from a buffer of uniforms: a scalar call to NumPy costs ten times as much.

    Only `Generator.random` is used, so that the stream does not depend on how NumPy implements
    choices or integers.
    """

    def __init__(self, generator: np.random.Generator, buffer: int = 256) -> None:
        self._generator = generator
        self._buffer = buffer
        self._values: list[float] = []

    def unit(self) -> float:
        """Return a uniform draw from [0, 1)."""
        if not self._values:
            self._values = self._generator.random(self._buffer).tolist()
        return self._values.pop()

    def uniform(self, low: float, high: float) -> float:
        """Return a uniform draw from [low, high)."""
        return low + (high - low) * self.unit()

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.unit() < probability

    def choose(self, options: Sequence[T]) -> T:
        """Return one of the options, all equally likely."""
        return options[int(self.unit() * len(options))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Return the options in random order (Fisher-Yates)."""
        order = list(options)
        for last in range(len(order) - 1, 0, -1):
            partner = int(self.unit() * (last + 1))
            order[last], order[partner] = order[partner], order[last]
        return order


# Draws that depend on a pair's key and on their purpose, for millions of keys at once.
#
# A generator for each key would take a hundred times as long. Here a key is hashed to 64 bits
# (BLAKE2b, keyed by the name of the draw), and its draws are the outputs of SplitMix64 with that
# seed, each computed from its own number alone. They do not depend on other keys, on the order of
# keys, or on the interpreter's hash of strings.

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)


def streams(keys: Iterable[str], *name: object) -> np.ndarray:
    """Return where the draws of each key start, (n,) uint64, for `uniforms`.

    `name` is the purpose of the draws, such as a seed and a scheme; other names give other draws.
    """
    secret = seeds.integer(*name).to_bytes(8, "big")
    digests = (hashlib.blake2b(key.encode(), digest_size=8, key=secret).digest() for key in keys)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False)


def uniforms(starts: np.ndarray, number: np.ndarray | int) -> np.ndarray:
    """Return a draw from each stream, by its number from 0: float64 in [0, 1), 53 random bits.

    `number` is broadcast against `starts`, which come from `streams`.

    References
    ----------
    G. L. Steele, D. Lea and C. H. Flood, Fast splittable pseudorandom number generators,
    OOPSLA 2014 (SplitMix64).
    """
    # Arrays wrap around silently, scalars would warn.
    numbers = np.atleast_1d(np.asarray(number, dtype=np.uint64))
    state = starts + (numbers + np.uint64(1)) * _GOLDEN
    for shift, factor in _MIX:
        state = (state ^ (state >> shift)) * factor
    state ^= state >> np.uint64(31)
    return np.asarray((state >> np.uint64(11)) * 2.0**-53)


# Draws of swaps: a pairing holds several, so that seeds of a fine-tuning are replicates.
#
# Draw 0 has the plain names of the columns. Draw k has the same names with ``_k`` at the end.

DRAWN = ("caption_id", "swapped", "text_changed")
"""Columns of a pairing that each draw has."""

SOURCE = "caption_source"
"""A further column of each draw. A corpus with one caption per pair has none."""

WRITTEN = -1
"""Source of a caption that a scheme or a captioner wrote: no pair had it."""


def column(name: str, draw: int) -> str:
    """Return the name that a column of a pairing has for a draw.

    Examples
    --------
    >>> column("swapped", 0), column("swapped", 2)
    ('swapped', 'swapped_2')
    """
    return f"{name}_{draw}" if draw else name


def seed_of(seed: int, draw: int) -> int:
    """Return the seed of a draw: that of the step for draw 0, else one derived from it."""
    return seeds.integer(seed, "draw", draw) if draw else seed
