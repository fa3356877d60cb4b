"""Measures of what a scheme changed: similarity of old and new captions, and how wrong they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from mispair.core import seeds
from mispair.pairs.captions.caption_texts import (
    CaptionedPairs,
    read_pictured_features,
    read_texts,
)
from mispair.pairs.corruption.corrupted import STEP, Corrupted
from mispair.pairs.corruption.effective_rate import effective_rate, named_codes, variety
from mispair.pairs.neighbours.tfidf import MEASURE, tfidf_similarities
from mispair.pairs.scenes.scene_captions import codes

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
