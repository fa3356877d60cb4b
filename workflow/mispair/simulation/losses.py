r"""InfoNCE over the features of both modalities, with its gradient.

The 2B un-normalised features h of a batch's images and captions are compared all with all. With
S_ij = <h_i, h_j> / temperature and p(i) the other half of i's pair, the loss is

.. math:: L = \frac{1}{2B} \sum_i \Big( \log \sum_{j \ne i} e^{S_ij} - S_{i p(i)} \Big),

so that the 2B - 2 rows of other pairs, of the same modality too, are the negatives. With
P_ij = exp(S_ij) / sum_{k ≠ i} exp(S_ik) its gradient is ((P + Pᵀ) h - 2 h_p) / (2B temperature).
exp(S) is symmetric, which the three blocks image-image, image-caption and caption-caption exploit:
only those are computed, and no transposed copy is made.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


class InfoNCE:
    """The loss and its gradient, with buffers that are used again at every step.

    Parameters
    ----------
    temperature : float
        Divides the inner products.
    """

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature
        self._blocks: list[Tensor] = []

    def __call__(self, image: Tensor, text: Tensor) -> tuple[float, Tensor, Tensor]:
        """Compute the loss and its gradients.

        Parameters
        ----------
        image, text : Tensor (B, m)
            Features; row i of one and row i of the other are a pair.

        Returns
        -------
        loss : float
            May be NaN or infinite if the features are.
        image_gradient, text_gradient : Tensor (B, m)
            Gradients with respect to the features.
        """
        size = len(image)
        if not self._blocks or len(self._blocks[0]) != size:
            self._blocks = [image.new_empty(size, size) for _ in range(3)]
        xx, xy, yy = self._blocks
        scaled_image, scaled_text = image / self.temperature, text / self.temperature
        torch.mm(scaled_image, image.T, out=xx)
        torch.mm(scaled_image, text.T, out=xy)
        torch.mm(scaled_text, text.T, out=yy)
        for block in (xx, yy):
            block.fill_diagonal_(-math.inf)
        positive = xy.diagonal().clone()

        image_peak = torch.maximum(xx.amax(dim=1), xy.amax(dim=1))
        text_peak = torch.maximum(yy.amax(dim=1), xy.amax(dim=0))
        peaks = torch.cat([image_peak, text_peak])
        lowest, highest = float(peaks.min()), float(peaks.max())
        # One shift for all rows keeps exp(S) symmetric. It fits as long as every row's largest term
        # lies within the range of the number type: 2B exp(80) does not overflow float32.
        if highest - lowest < 160:
            within = lowest >= -80 and highest <= 80
            shift = 0.0 if within else (highest + lowest) / 2
            return self._symmetric(image, text, positive, shift)
        return self._row_by_row(image, text, positive, image_peak, text_peak)

    def _symmetric(
        self, image: Tensor, text: Tensor, positive: Tensor, shift: float
    ) -> tuple[float, Tensor, Tensor]:
        xx, xy, yy = self._blocks
        for block in self._blocks:
            if shift:
                block.sub_(shift)
            block.exp_()
        image_sum = xx.sum(dim=1).add_(xy.sum(dim=1))
        text_sum = yy.sum(dim=1).add_(xy.sum(dim=0))
        both = (image_sum.log().sum() + text_sum.log().sum()) / (2 * len(image)) + shift
        loss = float(both - positive.mean())
        a, b = image_sum.reciprocal_(), text_sum.reciprocal_()
        xx.mul_(a[:, None] + a)  # P + Pᵀ, block by block
        xy.mul_(a[:, None] + b)
        yy.mul_(b[:, None] + b)
        return self._gradients(loss, image, text, xx, xy, yy)

    def _row_by_row(
        self, image: Tensor, text: Tensor, positive: Tensor, image_peak: Tensor, text_peak: Tensor
    ) -> tuple[float, Tensor, Tensor]:
        xx, xy, yy = self._blocks
        image_log = torch.cat([xx, xy], dim=1).logsumexp(dim=1)
        text_log = torch.cat([xy.T, yy], dim=1).logsumexp(dim=1)
        loss = float((image_log.sum() + text_log.sum()) / (2 * len(image)) - positive.mean())
        xx = (xx - image_log[:, None]).exp_().add_((xx - image_log).exp_())
        xy = (xy - image_log[:, None]).exp_().add_((xy - text_log).exp_())
        yy = (yy - text_log[:, None]).exp_().add_((yy - text_log).exp_())
        return self._gradients(loss, image, text, xx, xy, yy)

    def _gradients(
        self, loss: float, image: Tensor, text: Tensor, xx: Tensor, xy: Tensor, yy: Tensor
    ) -> tuple[float, Tensor, Tensor]:
        scale = 1 / (2 * len(image) * self.temperature)
        xy.diagonal().sub_(2.0)
        image_gradient = torch.mm(xx, image).addmm_(xy, text).mul_(scale)
        text_gradient = torch.mm(yy, text).addmm_(xy.T, image).mul_(scale)
        return loss, image_gradient, text_gradient
