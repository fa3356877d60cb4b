"""The contrastive loss, and how far a similarity is from the best one.

In a batch of matched pairs, candidate k of pair i is the other half of pair i + k, modulo the
batch: k = 0 is the match, all others are independent draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

PAIRS = 256
"""Pairs whose candidates are computed at a time."""


def contrastive_loss(image: Tensor, text: Tensor, candidates: int | None = None) -> Tensor:
    """Return the sum of both directions' cross-entropies, mean over the batch.

    Features are (batch, symbols). Each pair has `candidates` candidates, its match among them;
    None means the whole batch.

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
    return F.cross_entropy(with_candidates(image, text, candidates), first) + F.cross_entropy(
        with_candidates(text, image, candidates), first
    )


def with_candidates(
    one: Tensor, partners: Tensor, candidates: int, first: int = 0, last: int | None = None
) -> Tensor:
    """Return the products of pairs from `first` to `last` with their candidates.

    Candidates of neighbours overlap: one matrix product has those of all pairs, in a band next to
    its diagonal.

    Parameters
    ----------
    one, partners : Tensor (pairs, symbols)
        One half of each pair, and the other half.
    candidates : int
        Of each pair.
    first, last : int, optional
        Range of pairs; all by default.

    Returns
    -------
    Tensor (last - first, candidates)
        The match first. It shares memory with the whole product.

    Raises
    ------
    ValueError
        If there are more candidates than pairs.
    """
    number = len(partners)
    if not 2 <= candidates <= number:
        raise ValueError(
            f"{candidates} candidates are not between 2 and the {number} pairs to draw them from"
        )
    rows = one[first:last]
    indices = torch.arange(first, first + len(rows) + candidates - 1, device=partners.device)
    products = rows @ partners[indices % number].mT
    return products.as_strided((len(rows), candidates), (products.shape[1] + 1, 1))


@dataclass(frozen=True)
class Direction:
    """The risk of one direction, or the sum of both, pair by pair.

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
        Features: only their products count.
    image_posterior, text_posterior : Tensor (pairs, symbols)
        The root's posteriors, whose product is the ratio up to a constant.
    candidates : int
        Of each pair.

    Returns
    -------
    dict of str to Direction
        ``text_given_image``, ``image_given_text`` and their sum, ``both``.
    """
    text_given_image = _direction(image, text, image_posterior, text_posterior, candidates)
    image_given_text = _direction(text, image, text_posterior, image_posterior, candidates)
    both = Direction(
        text_given_image.model + image_given_text.model,
        text_given_image.bayes + image_given_text.bayes,
        text_given_image.divergence + image_given_text.divergence,
    )
    return {
        "text_given_image": text_given_image, "image_given_text": image_given_text, "both": both,
    }  # fmt: skip


def _direction(
    one: Tensor, partners: Tensor, one_posterior: Tensor, other_posterior: Tensor, candidates: int
) -> Direction:
    triples: list[tuple[Tensor, Tensor, Tensor]] = []
    for first in range(0, len(one), PAIRS):
        block = candidates, first, first + PAIRS
        model = with_candidates(one, partners, *block).log_softmax(dim=-1)
        best = with_candidates(one_posterior, other_posterior, *block).log().log_softmax(dim=-1)
        triples.append((-model[:, 0], -best[:, 0], (best.exp() * (best - model)).sum(dim=-1)))
    return Direction(*(torch.cat(parts) for parts in zip(*triples, strict=True)))


def match_losses(image: Tensor, text: Tensor, candidates: int) -> Tensor:
    """Return the loss of each pair under posteriors of the root, both directions summed: (pairs,).

    The product of the posteriors given both halves is the likelihood ratio up to a constant.
    """
    parts = []
    for first in range(0, len(image), PAIRS):
        block = candidates, first, first + PAIRS
        ratios = [with_candidates(*pair, *block).log() for pair in ((image, text), (text, image))]
        one, second = (ratio.log_softmax(dim=-1)[:, 0] for ratio in ratios)
        parts.append(-one - second)
    return torch.cat(parts)
