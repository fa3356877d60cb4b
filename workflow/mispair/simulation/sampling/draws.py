"""The random draws of one trial, each from a named generator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mispair.core import seeds
from mispair.core.devices import upload


@dataclass(frozen=True)
class Draws:
    """Random draws of one trial, on a device and in a floating-point type.

    They depend on the seed, the number of the trial, and their own name.
    """

    seed: int
    trial: int
    device: str
    dtype: torch.dtype

    def generator(self, *name: object) -> torch.Generator:
        """Return the generator of the draws called `name`."""
        return seeds.torch_generator(self.seed, "simulate", self.trial, *name)

    def normal(self, generator: torch.Generator, *shape: int) -> Tensor:
        """Draw standard normal numbers in float32; float64 gets the same ones."""
        return upload(torch.randn(*shape, generator=generator), self.device).to(self.dtype)

    def uniform(self, generator: torch.Generator, *shape: int) -> Tensor:
        """Draw numbers from [0, 1), the same ones for every precision."""
        return upload(torch.rand(*shape, generator=generator), self.device)

    def bernoulli(self, generator: torch.Generator, share: float, *shape: int) -> Tensor:
        """Draw truth values that hold with probability `share`."""
        return self.uniform(generator, *shape) < share
