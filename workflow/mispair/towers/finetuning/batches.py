"""Which pairs are in a batch, and which rows of the features these pairs have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from mispair.core import seeds as named_seeds
from mispair.towers.features import PairedFeatures

SMALLEST_WEIGHT = 1e-6
"""Lower clamp of the sum of weights of a batch."""


def subset(pairs: int, size: int | None, seed: int, draw: int) -> np.ndarray:
    """Return the positions of the pairs that a run is trained on, ascending.

    Parameters
    ----------
    pairs : int
        Pairs of the pairing.
    size : int or None
        Pairs to train on; None takes all.
    seed : int
        Of finetune_projection.
    draw : int
        Number of the run.
    """
    if size is None or size >= pairs:
        return np.arange(pairs)
    generator = named_seeds.generator(seed, "finetune-projection", "pairs", draw)
    return np.sort(generator.permutation(pairs)[:size])


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


class PairRows:
    """Rows of the features that the pairs of each seed have, on a device.

    Parameters
    ----------
    features : PairedFeatures
        With one draw of pairs for each seed, or one for all.
    stack : int
        Number s of seeds.
    device : str
        Where the features are.

    Raises
    ------
    ValueError
        If the number of draws is neither 1 nor `stack`.
    """

    def __init__(self, features: PairedFeatures, stack: int, device: torch.device | str) -> None:
        if len(features.text_rows) not in (1, stack):
            raise ValueError(f"{len(features.text_rows)} draws of pairs do not fit {stack} seeds")
        self.crops, self.stack = features.crops, stack
        self.text = torch.as_tensor(features.text_rows, device=device)
        self.image, self.keeps, self.weights = (
            None if values is None else torch.as_tensor(values, device=device)
            for values in (features.image_rows, features.keeps_caption, features.weights)
        )

    def of_batch(self, pairs: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """Return the rows ``(s * b,)`` of images and of captions of numbered pairs ``(s * b,)``.

        Of images with several crops, epoch e takes crop e modulo their number.
        """
        images = pairs if self.image is None else self._take(self.image, pairs)
        return images * self.crops + epoch % self.crops, self._take(self.text, pairs)

    def keep_captions(self, pairs: Tensor) -> Tensor:
        """Return whether numbered pairs ``(s * b,)`` keep their own caption."""
        if self.keeps is None:
            return torch.ones_like(pairs, dtype=torch.bool)
        return self._take(self.keeps, pairs)

    def shares(self, pairs: Tensor) -> Tensor | None:
        """Return what share of their batch's loss numbered pairs have, (s, b); None if all equal.

        Pairs of a batch in which all weigh nothing have no share.
        """
        if self.weights is None:
            return None
        weights = self._take(self.weights, pairs).view(self.stack, -1)
        return weights / weights.sum(dim=1, keepdim=True).clamp_min(SMALLEST_WEIGHT)

    def _take(self, rows: Tensor, pairs: Tensor) -> Tensor:
        if len(rows) == 1:
            return rows[0].index_select(0, pairs)
        return rows.gather(1, pairs.view(self.stack, -1)).view(-1)
