"""Known wrong captions in a corpus, on which estimates are tried."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mispair.core import seeds
from mispair.pairs.corruption.corruption import shuffle_captions


@dataclass(frozen=True)
class Injection:
    """Captions of n pairs, some of them wrong.

    Attributes
    ----------
    scheme : str
        ``random`` (captions permuted) or ``similar`` (one of the most similar captions).
    rate : float
        Requested share.
    source : (n,) int array
        The pair whose caption each pair has.
    wrong : (n,) bool array
        Whether the words of a pair's caption changed.
    """

    scheme: str
    rate: float
    source: np.ndarray
    wrong: np.ndarray


def inject(
    scheme: str,
    rate: float,
    texts: np.ndarray,
    nearest: np.ndarray,
    seed: int,
) -> Injection:
    """Make the captions of a share of pairs wrong.

    Parameters
    ----------
    scheme : {"random", "similar"}
        How.
    rate : float
        Share of pairs.
    texts : (n,) int array
        Captions with the same words have the same number.
    nearest : (n, k) int array
        Pairs with the captions most similar to each; -1 is none. Not read for random.
    seed : int
        Of the draw.
    """
    n = len(texts)
    generator = seeds.generator(seed, "audit", scheme, repr(rate))
    source = np.arange(n)
    if scheme == "random":
        source = shuffle_captions(np.arange(n), rate, generator, texts)
    elif rate > 0:
        chosen = generator.permutation(n)[: round(rate * n)]
        source[chosen] = draw_similar(chosen, texts, nearest, generator)
    return Injection(scheme, rate, source, texts[source] != texts)


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
