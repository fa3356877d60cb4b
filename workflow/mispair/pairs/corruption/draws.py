"""Many small random choices at little cost, from one NumPy generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

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
