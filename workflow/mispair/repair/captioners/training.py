"""Batches of trusted captions that a decoder is trained on, their loss, and the step sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from mispair.core import seeds
from mispair.core.devices import upload
from mispair.core.training.loop import LossOfStep, Plan

if TYPE_CHECKING:
    from mispair.repair.captioners.recaption_settings import Settings
    from mispair.repair.captioners.recurrent import RecurrentDecoder

WARM_UP = 50
"""Steps in which the step size grows."""

LAST_SHARE = 0.02
"""Step size of the last step, as a share of the largest."""

BETAS = (0.9, 0.99)
LARGEST_GRADIENT = 1.0


def plan(settings: Settings) -> Plan:
    """Return the plan of a captioner's training."""
    lr, last = settings.lr, settings.lr * LAST_SHARE
    return Plan(settings.steps, lr, last, settings.weight_decay, LARGEST_GRADIENT, WARM_UP, BETAS)


@dataclass(frozen=True)
class Captions:
    """Captions to learn from.

    Attributes
    ----------
    tokens : (n, longest) int array
        Tokens, counted from 0; `end` after the end of a caption.
    lengths : (n,) int64 array
        Tokens of each caption.
    is_cut : (n,) bool array
        Whether the end of the caption is missing.
    pictures : (n,) int64 array
        Row of the feature of each caption's picture.
    start, end : int
        Tokens before and after each caption.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    is_cut: np.ndarray
    pictures: np.ndarray
    start: int
    end: int

    def batch(self, rows: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tokens to read (b, t), those to predict (b, t), and where (b, t) bool."""
        steps = self.lengths[rows] + ~self.is_cut[rows]
        longest = int(steps.max())
        targets = np.full((len(rows), longest), self.end, np.int64)
        copied = self.tokens[rows, :longest]
        targets[:, : copied.shape[1]] = copied
        read = np.concatenate([np.full((len(rows), 1), self.start), targets[:, :-1]], axis=1)
        inside = np.arange(longest) < steps[:, None]
        return torch.from_numpy(read), torch.from_numpy(targets), torch.from_numpy(inside)


class Order:
    """Which captions are in the batch of each step: a function of seed and step alone.

    Each epoch goes through the captions in an order of its own. Captions of a batch have about
    the same length, so that few places are filled up.
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int) -> None:
        self.lengths, self.seed = lengths, seed
        self.size = min(batch_size, len(lengths))
        self.batches_of_an_epoch = len(lengths) // self.size
        self._epoch, self._batches = -1, np.empty((0, 0), np.int64)

    def __call__(self, step: int) -> np.ndarray:
        """Return the captions (b,) of a step."""
        epoch, number = divmod(step, self.batches_of_an_epoch)
        if epoch != self._epoch:
            draws = seeds.generator(self.seed, "captioner", "epoch", epoch)
            rows = draws.permutation(len(self.lengths))[: self.size * self.batches_of_an_epoch]
            rows = rows[np.argsort(self.lengths[rows], kind="stable")]
            batches = rows.reshape(self.batches_of_an_epoch, self.size)
            self._epoch, self._batches = epoch, draws.permutation(batches)
        return self._batches[number]


def loss_of_step(
    decoder: RecurrentDecoder, features: Tensor, captions: Captions, batch_size: int, seed: int
) -> LossOfStep:
    """Return the loss of each step: the cross-entropy, in nats a token.

    `features` (p, d) are those of the pictures, on the decoder's device; `batch_size` is the number
    of captions of a batch, and `seed` that of their order.
    """
    order = Order(captions.lengths, batch_size, seed)

    def loss(step: int) -> Tensor:
        rows = order(step)
        read, targets, inside = (upload(part, features.device) for part in captions.batch(rows))
        pictures = upload(torch.from_numpy(captions.pictures[rows]), features.device)
        hidden = decoder(features[pictures], read)[inside]
        return F.cross_entropy(decoder.logits(hidden), targets[inside])

    return loss
