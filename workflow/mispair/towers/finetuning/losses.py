"""Contrastive loss on cosines with gradients by hand, for stacked seeds; the best logit scale."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mispair.core.devices import upload
from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning.batches import PairRows
from mispair.towers.finetuning.finetuning_settings import MEASURED_PAIRS


def infonce(cosines: Tensor, scale: Tensor, shares: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return the symmetric InfoNCE loss and its gradients.

    The mean of the cross-entropies of images over texts and of texts over images, with logits
    ``scale * cosines`` and pairs on the diagonal.

    Parameters
    ----------
    cosines : (s, b, b) tensor
        Inner products of the embeddings of image i and text j. Overwritten.
    scale : (s, 1, 1) tensor
        Factor on the cosines (not its log).
    shares : (s, b) tensor, optional
        Share of each pair in the loss; None takes 1/b. A pair with share 0 still is a negative of
        the others.

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
    pairs = logits.diagonal(dim1=1, dim2=2)
    if shares is None:
        loss = entropies.mean(1).mul_(0.5) - pairs.mean(1)
        gradient = by_image.add_(by_text)
        gradient.diagonal(dim1=1, dim2=2).sub_(2)
        gradient.mul_(1 / (2 * batch))
    else:
        loss = ((entropies.mul_(0.5) - pairs) * shares).sum(1)
        gradient = by_image.mul_(shares[:, :, None]).addcmul_(by_text, shares[:, None, :])
        gradient.diagonal(dim1=1, dim2=2).sub_(shares, alpha=2)
        gradient.mul_(0.5)
    scale_gradient = torch.mul(gradient, logits, out=by_text).sum((1, 2))
    return loss, gradient.mul_(scale), scale_gradient


def scale_slopes(
    cosines: Tensor, log_scale: Tensor, shares: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""Return the first and second derivative of the symmetric InfoNCE loss by the log scale.

    With logits :math:`s c_{ij}` and the softmax :math:`p` over a row, a row contributes
    :math:`s (E_p[c] - c_{ii})` and that plus :math:`s^2 \mathrm{Var}_p(c)`; columns alike.

    Parameters
    ----------
    cosines : (s, b, b) tensor
        Of image i and caption j; pairs on the diagonal.
    log_scale : (s,) tensor
        Log of the factor on the cosines.
    shares : (s, b) tensor, optional
        Share of each pair in the loss; None takes 1/b.

    Returns
    -------
    first, second : (s,) tensors
        Means over rows and columns.
    """
    if shares is None:
        shares = torch.full_like(cosines[:, 0], 1 / cosines.shape[1])
    scale = log_scale.exp()[:, None]
    pairs = cosines.diagonal(dim1=1, dim2=2)
    first = second = torch.zeros_like(log_scale)
    logits, squares = cosines * scale[:, None], cosines.square()
    for side in (1, 2):
        share = torch.softmax(logits, side)
        mean = (share * cosines).sum(side)
        variance = share.mul_(squares).sum(side) - mean.square()
        slope = scale * (mean - pairs)
        first = first + (slope * shares).sum(1) / 2
        second = second + ((slope + scale.square() * variance) * shares).sum(1) / 2
    return first, second


# The cosine gap between pairs and other couples, and the optimum of the logit scale.
#
# The loss depends on cosines only through their product with the logit scale s. A share of wrong
# captions limits the best margin between the logit of a pair and those of others. With a frozen s
# the cosines have to meet that margin, so (mean cosine gap) times s follows from the captions
# alone.

MAX_STEP = 1.0
"""Newton's step of the log scale is clipped to this: far from the optimum the loss is linear."""


@dataclass(frozen=True)
class Slopes:
    """Means over batches, of s seeds.

    Attributes
    ----------
    first, second : (s,) float64 tensor
        Derivatives of the InfoNCE loss by the log scale.
    gap : (s,) float64 tensor
        Mean cosine of the pairs that keep their caption, less the mean cosine of their images with
        the captions of other pairs; NaN if no pair keeps its caption.
    """

    first: Tensor
    second: Tensor
    gap: Tensor

    @property
    def newton_step(self) -> Tensor:
        """Newton's step to the minimum of the loss; NaN where the loss is not convex."""
        return torch.where(self.second > 0, -self.first / self.second, torch.nan)


KEPT_BYTES = 2**28
"""Most memory for cosines that several steps of Newton read; larger ones are computed each time."""

CosinesOfSeed = tuple[int, Tensor, Tensor, Tensor | None]
"""Number of a run, cosines (b, b) of one of its batches, which pairs keep their caption (b,), and
their shares in the loss (1, b) if these differ."""


class Cosines:
    """Cosines of the batches of the first epoch, batch by batch and seed by seed.

    The batches are the same at every call, with the captions that are drawn for them, so that
    measurements differ by the weights and scales only.

    Parameters
    ----------
    sources : two tensors
        Pre-projection features of images and captions, on the device of the weights or the CPU.
    weights : two (s, d, e) tensors
        Projections of both towers.
    features : PairedFeatures
        The pairs of each seed; the first crop of each image is taken.
    batch_size : int
        Pairs in a batch.
    seeds : sequence of int
        Of the s runs: they fix the order of the pairs.
    """

    def __init__(
        self,
        sources: Sequence[Tensor],
        weights: Sequence[Tensor],
        features: PairedFeatures,
        batch_size: int,
        seeds: Sequence[int],
    ) -> None:
        self.sources, self.weights, self.seeds = sources, weights, seeds
        self.batch_size, self.per_epoch = batch_size, features.pairs // batch_size
        self.batches = max(min(self.per_epoch, MEASURED_PAIRS // batch_size), 1)
        self.rows = PairRows(features, len(seeds), sources[0].device)
        self.kept: list[CosinesOfSeed] = []

    def __iter__(self) -> Iterator[CosinesOfSeed]:
        """Yield them, from memory where an earlier iteration left them there."""
        number = self.batches * len(self.seeds)
        size = number * self.batch_size**2 * self.weights[0].element_size()
        if size > KEPT_BYTES:
            yield from self._computed()
        else:
            self.kept = self.kept or [*self._computed()]
            yield from self.kept

    def _computed(self) -> Iterator[CosinesOfSeed]:
        device, shape = self.weights[0].device, (len(self.seeds), self.batch_size)
        some = slice(self.batches)
        for pairs, *batch in self.rows.batches(
            self.per_epoch, self.batch_size, self.seeds, 0, some
        ):
            shares = self.rows.shares(pairs)
            keeps = upload(self.rows.keep_captions(pairs), device).view(shape)
            units = []
            for source, rows, weight in zip(self.sources, batch, self.weights, strict=True):
                inputs = upload(source[rows], device).view(*shape, -1)
                units.append(torch.nn.functional.normalize(inputs.to(weight.dtype) @ weight, dim=2))
            for one in range(len(self.seeds)):  # the cosines of a large batch fill a GPU
                of_one = None if shares is None else upload(shares[one : one + 1], device)
                yield one, units[0][one] @ units[1][one].T, keeps[one], of_one


def measure(cosines: Cosines, log_scale: Tensor) -> Slopes:
    """Return the slopes of the loss at log scales (s,), and the cosine gap."""
    device, seeds = log_scale.device, len(cosines.seeds)
    first, second, gap, kept = torch.zeros(4, seeds, dtype=torch.float64, device=device)
    for one, of_batch, keeps, shares in cosines:
        pair = of_batch.diagonal()
        mean_negative = (of_batch.sum(1) - pair) / (len(pair) - 1)
        gap[one] += ((pair - mean_negative) * keeps).sum()
        kept[one] += keeps.sum()
        slopes = scale_slopes(of_batch[None], log_scale[one : one + 1], shares)
        first[one] += slopes[0][0].double() / cosines.batches
        second[one] += slopes[1][0].double() / cosines.batches
    return Slopes(first, second, gap / kept)
