"""The pairing of a corpus under a scheme: all draws in one table, and the texts written."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.pairs.captions.caption_texts import (
    CaptionedPairs,
    read_pictured_features,
    read_texts,
)
from mispair.pairs.corruption.corrupted import (
    STEP,
    Corrupted,
    Sources,
    effective_rate,
    named_codes,
    variety,
)
from mispair.pairs.corruption.draws import DRAWN, SOURCE, WRITTEN, column, seed_of
from mispair.pairs.corruption.scheme import application, schemes
from mispair.pairs.index.identities import hexadecimal
from mispair.pairs.neighbours.tfidf import MEASURE, tfidf_similarities
from mispair.pairs.scenes.scene_captions import codes


def draw_pairing(
    pairs: CaptionedPairs, scheme: str, rate: float, seed: int, draws: int, sources: Sources
) -> tuple[pa.Table, pa.Table, dict[str, str]]:
    """Apply a scheme at a rate several times, with independent draws of what is corrupted.

    Returns
    -------
    pairing : pyarrow.Table
        ``key``, ``group``, ``row``, and for draw 0 ``caption_id``, ``swapped``, ``text_changed``,
        sorted by key; for draw k these three with the suffix ``_k``. Where pairs have several
        captions also ``caption_source``: the position of the pair that the caption came from.
    captions : pyarrow.Table
        ``caption_id``, ``caption`` of texts that no pair had before, of all draws, sorted.
    metadata : dict of str to str
        For both: shares of draw 0, shares of all draws as JSON, and what identifies data and draws.
        Shares are of all pairs, in [0, 1]. ``text_changed_share`` can be smaller than
        ``swapped_share``, because two pairs may have the same caption: ``identical_text_swaps``
        counts pairs that got another pair's caption with their own text. ``text_changed_share`` is
        larger where a scheme rewords captions.

    Raises
    ------
    UserError
        As `corrupt`, or if no text changes at a rate above 0.
    """
    table, metadata = pairs.table, {"scheme": scheme}
    written_ids, written = [], []
    by_draw: list[tuple[float, float]] = []
    for draw in range(draws):
        done = corrupt(pairs, scheme, rate, seed_of(seed, draw), sources)
        changed = done.given != pairs.caption_ids
        count = max(len(changed), 1)
        by_draw.append((float(done.swapped.sum() / count), float(changed.sum() / count)))
        if draw == 0:
            measured = effective_shares(pairs, done, sources.index, sources.truth)
            metadata |= {
                "nominal": repr(float(rate)),
                "swapped_share": repr(by_draw[0][0]),
                "text_changed_share": repr(by_draw[0][1]),
                "identical_text_swaps": str(int((done.swapped & ~changed).sum())),
                **mean_similarity(pairs, done, sources.index, seed),
                **{name: repr(value) for name, value in measured.items()},
                **done.shares,
                "note": done.note,
            }
        columns = (hexadecimal(done.given), pa.array(done.swapped), pa.array(changed))
        for name, values in zip(DRAWN, columns, strict=True):
            table = table.append_column(column(name, draw), values)
        if pairs.alternatives.shape[1] > 1:
            came_from = pa.array(_caption_sources(pairs, done))
            table = table.append_column(column(SOURCE, draw), came_from)
        written_ids.append(done.written_ids)
        written.append(done.written)
    swapped, text_changed = zip(*by_draw, strict=True)
    if rate and len(table) and not any(text_changed):
        raise UserError(
            f"corrupt_captions: the scheme {scheme} at rate {rate:g} changes no caption of the "
            f"{len(pairs.table):,} pairs, so its arm would be that of rate 0. {done.note} Leave "
            "out this scheme or rate.".replace("  ", " ")
        )
    metadata |= {
        "draws": str(draws),
        "swapped_share_by_draw": json.dumps(swapped),
        "text_changed_share_by_draw": json.dumps(text_changed),
        "seed": str(seed),
        "pairs_fingerprint": pairs.fingerprint,
    }
    ids, first = np.unique(np.concatenate(written_ids), return_index=True)
    texts = pa.concat_arrays(written).take(pa.array(first))
    return table, pa.table({"caption_id": hexadecimal(ids), "caption": texts}), metadata


def corrupt(
    pairs: CaptionedPairs, scheme: str, rate: float, seed: int, sources: Sources
) -> Corrupted:
    """Apply a scheme at a rate in [0, 1]; at 0 nothing changes and nothing is read.

    Raises
    ------
    UserError
        If there is no such scheme or rate, or a table that the scheme needs is missing.
    """
    if scheme not in schemes():
        raise UserError(
            f"corrupt_captions.schemes: there is no {scheme!r}. Name {', '.join(schemes())}."
        )
    if not 0.0 <= rate <= 1.0:
        raise UserError(f"corrupt_captions.rates: {rate} is not from 0 to 1. Name shares of pairs.")
    if rate == 0:
        return Corrupted(pairs.caption_ids, np.zeros(len(pairs.caption_ids), bool))
    return application(scheme)(pairs, rate, seed, sources)


def _caption_sources(pairs: CaptionedPairs, done: Corrupted) -> np.ndarray:
    """Return the position of the pair that each pair's caption came from, (n,) int64.

    It is the pair itself where the text did not change, and `WRITTEN` where a scheme wrote it. A
    scheme that draws captions and not pairs (``similar``) names no pair: the source is the first
    pair, by key, that has the caption among its captions.
    """
    sources = np.arange(len(done.given), dtype=np.int64)
    changed = done.given != pairs.caption_ids
    sources[changed] = WRITTEN
    moved = changed & done.swapped
    if done.source is not None:
        sources[moved] = done.source[moved]
    elif moved.any():
        captions = pairs.alternatives.ravel()
        order = np.argsort(captions, kind="stable")
        first = order[np.searchsorted(captions, done.given[moved], sorter=order)]
        sources[moved] = first // pairs.alternatives.shape[1]
    return sources


# Measures of what a scheme changed: similarity of old and new captions, and how wrong they are.

MOST_PAIRS = 100_000
"""Largest number of changed pairs, drawn at random, for a mean similarity."""

MOST_CAPTIONS = 200_000
"""Largest number of distinct captions, drawn at random, for document frequencies."""


def sample(items: np.ndarray, most: int, generator: np.random.Generator) -> np.ndarray:
    """Return at most `most` of the items, drawn without replacement, in their own order."""
    if len(items) <= most:
        return items
    return np.asarray(items[np.sort(generator.permutation(len(items))[:most])])


def mean_similarity(
    pairs: CaptionedPairs, done: Corrupted, index: Mapping[str, Path], seed: int
) -> dict[str, str]:
    """Measure the similarity of captions before and after, over pairs whose text changed.

    The measure is the cosine of TF-IDF vectors for every scheme, so that schemes can be compared.
    It uses at most `MOST_PAIRS` changed pairs, and document frequencies of at most `MOST_CAPTIONS`
    distinct captions of the corpus, both drawn at random. Returns metadata: ``mean_similarity``
    ("nan" when no text changed), ``similarity_of``, and how many pairs and captions were used.
    """
    draw = seeds.generator(seed, STEP, "similarity")
    changed = np.flatnonzero(done.given != pairs.caption_ids)
    changed = sample(changed, MOST_PAIRS, draw)
    mean, background = float("nan"), np.zeros(0, np.uint64)
    if len(changed):
        original, given = pairs.caption_ids[changed], done.given[changed]
        background = sample(np.unique(pairs.caption_ids), MOST_CAPTIONS, draw)
        written = np.flatnonzero(np.isin(done.written_ids, given))
        new = done.written.take(pa.array(written)).to_pylist()
        texts = dict(zip(done.written_ids[written].tolist(), new, strict=True))
        old = given[~np.isin(given, done.written_ids)]
        texts |= read_texts(index.values(), np.concatenate([original, old, background]))
        before, after, corpus = (
            [texts[number] for number in part.tolist()] for part in (original, given, background)
        )
        mean = float(tfidf_similarities(before, after, corpus).mean())
    return {
        "mean_similarity": repr(mean),
        "similarity_of": MEASURE,
        "similarity_pairs": str(len(changed)),
        "similarity_captions": str(len(background)),
    }


def effective_shares(
    pairs: CaptionedPairs, done: Corrupted, index: Mapping[str, Path], truth: Sequence[Path]
) -> dict[str, float]:
    """Measure how wrong the captions of a scheme are, and how many different ones remain.

    Returns the counts of `variety`, and the shares of `effective_rate` where `truth` has the
    features of every picture.
    """
    counts: dict[str, float] = {**variety(done.given)}
    pictured = read_pictured_features(truth)
    keys = list(pairs.keys(np.arange(len(done.given)))) if pictured else []
    if not keys or not all(key in pictured for key in keys):
        return counts
    written = dict(zip(done.written_ids.tolist(), done.written.to_pylist(), strict=True))
    used = np.union1d(pairs.caption_ids, done.given)
    texts = written | read_texts(index.values(), used[~np.isin(used, done.written_ids)])
    named = named_codes([texts[number] for number in used.tolist()])
    before, after = (named[np.searchsorted(used, ids)] for ids in (pairs.caption_ids, done.given))
    pictures = codes([pictured[key] for key in keys])
    return counts | effective_rate(pictures, before, after, done.given != pairs.caption_ids)
