"""Fine-tuning of the two last projections on cached features, all seeds of an arm at once.

The towers below the projections are frozen, so their outputs are computed once, and training is
a handful of matrix products a step. Seeds are stacked along the first axis of every array. The
gradients are written out by hand, so that a step is little else than its products: for widths d and
d' before the projections, e neurons and b pairs, in floating-point operations of one seed,

==================================================  ==========================  ==================
embeddings, and gradients by the projections        2 · 2 b (d + d') e          671 MFLOP
cosines, and gradients by the embeddings            3 · 2 b² e                  201 MFLOP
==================================================  ==========================  ==================

The numbers are for 768, 512, 512 and a batch of 256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mispair import provenance
from mispair import seeds as named_seeds
from mispair.adamw import AdamW
from mispair.arithmetic import times
from mispair.checkpoints import FileKeeper
from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning_presets import Training, refuse

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


def infonce(cosines: Tensor, scale: Tensor) -> tuple[Tensor, ...]:
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


def spectral(cosines: Tensor, temperature: float) -> tuple[Tensor, ...]:
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
    keeper: FileKeeper | None = None,
    progress: Callable[[int], None] = lambda step: None,
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
    keeper : FileKeeper, optional
        Is asked after every step whether it is due, and given the state then. If it has one,
        training goes on from there, on a CPU with the very bits it would have had.
    progress : callable, optional
        Told how many steps are taken: before the first one here, and after each.

    Returns
    -------
    projections : Projections
        After the last step.
    loss : (s, steps) array
        Loss of each batch, before its step.

    Raises
    ------
    ValueError
        If the training cannot be (`mispair.towers.finetuning_presets.refuse`).
    FloatingPointError
        If a loss or a weight is not finite, with the number of the step.
    """
    pairs = len(features.text_rows)
    refuse(training, pairs)
    per_epoch = pairs // training.batch_size
    images = torch.as_tensor(features.image_features, device=device)
    texts = torch.as_tensor(features.text_features, device=device)
    rows = torch.as_tensor(features.text_rows, device=device)
    rates = learning_rates(training, per_epoch)
    run = _Run(images, texts, initial, training, len(rates))
    if keeper is not None and (state := keeper.load()) is not None:
        run.restore(state)
    progress(run.taken)
    while run.taken < len(rates):
        epoch, done = divmod(run.taken, per_epoch)
        order = batch_order(pairs, per_epoch, training.batch_size, seeds, epoch)[done:]
        crop = epoch % features.crops
        for batch in torch.as_tensor(order, device=device):
            captions = rows.index_select(0, batch)
            run.step(batch * features.crops + crop, captions, float(rates[run.taken]))
            progress(run.taken)
            if keeper is not None and keeper.due():
                run.refuse_what_is_not_finite()
                keeper.save(run.state())
        run.refuse_what_is_not_finite()
    result = run.projections()
    if not (np.isfinite(result.image).all() and np.isfinite(result.text).all()):
        raise FloatingPointError(f"a weight is not finite after step {run.taken - 1} (the last)")
    return result, run.losses.T.contiguous().cpu().numpy()


def fingerprint(
    features: PairedFeatures, initial: Projections, training: Training, seeds: Sequence[int]
) -> str:
    """Return 16 hexadecimal digits that change with anything that a training depends on."""
    arrays = [features.image_features, features.text_features, features.text_rows]
    arrays += [initial.image, initial.text, initial.logit_scale]
    parts = [str(training), str(list(seeds)), str(features.crops)]
    for array in arrays:
        content = np.ascontiguousarray(array)
        parts += [f"{array.dtype} {array.shape}", hashlib.sha256(content.data).hexdigest()]
    return provenance.fingerprint(parts)


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


class _Run:
    """Weights, optimisers and losses of stacked runs; `step` does one step of all of them."""

    def __init__(
        self, images: Tensor, texts: Tensor, initial: Projections, training: Training, steps: int
    ) -> None:
        self.images, self.texts, self.training = images, texts, training
        self.precision = torch.promote_types(images.dtype, torch.float32)

        def weight(array: np.ndarray) -> Tensor:
            return torch.tensor(array, dtype=self.precision, device=images.device)

        self.image_weight, self.text_weight = weight(initial.image), weight(initial.text)
        self.log_scale = weight(initial.logit_scale).clamp_(0, MAX_LOGIT_SCALE)
        self.optimisers = [
            AdamW(weight.unbind(), training.weight_decay, BETAS)
            for weight in (self.image_weight, self.text_weight)
        ]
        if training.logit_scale == "free":
            # A scale is no matrix: decay would pull the temperature, not the weights.
            self.optimisers.append(AdamW(self.log_scale.unbind(), 0.0, BETAS))
        stack, batch = len(initial.image), training.batch_size
        self.inputs = [
            images.new_empty(stack * batch, features.shape[1], dtype=self.precision)
            for features in (images, texts)
        ]
        self.losses = images.new_zeros(steps, stack, dtype=self.precision)
        self.taken = self.checked = 0

    @torch.no_grad()
    def step(self, images: Tensor, captions: Tensor, lr: float) -> None:
        """Do one step on rows ``(s * b,)`` of images and captions, and note the losses."""
        x, u, u_norm = self._embed(0, self.images, images, self.image_weight)
        y, v, v_norm = self._embed(1, self.texts, captions, self.text_weight)
        cosines = _product(u, v.transpose(1, 2))
        if self.training.loss == "spectral":
            loss, gradient, scale_gradient = spectral(cosines, self.training.spectral_temperature)
        else:
            scale = self.log_scale.exp()[:, None, None]
            loss, gradient, scale_gradient = infonce(cosines, scale)
        image_gradient = _before_normalising(_product(gradient, v), u, u_norm)
        text_gradient = _before_normalising(_product(gradient.transpose(1, 2), u), v, v_norm)
        gradients = (
            _products(x.transpose(1, 2), image_gradient),
            _products(y.transpose(1, 2), text_gradient),
            scale_gradient,
        )
        # A frozen scale has a gradient and no optimiser.
        for optimiser, weight_gradient in zip(self.optimisers, gradients, strict=False):
            optimiser.step(weight_gradient, lr)
        self.log_scale.clamp_(0, MAX_LOGIT_SCALE)
        self.losses[self.taken] = loss
        self.taken += 1

    def refuse_what_is_not_finite(self) -> None:
        """Look at the losses since the last look; a GPU is waited for, so not after every step."""
        bad = ~torch.isfinite(self.losses[self.checked : self.taken]).all(1)
        if bad.any():
            step = self.checked + int(bad.int().argmax())
            raise FloatingPointError(
                f"the loss of step {step} (counted from 0) is not finite; "
                "lower the learning rate, or look for a bad feature"
            )
        self.checked = self.taken

    def _tensors(self) -> dict[str, Tensor]:
        """Return all that changes from step to step, but for the losses and their number."""
        memory = {
            name: values
            for number, optimiser in enumerate(self.optimisers)
            for name, values in optimiser.state(f"optimiser.{number}").items()
        }
        weights = {"image": self.image_weight, "text": self.text_weight, "scale": self.log_scale}
        return weights | memory

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
        if features.dtype == buffer.dtype:
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
    if left.device.type == "cpu":  # the faster library for a CPU takes no stacks
        return [times(one, other) for one, other in zip(left, right, strict=True)]
    return torch.bmm(left, right).unbind()


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Return the products of two stacks of matrices, stacked."""
    if left.device.type == "cpu":
        return torch.stack([*_products(left, right)])
    return torch.bmm(left, right)


def _before_normalising(gradient: Tensor, unit: Tensor, norm: Tensor) -> Tensor:
    """Turn the gradient of a normalised vector into that of the vector: the part across it."""
    along = (gradient * unit).sum(2, keepdim=True)
    return gradient.addcmul_(unit, along, value=-1).div_(norm)
