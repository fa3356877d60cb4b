"""The two one-layer encoders: ReLU, a learned bias, and rows of unit norm."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mispair.simulation.data import Draws


class Diverged(ArithmeticError):  # noqa: N818 (it reads as what happened)
    """Training left the finite numbers.

    Attributes
    ----------
    step : int
        The step at which it did, counted from 0.
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"training diverged at step {step}")
        self.step = step


@dataclass(frozen=True)
class Encoders:
    """The image encoder f (index 0) and the text encoder g (index 1).

    Attributes
    ----------
    weights : Tensor (2, m, d1)
        One neuron a row: W and V.
    biases : Tensor (2, m)
        Added before the ReLU.
    """

    weights: Tensor
    biases: Tensor

    def clone(self) -> Encoders:
        """Copy the parameters."""
        return Encoders(self.weights.clone(), self.biases.clone())

    def normalise(self) -> bool:
        """Rescale each neuron, weights and bias, to unit weight norm in place.

        Returns
        -------
        bool
            Whether all norms were finite and positive.
        """
        norms = torch.linalg.vector_norm(self.weights, dim=2, keepdim=True)
        self.weights.div_(norms)
        self.biases.div_(norms[:, :, 0])
        return bool((torch.isfinite(norms) & (norms > 0)).all())

    def image_features(self, images: Tensor) -> Tensor:
        """Encode images (n, d1) as ReLU(W x + b), (n, m)."""
        return torch.addmm(self.biases[0], images, self.weights[0].T).relu_()

    def text_features(self, texts: Tensor) -> Tensor:
        """Encode captions (n, d1) as ReLU(V y + b), (n, m)."""
        return torch.addmm(self.biases[1], texts, self.weights[1].T).relu_()


def draw_encoders(draws: Draws, arm: str, m: int, d1: int, std: float) -> Encoders:
    """Draw starting weights and biases from N(0, std²)."""
    generator = draws.generator("start", arm)
    weights = draws.normal(generator, 2, m, d1).mul_(std)
    return Encoders(weights, draws.normal(generator, 2, m).mul_(std))
