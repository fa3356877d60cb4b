r"""Gradient descent on a two-layer network, carried out in the span of the pairs it is fitted to.

With hidden activations S = s(X Wᵀ) (n, m) the loss is ½ ‖S V − Y‖², and

.. math:: ∇_W = G^T X, \quad G = s'(X W^T) ∘ (S V - Y) V^T, \qquad ∇_V = S^T S V - S^T Y,

so that W never leaves W₀ + the row space of X, nor V the row spaces of V₀ and Y:

.. math:: W = W_0 - D^T X, \qquad V = M V_0 + N^T Y.

A step needs the coefficients D (n, m), M (m, m) and N (n, m) only, because X and Y enter it through

.. math:: X W^T = X W_0^T - K_x D, \qquad Y V^T = Y V_0^T M^T + K_y N,

where the kernels K = X Xᵀ, Y Yᵀ (n, n) and the products with W₀, V₀ are made once. That is two
products of n × n by n × m in place of five of n × d1 by d1 × m. Results agree up to rounding. No
basis is needed, and no kernel where V alone is trained.

It holds for plain gradient descent, for any number of steps and any starting weights. It does
not hold for Adam, which rescales each coordinate by itself and so leaves the span.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mispair.core.arithmetic import times
from mispair.simulation.training.encoder import FiniteSteps


def descend(
    images: Tensor,
    captions: Tensor,
    weights: Tensor,
    output: Tensor,
    activate: Callable[[Tensor, int], Tensor],
    rate: float,
    steps: int,
    trains_weights: bool,
) -> tuple[Tensor, Tensor]:
    """Minimise half the summed squared error ‖S V − Y‖² / 2 by gradient descent.

    Parameters
    ----------
    images, captions : Tensor (n, d1), (n, d2)
        X and Y.
    weights, output : Tensor (m, d1), (k, d2)
        W and V at the start, k at least m.
    activate : callable
        Returns S (n, k) for X Wᵀ (n, m) and the number of the step. Each of its first m columns is
        a function of the same column of X Wᵀ that has slope one where it is not zero; further
        columns are constant.
    rate : float
        Step size.
    trains_weights : bool
        Whether W is trained; else V alone.

    Returns
    -------
    weights, output : Tensor
        W and V at the end.

    Raises
    ------
    Diverged
        If a coefficient is not finite after a step, naming the step.
    """
    m, k = len(weights), len(output)
    start = times(images, weights.T)
    D, N = torch.zeros_like(start), start.new_zeros(len(images), k)
    M = torch.eye(k, dtype=start.dtype, device=start.device)
    if trains_weights:
        of_images, of_captions = times(images, images.T), times(captions, captions.T)
        with_output, of_output = times(captions, output.T), output @ output.T
    finite = FiniteSteps(steps, start.device)
    for step in range(steps):
        S = activate(start - times(of_images, D) if trains_weights else start, step)
        if trains_weights:
            YV = times(with_output, M.T).add_(times(of_captions, N))
            VV = M @ (of_output @ M.T + times(with_output.T, N)) + times(N.T, YV)
            D.add_((times(S, VV) - YV)[:, :m].mul_(S[:, :m] != 0), alpha=rate)
        SS = times(S.T, S)
        M.sub_(SS @ M, alpha=rate)
        N.sub_(times(N, SS).sub_(S), alpha=rate)
        finite.note(step, D, M, N)
    moved = weights - times(D.T, images) if trains_weights else weights.clone()
    return moved, M @ output + times(N.T, captions)
