"""Shuffling captions: which caption each image is paired with, never a rewritten shard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def shuffle_captions(keys: np.ndarray, rate: float, generator: np.random.Generator) -> np.ndarray:
    """Swap the captions of a random share of the pairs among themselves.

    A random subset of exactly ``round(rate * n)`` pairs is drawn, and its captions are permuted by
    a uniformly drawn permutation without fixed points (drawn anew until none is fixed, about *e*
    times), so every chosen pair gets the caption of another chosen pair. The keys are sorted
    before anything is drawn: the order of shards changes nothing. With generators of the same
    state, the pairs chosen at a small rate are among those chosen at a large one, so arms of
    different rates differ by the added pairs and not by the luck of the draw.

    Parameters
    ----------
    keys : (n,) array
        Keys of the pairs, each once, in any order.
    rate : float
        Shuffle probability C_m in [0, 1]: the share of pairs whose captions are swapped.
    generator : numpy.random.Generator
        Source of the draw.

    Returns
    -------
    (n,) int64 array
        For each pair, the position (in the order of `keys`) of the pair whose caption it gets.

    Raises
    ------
    ValueError
        If the rate lies outside [0, 1], a key occurs twice, or exactly one pair would be chosen:
        one caption alone has nothing to be swapped with.
    """
    keys = np.asarray(keys)
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate {rate}: the share of swapped captions lies between 0 and 1")
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    if len(keys) > 1 and (repeated := in_order[1:] == in_order[:-1]).any():
        raise ValueError(f"key {in_order[1:][repeated][0]!r} occurs twice; keys must be unique")
    count = round(rate * len(keys))
    if count == 1:
        raise ValueError(
            f"rate {rate} of {len(keys)} pairs is one pair, whose caption has none to be swapped "
            f"with; use 0 or at least {2 / len(keys):.3g}"
        )
    chosen = order[generator.permutation(len(keys))[:count]]
    source = np.arange(len(keys), dtype=np.int64)
    source[chosen] = chosen[_derangement(count, generator)]
    return source


def _derangement(count: int, generator: np.random.Generator) -> np.ndarray:
    """Draw a permutation of ``range(count)`` without fixed points, each equally likely."""
    positions = np.arange(count)
    while True:
        permutation = generator.permutation(count)
        if not (permutation == positions).any():
            return permutation


@dataclass(frozen=True)
class PairingShares:
    """How much of a corpus a shuffle changed, as shares of all pairs in [0, 1].

    ``text_changed`` can be smaller than ``swapped``: two pairs may have the same caption.
    """

    nominal: float
    swapped: float
    text_changed: float


def pairing_shares(
    caption_ids: np.ndarray, source: np.ndarray, nominal: float
) -> tuple[PairingShares, np.ndarray, np.ndarray]:
    """Tell what a shuffle did to the pairs and to their texts.

    Parameters
    ----------
    caption_ids : (n,) array
        Identity of each pair's own caption; equal texts have equal identities.
    source : (n,) int array
        Result of `shuffle_captions`, in the same order.
    nominal : float
        The rate that was asked for.

    Returns
    -------
    PairingShares
        The shares over all pairs.
    swapped : (n,) bool array
        Whether the pair got the caption of another pair.
    text_changed : (n,) bool array
        Whether the pair got another text.
    """
    caption_ids = np.asarray(caption_ids)
    swapped = source != np.arange(len(source))
    text_changed = np.asarray(caption_ids[source] != caption_ids, dtype=bool)
    count = max(len(source), 1)
    shares = PairingShares(nominal, swapped.sum() / count, text_changed.sum() / count)
    return shares, swapped, text_changed
