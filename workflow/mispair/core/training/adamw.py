"""AdamW on gradients that are derived by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor


class AdamW:
    """AdamW of some tensors (Loshchilov and Hutter 2019, algorithm 2); without decay it is Adam.

    It calls the kernel of ``torch.optim.AdamW(fused=True)`` and not that class, whose first use
    imports torch's compiler: two seconds, more than a small job takes.

    Each step changes `tensors` in place; `betas` are the decay rates of the two moments.
    """

    def __init__(
        self, tensors: Sequence[Tensor], decay: float, betas: tuple[float, float] = (0.9, 0.999)
    ) -> None:
        self.tensors, self.decay, self.betas = list(tensors), decay, betas
        self.means = [torch.zeros_like(values) for values in self.tensors]
        self.squares = [torch.zeros_like(values) for values in self.tensors]
        device = self.tensors[0].device if self.tensors else None
        self.steps = torch.zeros((), device=device)

    def step(self, gradients: Iterable[Tensor], lr: float) -> None:
        """Do one step with the gradient of each tensor."""
        self.steps += 1
        torch._fused_adamw_(
            self.tensors, list(gradients), self.means, self.squares,
            [], [self.steps] * len(self.tensors), lr=lr, beta1=self.betas[0], beta2=self.betas[1],
            weight_decay=self.decay, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip

    def state(self, name: str = "optimiser") -> dict[str, Tensor]:
        """Return its tensors, by names that begin with `name`; each step changes them."""
        return {
            f"{name}.steps": self.steps,
            **{f"{name}.mean.{number}": values for number, values in enumerate(self.means)},
            **{f"{name}.square.{number}": values for number, values in enumerate(self.squares)},
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state, which may hold other tensors as well."""
        for name, values in self.state().items():
            values.copy_(state[name])
