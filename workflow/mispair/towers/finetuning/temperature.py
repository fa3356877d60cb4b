r"""The cosine gap between pairs and other couples, and the optimum of the logit scale.

The loss depends on cosines only through their product with the logit scale s. A share of wrong
captions limits the best margin between the logit of a pair and those of others. With a frozen s the
cosines have to meet that margin, so (mean cosine gap) times s follows from the captions alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mispair.core.devices import upload
from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning.batches import PairRows
from mispair.towers.finetuning.finetuning_presets import MEASURED_PAIRS
from mispair.towers.finetuning.losses import scale_slopes

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


def measure(
    sources: Sequence[Tensor],
    weights: Sequence[Tensor],
    log_scale: Tensor,
    features: PairedFeatures,
    batch_size: int,
    seeds: Sequence[int],
) -> Slopes:
    """Measure the slopes of the loss and the cosine gap over the batches of the first epoch.

    The batches are the same at every call, with the captions that are drawn for them, so that calls
    differ by the weights and scales only.

    Parameters
    ----------
    sources : two tensors
        Pre-projection features of images and captions, on the device of the weights or the CPU.
    weights : two (s, d, e) tensors
        Projections of both towers.
    log_scale : (s,) tensor
        At which the slopes are taken.
    features : PairedFeatures
        The pairs of each seed; the first crop of each image is taken.
    batch_size : int
        Pairs in a batch.
    seeds : sequence of int
        Of the s runs: they fix the order of the pairs.
    """
    per_epoch = features.pairs // batch_size
    steps = max(min(per_epoch, MEASURED_PAIRS // batch_size), 1)
    device = log_scale.device
    rows = PairRows(features, len(seeds), sources[0].device)
    first, second, gap, kept = torch.zeros(4, len(seeds), dtype=torch.float64, device=device)
    for pairs, *batch in rows.batches(per_epoch, batch_size, seeds, 0, slice(steps)):
        shares = rows.shares(pairs)
        keeps = upload(rows.keep_captions(pairs), device).view(len(seeds), batch_size)
        units = []
        for source, rows_of_source, weight in zip(sources, batch, weights, strict=True):
            inputs = upload(source[rows_of_source], device).view(len(seeds), batch_size, -1)
            units.append(torch.nn.functional.normalize(inputs.to(weight.dtype) @ weight, dim=2))
        for one in range(len(seeds)):  # the cosines of a large batch fill a GPU
            cosines = units[0][one] @ units[1][one].T
            pair = cosines.diagonal()
            mean_negative = (cosines.sum(1) - pair) / (batch_size - 1)
            gap[one] += ((pair - mean_negative) * keeps[one]).sum()
            kept[one] += keeps[one].sum()
            some = slice(one, one + 1)
            of_one = None if shares is None else upload(shares[some], device)
            slopes = scale_slopes(cosines[None], log_scale[some], of_one)
            first[one] += slopes[0][0].double() / steps
            second[one] += slopes[1][0].double() / steps
    return Slopes(first, second, gap / kept)
