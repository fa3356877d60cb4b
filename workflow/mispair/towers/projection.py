"""Fine-tuning of the two last projections on cached features, all seeds of an arm at once.

The towers below the projections are frozen, so their outputs are computed once, and training is
a handful of matrix products a step. Seeds are stacked along the first axis of every array. The
gradients are written out by hand: on one core this takes half to two thirds of the time of
automatic differentiation, and matrix products become three quarters of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from mispair import seeds as named_seeds
from mispair.towers.features import PairedFeatures

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


@dataclass(frozen=True)
class Training:
    """How projections are fine-tuned; learning rates and decay are AdamW's, lengths in epochs."""

    loss: Literal["infonce", "spectral"] = "infonce"
    spectral_temperature: float = 1.0
    epochs: int = 10
    batch_size: int = 256
    lr: float = 1e-3
    final_lr: float = 1e-5
    warmup_epochs: int = 1
    warmup_lr: float = 1e-6
    weight_decay: float = 0.5
    freeze_logit_scale: bool = True


def starting_point(start: str, model: Projections, seeds: Sequence[int]) -> Projections:
    """Return where each seed starts from.

    Parameters
    ----------
    start : {"pretrained", "reinitialised"}
        The projections of the model, the same for each seed; or new ones of the same shapes, drawn
        for each seed. New entries are normal with standard deviation ``d ** -0.5`` for d inputs,
        as open_clip initialises its projections; the logit scale stays the model's.
    model : Projections
        Those of the model, a stack of one.
    seeds : sequence of int
        One for each run.
    """

    def stack(array: np.ndarray, tower: str) -> np.ndarray:
        if start == "pretrained":
            return np.repeat(array[:1], len(seeds), axis=0)
        _, d, e = array.shape
        draws = [named_seeds.generator(seed, "projection", tower) for seed in seeds]
        new = [draw.standard_normal((d, e)) * d**-0.5 for draw in draws]
        return np.stack(new).astype(array.dtype)

    if start not in ("pretrained", "reinitialised"):
        raise ValueError(f"start {start!r} is neither pretrained nor reinitialised")
    scale = np.repeat(model.logit_scale[:1], len(seeds))
    return Projections(stack(model.image, "image"), stack(model.text, "text"), scale)


def learning_rates(training: Training, steps_per_epoch: int) -> np.ndarray:
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


def infonce(cosines: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the symmetric InfoNCE loss and its gradients.

    The mean of the cross-entropies of images over texts and of texts over images, with logits
    ``scale * cosines`` and pairs on the diagonal.

    Parameters
    ----------
    cosines : (s, b, b) tensor
        Inner products of the embeddings of image i and text j. Overwritten.
    scale : (s, 1, 1) tensor
        Factor on the cosines (not its log).

    Returns
    -------
    loss : (s,) tensor
        Mean over the batch.
    gradient : (s, b, b) tensor
        Derivative of the loss with respect to the cosines.
    scale_gradient : (s,) tensor
        Derivative of the loss with respect to the log of the scale.
    """
    batch = cosines.shape[1]
    logits = cosines.mul_(scale)
    by_image, by_text = torch.softmax(logits, 2), torch.softmax(logits, 1)
    # log sum exp = largest logit - log of the largest probability: no second exponential, and
    # none that can underflow, as the probability of the pair itself would.
    entropies = logits.amax(2) - by_image.amax(2).log_() + logits.amax(1) - by_text.amax(1).log_()
    loss = entropies.mean(1).mul_(0.5) - logits.diagonal(dim1=1, dim2=2).mean(1)
    gradient = by_image.add_(by_text)
    gradient.diagonal(dim1=1, dim2=2).sub_(2)
    gradient.mul_(1 / (2 * batch))
    scale_gradient = torch.mul(gradient, logits, out=by_text).sum((1, 2))
    return loss, gradient.mul_(scale), scale_gradient


def spectral(cosines: torch.Tensor, temperature: float) -> tuple[torch.Tensor, ...]:
    r"""Return the spectral contrastive loss, divided by the batch size, and its gradients.

    .. math::
        L = \sum_p \Big[-\langle f(x_p), h(y_p)\rangle
            + \sum_{n \neq p} \frac{\langle f(x_n), h(y_p)\rangle^2
            + \langle f(x_p), h(y_n)\rangle^2}{2\tau}\Big]

    This is Eq. 1 of the paper with the batch as S. Here f and h are the towers' embeddings,
    which are normalised as in the zero-shot use of the model; the logit scale has no part.

    Parameters
    ----------
    cosines : (s, b, b) tensor
        Inner products of the embeddings of image i and text j. Overwritten.
    temperature : float
        The temperature tau > 0.

    Returns
    -------
    loss : (s,) tensor
        Mean over the batch.
    gradient : (s, b, b) tensor
        Derivative of the loss with respect to the cosines.
    scale_gradient : (s,) tensor
        Zeros.
    """
    batch = cosines.shape[1]
    diagonal = cosines.diagonal(dim1=1, dim2=2)
    attraction = diagonal.sum(1)
    diagonal.zero_()
    # Each ordered couple occurs twice in the double sum: once as (n, p), once as (p, n).
    repulsion = (cosines * cosines).sum((1, 2)) / temperature
    gradient = cosines.mul_(2 / (temperature * batch))
    diagonal.fill_(-1 / batch)
    return (repulsion - attraction) / batch, gradient, torch.zeros_like(attraction)


def finetune(
    features: PairedFeatures,
    initial: Projections,
    training: Training,
    seeds: Sequence[int],
    device: str = "cpu",
) -> tuple[Projections, np.ndarray]:
    """Fine-tune both projections, one independent run for each seed.

    A seed fixes the order of the pairs in each epoch and nothing else, so runs of different arms
    with one seed see the same images in the same batches, and a seed's run is the same alone
    and in a stack. The last, smaller batch of an epoch is dropped. Of images with several crops,
    epoch e sees crop e modulo their number.

    Parameters
    ----------
    features : PairedFeatures
        Pre-projection features of images and captions; the precision of the images is that of the
        training, except that halves are widened to single precision, batch by batch.
    initial : Projections
        Where each seed starts, s = ``len(seeds)``.
    training : Training
        Loss, schedule and optimiser.
    seeds : sequence of int
        One for each run.
    device : {"cpu", "cuda"}
        Where to compute; all features must fit there.

    Returns
    -------
    projections : Projections
        After the last step.
    loss : (s, steps) array
        Loss of each batch, before its step.

    Raises
    ------
    ValueError
        If there is no whole batch in an epoch, or the warm-up leaves no step of training.
    FloatingPointError
        If a loss or a weight is not finite, with the number of the step.
    """
    pairs = len(features.text_rows)
    per_epoch = pairs // training.batch_size
    if per_epoch == 0:
        raise ValueError(f"{pairs} pairs make no whole batch of batch_size {training.batch_size}")
    if training.warmup_epochs >= training.epochs:
        raise ValueError(
            f"warmup_epochs {training.warmup_epochs} must be fewer than epochs {training.epochs}"
        )
    images = torch.as_tensor(features.image_features, device=device)
    texts = torch.as_tensor(features.text_features, device=device)
    rows = torch.as_tensor(features.text_rows, device=device)
    run = _Run(images, texts, initial, training)
    rates = learning_rates(training, per_epoch)
    losses = torch.empty(len(rates), len(seeds), dtype=run.precision, device=device)
    step = 0
    for epoch in range(training.epochs):
        order = batch_order(pairs, per_epoch, training.batch_size, seeds, epoch)
        crop = epoch % features.crops
        for batch in torch.as_tensor(order, device=device):
            images_of_batch = batch * features.crops + crop
            captions = rows.index_select(0, batch)
            losses[step] = run.step(images_of_batch, captions, float(rates[step]))
            step += 1
        _refuse_what_is_not_finite(losses, step - per_epoch, step)
    result = run.projections()
    if not (np.isfinite(result.image).all() and np.isfinite(result.text).all()):
        raise FloatingPointError(f"a weight is not finite after step {step} (the last)")
    return result, losses.T.contiguous().cpu().numpy()


def batch_order(
    pairs: int, steps: int, batch_size: int, seeds: Sequence[int], epoch: int
) -> np.ndarray:
    """Return the pairs of every batch of an epoch, ``(steps, s * batch_size)``, seed by seed."""
    orders = [
        named_seeds.generator(seed, "batch-order", epoch).permutation(pairs)[: steps * batch_size]
        for seed in seeds
    ]
    stacked = np.stack(orders).reshape(len(seeds), steps, batch_size)
    return np.ascontiguousarray(stacked.transpose(1, 0, 2)).reshape(steps, -1)


def _refuse_what_is_not_finite(losses: torch.Tensor, first: int, end: int) -> None:
    bad = ~torch.isfinite(losses[first:end]).all(1)
    if bad.any():
        step = first + int(bad.int().argmax())
        raise FloatingPointError(
            f"the loss of step {step} (counted from 0) is not finite; "
            "lower the learning rate, or look for a bad feature"
        )


class AdamW:
    """AdamW of one tensor, as in ``torch.optim`` (Loshchilov and Hutter 2019, algorithm 2).

    Written out because the first step of an optimiser of ``torch.optim`` imports torch's
    compiler: two seconds, most of what a job of the demo computes.

    Parameters
    ----------
    weight : tensor
        Changed in place by each step.
    decay : float
        Weight decay.
    """

    epsilon = 1e-8

    def __init__(self, weight: torch.Tensor, decay: float) -> None:
        self.weight, self.decay, self.steps = weight, decay, 0
        self.mean, self.square = torch.zeros_like(weight), torch.zeros_like(weight)

    def step(self, gradient: torch.Tensor, lr: float) -> None:
        """Do one step; the gradient is left as it is."""
        self.steps += 1
        first, second = BETAS
        self.mean.lerp_(gradient, 1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        root = self.square.sqrt().div_((1 - second**self.steps) ** 0.5).add_(self.epsilon)
        self.weight.mul_(1 - lr * self.decay)
        self.weight.addcdiv_(self.mean, root, value=-lr / (1 - first**self.steps))


class _Run:
    """Weights, optimiser and buffers of stacked runs; `step` does one step of all of them."""

    def __init__(
        self, images: torch.Tensor, texts: torch.Tensor, initial: Projections, training: Training
    ) -> None:
        self.images, self.texts, self.training = images, texts, training
        self.precision = torch.promote_types(images.dtype, torch.float32)

        def weight(array: np.ndarray) -> torch.Tensor:
            return torch.tensor(array, dtype=self.precision, device=images.device)

        self.image_weight, self.text_weight = weight(initial.image), weight(initial.text)
        self.log_scale = weight(initial.logit_scale).clamp_(0, MAX_LOGIT_SCALE)
        self.optimisers = [
            AdamW(self.image_weight, training.weight_decay),
            AdamW(self.text_weight, training.weight_decay),
        ]
        if not training.freeze_logit_scale:
            # A scale is no matrix: decay would pull the temperature, not the weights.
            self.optimisers.append(AdamW(self.log_scale, 0.0))
        stack, batch = len(initial.image), training.batch_size
        self.inputs = [
            images.new_empty(stack * batch, features.shape[1], dtype=self.precision)
            for features in (images, texts)
        ]

    @torch.no_grad()
    def step(self, images: torch.Tensor, captions: torch.Tensor, lr: float) -> torch.Tensor:
        """Do one step on rows ``(s * b,)`` of images and captions; return the losses (s,)."""
        x, u, u_norm = self._embed(0, self.images, images, self.image_weight)
        y, v, v_norm = self._embed(1, self.texts, captions, self.text_weight)
        cosines = torch.bmm(u, v.transpose(1, 2))
        if self.training.loss == "spectral":
            loss, gradient, scale_gradient = spectral(cosines, self.training.spectral_temperature)
        else:
            scale = self.log_scale.exp()[:, None, None]
            loss, gradient, scale_gradient = infonce(cosines, scale)
        image_gradient = _before_normalising(torch.bmm(gradient, v), u, u_norm)
        text_gradient = _before_normalising(torch.bmm(gradient.transpose(1, 2), u), v, v_norm)
        gradients = (
            torch.bmm(x.transpose(1, 2), image_gradient),
            torch.bmm(y.transpose(1, 2), text_gradient),
            scale_gradient,
        )
        # A frozen scale has a gradient and no optimiser.
        for optimiser, weight_gradient in zip(self.optimisers, gradients, strict=False):
            optimiser.step(weight_gradient, lr)
        self.log_scale.clamp_(0, MAX_LOGIT_SCALE)
        return loss

    def _embed(
        self, tower: int, features: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the inputs (s, b, d), the normalised embeddings (s, b, e) and their norms."""
        buffer = self.inputs[tower]
        if features.dtype == buffer.dtype:
            torch.index_select(features, 0, rows, out=buffer)
        else:
            buffer.copy_(features.index_select(0, rows))
        inputs = buffer.view(len(weight), -1, buffer.shape[1])
        embedding = torch.bmm(inputs, weight)
        norm = torch.linalg.vector_norm(embedding, dim=2, keepdim=True).clamp_min_(SMALLEST_NORM)
        return inputs, embedding.div_(norm), norm

    def projections(self) -> Projections:
        """Return the weights as arrays."""
        return Projections(
            self.image_weight.cpu().numpy(),
            self.text_weight.cpu().numpy(),
            self.log_scale.cpu().numpy(),
        )


def _before_normalising(
    gradient: torch.Tensor, unit: torch.Tensor, norm: torch.Tensor
) -> torch.Tensor:
    """Turn the gradient of a normalised vector into that of the vector: the part across it."""
    along = (gradient * unit).sum(2, keepdim=True)
    return gradient.addcmul_(unit, along, value=-1).div_(norm)
