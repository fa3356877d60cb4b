"""Swaps of captions: they change the captions of images, and no shard."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
import pyarrow as pa

from mispair.pairs.corruption.draws import uniforms
from mispair.pairs.index.identities import identities


def choose_pairs(keys: np.ndarray, rate: float, generator: np.random.Generator) -> np.ndarray:
    """Draw exactly ``round(rate * n)`` pairs whose captions are to be swapped.

    The keys are sorted before anything is drawn: the order of shards changes nothing. With
    generators of the same state, the pairs chosen at a small rate are among those chosen at a
    large one, so arms of different rates differ only by the added pairs.

    Parameters
    ----------
    keys : (n,) array
        Keys of the pairs, each once, in any order.
    rate : float
        Shuffle probability C_m in [0, 1]: the share of pairs to choose.

    Returns
    -------
    (k,) int64 array
        Positions (in the order of `keys`) of the chosen pairs, in random order.

    Raises
    ------
    ValueError
        If the rate is outside [0, 1] or a key occurs twice.
    """
    keys = np.asarray(keys)
    if not 0.0 <= rate <= 1.0:
        raise ValueError(f"rate {rate}: the share of swapped captions must be between 0 and 1")
    order = np.argsort(keys, kind="stable")
    in_order = keys[order]
    if len(keys) > 1 and (repeated := in_order[1:] == in_order[:-1]).any():
        raise ValueError(f"key {in_order[1:][repeated][0]!r} occurs twice; keys must be unique")
    return np.asarray(order[generator.permutation(len(keys))[: round(rate * len(keys))]])


def shuffle_captions(
    keys: np.ndarray,
    rate: float,
    generator: np.random.Generator,
    texts: np.ndarray | None = None,
) -> np.ndarray:
    """Swap the captions of a random share of the pairs among themselves.

    The captions of the pairs that `choose_pairs` draws are permuted by a uniformly drawn
    permutation without fixed points (drawn again until none is fixed, about *e* times), so every
    chosen pair gets the caption of another chosen pair. Corpora hold the same text many times, so a
    swap may change nothing. With `texts`, pairs that got their own text exchange it with random
    others until every chosen pair has another text. That fails only when more than half of the
    chosen captions have one text: then as few as possible keep it.

    Parameters
    ----------
    keys, rate, generator
        As for `choose_pairs`.
    texts : (n,) array, optional
        Identity of each pair's caption; equal texts have equal identities.

    Returns
    -------
    (n,) int64 array
        For each pair, the position (in the order of `keys`) of the pair whose caption it gets.

    Raises
    ------
    ValueError
        As `choose_pairs`, or if exactly one pair would be chosen: its caption has no partner.
    """
    chosen = choose_pairs(keys, rate, generator)
    if len(chosen) == 1:
        raise ValueError(
            f"rate {rate} of {len(keys)} pairs is one pair, and no other caption is chosen to "
            f"swap with; use 0 or at least {2 / len(keys):.3g}"
        )
    permutation = _derangement(len(chosen), generator)
    if texts is not None:
        _exchange_equal_texts(permutation, np.asarray(texts)[chosen], generator)
    source = np.arange(len(keys), dtype=np.int64)
    source[chosen] = chosen[permutation]
    return source


def _derangement(count: int, generator: np.random.Generator) -> np.ndarray:
    """Draw a permutation of ``range(count)`` without fixed points, each equally likely."""
    positions = np.arange(count)
    while True:
        permutation = generator.permutation(count)
        if not (permutation == positions).any():
            return permutation


_FREQUENT = 1 / 16


def _exchange_equal_texts(
    permutation: np.ndarray, texts: np.ndarray, generator: np.random.Generator
) -> None:
    """Change a derangement in place so that as few places as possible get an equal text.

    A place with text t that got t can exchange with any place that neither has t nor got it: both
    then have another text. Fewer than 2 f k places are unsuitable when t is a share f of the k
    texts. So for a rare text nearly every draw finds a suitable place; for a frequent one all of
    them are listed. The list is long enough whenever f is at most a half.
    """
    codes = pd.factorize(texts)[0]
    count = len(codes)
    frequent = np.bincount(codes) > _FREQUENT * count
    for text in np.flatnonzero(frequent):
        has, got = codes == text, codes[permutation] == text
        candidates = generator.permutation(np.flatnonzero(~has & ~got))
        same = generator.permutation(np.flatnonzero(has & got))[: len(candidates)]
        candidates = candidates[: len(same)]
        permutation[same], permutation[candidates] = permutation[candidates], permutation[same]
    for position in np.flatnonzero(codes == codes[permutation]).tolist():
        text = codes[position]
        if codes[permutation[position]] != text or frequent[text]:
            continue  # solved by an earlier exchange, or not solvable
        partner = position
        while text in (codes[partner], codes[permutation[partner]]):
            partner = int(generator.integers(count))
        permutation[[position, partner]] = permutation[[partner, position]]


def draw_neighbours(
    similar: Iterable[pa.RecordBatch],
    original: np.ndarray,
    alternatives: np.ndarray,
    starts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw one of the most similar other texts for each pair, all equally likely.

    Parameters
    ----------
    similar : iterable of pyarrow.RecordBatch
        Columns ``caption_id``, ``neighbour_ids`` (lists) and ``similarities`` (lists of the same
        lengths); each caption once.
    original : (k,) uint64 array
        Identity of each pair's caption.
    alternatives : (k, a) uint64 array
        Further captions of each pair's own picture. They describe it, so they are not drawn.
    starts : (k,) uint64 array
        Streams of the pairs' draws (`draws.streams`).

    Returns
    -------
    given : (k,) uint64 array
        Identity of the text drawn, or the pair's own where the caption has no neighbours.
    similarity : (k,) float64 array
        Its similarity, or nan.
    """
    given, similarity = original.copy(), np.full(len(original), np.nan)
    order = np.argsort(original, kind="stable")
    in_order = original[order]
    for batch in similar:
        captions = identities(batch["caption_id"])
        left = np.searchsorted(in_order, captions, "left")
        times = np.searchsorted(in_order, captions, "right") - left
        row = np.repeat(np.arange(len(captions)), times)
        before = np.cumsum(times) - times
        position = order[np.arange(len(row)) + (left - before)[row]]
        lists = batch["neighbour_ids"]
        offsets = lists.offsets.to_numpy()
        length, start = np.diff(offsets)[row], (offsets[:-1] - offsets[0])[row]
        if not length.any():
            continue
        column = np.arange(length.max())
        neighbours = identities(lists.flatten())
        values = batch["similarities"].flatten().to_numpy(zero_copy_only=False)
        at = np.minimum(start[:, None] + column, len(neighbours) - 1)
        possible = column < length[:, None]
        for further in alternatives[position].T:
            possible &= neighbours[at] != further[:, None]
        many = possible.sum(axis=1)
        drawn = np.floor(uniforms(starts[position], 0) * many).astype(np.int64)
        nth = np.argmax(np.cumsum(possible, axis=1) > drawn[:, None], axis=1)
        picked = at[np.arange(len(row)), nth]
        some = many > 0
        given[position[some]] = neighbours[picked[some]]
        similarity[position[some]] = values[picked[some]]
    return given, similarity
