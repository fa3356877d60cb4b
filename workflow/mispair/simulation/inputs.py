"""The input of one modality to a training step: an n × d1 matrix X, in its cheapest form.

A step needs only two products of X, X Wᵀ and Gᵀ X, so X itself is rarely made.
"""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from mispair.core.training import add_product, times


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
    """X as it is, (n, d1)."""

    values: Tensor

    def __len__(self) -> int:
        return len(self.values)

    def product(self, weights: Tensor) -> Tensor:
        """Return X Wᵀ."""
        return times(self.values, weights.T)

    def accumulate(self, gradient: Tensor, weights: Tensor, out: Tensor) -> None:
        """Add Gᵀ X to `out`."""
        out.add_(times(gradient.T, self.values))

    def dense(self) -> Tensor:
        """Return X."""
        return self.values


# The effect of fresh Gaussian noise on a training step, without drawing the noise itself.
#
# A step needs E Vᵀ (n, m) and, for a G (n, m) that is a function of E Vᵀ, the product Gᵀ E (m, d1),
# where E (n, d1) holds independent standard normals that are never used again. Let V Vᵀ = L Lᵀ and
# Q = Vᵀ L⁻ᵀ, an orthonormal basis of the row space of V. Then E splits into two independent parts,
#
# .. math:: E = E_1 Q^T + E_2 (I - Q Q^T), \qquad E_1 = E Q \sim N(0, 1) \text{ of shape } (n, m).
#
# The forward pass depends only on the first: E Vᵀ = E₁ Lᵀ. Given E₁, G is a constant for the second
# part. With G = U R (QR) the rows of Uᵀ E₂ are again independent standard normals N, so
#
# .. math:: G^T E = G^T E_1 Q^T + R^T N (I - Q Q^T)
#
# in distribution, jointly with E Vᵀ. E₁ and N take n m + m d1 normals in place of n d1 (at the
# paper's size 240,000 in place of 1,250,000), and the products involve m × d1 matrices only.

_TOLERANCE = 100
"""Smallest square of a row's distance from the span of others, in units of rounding."""


def factor(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Factor V Vᵀ = L Lᵀ of weights V (m, d1).

    Returns
    -------
    L : Tensor (m, r)
        Lower triangular with r = m where V has full rank, else from the r nonzero eigenvalues.
    L_inverse : Tensor (r, m)
        Its left inverse, so that ``L_inverse @ weights`` has orthonormal rows.
    """
    gram = times(weights, weights.T).double()
    lower, failed = torch.linalg.cholesky_ex(gram)
    # A diagonal entry of L is a row's distance from the span of the rows before it; close to
    # rounding, that distance means nothing.
    tolerance = _TOLERANCE * torch.finfo(weights.dtype).eps
    if int(failed) == 0 and bool((lower.diagonal() ** 2 > tolerance * gram.diagonal()).all()):
        identity = torch.eye(len(gram), dtype=gram.dtype)
        inverse = torch.linalg.solve_triangular(lower, identity, upper=False)
    else:
        values, vectors = torch.linalg.eigh(gram)
        kept = values > tolerance * values[-1]
        scale = values[kept].sqrt()
        lower = vectors[:, kept] * scale
        inverse = (vectors[:, kept] / scale).T
    return lower.to(weights.dtype), inverse.to(weights.dtype)


@dataclass(frozen=True)
class FreshNoise:
    """Noise E (n, d1) that is drawn for one step and never seen again.

    Only E Wᵀ and Gᵀ E reach a training step, where G depends on E through E Wᵀ alone. Both follow
    exactly from far fewer normals, as above; only these are drawn.

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
        lower, inverse = factor(weights)
        self._inverse[:] = [inverse]  # `back_product` has the same weights
        return times(self.seen[:, : lower.shape[1]], lower.T).mul_(self.std)

    def back_product(self, gradient: Tensor, weights: Tensor) -> Tensor:
        """Return Gᵀ E (m, d1) for the weights of the last call of `product`."""
        (inverse,) = self._inverse
        upper = torch.linalg.qr(gradient, mode="r").R
        unseen = self.unseen[: len(upper)]
        along = times(unseen, weights.T) @ inverse.T  # N Q
        on_weights = times(gradient.T, self.seen[:, : len(inverse)]) - upper.T @ along
        on_weights = on_weights @ inverse
        return add_product(times(on_weights, weights), upper.T, unseen).mul_(self.std)


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
        result = self.codes @ self.rows
        if self.stored is not None:
            result[: len(self.stored)].add_(self.stored)
        return result


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
