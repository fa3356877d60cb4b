"""The training loop of small networks: AdamW, a cosine of step sizes, clipped gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mispair.core.arithmetic import denormals_flushed, keep_freed_memory
from mispair.core.resume import Keeper
from mispair.core.training.adamw import AdamW


@dataclass(frozen=True)
class Plan:
    """Length, step sizes, decay and clipping of a training.

    Attributes
    ----------
    steps : int
        Number of batches.
    lr, last_lr : float
        Largest step size, and its limit along a cosine.
    weight_decay, clip : float
        Decay of all parameters, and largest norm of a gradient.
    warm_up : int
        Steps in which the step size grows to that of the cosine; 0 for none.
    betas : (float, float)
        Decay rates of AdamW's two moments.
    """

    steps: int
    lr: float
    last_lr: float
    weight_decay: float
    clip: float
    warm_up: int = 0
    betas: tuple[float, float] = (0.9, 0.999)

    @classmethod
    def of(cls, settings: Any, lr: float, steps: int) -> Plan:
        """Return the plan of a step's settings, with its first step size and its length."""
        last_lr = lr * settings.last_lr_share
        return cls(steps, lr, last_lr, settings.weight_decay, settings.clip)

    def lr_at(self, step: int) -> float:
        """Return the step size of a step, counted from 0."""
        share = (1 + math.cos(math.pi * step / self.steps)) / 2
        falling = self.last_lr + (self.lr - self.last_lr) * share
        return falling * min(1.0, (step + 1) / self.warm_up) if self.warm_up else falling


LossOfStep = Callable[[int], Tensor]
"""Draws the batch of a step, counted from 0, and returns its loss. The batch depends on the step
only, so a resumed training gets the same batches."""


def train(
    model: nn.Module,
    loss_of: LossOfStep,
    plan: Plan,
    keeper: Keeper[Tensor] | None = None,
    progress: Callable[[int], None] = lambda step: None,
) -> Tensor:
    """Train a model in place; return the loss of each step.

    Parameters
    ----------
    model : Module
        All its parameters are trained.
    loss_of : callable
        Loss of a step.
    keeper : Keeper, optional
        Saves the state whenever it is due, and after the last step, as what follows in a job may
        take long. If it has one, training continues from there, to the same bytes.
    progress : callable, optional
        Receives the number of steps: before the first step of this call, and after each.

    Raises
    ------
    FloatingPointError
        If a loss is not finite, naming the step.
    """
    parameters = dict(model.named_parameters())
    device = next(iter(parameters.values())).device
    optimiser = AdamW(list(parameters.values()), plan.weight_decay, plan.betas)
    losses = torch.zeros(plan.steps, device=device)
    begin = 0
    if keeper is not None and (saved := keeper.load()) is not None:
        begin = int(saved["step"])
        losses.copy_(saved["losses"])
        with torch.no_grad():
            for name, values in parameters.items():
                values.copy_(saved[f"model.{name}"])
        optimiser.restore(saved)
    progress(begin)
    keep_freed_memory()
    # Reading a loss synchronises the GPU.
    check_every = 1 if device.type == "cpu" else 100
    with denormals_flushed():
        for step in range(begin, plan.steps):
            loss = loss_of(step)
            gradients = torch.autograd.grad(loss, list(parameters.values()))
            norm = torch.stack(torch._foreach_norm(gradients)).norm()
            shrunk = (plan.clip / (norm + 1e-6)).clamp(max=1.0)
            with torch.no_grad():
                optimiser.step(torch._foreach_mul(gradients, shrunk), plan.lr_at(step))
            losses[step] = loss.detach()
            progress(step + 1)
            last = step + 1 == plan.steps
            saves = keeper is not None and (last or keeper.due())
            if last or saves or (step + 1) % check_every == 0:
                _refuse_divergence(losses[: step + 1])
            if keeper is not None and saves:
                state = {f"model.{name}": values.detach() for name, values in parameters.items()}
                state |= optimiser.state()
                state |= {"losses": losses, "step": torch.tensor(step + 1)}
                keeper.save({name: values.clone() for name, values in state.items()})
    return losses


def _refuse_divergence(losses: Tensor) -> None:
    if not bool(losses[-1].isfinite()):
        step = int((~losses.isfinite()).nonzero()[0])
        raise FloatingPointError(f"the loss of step {step} is not finite: a smaller lr may help")
