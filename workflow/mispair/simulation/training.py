"""Contrastive training of the two encoders (S1 and S4), with hand-derived gradients.

What a step costs at the paper's size (d1 = 2500, d = 50, m = 80, B = 500), in floating-point
operations:

===============================================================  =======================  ==========
images, noiseless, so that W meets them only through W M         2 · 2 m d d1             40 MFLOP
captions, noiseless part, likewise through V H                   2 · 2 m d d1             40 MFLOP
their fresh noise: V Vᵀ, N Vᵀ, Rᵀ N, and one product with V      4 · 2 m² d1              128 MFLOP
loss, forward: three of the four blocks of B × B                 3 · 2 B² m               120 MFLOP
loss, backward                                                   4 · 2 B² m               160 MFLOP
===============================================================  =======================  ==========

That is 0.49 GFLOP, against 1.28 GFLOP for the plain way: four products of B × m × d1 and three of
2B × 2B × m. Noise drawn in full costs 2 · 2 B m d1 = 400 MFLOP in place of 128, and 1,250,000
normals a step in place of 240,000. Besides, a step takes 750,000 exponentials and updates 400,000
parameters: what is not a matrix product takes about as long as the products do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mispair.simulation import noise
from mispair.simulation.arithmetic import denormals_flushed
from mispair.simulation.data import Batch
from mispair.simulation.encoder import Diverged, Encoders
from mispair.simulation.losses import InfoNCE


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train.

    Attributes
    ----------
    epochs, steps_per_epoch : int
        Their product is the number of steps.
    lr : float
        Adam's step size at the start.
    lr_decay : float
        Factor on it after every `lr_decay_every` epochs.
    lr_decay_every : int
        Epochs between two decays.
    temperature : float
        Of the loss.
    weight_penalty : float
        Factor of the squared Frobenius norm of all weights and biases.
    """

    epochs: int
    steps_per_epoch: int
    lr: float
    lr_decay: float
    lr_decay_every: int
    temperature: float
    weight_penalty: float


def train(
    start: Encoders, batch: Callable[[int], Batch], plan: Plan
) -> tuple[Encoders, np.ndarray]:
    """Train a copy of the encoders.

    Neurons are rescaled to unit norm before every forward pass; the gradient is that of the
    rescaled parameters, not of the rescaling.

    Parameters
    ----------
    start : Encoders
        Where to start; left as it is.
    batch : callable
        Returns the batch of a step, counted from 0.
    plan : Plan
        Length, step sizes and loss.

    Returns
    -------
    encoders : Encoders
        With rows of unit norm.
    losses : ndarray (epochs, steps_per_epoch)
        Loss with the penalty, before each step.

    Raises
    ------
    Diverged
        If the loss or a weight is not finite, naming the step.
    """
    encoders = start.clone()
    loss = InfoNCE(plan.temperature)
    for parameter in (encoders.weights, encoders.biases):
        parameter.grad = torch.empty_like(parameter)
    adam = torch.optim.Adam([encoders.weights, encoders.biases], lr=plan.lr, fused=True)
    losses = np.empty((plan.epochs, plan.steps_per_epoch))
    with denormals_flushed():
        for step in range(losses.size):
            epoch, within = divmod(step, plan.steps_per_epoch)
            adam.param_groups[0]["lr"] = plan.lr * plan.lr_decay ** (epoch // plan.lr_decay_every)
            if not encoders.normalise():
                raise Diverged(step)
            value = gradients(encoders, batch(step), loss, plan.weight_penalty)
            if not np.isfinite(value):
                raise Diverged(step)
            losses[epoch, within] = value
            adam.step()
    if not encoders.normalise():
        raise Diverged(losses.size)
    return Encoders(encoders.weights.detach(), encoders.biases.detach()), losses


def gradients(encoders: Encoders, batch: Batch, loss: InfoNCE, penalty: float) -> float:
    """Write the gradients of one batch into the parameters' ``grad`` and return the loss."""
    W, V = encoders.weights
    weight_gradients, bias_gradients = encoders.weights.grad, encoders.biases.grad
    assert weight_gradients is not None, "weights need a place for their gradient"
    assert bias_gradients is not None, "biases need a place for their gradient"

    image = torch.addmm(encoders.biases[0], batch.image_codes, batch.image_rows @ W.T).relu_()
    text = torch.addmm(encoders.biases[1], batch.text_codes, batch.text_rows @ V.T)
    fresh, stored = batch.fresh, batch.stored
    count = 0
    if fresh is not None:
        count = len(fresh.seen)
        lower, inverse = noise.factor(V)
        text[:count].add_(noise.forward(fresh.seen, lower), alpha=fresh.std)
    if stored is not None:
        text[count : count + len(stored)].addmm_(stored, V.T)
    text.relu_()

    value, image_gradient, text_gradient = loss(image, text)
    value += penalty * float(encoders.weights.square().sum() + encoders.biases.square().sum())
    image_gradient.mul_(image > 0)
    text_gradient.mul_(text > 0)

    torch.stack([image_gradient.sum(dim=0), text_gradient.sum(dim=0)], out=bias_gradients)
    bias_gradients.add_(encoders.biases, alpha=2 * penalty)
    _accumulate(
        weight_gradients[0], W, 2 * penalty, image_gradient, batch.image_codes, batch.image_rows
    )
    _accumulate(
        weight_gradients[1], V, 2 * penalty, text_gradient, batch.text_codes, batch.text_rows
    )
    if fresh is not None:
        on_weights, on_unseen, unseen = noise.backward(
            text_gradient[:count], fresh.seen, fresh.unseen, V, inverse
        )
        weight_gradients[1].addmm_(on_weights, V, alpha=fresh.std)
        weight_gradients[1].addmm_(on_unseen, unseen, alpha=fresh.std)
    if stored is not None:
        weight_gradients[1].addmm_(text_gradient[count : count + len(stored)].T, stored)
    return value


def _accumulate(
    out: Tensor, weights: Tensor, decay: float, gradient: Tensor, codes: Tensor, rows: Tensor
) -> None:
    """Set ``out`` to ``decay · weights + gradientᵀ codes rows``."""
    torch.addmm(weights, gradient.T @ codes, rows, beta=decay, out=out)
