"""Contrastive training of the two encoders (S1 and S4), with hand-derived gradients.

What a step costs at the paper's size (d1 = 2500, d = 50, m = 80, B = 500), in floating-point
operations. ``as-written``, on a fixed sample with noise in all coordinates:

===============================================================  =======================  ==========
features: X Wᵀ and Y Vᵀ                                          2 · 2 B m d1             400 MFLOP
gradients by the weights, added straight to these                2 · 2 B m d1             400 MFLOP
spectral loss: FᵀF and HᵀH, and one product with each            4 · 2 B m²               26 MFLOP
===============================================================  =======================  ==========

That is 0.83 GFLOP; B × B matrices would take 160 MFLOP for the loss in place of 26. ``as-run``, on
fresh noiseless images and captions with projected noise:

===============================================================  =======================  ==========
images, noiseless, so that W meets them only through W M         2 · 2 m d d1             40 MFLOP
captions, noiseless part, likewise through V H                   2 · 2 m d d1             40 MFLOP
their fresh noise: V Vᵀ, N Vᵀ, Rᵀ N, and one product with V      4 · 2 m² d1              128 MFLOP
InfoNCE, forward: three of the four blocks of B × B              3 · 2 B² m               120 MFLOP
InfoNCE, backward                                                4 · 2 B² m               160 MFLOP
===============================================================  =======================  ==========

That is 0.49 GFLOP, against 1.28 GFLOP for the plain way: four products of B × m × d1 and three of
2B × 2B × m. Noise drawn in full costs 2 · 2 B m d1 = 400 MFLOP in place of 128, and 1,250,000
normals a step in place of 240,000. A step also takes 750,000 exponentials and updates 400,000
parameters: everything except matrix products takes as long as the products.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mispair.core.resume import Keeper
from mispair.core.training import AdamW, denormals_flushed, keep_freed_memory
from mispair.simulation.encoder import Diverged, Encoders, Phases, Silenced, ThresholdSchedule
from mispair.simulation.inputs import Batch
from mispair.simulation.losses import Loss, infonce, spectral
from mispair.simulation.study import Study


@dataclass(frozen=True)
class TrainingLength:
    """How long to train with the settings of a study."""

    study: Study
    epochs: int
    steps_per_epoch: int

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.epochs * self.steps_per_epoch

    @property
    def loss(self) -> Loss:
        """Loss of a batch, without the penalty."""
        study = self.study
        loss = infonce if study.loss == "infonce" else spectral
        return partial(loss, temperature=study.temperature, reduction=study.loss_reduction)

    def lr_at(self, step: int) -> float:
        """Return the step size of a step, counted from 0."""
        epoch = step // self.steps_per_epoch
        return self.study.lr * self.study.lr_decay ** (epoch // self.study.lr_decay_every)


@dataclass(frozen=True)
class Trained:
    """Encoders at the end of a training, of unit rows if the study has them.

    ``losses`` (epochs, steps_per_epoch) include the penalty and are those before each step.
    """

    encoders: Encoders
    losses: np.ndarray
    phases: Phases


Progress = Callable[[int], None]


def train(
    start: Encoders,
    batch: Callable[[int], Batch],
    plan: TrainingLength,
    keeper: Keeper[Tensor] | None = None,
    progress: Progress = lambda step: None,
) -> Trained:
    """Train a copy of the encoders.

    With ``unit_rows``, neurons are rescaled to unit norm before every forward pass and at the end;
    the gradient is that of the rescaled parameters, not of the rescaling.

    Parameters
    ----------
    start : Encoders
        Not changed.
    batch : callable
        Returns the batch of a step, counted from 0.
    plan : TrainingLength
        Length, step sizes and loss.
    keeper : Keeper, optional
        Receives the state whenever it is due and after the last step. Training continues from its
        state, if it has one, with the same numbers as without an interruption.
    progress : callable, optional
        Receives the number of steps taken: before the first step of this call, and after each.

    Raises
    ------
    Diverged
        If the loss or a weight is not finite, naming the step.
    Silenced
        If all features of a tower were zero in a batch, naming the step.
    """
    training = _Training(start.clone(), plan)
    if keeper is not None and (saved := keeper.load()) is not None:
        training.restore(saved)
    progress(training.step)
    keep_freed_memory()
    with denormals_flushed():
        while training.step < plan.steps:
            training.advance(batch(training.step))
            progress(training.step)
            if keeper is not None and (training.step == plan.steps or keeper.due()):
                keeper.save(training.state())
    return training.result()


class _Training:
    """A training under way; it changes the encoders."""

    def __init__(self, encoders: Encoders, plan: TrainingLength) -> None:
        self.encoders, self.plan, self.step = encoders, plan, 0
        self.loss, study = plan.loss, plan.study
        # Gradients change these; thresholds follow a schedule instead.
        learned = [encoders.weights, encoders.biases]
        self.learned = learned if encoders.kind == "relu" else learned[:1]
        self.adam = AdamW(self.learned, decay=0.0) if study.optimiser == "adam" else None
        self.totals = [torch.zeros_like(values) for values in self.learned if self.adam]
        has_schedule = encoders.kind == "symmetric-relu"
        self.schedule = ThresholdSchedule(study.bias_schedule if has_schedule else "none", study)
        self.schedule.begin(encoders)
        self.losses = torch.zeros(plan.steps, dtype=torch.float64)

    def advance(self, batch: Batch) -> None:
        """Take one step.

        Raises
        ------
        Diverged, Silenced
            As `train` does.
        """
        encoders, study, step = self.encoders, self.plan.study, self.step
        if study.unit_rows and not encoders.rescale():
            raise Diverged(step)
        lr = self.plan.lr_at(step)
        by_mean = study.loss_reduction == "sum"
        self.schedule.advance(step, encoders, lr * len(batch.image) if by_mean else lr)

        features = encoders.features(0, batch.image), encoders.features(1, batch.text)
        value, *gradients = self.loss(*features)
        if study.weight_penalty:
            squares = encoders.squared_norms()
            if encoders.kind == "relu":
                squares = squares + encoders.biases.square()
            value = value + study.weight_penalty * squares.sum(dim=(0, -1))
        self.losses[step] = value
        if not bool(torch.isfinite(value)):
            raise Diverged(step)
        for output, gradient in zip(features, gradients, strict=True):
            active = output != 0
            if not bool(active.any()):
                raise Silenced(step)
            gradient.mul_(active)  # where both kinds of ReLU have the slope 1, else 0
        (self._adam if self.adam else self._descend)(batch, gradients, lr)
        self.step += 1

    def _descend(self, batch: Batch, gradients: Sequence[Tensor], lr: float) -> None:
        """Add products straight to the weights, and overwrite the gradients by pre-activations."""
        weights, biases = self.encoders.weights, self.encoders.biases
        penalty = 2 * self.plan.study.weight_penalty
        pulls = [penalty * lr * values for values in self.learned if penalty]
        for tower, inputs in enumerate((batch.image, batch.text)):
            change = gradients[tower].mul_(-lr)
            if self.encoders.kind == "relu":
                biases[tower].add_(change.sum(dim=-2))
            inputs.accumulate(change, weights[tower], out=weights[tower])
        for values, pull in zip(self.learned, pulls, strict=False):
            values.sub_(pull)

    def _adam(self, batch: Batch, gradients: Sequence[Tensor], lr: float) -> None:
        """Take a step of Adam; the penalty is part of the loss."""
        assert self.adam is not None
        penalty = 2 * self.plan.study.weight_penalty
        for values, total in zip(self.learned, self.totals, strict=True):
            torch.mul(values, penalty, out=total)
        of_weights, *of_biases = self.totals
        for tower, inputs in enumerate((batch.image, batch.text)):
            for gradient in of_biases:
                gradient[tower].add_(gradients[tower].sum(dim=-2))
            inputs.accumulate(gradients[tower], self.encoders.weights[tower], out=of_weights[tower])
        self.adam.step(self.totals, lr)

    def result(self) -> Trained:
        """Return the outcome after the last step.

        Raises
        ------
        Diverged
            If a weight is not finite.
        """
        plan, encoders = self.plan, self.encoders
        sound = encoders.rescale() if plan.study.unit_rows else True
        if not sound or not all(
            bool(torch.isfinite(values).all()) for values in (encoders.weights, encoders.biases)
        ):
            raise Diverged(plan.steps)
        losses = self.losses.view(plan.epochs, plan.steps_per_epoch).numpy()
        return Trained(encoders, losses, self.schedule.phases(encoders))

    def _tensors(self) -> dict[str, Tensor]:
        """Return what steps change in place, except Adam's moments."""
        return {
            "weights": self.encoders.weights,
            "biases": self.encoders.biases,
            "losses": self.losses,
        }

    def state(self) -> dict[str, Tensor]:
        """Return copies of all that changes from step to step, by name."""
        schedule = {f"schedule.{name}": values for name, values in self.schedule.state().items()}
        state = {
            **self._tensors(), **schedule, **(self.adam.state() if self.adam else {}),
            "step": torch.tensor(self.step),
        }  # fmt: skip
        return {name: values.clone() for name, values in state.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a state."""
        for name, values in self._tensors().items():
            values.copy_(state[name])
        self.schedule.restore(
            {
                name.removeprefix("schedule."): values
                for name, values in state.items()
                if name.startswith("schedule.")
            }
        )
        if self.adam:
            self.adam.restore(state)
        self.step = int(state["step"])
