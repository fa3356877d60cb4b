"""Rank of a caption among the captions most similar to it, for the same picture."""

from __future__ import annotations

import numpy as np

from mispair.audit.embeddings import PairEmbeddings
from mispair.core import seeds

_PAIRS = 1024


def similar_ranks(
    embeddings: PairEmbeddings,
    pairs: np.ndarray,
    source: np.ndarray,
    trusted: np.ndarray,
    nearest: np.ndarray,
    same: tuple[np.ndarray, np.ndarray],
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return ranks of pairs, and of trusted pairs with a similar caption in place of their own.

    Parameters and values of p are those of `neighbour_p_values`; `trusted` (t,) are pairs whose
    own caption is right.
    """
    generator = seeds.generator(seed, "audit", "swapped trusted pairs")
    swapped = draw_similar(trusted, same[1], nearest, generator)
    moved = same[1][swapped] != same[1][trusted]
    return (
        neighbour_p_values(embeddings, pairs, source, nearest, same, seed),
        neighbour_p_values(embeddings, trusted[moved], swapped[moved], nearest, same, seed),
    )


def neighbour_p_values(
    embeddings: PairEmbeddings,
    pairs: np.ndarray,
    source: np.ndarray,
    nearest: np.ndarray,
    same: tuple[np.ndarray, np.ndarray],
    seed: int,
) -> np.ndarray:
    """Return the rank of captions among their nearest captions, (m,) in (0, 1); NaN without any.

    A caption that was swapped for a similar one is hardly better than its neighbours, although it
    is much better than random captions.

    Parameters
    ----------
    embeddings : PairEmbeddings
        Of all n pairs.
    pairs, source : (m,) int arrays
        Whose picture, and whose caption.
    nearest : (n, k) int array
        Pairs with the captions most similar to that of each pair; -1 is none.
    same : two (n,) int arrays
        Pictures and texts by number. Captions with the same words as the ranked one are no rivals.
        Further captions of the same picture are no rivals, either, if it has its own caption.
    seed : int
        Of ties.
    """
    m = len(pairs)
    coins = seeds.generator(seed, "audit", "neighbours", m).random(m)
    p_values = np.full(m, np.nan)
    if not nearest.shape[1]:
        return p_values
    pictures, texts = same
    for start in range(0, m, _PAIRS):
        rows = slice(start, start + _PAIRS)
        one, caption_of = pairs[rows], source[rows]
        others = nearest[caption_of]
        rivals = (others >= 0) & (texts[others] != texts[caption_of, None])
        # Further captions of a picture are as right as the one that is ranked.
        rivals &= (pictures[others] != pictures[one, None]) | (one != caption_of)[:, None]
        vectors = embeddings.texts_of(others.ravel()).reshape(*others.shape, -1)
        picture = embeddings.images_of(one)
        score = np.einsum("ne,ne->n", picture, embeddings.texts_of(caption_of))[:, None]
        scores = np.einsum("ne,nke->nk", picture, vectors)
        better = ((scores > score) & rivals).sum(axis=1)
        ties = ((scores == score) & rivals).sum(axis=1)
        number = rivals.sum(axis=1)
        ranked = (better + coins[rows] * (1 + ties)) / (number + 1)
        p_values[rows] = np.where(number > 0, ranked, np.nan)
        embeddings.release()
    return p_values


def draw_similar(
    pairs: np.ndarray, texts: np.ndarray, nearest: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Return for each of m pairs a random pair with a similar caption of other words, (m,).

    A pair stays as it is if no other caption is similar to its own.
    """
    usable = (nearest[pairs] >= 0) & (texts[nearest[pairs]] != texts[pairs, None])
    drawn = np.floor(generator.random(len(pairs)) * usable.sum(axis=1)).astype(np.int64)
    nth = np.argmax(np.cumsum(usable, axis=1) > drawn[:, None], axis=1)
    return np.where(usable.any(axis=1), nearest[pairs, nth], pairs)
