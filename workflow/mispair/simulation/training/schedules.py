r"""The phases of training, and the thresholds b of the symmetric ReLU in each.

Neuron i of both encoders has one threshold. With s_i = (|w_i|² + |v_i|²) / 2 and Eq. 79,

.. math:: b_i = scale \sqrt{\frac{\log d}{d} s_i},

==========  ====================================  ==================================================
phase       theory (appendices D to F)            practical
==========  ====================================  ==================================================
I           b = 0 until s_i >= 2 s_i(0), all i    b = 0 until |W|² + |V|² has doubled
II          Eq. 79 at its start T1, then times    Eq. 79 at every step, for a number of steps
            (1 + η/d) a step (Eq. 80), until
            |w_i|² >= growth d |w_i(T1)|², all i
            (Eq. 81)
III         b held from its start T2 on           b held
==========  ====================================  ==================================================

The paper's T1 condition reads s_i(T1) >= |w_i(0)|² + |v_i(0)|² = 2 s_i(0). Each of several runs
trained side by side changes phase at its own step. No function synchronises the GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mispair.simulation.study import BiasSchedule, Study
from mispair.simulation.training.encoder import Encoders

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
