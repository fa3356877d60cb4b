"""The two one-layer encoders f (images, weights W) and h (captions, weights V)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mispair.simulation.sampling.draws import TrialDraws
from mispair.simulation.sampling.inputs import Inputs
from mispair.simulation.study import Study

Kind = Literal["symmetric-relu", "relu"]


class Diverged(ArithmeticError):  # noqa: N818 (it reads as what happened)
    """Training gave a number that is not finite, at a ``step`` counted from 0."""

    def __init__(self, step: int) -> None:
        super().__init__(f"training diverged at step {step}")
        self.step = step


class FiniteSteps:
    """Which of `steps` training steps gave finite numbers; a GPU is read every 50 steps only."""

    def __init__(self, steps: int, device: torch.device) -> None:
        self._finite = torch.ones(steps, dtype=torch.bool, device=device)
        self._every = 1 if device.type == "cpu" else 50

    def note(self, step: int, *values: Tensor) -> None:
        """Note whether values of a step are finite.

        Raises
        ------
        Diverged
            If those of this or of an earlier step are not, naming the first such step.
        """
        self._finite[step] = torch.stack([one.isfinite().all() for one in values]).all()
        if (step + 1) % self._every == 0 or step + 1 == len(self._finite):
            first = step if self._every == 1 else 0
            if not bool(self._finite[first : step + 1].all()):
                raise Diverged(first + int(self._finite[first:].int().argmin()))


class Silenced(ArithmeticError):  # noqa: N818
    """No neuron of an encoder responded to any pair of a batch, at a ``step`` counted from 0."""

    def __init__(self, step: int) -> None:
        super().__init__(f"every neuron of an encoder was silent at step {step}")
        self.step = step


@dataclass(frozen=True)
class Encoders:
    """The image encoder f (index 0) and the text encoder h (index 1), or those of several runs.

    Attributes
    ----------
    kind : str
        With pre-activations a = W x, features are

        - ``symmetric-relu``: relu(a - b) - relu(-a - b), thresholds b >= 0 (Eqs. 2, 3);
        - ``relu``: relu(a + b), biases b learned.
    weights : Tensor (2, m, d1) or (2, runs, m, d1)
        One neuron a row: W and V.
    biases : Tensor (2, m) or (2, runs, m)
        b.
    """

    kind: Kind
    weights: Tensor
    biases: Tensor

    def clone(self) -> Encoders:
        """Copy the parameters."""
        return Encoders(self.kind, self.weights.clone(), self.biases.clone())

    def without_bias(self) -> Encoders:
        """Return encoders with the same weights whose biases are zero."""
        return Encoders(self.kind, self.weights, torch.zeros_like(self.biases))

    def squared_norms(self) -> Tensor:
        """Return the squared norm of each neuron's weights, (2, m) or (2, runs, m)."""
        return torch.linalg.vector_norm(self.weights, dim=-1).square_()

    def rescale(self) -> Tensor:
        """Rescale each neuron, weights and bias, to unit weight norm in place.

        Returns whether all norms were finite and positive, () or (runs,) of bool.
        """
        norms = torch.linalg.vector_norm(self.weights, dim=-1, keepdim=True)
        self.weights.div_(norms)
        self.biases.div_(norms[..., 0])
        return (torch.isfinite(norms) & (norms > 0)).all(dim=-1).all(dim=-1).all(dim=0)

    def finite(self) -> Tensor:
        """Return whether all weights and biases are finite, () or (runs,) of bool."""
        rows = torch.isfinite(self.weights).all(dim=-1) & torch.isfinite(self.biases)
        return rows.all(dim=-1).all(dim=0)

    def features(self, tower: int, inputs: Inputs) -> Tensor:
        """Encode images (tower 0) or captions (tower 1) in any form, as (n, m) or (runs, n, m)."""
        outputs = inputs.product(self.weights[tower])
        bias = self.biases[tower].unsqueeze(-2)
        if self.kind == "relu":
            return outputs.add_(bias).relu_()
        return outputs.sub_(outputs.clamp(-bias, bias))  # what is left beyond the thresholds


def side_by_side(encoders: Sequence[Encoders]) -> Encoders:
    """Join the encoders of several runs, all of one kind, along a leading axis of runs."""
    return Encoders(
        encoders[0].kind,
        torch.stack([one.weights for one in encoders], dim=1),
        torch.stack([one.biases for one in encoders], dim=1),
    )


def draw_encoders(draws: TrialDraws, arm: str, study: Study) -> Encoders:
    """Draw starting weights from N(0, start_std²), and biases likewise if they are learned."""
    generator = draws.generator("start", arm)
    weights = draws.normal(generator, 2, study.m, study.d1).mul_(study.start_std)
    biases = draws.normal(generator, 2, study.m).mul_(study.start_std)
    encoders = Encoders(study.encoder, weights, biases)
    return encoders if study.encoder == "relu" else encoders.without_bias()
