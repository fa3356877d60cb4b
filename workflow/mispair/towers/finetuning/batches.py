"""Which pairs are in a batch, and which rows of the features these pairs have."""

from collections.abc import Iterator, Sequence

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


def fewest_kept(
    chosen: Sequence[np.ndarray], kept: Sequence[np.ndarray], seed: int
) -> list[np.ndarray]:
    """Return the kept pairs of each run, as many for each as the run with the fewest has.

    Runs are stacked, so they need equally many pairs. Surplus pairs are left out at random.

    Parameters
    ----------
    chosen : sequence of (n,) int arrays
        Positions of the pairs of each run.
    kept : sequence of bool arrays
        Whether each pair of the pairing is kept in each run.
    seed : int
        Of finetune_projection.

    Raises
    ------
    ValueError
        If a run keeps no pair.
    """
    remaining = [rows[mask[rows]] for rows, mask in zip(chosen, kept, strict=True)]
    fewest = min(map(len, remaining))
    if not fewest:
        raise ValueError("the rule of the repair keeps none of the pairs of a seed")
    generators = [
        named_seeds.generator(seed, "finetune-projection", "kept", draw)
        for draw in range(len(chosen))
    ]
    return [
        np.sort(generator.permutation(rows)[:fewest])
        for generator, rows in zip(generators, remaining, strict=True)
    ]


def batch_order(
    pairs: int, steps: int, batch_size: int, seeds: Sequence[int], epoch: int
) -> np.ndarray:
    """Return the pairs of every batch of an epoch, ``(steps, s * batch_size)``, seed by seed."""
    orders = [
        named_seeds.generator(seed, "batch-order", epoch).permutation(pairs)[: steps * batch_size]
        for seed in seeds
    ]
    return _by_step(orders, steps)


def caption_uniforms(steps: int, batch_size: int, seeds: Sequence[int], epoch: int) -> np.ndarray:
    """Return the numbers in [0, 1) that draw captions, in the shape of `batch_order`, float64."""
    generators = [named_seeds.generator(seed, "caption-draws", epoch) for seed in seeds]
    return _by_step([generator.random(steps * batch_size) for generator in generators], steps)


def _by_step(of_seeds: Sequence[np.ndarray], steps: int) -> np.ndarray:
    """Return numbers of each seed, step after step, as the rows of steps, seed by seed."""
    stacked = np.stack(of_seeds).reshape(len(of_seeds), steps, -1)
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
        self.crops, self.stack, self.device = features.crops, stack, device
        self.pairs = features.pairs
        self.text = torch.as_tensor(features.text_rows, device=device)
        self.image, self.keeps, self.weights = (
            None if values is None else torch.as_tensor(values, device=device)
            for values in (features.image_rows, features.keeps_caption, features.weights)
        )
        self.choices: tuple[Tensor, ...] = ()
        if (choices := features.choices) is not None:
            arrays = choices.captions, choices.starts, choices.counts
            self.choices = tuple(torch.as_tensor(values, device=device) for values in arrays)

    def batches(
        self, steps: int, batch_size: int, seeds: Sequence[int], epoch: int, some: slice
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield batches of an epoch: pairs, and the rows of their images and captions.

        Each has s * b elements, seed by seed. Of images with several crops, epoch e takes crop e
        modulo their number. A caption that can be drawn is drawn uniformly for each pair in each
        batch; the draw depends on the seed of the run and the number of the batch only.

        Parameters
        ----------
        steps, batch_size, seeds, epoch
            Those of `batch_order`.
        some : slice
            Which batches of the epoch.
        """
        order = batch_order(self.pairs, steps, batch_size, seeds, epoch)[some]
        uniforms = None
        if self.choices:
            numbers = caption_uniforms(steps, batch_size, seeds, epoch)[some]
            uniforms = torch.as_tensor(numbers, device=self.device)
        for number, pairs in enumerate(torch.as_tensor(order, device=self.device)):
            images = pairs if self.image is None else self._take(self.image, pairs)
            captions = self._take(self.text, pairs)
            if uniforms is not None:
                captions = self._drawn(captions, pairs, uniforms[number])
            yield pairs, images * self.crops + epoch % self.crops, captions

    def keep_captions(self, pairs: Tensor) -> Tensor:
        """Return whether numbered pairs ``(s * b,)`` keep their own caption."""
        if self.keeps is None:
            return torch.ones_like(pairs, dtype=torch.bool)
        return self._take(self.keeps, pairs)

    def shares(self, pairs: Tensor) -> Tensor | None:
        """Return the shares (s, b) of numbered pairs in their batch's loss; None if all are equal.

        Shares are 0 in a batch without weight.
        """
        if self.weights is None:
            return None
        weights = self._take(self.weights, pairs).view(self.stack, -1)
        return weights / weights.sum(dim=1, keepdim=True).clamp_min(SMALLEST_WEIGHT)

    def _drawn(self, captions: Tensor, pairs: Tensor, uniforms: Tensor) -> Tensor:
        """Draw the captions of pairs that may have several; other pairs keep theirs."""
        rows, starts, counts = self.choices
        counts = self._take(counts, pairs)
        positions = self._take(starts, pairs) + (uniforms * counts).long()
        return torch.where(counts > 0, rows[positions], captions)

    def _take(self, rows: Tensor, pairs: Tensor) -> Tensor:
        if len(rows) == 1:
            return rows[0].index_select(0, pairs)
        return rows.gather(1, pairs.view(self.stack, -1)).view(-1)
