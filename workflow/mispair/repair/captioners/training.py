"""Training of a decoder on trusted pairs: AdamW, a warm-up and a cosine of step sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from mispair.core import seeds
from mispair.core.adamw import AdamW
from mispair.core.arithmetic import denormals_flushed, keep_freed_memory
from mispair.core.devices import upload

if TYPE_CHECKING:
    from mispair.core.resume import FileKeeper
    from mispair.repair.captioners.recurrent import RecurrentDecoder

WARM_UP = 50
"""Steps in which the step size grows."""

LAST_SHARE = 0.02
"""Step size of the last step, as a share of the largest."""

BETAS = (0.9, 0.99)
LARGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class Plan:
    """Length and step sizes of a training.

    Attributes
    ----------
    steps, batch_size : int
        Number of batches, and captions of a batch.
    lr, weight_decay : float
        Largest step size, and the decay of all parameters.
    seed : int
        Of the order of the captions.
    """

    steps: int
    batch_size: int
    lr: float
    weight_decay: float
    seed: int

    def lr_at(self, step: int) -> float:
        """Return the step size of a step, counted from 0."""
        share = (1 + math.cos(math.pi * step / self.steps)) / 2
        falling = self.lr * (LAST_SHARE + (1 - LAST_SHARE) * share)
        return falling * min(1.0, (step + 1) / WARM_UP)


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


def train(
    decoder: RecurrentDecoder,
    features: Tensor,
    captions: Captions,
    plan: Plan,
    keeper: FileKeeper | None = None,
    progress: Callable[[int], None] = lambda step: None,
) -> Tensor:
    """Train a decoder in place; return the cross-entropy (steps,) of each step, in nats a token.

    Parameters
    ----------
    decoder : RecurrentDecoder
        All its parameters are trained.
    features : Tensor (p, d)
        Of the pictures, on the decoder's device.
    captions : Captions
        What is learnt.
    plan : Plan
        Length and step sizes.
    keeper : FileKeeper, optional
        Saves the state whenever it is due, and at the end. Training resumes from a saved state, to
        the same bytes.
    progress : callable, optional
        Takes the number of steps done, before the first one here and after each.

    Raises
    ------
    FloatingPointError
        If a loss is not finite, naming the step.
    """
    parameters = dict(decoder.named_parameters())
    device = next(iter(parameters.values())).device
    optimiser = AdamW(list(parameters.values()), plan.weight_decay, BETAS)
    losses, begin = torch.zeros(plan.steps), 0
    if keeper is not None and (saved := keeper.load()) is not None:
        begin = int(saved["step"])
        losses.copy_(saved["losses"])
        with torch.no_grad():
            for name, values in parameters.items():
                values.copy_(saved[f"model.{name}"])
        optimiser.restore(saved)
    order = Order(captions.lengths, plan.batch_size, plan.seed)
    progress(begin)
    keep_freed_memory()
    with denormals_flushed():
        for step in range(begin, plan.steps):
            rows = order(step)
            read, targets, inside = (upload(part, device) for part in captions.batch(rows))
            pictures = upload(torch.from_numpy(captions.pictures[rows]), device)
            hidden = decoder(features[pictures], read)[inside]
            loss = F.cross_entropy(decoder.logits(hidden), targets[inside])
            gradients = torch.autograd.grad(loss, list(parameters.values()))
            norm = torch.stack(torch._foreach_norm(gradients)).norm()
            shrunk = (LARGEST_GRADIENT / (norm + 1e-6)).clamp(max=1.0)
            with torch.no_grad():
                optimiser.step(torch._foreach_mul(gradients, shrunk), plan.lr_at(step))
            losses[step] = loss.detach()
            if not bool(losses[step].isfinite()):
                raise FloatingPointError(
                    f"recaption_pairs: the loss of step {step} is not finite. Lower lr."
                )
            progress(step + 1)
            if keeper is not None and (step + 1 == plan.steps or keeper.due()):
                state = {f"model.{name}": values.detach() for name, values in parameters.items()}
                state |= optimiser.state()
                state |= {"losses": losses, "step": torch.tensor(step + 1)}
                keeper.save({name: values.clone() for name, values in state.items()})
    return losses
