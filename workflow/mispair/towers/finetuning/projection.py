"""Fine-tuning of the two last projections on cached features, all seeds of an arm at once.

The towers below the projections are frozen, so their outputs are computed once, and training is
a handful of matrix products a step. Seeds are stacked along the first axis of every array. The
gradients are written out by hand, so that products dominate a step. Floating-point operations of
one seed, for widths d and d' before the projections, e neurons and b pairs:

==================================================  ==========================  ==================
embeddings, and gradients by the projections        2 · 2 b (d + d') e          671 MFLOP
cosines, and gradients by the embeddings            3 · 2 b² e                  201 MFLOP
==================================================  ==========================  ==================

The numbers are for 768, 512, 512 and a batch of 256.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mispair.core import seeds as named_seeds
from mispair.core.devices import MEMORY_SHARE, free_memory, in_portions, upload
from mispair.core.resume import FileKeeper
from mispair.core.training import AdamW, times
from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning.batches import PairRows
from mispair.towers.finetuning.finetuning_settings import (
    FIRST_NEWTON_STEPS,
    FinetuningLength,
    refuse,
)
from mispair.towers.finetuning.losses import MAX_STEP, Cosines, infonce, measure

MAX_LOGIT_SCALE = 4.6052
"""Upper clamp of the log of the scale, log(100), as CLIP's trainers have it."""

BETAS = (0.9, 0.98)
"""AdamW's decay rates of the moments, as in CLIP's trainers."""

SMALLEST_NORM = 1e-12
"""Lower clamp of a norm that is divided by, as in ``torch.nn.functional.normalize``."""


@dataclass(frozen=True)
class Projections:
    """Projections of both towers, seeds stacked; columns are neurons.

    Attributes
    ----------
    image : (s, d_image, e) array
        Projections of the image tower.
    text : (s, d_text, e) array
        Projections of the text tower.
    logit_scale : (s,) array
        Log of the factor on the cosines.
    """

    image: np.ndarray
    text: np.ndarray
    logit_scale: np.ndarray

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, np.ndarray]) -> Projections:
        """Take the arrays of a projection file."""
        return cls(tensors["image_projection"], tensors["text_projection"], tensors["logit_scale"])

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the arrays as a projection file names them."""
        return {
            "image_projection": self.image,
            "text_projection": self.text,
            "logit_scale": self.logit_scale,
        }

    def of_seeds(self, some: slice) -> Projections:
        """Return the projections of some of the seeds."""
        return Projections(self.image[some], self.text[some], self.logit_scale[some])


class Tuned(NamedTuple):
    """What a fine-tuning of s seeds returns.

    Attributes
    ----------
    projections : Projections
        After the last step.
    loss : (s, steps) array
        Loss of each batch, before its step.
    log_scales : (s, epochs) array
        Log of the factor on the cosines, after each epoch.
    drift : (s,) array
        Absolute change of the log scale over the last epoch.
    gap : (s,) array
        Cosine gap after the last step, as `mispair.towers.finetuning.losses.Slopes` has it.
    newton_step : (s,) array
        Newton's step from the last log scale to the minimum of InfoNCE, likewise.
    """

    projections: Projections
    loss: np.ndarray
    log_scales: np.ndarray
    drift: np.ndarray
    gap: np.ndarray
    newton_step: np.ndarray

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the arrays as a projection file names them."""
        return {
            **self.projections.tensors(),
            "loss": self.loss,
            "logit_scale_by_epoch": self.log_scales,
            "logit_scale_drift": self.drift,
            "logit_scale_newton_step": self.newton_step,
            "cosine_gap": self.gap,
        }


def starting_point(
    model: Projections,
    seeds: Sequence[int],
    random_norm: float | None = None,
    logit_scale: float | None = None,
) -> Projections:
    """Return the projections that each seed starts from.

    Parameters
    ----------
    model : Projections
        Those of the model, a stack of one.
    seeds : sequence of int
        One for each run.
    random_norm : float, optional
        None starts every seed from the projections of the model. Otherwise new ones of the same
        shapes are drawn for each seed. Their entries are normal with standard deviation
        ``random_norm * d ** -0.5`` for d inputs; 1 is the initialisation of open_clip.
        Embeddings are normalised, so the norm changes no output at the start. It decides how much
        of the random start AdamW leaves in the weights.
    logit_scale : float, optional
        Factor on the cosines at the start (not its log); None takes the model's.
    """

    def stack(array: np.ndarray, tower: str) -> np.ndarray:
        if random_norm is None:
            return np.repeat(array[:1], len(seeds), axis=0)
        _, d, e = array.shape
        draws = [named_seeds.generator(seed, "projection", tower) for seed in seeds]
        new = [draw.standard_normal((d, e)) * (random_norm * d**-0.5) for draw in draws]
        return np.stack(new).astype(array.dtype)

    scale = np.repeat(model.logit_scale[:1], len(seeds))
    if logit_scale is not None:
        scale = np.full_like(scale, np.log(logit_scale))
    return Projections(stack(model.image, "image"), stack(model.text, "text"), scale)


def learning_rates(training: FinetuningLength, steps_per_epoch: int) -> np.ndarray:
    """Return the learning rate of every step: a linear warm-up, then half a cosine.

    The warm-up rises from ``warmup_lr`` to ``lr``, both included; the cosine falls from ``lr``
    towards ``final_lr`` (the schedule of the SLIP and LaCLIP trainers).
    """
    warmup = training.warmup_epochs * steps_per_epoch
    rest = training.epochs * steps_per_epoch - warmup
    cosine = 0.5 * (1 + np.cos(np.pi * np.arange(rest) / rest))
    return np.concatenate(
        [
            np.linspace(training.warmup_lr, training.lr, warmup),
            training.final_lr + (training.lr - training.final_lr) * cosine,
        ]
    )


def updates(training: FinetuningLength, pairs: int) -> int:
    """Return the number of steps of a training on so many pairs."""
    return training.epochs * (pairs // training.batch_size)


def finetune(
    features: PairedFeatures,
    initial: Projections,
    training: FinetuningLength,
    seeds: Sequence[int],
    device: str = "cpu",
    keeper: FileKeeper | None = None,
    progress: Callable[[int], None] = lambda step: None,
    scheduled_pairs: int | None = None,
) -> Tuned:
    """Fine-tune both projections, one independent run for each seed.

    A seed fixes only the order of its pairs in each epoch and the draws of their captions. So runs
    of different arms with one seed see the same images in the same batches. A seed's run is the
    same alone and in a stack. The last, smaller batch of an epoch is dropped. Of images with
    several crops, epoch e sees crop e modulo their number.

    Parameters
    ----------
    features : PairedFeatures
        Pre-projection features of images and captions; the precision of the images is that of the
        training, except that halves are widened to single precision, batch by batch.
    initial : Projections
        Where each seed starts, s = ``len(seeds)``.
    training : FinetuningLength
        Loss, schedule and optimiser.
    seeds : sequence of int
        One for each run.
    device : {"cpu", "cuda"}
        Where to compute.
    keeper : FileKeeper, optional
        Saves the state after each step at which it is due. Training resumes from a saved state; on
        a CPU the result has the same bits as without the interruption.
    progress : callable, optional
        Takes the number of steps done, before the first one here and after each.
    scheduled_pairs : int, optional
        Pairs that the schedule and the number of steps are computed for; by default those of
        `features`. Fewer pairs are then seen more often.

    Returns
    -------
    Tuned
        The projections after the last step, and the losses and scales of the training.

    Raises
    ------
    ValueError
        If the training is impossible (`mispair.towers.finetuning.finetuning_settings.refuse`).
    FloatingPointError
        If a loss or a weight is not finite, with the number of the step.
    """
    refuse(training, features.pairs)
    per_epoch = features.pairs // training.batch_size
    source = device if bytes_on_device(features, device) else "cpu"
    images = torch.as_tensor(features.image_features, device=source)
    texts = torch.as_tensor(features.text_features, device=source)
    rows = PairRows(features, len(seeds), source)
    rates = learning_rates(training, (scheduled_pairs or features.pairs) // training.batch_size)
    run = _Run(images, texts, initial, training, per_epoch, len(rates), device)

    def cosines() -> Cosines:
        """Return cosines of the present weights, each time on the same batches."""
        weights = run.image_weight, run.text_weight
        return Cosines((images, texts), weights, features, training.batch_size, seeds)

    if keeper is not None and (state := keeper.load()) is not None:
        run.restore(state)
    progress(run.taken)
    while run.taken < len(rates):
        epoch, done = divmod(run.taken, per_epoch)
        if not done and training.logit_scale == "solved":
            # At the start of the next epoch, so that a resumed state is solved the same way.
            present = cosines()
            for _ in range(1 if epoch else FIRST_NEWTON_STEPS):
                run.set_scale(measure(present, run.log_scale).newton_step)
        some = slice(done, len(rates) - epoch * per_epoch)  # the last epoch may be cut short
        batches = rows.batches(per_epoch, training.batch_size, seeds, epoch, some)
        for pairs, of_images, of_captions in batches:
            run.step(of_images, of_captions, float(rates[run.taken]), rows.shares(pairs))
            progress(run.taken)
            if keeper is not None and keeper.due():
                run.refuse_what_is_not_finite()
                keeper.save(run.state())
        run.refuse_what_is_not_finite()
    result = run.projections()
    if not (np.isfinite(result.image).all() and np.isfinite(result.text).all()):
        raise FloatingPointError(f"a weight is not finite after step {run.taken - 1} (the last)")
    present = cosines()
    if training.logit_scale == "solved":
        run.set_scale(measure(present, run.log_scale).newton_step)
    last = measure(present, run.log_scale)
    scales = run.scales.T.cpu().numpy()
    before = initial.logit_scale if scales.shape[1] == 1 else scales[:, -2]
    return Tuned(
        run.projections(),
        run.losses.T.contiguous().cpu().numpy(),
        np.ascontiguousarray(scales),
        np.abs(scales[:, -1] - before).astype(np.float64),
        last.gap.cpu().numpy(),
        last.newton_step.cpu().numpy(),
    )


def finetune_in_portions(
    features: PairedFeatures,
    initial: Projections,
    training: FinetuningLength,
    seeds: Sequence[int],
    device: str = "cpu",
    keepers: Callable[[str], FileKeeper | None] = lambda name: None,
    progress: Callable[[int], None] = lambda step: None,
    scheduled_pairs: int | None = None,
) -> Tuned:
    """Fine-tune as `finetune` does, as many seeds at a time as memory holds.

    A seed's run is the same alone and in a stack, on a GPU to rounding.

    Parameters
    ----------
    features, initial, training, seeds, device, progress, scheduled_pairs
        Those of `finetune`.
    keepers : callable
        Returns the keeper of a portion of the seeds, given its name.

    Raises
    ------
    UserError
        If memory does not hold one seed.
    """
    room = MEMORY_SHARE * free_memory(device) - bytes_on_device(features, device)
    width = sum(array.shape[1] * array.shape[2] for array in (initial.image, initial.text))
    size = max(1, int(room / bytes_of_seed(training.batch_size, width)))

    def run(numbers: Sequence[int]) -> Tuned:
        some = slice(numbers[0], numbers[-1] + 1)
        name = f"-{numbers[0]}-to-{numbers[-1]}" if len(numbers) < len(seeds) else ""
        return finetune(
            features.of_draws(some),
            initial.of_seeds(some),
            training,
            seeds[some],
            device,
            keepers(f"training{name}"),
            lambda step: progress((numbers[0] * steps + len(numbers) * step) // len(seeds)),
            scheduled_pairs,
        )

    steps = updates(training, scheduled_pairs or features.pairs)
    portions = [*in_portions(range(len(seeds)), size, "seeds", run)]
    projections = [tuned.projections.tensors() for tuned in portions]
    return Tuned(
        Projections.from_tensors(
            {name: np.concatenate([one[name] for one in projections]) for name in projections[0]}
        ),
        *(
            np.concatenate(values)
            for values in zip(*(tuned[1:] for tuned in portions), strict=True)
        ),
    )


def bytes_of_seed(batch_size: int, weights: int) -> int:
    """Return an upper bound of the memory of one seed of a stack, without features, in bytes."""
    # Cosines, both softmaxes, gradients and their temporaries; weights with their gradients,
    # moments and the buffers of the optimiser and the inputs.
    return 4 * (8 * batch_size**2 + 8 * weights)


def bytes_on_device(features: PairedFeatures, device: str) -> int:
    """Return the memory that features take on a device, in bytes: none if they stay on the CPU.

    They go to a GPU if they take at most half of its free memory. Otherwise the rows of each batch
    are uploaded.
    """
    size = features.image_features.nbytes + features.text_features.nbytes
    return size if device != "cpu" and size <= free_memory(device) / 2 else 0


class _Run:
    """Weights, optimisers and losses of stacked runs; `step` does one step of all of them."""

    def __init__(
        self, images: Tensor, texts: Tensor, initial: Projections, training: FinetuningLength,
        per_epoch: int, steps: int, device: str,
    ) -> None:  # fmt: skip
        self.images, self.texts, self.training = images, texts, training
        self.precision = torch.promote_types(images.dtype, torch.float32)

        def weight(array: np.ndarray) -> Tensor:
            return torch.tensor(array, dtype=self.precision, device=device)

        self.image_weight, self.text_weight = weight(initial.image), weight(initial.text)
        self.log_scale = weight(initial.logit_scale).clamp_(0, MAX_LOGIT_SCALE)
        # Each with its learning rate as a multiple of that of the projections.
        self.optimisers = [
            (AdamW(weight.unbind(), training.weight_decay, BETAS), 1.0)
            for weight in (self.image_weight, self.text_weight)
        ]
        if training.logit_scale == "free":
            # A scale is no matrix: decay would pull the temperature, not the weights.
            optimiser = AdamW(self.log_scale.unbind(), 0.0, BETAS)
            self.optimisers.append((optimiser, training.logit_scale_lr / training.lr))
        stack, batch = len(initial.image), training.batch_size
        self.inputs = [
            torch.empty(stack * batch, features.shape[1], dtype=self.precision, device=device)
            for features in (images, texts)
        ]
        self.per_epoch = per_epoch
        self.losses = self.log_scale.new_zeros(steps, stack)
        self.scales = self.log_scale.new_zeros(-(-steps // per_epoch), stack)
        self.taken = self.checked = 0

    @torch.no_grad()
    def step(
        self, images: Tensor, captions: Tensor, lr: float, shares: Tensor | None = None
    ) -> None:
        """Do one step on rows ``(s * b,)`` of images and captions; record the loss and scale.

        `shares` are those of the pairs in the loss, (s, b), None if they are equal.
        """
        x, u, u_norm = self._embed(0, self.images, images, self.image_weight)
        y, v, v_norm = self._embed(1, self.texts, captions, self.text_weight)
        cosines = _product(u, v.transpose(1, 2))
        if shares is not None:
            shares = upload(shares, cosines.device).to(cosines.dtype)
        scale = self.log_scale.exp()[:, None, None]
        loss, gradient, scale_gradient = infonce(cosines, scale, shares)
        image_gradient = _before_normalising(_product(gradient, v), u, u_norm)
        text_gradient = _before_normalising(_product(gradient.transpose(1, 2), u), v, v_norm)
        gradients = (
            _products(x.transpose(1, 2), image_gradient),
            _products(y.transpose(1, 2), text_gradient),
            scale_gradient,
        )
        # A frozen scale has a gradient and no optimiser.
        for (optimiser, factor), weight_gradient in zip(self.optimisers, gradients, strict=False):
            optimiser.step(weight_gradient, factor * lr)
        self.log_scale.clamp_(0, MAX_LOGIT_SCALE)
        self.losses[self.taken] = loss
        self.scales[self.taken // self.per_epoch] = self.log_scale
        self.taken += 1

    def set_scale(self, step: Tensor) -> None:
        """Move the log scale between epochs, by at most `MAX_STEP`; a step of NaN counts as 0."""
        step = step.nan_to_num_(0.0).clamp_(-MAX_STEP, MAX_STEP)
        self.log_scale.add_(step.to(self.precision)).clamp_(0, MAX_LOGIT_SCALE)
        if self.taken:
            self.scales[self.taken // self.per_epoch - 1] = self.log_scale

    def refuse_what_is_not_finite(self) -> None:
        """Check the losses since the last check; it synchronises a GPU, so not after every step."""
        bad = ~torch.isfinite(self.losses[self.checked : self.taken]).all(1)
        if bad.any():
            step = self.checked + int(bad.int().argmax())
            raise FloatingPointError(
                f"the loss of step {step} (counted from 0) is not finite; "
                "lower the learning rate, or look for a bad feature"
            )
        self.checked = self.taken

    def _tensors(self) -> dict[str, Tensor]:
        """Return all that changes from step to step, except the losses and their number."""
        memory = {
            name: values
            for number, (optimiser, _) in enumerate(self.optimisers)
            for name, values in optimiser.state(f"optimiser.{number}").items()
        }
        weights = {"image": self.image_weight, "text": self.text_weight}
        return weights | {"scale": self.log_scale, "scales": self.scales} | memory

    def state(self) -> dict[str, Tensor]:
        """Return what `restore` needs to go on after the last step."""
        return {**self._tensors(), "losses": self.losses[: self.taken]}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go back to a state."""
        for name, values in self._tensors().items():
            values.copy_(state[name])
        self.taken = self.checked = len(state["losses"])
        self.losses[: self.taken] = state["losses"]

    def _embed(
        self, tower: int, features: Tensor, rows: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the inputs (s, b, d), the normalised embeddings (s, b, e) and their norms."""
        buffer = self.inputs[tower]
        if features.device != buffer.device:
            buffer.copy_(upload(features.index_select(0, rows), buffer.device))
        elif features.dtype == buffer.dtype:
            torch.index_select(features, 0, rows, out=buffer)
        else:
            buffer.copy_(features.index_select(0, rows))
        inputs = buffer.view(len(weight), -1, buffer.shape[1])
        embedding = _product(inputs, weight)
        norm = torch.linalg.vector_norm(embedding, dim=2, keepdim=True).clamp_min_(SMALLEST_NORM)
        return inputs, embedding.div_(norm), norm

    def projections(self) -> Projections:
        """Return the weights as arrays."""
        return Projections(
            self.image_weight.cpu().numpy(),
            self.text_weight.cpu().numpy(),
            self.log_scale.cpu().numpy(),
        )


def _products(left: Tensor, right: Tensor) -> Sequence[Tensor]:
    """Return the products of two stacks of matrices, seed by seed."""
    return _product(left, right).unbind()


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Return the products of two stacks of matrices, stacked."""
    if left.device.type != "cpu":
        return torch.bmm(left, right)
    product = left.new_empty(len(left), left.shape[1], right.shape[2])
    for one, second, out in zip(left, right, product, strict=True):
        times(one, second, out)  # the faster library for a CPU takes no stacks
    return product


def _before_normalising(gradient: Tensor, unit: Tensor, norm: Tensor) -> Tensor:
    """Return the gradient by a vector from that by its unit vector: its orthogonal part / norm."""
    along = (gradient * unit).sum(2, keepdim=True)
    return gradient.addcmul_(unit, along, value=-1).div_(norm)
