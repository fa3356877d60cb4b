r"""The effect of fresh Gaussian noise on a training step, without drawing the noise itself.

A step needs E Vᵀ (n, m) and, for a G (n, m) that is a function of E Vᵀ, the product Gᵀ E (m, d1),
where E (n, d1) holds independent standard normals that are never used again. Let V Vᵀ = L Lᵀ and
Q = Vᵀ L⁻ᵀ, an orthonormal basis of the row space of V. Then E splits into two independent parts,

.. math:: E = E_1 Q^T + E_2 (I - Q Q^T), \qquad E_1 = E Q \sim N(0, 1) \text{ of shape } (n, m).

The forward pass depends only on the first: E Vᵀ = E₁ Lᵀ. Given E₁, G is a constant for the second
part. With G = U R (QR) the rows of Uᵀ E₂ are again independent standard normals N, so

.. math:: G^T E = G^T E_1 Q^T + R^T N (I - Q Q^T)

in distribution, jointly with E Vᵀ. E₁ and N take n m + m d1 normals in place of n d1 (at the
paper's size 240,000 in place of 1,250,000), and the products involve m × d1 matrices only.
"""

import torch
from torch import Tensor

from mispair.core.training import times

_TOLERANCE = 100
"""Smallest square of a row's distance from the span of others, in units of rounding."""


def factor(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Factor V Vᵀ = L Lᵀ of weights V (m, d1) or, of several runs, (runs, m, d1).

    Returns
    -------
    L : Tensor (m, r)
        Lower triangular with r = m where V has full rank, else from the r nonzero eigenvalues.
    L_inverse : Tensor (r, m)
        Its left inverse, so that ``L_inverse @ weights`` has orthonormal rows.
    """
    if weights.dim() == 3 or weights.is_cuda:
        return _factors(weights)
    gram = times(weights, weights.T).double()
    lower, failed = torch.linalg.cholesky_ex(gram)
    # A diagonal entry of L is a row's distance from the span of the rows before it; close to
    # rounding, that distance means nothing.
    tolerance = _TOLERANCE * torch.finfo(weights.dtype).eps
    if int(failed) == 0 and bool((lower.diagonal() ** 2 > tolerance * gram.diagonal()).all()):
        identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
        inverse = torch.linalg.solve_triangular(lower, identity, upper=False)
    else:
        values, vectors = torch.linalg.eigh(gram)
        kept = values > tolerance * values[-1]
        scale = values[kept].sqrt()
        lower = vectors[:, kept] * scale
        inverse = (vectors[:, kept] / scale).T
    return lower.to(weights.dtype), inverse.to(weights.dtype)


def _factors(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Factor the products of weights (…, m, d1), without waiting for a GPU.

    Without full rank, the factor is that of a product whose diagonal is larger by the tolerance:
    the variance of the noise along each row is larger by a factor of 1 + 1e-5.
    """
    gram = times(weights, weights.mT).double()
    tolerance = _TOLERANCE * torch.finfo(weights.dtype).eps
    squares = gram.diagonal(dim1=-2, dim2=-1)
    lower, failed = torch.linalg.cholesky_ex(gram)
    distances = lower.diagonal(dim1=-2, dim2=-1) ** 2
    full = (failed == 0) & (distances > tolerance * squares).all(dim=-1)
    added = tolerance * squares + torch.finfo(weights.dtype).tiny
    enlarged, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(added))
    lower = torch.where(full[..., None, None], lower, enlarged)
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    inverse = torch.linalg.solve_triangular(lower, identity, upper=False)
    return lower.to(weights.dtype), inverse.to(weights.dtype)


def forward(seen: Tensor, lower: Tensor) -> Tensor:
    """Return E Vᵀ (n, m) from the normals E₁ (n, m) and the factor L (m, r)."""
    return times(seen[..., : lower.shape[-1]], lower.mT)


def backward(
    gradient: Tensor, seen: Tensor, unseen: Tensor, weights: Tensor, inverse: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return Gᵀ E as the two products it is made of: ``a @ weights + b @ unseen``.

    G (n, m) is the gradient with respect to the forward product, `seen` and `unseen` are the
    normals E₁ (n, m) and N (m, d1), `inverse` is L⁻¹ (r, m) from `factor`.

    Returns
    -------
    a : Tensor (m, m)
        Coefficients of the rows of V.
    b : Tensor (m, q)
        Rᵀ, the coefficients of the first q = min(n, m) rows of N.
    unseen : Tensor (q, d1)
        Those rows.
    """
    upper = torch.linalg.qr(gradient, mode="r").R
    unseen = unseen[..., : upper.shape[-2], :]
    along = times(unseen, weights.mT) @ inverse.mT  # N Q, (q, r)
    a = (times(gradient.mT, seen[..., : inverse.shape[-2]]) - upper.mT @ along) @ inverse
    return a, upper.mT, unseen
