"""The contrastive loss, and how far a similarity is from the best one.

In a batch of matched pairs, candidate k of pair i is the other half of pair i + k, counted around
the end: k = 0 is the match, all others are independent draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK = 4_000_000
"""Numbers that are looked at at a time."""


def contrastive_loss(image: Tensor, text: Tensor, candidates: int | None = None) -> Tensor:
    """Return the sum of both directions' cross-entropies, mean over the batch.

    Parameters
    ----------
    image, text : Tensor (batch, symbols)
        Features of matched pairs.
    candidates : int, optional
        Of each pair, its match among them; None for the whole batch.

    Raises
    ------
    ValueError
        If there are more candidates than pairs.
    """
    if candidates is None:
        logits = image @ text.mT
        match = torch.arange(len(logits), device=logits.device)
        return F.cross_entropy(logits, match) + F.cross_entropy(logits.mT, match)
    first = torch.zeros(len(image), dtype=torch.long, device=image.device)
    return sum(
        (
            F.cross_entropy((one[:, None] * others_of(other, candidates)).sum(dim=-1), first)
            for one, other in ((image, text), (text, image))
        ),
        start=torch.zeros((), device=image.device),
    )


def others_of(values: Tensor, candidates: int, first: int = 0, last: int | None = None) -> Tensor:
    """Return the candidates of the pairs from `first` to `last`: (pairs, candidates, symbols).

    Raises
    ------
    ValueError
        If there are more candidates than pairs.
    """
    number = len(values)
    if not 2 <= candidates <= number:
        raise ValueError(
            f"{candidates} candidates are not between 2 and the {number} pairs to draw them from"
        )
    start = torch.arange(first, number if last is None else min(last, number))
    shift = torch.arange(candidates)
    return values[((start[:, None] + shift) % number).to(values.device)]


@dataclass(frozen=True)
class Direction:
    """One half of the risk, pair by pair.

    Attributes
    ----------
    model, bayes : Tensor (pairs,)
        Cross-entropy of the match under the model's similarity and under the best one.
    divergence : Tensor (pairs,)
        KL divergence of the model's distribution over candidates from the best one's. Its mean is
        the excess risk, with less noise.
    """

    model: Tensor
    bayes: Tensor
    divergence: Tensor


def compare(
    image: Tensor, text: Tensor, image_posterior: Tensor, text_posterior: Tensor, candidates: int
) -> dict[str, Direction]:
    """Compare the product of features with the log-likelihood ratio.

    Parameters
    ----------
    image, text : Tensor (pairs, symbols)
        Features; or logarithms of what is to be compared: only their products count.
    image_posterior, text_posterior : Tensor (pairs, symbols)
        The root's posteriors, whose product is the ratio up to a constant.
    candidates : int
        Of each pair.

    Returns
    -------
    dict of str to Direction
        ``text_given_image`` and ``image_given_text``.
    """
    return {
        "text_given_image": _direction(image, text, image_posterior, text_posterior, candidates),
        "image_given_text": _direction(text, image, text_posterior, image_posterior, candidates),
    }


def _direction(
    one: Tensor, other: Tensor, one_posterior: Tensor, other_posterior: Tensor, candidates: int
) -> Direction:
    rows = max(1, CHUNK // (candidates * one.shape[-1]))
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for first in range(0, len(one), rows):
        last = first + rows
        model = torch.einsum(
            "nd,nkd->nk", one[first:last], others_of(other, candidates, first, last)
        ).log_softmax(dim=-1)
        best = ratio_of_candidates(one_posterior, other_posterior, candidates, first, last)
        best = best.log_softmax(dim=-1)
        found.append((-model[:, 0], -best[:, 0], (best.exp() * (best - model)).sum(dim=-1)))
    return Direction(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def ratio_of_candidates(
    one: Tensor, other: Tensor, candidates: int, first: int = 0, last: int | None = None
) -> Tensor:
    """Return the log-likelihood ratios of pairs with their candidates: (pairs, candidates)."""
    products = torch.einsum(
        "nd,nkd->nk", one[first:last], others_of(other, candidates, first, last)
    )
    return products.log() + math.log(one.shape[-1])


def best_losses(
    image: Tensor, text: Tensor, true_image: Tensor, true_text: Tensor, candidates: int
) -> tuple[Tensor, Tensor]:
    """Return the losses of posteriors under other trees, and under the right ones: (pairs,) each.

    Both directions are summed.
    """
    return tuple(
        sum(
            (
                -ratio_of_candidates(one, other, candidates).log_softmax(dim=-1)[:, 0]
                for one, other in ((left, right), (right, left))
            ),
            start=torch.zeros(len(left), device=left.device, dtype=left.dtype),
        )
        for left, right in ((image, text), (true_image, true_text))
    )  # type: ignore[return-value]
