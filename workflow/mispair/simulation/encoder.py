"""The two one-layer encoders f (images, weights W) and h (captions, weights V), with thresholds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mispair.simulation.inputs import Inputs
from mispair.simulation.pairs import TrialDraws
from mispair.simulation.study import BiasSchedule, Study

Kind = Literal["symmetric-relu", "relu"]


class Diverged(ArithmeticError):  # noqa: N818 (it reads as what happened)
    """Training gave a number that is not finite, at a ``step`` counted from 0."""

    def __init__(self, step: int) -> None:
        super().__init__(f"training diverged at step {step}")
        self.step = step


def refuse_infinite(step: int, *values: Tensor) -> None:
    """Raise `Diverged` unless all values of a step are finite."""
    if not all(bool(one.isfinite().all()) for one in values):
        raise Diverged(step)


class Silenced(ArithmeticError):  # noqa: N818
    """No neuron of an encoder responded to any pair of a batch, at a ``step`` counted from 0."""

    def __init__(self, step: int) -> None:
        super().__init__(f"every neuron of an encoder was silent at step {step}")
        self.step = step


@dataclass(frozen=True)
class Encoders:
    """The image encoder f (index 0) and the text encoder h (index 1).

    Attributes
    ----------
    kind : str
        With pre-activations a = W x, features are

        - ``symmetric-relu``: relu(a - b) - relu(-a - b), thresholds b >= 0 (Eqs. 2, 3);
        - ``relu``: relu(a + b), biases b learned.
    weights : Tensor (2, m, d1)
        One neuron a row: W and V.
    biases : Tensor (2, m)
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
        """Return the squared norm of each neuron's weights, (2, m)."""
        return torch.linalg.vector_norm(self.weights, dim=-1).square_()

    def rescale(self) -> bool:
        """Rescale each neuron, weights and bias, to unit weight norm in place.

        Returns whether all norms were finite and positive.
        """
        norms = torch.linalg.vector_norm(self.weights, dim=-1, keepdim=True)
        self.weights.div_(norms)
        self.biases.div_(norms[..., 0])
        return bool((torch.isfinite(norms) & (norms > 0)).all())

    def features(self, tower: int, inputs: Inputs) -> Tensor:
        """Encode images (tower 0) or captions (tower 1) in any form, as (n, m)."""
        outputs = inputs.product(self.weights[tower])
        bias = self.biases[tower]
        if self.kind == "relu":
            return outputs.add_(bias).relu_()
        return outputs.sub_(outputs.clamp(-bias, bias))  # what is left beyond the thresholds


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
# The paper's T1 condition reads s_i(T1) >= |w_i(0)|² + |v_i(0)|² = 2 s_i(0).


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
        self._first = self._last = self._start
        self._second: int | None = None
        self._third: int | None = None

    def advance(self, step: int, encoders: Encoders, eta: float) -> None:
        """Set the thresholds for a step, counted from 0, given the weights before it.

        `eta` is η of Eq. 80: the step size of a loss that is a mean over the batch. Appendix E
        compares 1 + η/d with the growth of alignments by 1 + η C_z/(2d), which has the same η.
        """
        if self.name in ("zero", "none"):
            return
        norms = encoders.squared_norms()
        if step == 0:
            self._start = norms
        begins = self._second is None and self._doubled(norms)
        if begins:
            self._second, self._first = step, norms
        growing = self._second is not None and self._third is None
        if self.name == "theory":
            if growing and not begins:
                encoders.biases.mul_(1 + eta / self.study.d)
                bound = self.study.phase2_growth * self.study.d * self._first[0]
                ends = bool((norms[0] >= bound).all())
            else:
                ends = False
            renewed = begins
        else:
            began = self._second if growing else None
            ends = began is not None and step >= began + self.study.phase2_steps
            renewed = growing and not ends
        if renewed:
            encoders.biases.copy_(self._of_norms(norms).expand_as(encoders.biases))
        if ends:
            self._third, self._last = step, norms

    def phases(self, encoders: Encoders) -> Phases:
        """Return the phases after the last step."""
        end = encoders.squared_norms()
        return Phases(
            self._second,
            self._third,
            end if self._second is None else self._first,
            end if self._third is None else self._last,
        )

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that `restore` needs, by name; −1 is a phase that has not begun."""
        began = [-1 if step is None else step for step in (self._second, self._third)]
        return {
            "start": self._start,
            "first": self._first,
            "last": self._last,
            "began": torch.tensor(began),
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a state, after `begin`."""
        self._start, self._first, self._last = state["start"], state["first"], state["last"]
        self._second, self._third = (None if step < 0 else step for step in state["began"].tolist())

    def _doubled(self, norms: Tensor) -> bool:
        if self.name == "theory":
            return bool((norms.sum(dim=0) >= 2 * self._start.sum(dim=0)).all())
        return bool(norms.sum() >= 2 * self._start.sum())

    def _of_norms(self, norms: Tensor) -> Tensor:
        """Eq. 79."""
        d = self.study.d
        factor = self.study.bias_scale * math.sqrt(math.log(d) / d)
        return norms.mean(dim=0).sqrt_().mul_(factor)
