"""The two one-layer encoders f (images, weights W) and h (captions, weights V), with thresholds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mispair.simulation.sampling.draws import TrialDraws
from mispair.simulation.sampling.inputs import Inputs
from mispair.simulation.study import BiasSchedule, Study

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


# The phases of training, and the thresholds b of the symmetric ReLU in each.
#
# Neuron i of both encoders has one threshold. With s_i = (|w_i|² + |v_i|²) / 2 and Eq. 79,
#
# .. math:: b_i = scale \sqrt{\frac{\log d}{d} s_i},
#
# ==========  ====================================  ================================================
# phase       theory (appendices D to F)            practical
# ==========  ====================================  ================================================
# I           b = 0 until s_i >= 2 s_i(0), all i    b = 0 until |W|² + |V|² has doubled
# II          Eq. 79 at its start T1, then times    Eq. 79 at every step, for a number of steps
#             (1 + η/d) a step (Eq. 80), until
#             |w_i|² >= growth d |w_i(T1)|², all i
#             (Eq. 81)
# III         b held from its start T2 on           b held
# ==========  ====================================  ================================================
#
# The paper's T1 condition reads s_i(T1) >= |w_i(0)|² + |v_i(0)|² = 2 s_i(0). Each of several runs
# trained side by side changes phase at its own step. No function synchronises the GPU.


_NEVER = -1


@dataclass(frozen=True)
class Phases:
    """When the phases of one training began, and the neurons' norms then.

    Attributes
    ----------
    second, third : int or None
        First steps of phases II and III, T1 and T2; None if training ended before.
    norms_first, norms_second : Tensor (2, m)
        |w_i|² and |v_i|² at T1 and at T2; at the end of training if it ended before.
    """

    second: int | None
    third: int | None
    norms_first: Tensor
    norms_second: Tensor


@dataclass
class ThresholdSchedule:
    """Sets the thresholds of encoders step by step, with the constants of a study.

    With ``zero`` phase I never ends. With ``none`` biases are not thresholds and stay unchanged.
    """

    name: BiasSchedule | Literal["none"]
    study: Study

    def begin(self, encoders: Encoders) -> None:
        """Set the thresholds of encoders to zero; phase I starts with the weights of step 0."""
        if self.name != "none":
            encoders.biases.zero_()
        self._start = encoders.squared_norms()
        self._first, self._last = self._start.clone(), self._start.clone()
        runs = self._start.shape[1:-1]
        self._second = torch.full(runs, _NEVER, dtype=torch.int64, device=self._start.device)
        self._third = self._second.clone()

    def advance(self, step: int, encoders: Encoders, eta: float) -> None:
        """Set the thresholds for a step, counted from 0, given the weights before it.

        `eta` is η of Eq. 80: the step size of a loss that is a mean over the batch. Appendix E
        compares 1 + η/d with the growth of alignments by 1 + η C_z/(2d), which has the same η.
        """
        if self.name in ("zero", "none"):
            return
        norms = encoders.squared_norms()
        if step == 0:
            self._start.copy_(norms)
        waiting, growing = self._second < 0, (self._second >= 0) & (self._third < 0)
        begins = waiting & self._doubled(norms)
        threshold = encoders.biases[0]
        if self.name == "theory":
            grown = threshold * (1 + eta / self.study.d)
            threshold = torch.where(growing.unsqueeze(-1), grown, threshold)
            renewed = begins
            bound = self.study.phase2_growth * self.study.d * self._first[0]
            ends = growing & (norms[0] >= bound).all(dim=-1)
        else:
            length = self.study.phase2_steps
            ends = (growing & (step >= self._second + length)) | (begins & (length == 0))
            renewed = (growing | begins) & ~ends
        threshold = torch.where(renewed.unsqueeze(-1), self._of_norms(norms), threshold)
        encoders.biases.copy_(threshold.expand_as(encoders.biases))
        self._second.masked_fill_(begins, step)
        self._third.masked_fill_(ends, step)
        torch.where(begins.unsqueeze(-1), norms, self._first, out=self._first)
        torch.where(ends.unsqueeze(-1), norms, self._last, out=self._last)

    def phases(self, encoders: Encoders) -> list[Phases]:
        """Return the phases of each run after its last step, or of the only run."""
        end = encoders.squared_norms()
        second, third = self._second, self._third
        first = torch.where((second < 0).unsqueeze(-1), end, self._first)
        last = torch.where((third < 0).unsqueeze(-1), end, self._last)
        m = end.shape[-1]
        rows = zip(
            second.view(-1).tolist(),
            third.view(-1).tolist(),
            first.view(2, -1, m).unbind(dim=1),
            last.view(2, -1, m).unbind(dim=1),
            strict=True,
        )
        return [
            Phases(t1 if t1 >= 0 else None, t2 if t2 >= 0 else None, at_t1, at_t2)
            for t1, t2, at_t1, at_t2 in rows
        ]

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that `restore` needs, by name; later steps change them."""
        return {
            "start": self._start,
            "first": self._first,
            "last": self._last,
            "second": self._second,
            "third": self._third,
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a state, after `begin`."""
        for name, values in self.state().items():
            values.copy_(state[name])

    def _doubled(self, norms: Tensor) -> Tensor:
        if self.name == "theory":
            return (norms.sum(dim=0) >= 2 * self._start.sum(dim=0)).all(dim=-1)
        return norms.sum(dim=(0, -1)) >= 2 * self._start.sum(dim=(0, -1))

    def _of_norms(self, norms: Tensor) -> Tensor:
        """Eq. 79."""
        d = self.study.d
        factor = self.study.bias_scale * math.sqrt(math.log(d) / d)
        return norms.mean(dim=0).sqrt_().mul_(factor)
