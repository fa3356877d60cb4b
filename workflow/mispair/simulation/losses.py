r"""The two contrastive losses, with their gradients by the features, derived by hand.

Both take the features F and H (B, m) of a batch's images and captions, whose rows are pairs.

**InfoNCE** compares all 2B features h of both modalities, un-normalised, with each other. With
S_ij = <h_i, h_j> / temperature and p(i) the other half of i's pair, the loss is

.. math:: L = \frac{1}{2B} \sum_i \Big( \log \sum_{j \ne i} e^{S_ij} - S_{i p(i)} \Big),

so the negatives are the 2B - 2 rows of other pairs, in both modalities. With
P_ij = exp(S_ij) / sum_{k ≠ i} exp(S_ik) its gradient is ((P + Pᵀ) h - 2 h_p) / (2B temperature).
exp(S) is symmetric: only its blocks image-image, image-caption and caption-caption are computed,
and no transposed copy is made.

**Spectral** is Eq. 1. Over all pairs p of the batch, its two sums over negatives n ≠ p run over the
same off-diagonal inner products, so that

.. math:: L = - \sum_p <f_p, h_p> + \frac{1}{\tau} \sum_{p \ne n} <f_p, h_n>^2.

The sum over all p and n is tr((FᵀF)(HᵀH)), with two m × m matrices and none of B × B. Without the
squares of its diagonal q_p = <f_p, h_p>, the gradient by F is (2/τ) F (HᵀH) - (1 + 2 q/τ) H, and
likewise by H.
"""

import math
from typing import Literal, Protocol

import torch
from torch import Tensor

from mispair.core.training import times

Reduction = Literal["mean", "sum"]

_LARGEST = 80.0
"""Entries of S up to this need no shift: 2B exp(80) does not overflow float32."""


class Loss(Protocol):
    """A loss of a batch's features, and its gradients."""

    def __call__(self, image: Tensor, text: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the loss, (), and its gradients by both features (B, m).

        Row i of both features is a pair. The loss may be NaN or infinite if the features are.
        """


def spectral(
    image: Tensor, text: Tensor, temperature: float, reduction: Reduction
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the spectral contrastive loss (Eq. 1), with its gradients as in `Loss`.

    The temperature is τ. ``sum`` is over the pairs, as in Eq. 1; ``mean`` divides the sum by B.
    """
    share = 1.0 if reduction == "sum" else 1 / image.shape[-2]
    negative = share / temperature
    images, texts = times(image.mT, image), times(text.mT, text)
    positive = (image * text).sum(dim=-1)
    squares = (images * texts).sum(dim=(-2, -1)) - positive.square().sum(dim=-1)
    loss = negative * squares - share * positive.sum(dim=-1)
    pull = (positive * (2 * negative) + share).unsqueeze(-1)
    image_gradient = times(image, texts.mul_(2 * negative)).sub_(text * pull)
    text_gradient = times(text, images.mul_(2 * negative)).sub_(image * pull)
    return loss, image_gradient, text_gradient


def infonce(
    image: Tensor, text: Tensor, temperature: float, reduction: Reduction
) -> tuple[Tensor, Tensor, Tensor]:
    """Return InfoNCE over the features of both modalities, with its gradients as in `Loss`.

    ``mean`` is over the 2B rows, as in the public code; ``sum`` adds the mean of each pair's two
    rows over the B pairs, B times as much.
    """
    scaled_image, scaled_text = image / temperature, text / temperature
    xx = times(scaled_image, image.mT)
    xy = times(scaled_image, text.mT)
    yy = times(scaled_text, text.mT)
    # No product of two features is larger than the largest squared norm.
    longest = torch.maximum(xx.diagonal().max(), yy.diagonal().max())
    for block in (xx, yy):
        block.diagonal().fill_(-math.inf)
    positive = xy.diagonal().clone()
    if float(longest) < _LARGEST - 1:  # products are rounded
        log_sums = _symmetric(xx, xy, yy, None)
    else:
        log_sums = _shifted(xx, xy, yy)
    size = image.shape[-2]
    share = 1.0 if reduction == "sum" else 1 / size
    loss = log_sums.sum(dim=-1).div_(2).sub_(positive.sum(dim=-1)).mul_(share)
    scale = share / (2 * temperature)
    xy.diagonal().sub_(2.0)
    image_gradient = times(xx, image).add_(times(xy, text)).mul_(scale)
    text_gradient = times(yy, text).add_(times(xy.mT, image)).mul_(scale)
    return loss, image_gradient, text_gradient


def _shifted(xx: Tensor, xy: Tensor, yy: Tensor) -> Tensor:
    """Do the same as `_symmetric` for entries of S of any size."""
    peaks = torch.cat(
        [
            torch.maximum(xx.amax(dim=1), xy.amax(dim=1)),
            torch.maximum(yy.amax(dim=1), xy.amax(dim=0)),
        ]
    )
    # One shift for all rows keeps exp(S) symmetric. It fits as long as every row's largest term
    # is within the range of the number type.
    lowest, highest = peaks.min(), peaks.max()
    if not float(highest - lowest) < 2 * _LARGEST:
        return _row_by_row(xx, xy, yy)
    within = float(lowest) >= -_LARGEST and float(highest) <= _LARGEST
    return _symmetric(xx, xy, yy, None if within else (highest + lowest) / 2)


def _symmetric(xx: Tensor, xy: Tensor, yy: Tensor, shift: Tensor | None) -> Tensor:
    """Turn the blocks of S into those of P + Pᵀ, and return log sum_{j ≠ i} exp(S_ij), (2B,)."""
    for block in (xx, xy, yy):
        if shift is not None:
            block.sub_(shift)
        block.exp_()
    image_sum = xx.sum(dim=1).add_(xy.sum(dim=1))
    text_sum = yy.sum(dim=1).add_(xy.sum(dim=0))
    log_sums = torch.cat([image_sum, text_sum]).log_()
    if shift is not None:
        log_sums.add_(shift)
    a, b = image_sum.reciprocal_().unsqueeze(-1), text_sum.reciprocal_().unsqueeze(-1)
    xx.mul_(a + a.mT)
    xy.mul_(a + b.mT)
    yy.mul_(b + b.mT)
    return log_sums


def _row_by_row(xx: Tensor, xy: Tensor, yy: Tensor) -> Tensor:
    """Do the same as `_symmetric` where no one shift fits all rows."""
    a = torch.cat([xx, xy], dim=-1).logsumexp(dim=-1, keepdim=True)
    b = torch.cat([xy.mT, yy], dim=-1).logsumexp(dim=-1, keepdim=True)
    for block, rows, columns in ((xx, a, a), (xy, a, b), (yy, b, b)):
        block.copy_((block - rows).exp_().add_((block - columns.mT).exp_()))
    return torch.cat([a, b], dim=-2).squeeze(-1)
