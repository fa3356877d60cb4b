"""A small transformer in place of the one-layer encoders: an extension, not in the paper.

A vector x (d1) is cut into equal patches. Each becomes a token by one linear map, with a learned
embedding of its position; one pre-norm block follows, the mean over tokens, and a linear map to the
m features. Each modality has its own tower.

Its last layer weighs means of tokens, not directions in the space of x. Measures of neurons'
weights (purified features, alignments, mixing, noise to signal) are undefined for it; losses,
accuracy, silhouette and the filter are defined. At the paper's size the step size of
``as-written``, 1e-3 on a sum over the batch, makes it diverge within ten steps; 1e-4 does not.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from mispair.core.resume import Keeper
from mispair.core.training import AdamW, denormals_flushed
from mispair.simulation.sampling.draws import TrialDraws
from mispair.simulation.sampling.inputs import Batch, Inputs
from mispair.simulation.study import Study
from mispair.simulation.training.encoder import Diverged, FiniteSteps
from mispair.simulation.training.schedules import Phases
from mispair.simulation.training.training import Progress, Trained, TrainingLength

MOST_PATCHES = 25
"""Patches that x is cut into if d1 permits: 25 of 100 coordinates at the paper's size."""

WIDTH, HEADS, HIDDEN = 64, 4, 128
"""Size of a token, heads of the attention, and hidden units of the feed-forward layer."""

POSITION_STD = 0.02
"""Standard deviation of the position embeddings at the start."""


def patches_of(d1: int) -> int:
    """Return the largest divisor of d1 that is at most `MOST_PATCHES`.

    Examples
    --------
    >>> patches_of(2500), patches_of(400), patches_of(31)
    (25, 25, 1)
    """
    return max(count for count in range(1, MOST_PATCHES + 1) if d1 % count == 0)


class TransformerTower(nn.Module):
    """From x (n, d1) to features (n, m)."""

    def __init__(self, d1: int, m: int) -> None:
        super().__init__()
        self.patches = patches_of(d1)
        self.embed = nn.Linear(d1 // self.patches, WIDTH)
        self.positions = nn.Parameter(torch.empty(self.patches, WIDTH))
        self.block = nn.TransformerEncoderLayer(
            WIDTH, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=True
        )
        self.project = nn.Linear(WIDTH, m)

    def forward(self, x: Tensor) -> Tensor:
        """Return the features of x (n, d1)."""
        tokens = self.embed(x.unflatten(1, (self.patches, -1))) + self.positions
        return self.project(self.block(tokens).mean(dim=1))


@dataclass(frozen=True)
class TransformerEncoders:
    """The image encoder f and the text encoder h, as transformers."""

    image: TransformerTower
    text: TransformerTower
    kind: ClassVar[Literal["transformer"]] = "transformer"

    def clone(self) -> TransformerEncoders:
        """Copy the parameters."""
        return copy.deepcopy(self)

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters of both towers, the images' first."""
        return [*self.image.parameters(), *self.text.parameters()]

    @torch.no_grad()
    def features(self, tower: int, inputs: Inputs) -> Tensor:
        """Encode images (tower 0) or captions (tower 1) that have coordinates, as (n, m)."""
        return (self.text if tower else self.image)(inputs.dense())

    def without_bias(self) -> TransformerEncoders:
        """Return the encoders themselves: they have no thresholds."""
        return self

    def state(self) -> dict[str, Tensor]:
        """Return all parameters by name, sharing their memory."""
        towers = {"image": self.image, "text": self.text}
        return {
            f"{name}.{key}": value
            for name, tower in towers.items()
            for key, value in tower.state_dict().items()
        }

    def load(self, state: dict[str, Tensor]) -> None:
        """Copy parameters in, named as by `state`; other entries are left unread."""
        for key, value in self.state().items():
            value.copy_(state[key])


def draw_transformers(draws: TrialDraws, arm: str, study: Study) -> TransformerEncoders:
    """Draw starting weights.

    The last map, from tokens to features, starts from N(0, start_std²), so that features start as
    small as those of the one-layer encoders; other matrices start from N(0, 1/inputs), position
    embeddings from N(0, `POSITION_STD`²), the gains of normalisations at one, all biases at zero.
    """
    generator = draws.generator("start", arm)
    return TransformerEncoders(*(_draw_tower(draws, generator, study) for _ in range(2)))


@torch.no_grad()
def _draw_tower(draws: TrialDraws, generator: torch.Generator, study: Study) -> TransformerTower:
    with torch.device("meta"):  # where torch's own initialisation touches no random state
        tower = TransformerTower(study.d1, study.m)
    tower = tower.to(draws.dtype).to_empty(device=draws.device)
    stds = {"positions": POSITION_STD, "project.weight": study.start_std}
    for name, parameter in tower.named_parameters():
        if parameter.dim() == 2:
            std = stds.get(name, parameter.shape[1] ** -0.5)
            parameter.copy_(draws.normal(generator, *parameter.shape).mul_(std))
        else:
            parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
    return tower


def train_transformer(
    start: TransformerEncoders,
    batch: Callable[[int], Batch],
    plan: TrainingLength,
    keeper: Keeper[Tensor] | None = None,
    progress: Progress = lambda step: None,
) -> Trained:
    """Train a copy of the encoders, as `training.train` does one-layer ones.

    Batches must have coordinates. The plan's unit rows and bias schedule have no effect. No
    feature of a transformer is silent, so training cannot end with all of them zero. The
    result holds `TransformerEncoders`, and phases that never began, of no neurons.

    Raises
    ------
    Diverged
        If the loss or a weight is not finite, naming the step.
    """
    training = _TransformerTraining(start, plan)
    saved = keeper.load() if keeper is not None else None
    if saved is not None:
        training.restore(saved)
    progress(training.step)
    with denormals_flushed():
        while training.step < plan.steps:
            training.advance(batch(training.step))
            progress(training.step)
            if keeper is not None and (training.step == plan.steps or keeper.due()):
                keeper.save(training.state())
    if not all(bool(value.isfinite().all()) for value in training.encoders.parameters()):
        raise Diverged(plan.steps)
    nobody = torch.empty(2, 0)
    return Trained(
        training.encoders,  # type: ignore[arg-type]  # encoders of another kind, used alike
        training.losses.cpu().numpy().reshape(plan.epochs, plan.steps_per_epoch),
        Phases(None, None, nobody, nobody),
    )


class _TransformerTraining:
    """Encoders under way."""

    def __init__(self, start: TransformerEncoders, plan: TrainingLength) -> None:
        self.encoders, self.plan, self.step = start.clone(), plan, 0
        self._parameters: list[Tensor] = [*self.encoders.parameters()]
        device = self._parameters[0].device
        self.losses = torch.full((plan.steps,), torch.nan, dtype=torch.float64, device=device)
        self._finite = FiniteSteps(plan.steps, device)
        self._loss = plan.loss
        self._adam = AdamW(self._parameters, decay=0.0) if plan.study.optimiser == "adam" else None

    def advance(self, batch: Batch) -> None:
        """Take one step; the losses give their gradients by the features, autograd the rest."""
        image = self.encoders.image(batch.image.dense())
        text = self.encoders.text(batch.text.dense())
        loss, *of_features = self._loss(image.detach(), text.detach())
        gradients = torch.autograd.grad([image, text], self._parameters, of_features)
        with torch.no_grad():
            value = loss.double() + self._penalise(gradients)
            self._finite.note(self.step, value)
            self.losses[self.step] = value
            lr = self.plan.lr_at(self.step)
            if self._adam is not None:
                self._adam.step(gradients, lr)
            else:
                torch._foreach_add_(self._parameters, gradients, alpha=-lr)
        self.step += 1

    def _penalise(self, gradients: Sequence[Tensor]) -> Tensor | float:
        """Add the penalty's gradient and return its value."""
        penalty = self.plan.study.weight_penalty
        if penalty == 0:
            return 0.0
        squares = self.losses.new_zeros(())
        for gradient, parameter in zip(gradients, self._parameters, strict=True):
            gradient.add_(parameter, alpha=2 * penalty)
            squares += parameter.square().sum()
        return penalty * squares

    def state(self) -> dict[str, Tensor]:
        """Return copies of everything that the next step depends on, and the losses so far."""
        moments = {} if self._adam is None else self._adam.state()
        tensors = {name: value.clone() for name, value in (self.encoders.state() | moments).items()}
        tensors["losses"] = self.losses.clone()
        tensors["step"] = torch.tensor(self.step)
        return tensors

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a state."""
        self.encoders.load(state)
        if self._adam is not None:
            self._adam.restore(state)
        self.losses.copy_(state["losses"])
        self.step = int(state["step"])
