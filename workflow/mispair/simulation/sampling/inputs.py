"""The input of one modality to a training step: an n × d1 matrix X, in its cheapest form.

A step needs only two products of X, X Wᵀ and Gᵀ X, so X itself is rarely made. Matrices may have a
leading axis of runs that are trained side by side (on a GPU). X without fresh noise is then dense.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from mispair.core.devices import upload
from mispair.core.training import add_product, times
from mispair.simulation.sampling import noise


class Inputs(Protocol):
    """A matrix X (n, d1) of images or captions, one a row."""

    def __len__(self) -> int:
        """Return n."""

    def product(self, weights: Tensor) -> Tensor:
        """Return X Wᵀ (n, m) for weights W (m, d1), as a new tensor."""

    def accumulate(self, gradient: Tensor, weights: Tensor, out: Tensor) -> None:
        """Add Gᵀ X to `out` (m, d1), for a gradient G (n, m).

        `weights` are those of the last call of `product`; G may depend on what that returned.
        `out` may be `weights` itself.
        """

    def dense(self) -> Tensor:
        """Return X (n, d1) itself; not for noise that is drawn in projected form."""


@dataclass(frozen=True)
class Dense:
    """X as it is, (n, d1) or (runs, n, d1)."""

    values: Tensor

    def __len__(self) -> int:
        return self.values.shape[-2]

    def product(self, weights: Tensor) -> Tensor:
        """Return X Wᵀ."""
        return times(self.values, weights.mT)

    def accumulate(self, gradient: Tensor, weights: Tensor, out: Tensor) -> None:
        """Add Gᵀ X to `out`."""
        if out.dim() == 3:
            out.baddbmm_(gradient.mT, self.values)  # without a copy of all runs' gradients
        else:
            out.add_(times(gradient.T, self.values))

    def dense(self) -> Tensor:
        """Return X."""
        return self.values


@dataclass(frozen=True)
class FreshNoise:
    """Noise E (n, d1) that is drawn for one step and never seen again.

    Only E Wᵀ and Gᵀ E reach a training step, where G depends on E through E Wᵀ alone. Both follow
    exactly from far fewer normals (`mispair.simulation.sampling.noise`); only these are drawn.

    Attributes
    ----------
    std : float
        Standard deviation per coordinate.
    seen : Tensor (n, m)
        Normals that make the part of E in the row space of W.
    unseen : Tensor (m, d1)
        Normals that make the part of Gᵀ E from outside that space.
    """

    std: float
    seen: Tensor
    unseen: Tensor
    _inverse: list[Tensor] = field(default_factory=list, init=False, repr=False, compare=False)

    def product(self, weights: Tensor) -> Tensor:
        """Return E Wᵀ (n, m)."""
        lower, inverse = noise.factor(weights)
        self._inverse[:] = [inverse]  # `back_product` has the same weights
        return noise.forward(self.seen, lower).mul_(self.std)

    def back_product(self, gradient: Tensor, weights: Tensor) -> Tensor:
        """Return Gᵀ E (m, d1) for the weights of the last call of `product`."""
        inverse = self._inverse[0] if self._inverse else noise.factor(weights)[1]
        on_weights, on_unseen, unseen = noise.backward(
            gradient, self.seen, self.unseen, weights, inverse
        )
        return add_product(times(on_weights, weights), on_unseen, unseen).mul_(self.std)


@dataclass(frozen=True)
class Coded:
    """X = codes @ rows + noise, with noise on some rows only.

    Rows come in the order: those with fresh noise, then those with stored noise, then those
    without. No loss depends on the order of the pairs.

    Attributes
    ----------
    codes : Tensor (n, k)
        Coefficients.
    rows : Tensor (k, d1)
        Vectors that the codes combine: a dictionary, and the decoder's output weights where
        captions were generated.
    fresh : FreshNoise or None
        Noise of the first rows.
    stored : Tensor (s, d1) or None
        Noise of the rows after these, as it is added.
    """

    codes: Tensor
    rows: Tensor
    fresh: FreshNoise | None = None
    stored: Tensor | None = None

    def __len__(self) -> int:
        return len(self.codes)

    def product(self, weights: Tensor) -> Tensor:
        """Return X Wᵀ."""
        result = times(self.codes, times(self.rows, weights.T))
        count = 0
        if self.fresh is not None:
            count = len(self.fresh.seen)
            result[:count].add_(self.fresh.product(weights))
        if self.stored is not None:
            result[count : count + len(self.stored)].add_(times(self.stored, weights.T))
        return result

    def accumulate(self, gradient: Tensor, weights: Tensor, out: Tensor) -> None:
        """Add Gᵀ X to `out`."""
        count = 0
        if self.fresh is not None:
            count = len(self.fresh.seen)
            out.add_(self.fresh.back_product(gradient[:count], weights))
        add_product(out, times(gradient.T, self.codes), self.rows)
        if self.stored is not None:
            out.add_(times(gradient[count : count + len(self.stored)].T, self.stored))

    def dense(self) -> Tensor:
        """Return X, or raise if it has fresh noise in projected form."""
        if self.fresh is not None:
            raise ValueError("noise in projected form has no coordinates; draw it in full")
        return self.without_fresh()

    def without_fresh(self) -> Tensor:
        """Return X without its fresh noise."""
        result = self.codes @ self.rows
        if self.stored is not None:
            count = 0 if self.fresh is None else len(self.fresh.seen)
            result[count : count + len(self.stored)].add_(self.stored)
        return result


@dataclass(frozen=True)
class Noisy:
    """X = values + noise of several runs, with fresh noise on the first rows of each.

    Attributes
    ----------
    values : Dense
        X without its fresh noise, (runs, n, d1).
    fresh : FreshNoise
        Noise of all rows; zero for rows without noise.
    has_noise : Tensor (runs, n, 1)
        One for the rows with noise, else zero.
    """

    values: Dense
    fresh: FreshNoise
    has_noise: Tensor

    def __len__(self) -> int:
        return len(self.values)

    def product(self, weights: Tensor) -> Tensor:
        """Return X Wᵀ."""
        return self.values.product(weights).add_(self.fresh.product(weights))

    def accumulate(self, gradient: Tensor, weights: Tensor, out: Tensor) -> None:
        """Add Gᵀ X to `out`."""
        noise = self.fresh.back_product(gradient * self.has_noise, weights)
        self.values.accumulate(gradient, weights, out)
        out.add_(noise)

    def dense(self) -> Tensor:
        """Raise: noise in projected form has no coordinates."""
        raise ValueError("noise in projected form has no coordinates; draw it in full")


@dataclass(frozen=True)
class Batch:
    """The pairs of one training step: row i of `image` and row i of `text` are a pair."""

    image: Inputs
    text: Inputs


class BatchSource(Protocol):
    """Training pairs in the order of training."""

    steps_per_epoch: int

    def batch(self, step: int) -> Batch:
        """Return the batch of a step, counted from 0: a function of the step's number alone."""


def stacked(batches: Sequence[Batch]) -> Batch:
    """Join the batches of several runs along a leading axis; one batch is returned as it is."""
    if len(batches) == 1:
        return batches[0]
    return Batch(
        _stacked([batch.image for batch in batches]), _stacked([batch.text for batch in batches])
    )


def _stacked(inputs: Sequence[Inputs]) -> Inputs:
    drawn = [one.fresh if isinstance(one, Coded) else None for one in inputs]
    values = torch.stack(
        [one.without_fresh() if isinstance(one, Coded) else one.dense() for one in inputs]
    )
    first = next((noise for noise in drawn if noise is not None), None)
    if first is None:
        return Dense(values)
    n, unseen = values.shape[1], torch.zeros_like(first.unseen)
    nothing = FreshNoise(first.std, first.seen[:0], unseen)
    noises = [noise or nothing for noise in drawn]
    seen = [pad(noise.seen, (0, 0, 0, n - len(noise.seen))) for noise in noises]
    counts = torch.tensor([len(noise.seen) for noise in noises])
    has_noise = (torch.arange(n) < counts[:, None]).to(values.dtype)
    return Noisy(
        Dense(values),
        FreshNoise(first.std, torch.stack(seen), torch.stack([noise.unseen for noise in noises])),
        upload(has_noise, values.device).unsqueeze(-1),
    )
