"""The schemes of corruption by name, each applied to a whole corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.pairs.captions.caption_texts import (
    CaptionedPairs,
    read_named_features,
    read_pictured_features,
    read_texts,
)
from mispair.pairs.captions.wording import Reworded, leave_out_words, reword_features
from mispair.pairs.corruption.corruption import choose_pairs, draw_neighbours, shuffle_captions
from mispair.pairs.corruption.effective_rate import effective_rate, named_codes, variety
from mispair.pairs.corruption.key_draws import streams
from mispair.pairs.corruption.mutual_swaps import MOST_PAIRS as MOST_SWAPPED
from mispair.pairs.corruption.mutual_swaps import mutual_tfidf, swap_similar
from mispair.pairs.index.index import caption_id
from mispair.pairs.neighbours.similar_captions import read_similar
from mispair.pairs.neighbours.tfidf import MEASURE, tfidf_similarities
from mispair.pairs.scenes.scene_captions import read_caption
from mispair.pairs.scenes.scene_features import FEATURES, codes, spurious_partners

STEP = "corrupt-captions"

MOST_PAIRS = 100_000
"""Largest number of changed pairs, drawn at random, for a mean similarity."""

MOST_CAPTIONS = 200_000
"""Largest number of distinct captions, drawn at random, for document frequencies."""


@dataclass(frozen=True)
class Sources:
    """Files that the schemes read; each scheme reads only what it needs.

    Attributes
    ----------
    index : mapping of str to Path
        The index of each group: the captions' texts.
    similar, truth : sequence of Path
        The table of most similar captions; the tables of features of pictures and captions.
    """

    index: Mapping[str, Path]
    similar: Sequence[Path] = ()
    truth: Sequence[Path] = ()


@dataclass(frozen=True)
class Corrupted:
    """The result of a scheme for n pairs.

    Attributes
    ----------
    given : (n,) uint64 array
        Identity of the caption that each pair has now.
    swapped : (n,) bool array
        Whether it is the caption of another pair.
    shares : dict of str to str
        Metadata that only some schemes have.
    note : str
        Why the nominal rate was not reached, in one sentence, or "".
    written_ids : (c,) uint64 array
        Identities of texts that no pair had before, sorted.
    written : pyarrow.LargeStringArray
        Those texts.
    source : (n,) int64 array, optional
        Position of the pair whose caption each pair has now; None where a scheme draws captions
        and not pairs.
    """

    given: np.ndarray
    swapped: np.ndarray
    shares: dict[str, str] = field(default_factory=dict)
    note: str = ""
    written_ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))
    written: pa.LargeStringArray = field(default_factory=lambda: pa.array([], pa.large_string()))
    source: np.ndarray | None = None


def corrupt(
    pairs: CaptionedPairs, scheme: str, rate: float, seed: int, sources: Sources
) -> Corrupted:
    """Apply a scheme at a rate in [0, 1]; at 0 nothing changes and nothing is read.

    Raises
    ------
    UserError
        If there is no such scheme or rate, or a table that the scheme needs is missing.
    """
    if scheme not in _SCHEMES:
        raise UserError(
            f"corrupt_captions: there is no scheme {scheme!r}; there are {', '.join(_SCHEMES)}."
        )
    if not 0.0 <= rate <= 1.0:
        raise UserError(f"corrupt_captions: rate {rate} is outside 0 to 1.")
    if rate == 0:
        return Corrupted(pairs.caption_ids, np.zeros(len(pairs.caption_ids), bool))
    return _SCHEMES[scheme](pairs, rate, seed, sources)


def _subset(seed: int) -> np.random.Generator:
    # One name for `random` and `similar`: they corrupt the same pairs.
    return seeds.generator(seed, STEP, "random")


def _random(pairs: CaptionedPairs, rate: float, seed: int, sources: Sources) -> Corrupted:
    original = pairs.caption_ids
    positions = np.arange(len(original))  # pairs are sorted by key
    try:
        source = shuffle_captions(positions, rate, _subset(seed), original)
    except ValueError as error:
        raise UserError(f"corrupt_captions: {error}.") from error
    given, swapped = original[source], source != positions
    rounding = _rounding(int(swapped.sum()), len(original), rate)
    if not (same := int((given[swapped] == original[swapped]).sum())):
        return Corrupted(given, swapped, note=rounding, source=source)
    captions, times = np.unique(original[swapped], return_counts=True)
    commonest = captions[[times.argmax()]]
    text = read_texts(sources.index.values(), commonest)[int(commonest[0])]
    note = (
        f"{same:,} of the {swapped.sum():,} chosen pairs got another pair's caption with their own "
        f"text, because {times.max():,} of them, more than half, have the caption {text[:80]!r}."
    )
    return Corrupted(given, swapped, note=f"{note} {rounding}".strip(), source=source)


def _similar(pairs: CaptionedPairs, rate: float, seed: int, sources: Sources) -> Corrupted:
    if len(sources.similar) != 1:
        raise UserError(
            "corrupt_captions: the scheme similar needs the table of most similar captions that "
            "find_similar_captions writes; give one with --similar."
        )
    chosen = np.sort(choose_pairs(np.arange(len(pairs.caption_ids)), rate, _subset(seed)))
    original = pairs.caption_ids[chosen]
    drawn, similarity = draw_neighbours(
        read_similar(sources.similar[0]),
        original,
        pairs.alternatives[chosen],
        streams(pairs.keys(chosen), seed, STEP, "similar"),
    )
    given = pairs.caption_ids.copy()
    given[chosen] = drawn
    swapped = np.zeros(len(given), bool)
    swapped[chosen] = drawn != original
    alone = int((drawn == original).sum())
    rounding = _rounding(len(chosen), len(given), rate)
    note = (
        f"{alone:,} of the {len(chosen):,} chosen pairs keep their caption, because no other "
        "caption is similar to it."
    )
    mean = float(np.nanmean(similarity)) if alone < len(chosen) else float("nan")
    shares = {"neighbour_similarity": repr(mean), "without_neighbours": str(alone)}
    return Corrupted(given, swapped, shares, f"{note if alone else ''} {rounding}".strip())


def _similar_swap(pairs: CaptionedPairs, rate: float, seed: int, sources: Sources) -> Corrupted:
    original = pairs.caption_ids
    if len(original) > MOST_SWAPPED:
        raise UserError(
            f"corrupt_captions: the scheme similar-swap compares all pairs with each other, which "
            f"takes days for {len(original):,}; it is for at most {MOST_SWAPPED:,}. Use the scheme "
            "similar instead."
        )
    texts = read_texts(sources.index.values(), original)
    vectors = mutual_tfidf([texts[number] for number in original.tolist()])

    def equal(pair: int) -> np.ndarray:
        mine = (pairs.alternatives == original[pair]).any(axis=1)
        return np.asarray(mine | np.isin(original, pairs.alternatives[pair]))

    done = swap_similar(vectors, rate, seeds.generator(seed, STEP, "similar-swap"), equal)
    swapped = done.source != np.arange(len(original))
    mean = float(done.similarity.mean()) if len(done.similarity) else float("nan")
    short = int(2 * round(rate * len(original) / 2) - swapped.sum())
    note = (
        f"{short:,} pairs fewer than wanted are swapped, because all remaining pairs have the "
        "same caption."
    )
    rounding = _rounding(int(swapped.sum()), len(original), rate)
    return Corrupted(
        original[done.source], swapped, {"neighbour_similarity": repr(mean)},
        note if short else rounding, source=done.source,
    )  # fmt: skip


def _rounding(chosen: int, pairs: int, rate: float) -> str:
    """Return a note if the chosen share is more than 0.005 from the rate, else an empty text."""
    if not pairs or abs(chosen / pairs - rate) <= 0.005:
        return ""
    return f"{chosen} of {pairs} pairs is the whole number of pairs nearest to {rate:g}."


_EDITS: dict[str, Callable[..., Reworded]] = {
    "missing": partial(reword_features, partners=dict.fromkeys(FEATURES)),
    "spurious": reword_features,
    "drop": leave_out_words,
}
_SPARED = {
    "missing": "",
    "spurious": (
        "{spared:,} of the {total:,} named features were drawn and stay, because their kind has no "
        "other value."
    ),
    "drop": "{spared:,} captions keep one content word, because all of theirs were drawn.",
}


def _reworded(
    scheme: str, pairs: CaptionedPairs, rate: float, seed: int, sources: Sources
) -> Corrupted:
    """Reword the caption of every pair, one group of shards at a time."""
    edit = partial(_EDITS[scheme], rate=rate)
    if scheme == "spurious":
        edit = partial(edit, partners=spurious_partners(seed))
    truth = None if scheme == "drop" else read_named_features(sources.truth)
    given = pairs.caption_ids.copy()
    ids, texts = [np.zeros(0, np.uint64)], [pa.array([], pa.large_string())]
    total = changed = spared = 0
    for group, rows in pairs.by_group():
        if group not in sources.index:
            raise UserError(f"corrupt_captions: the index of group {group} is missing.")
        originals = read_texts([sources.index[group]], given[rows])
        captions = [originals[number] for number in given[rows].tolist()]
        keys = list(pairs.keys(rows))
        if truth is not None:
            _check(keys, captions, truth)
        new = edit(captions, streams(keys, seed, STEP, scheme))
        total, changed, spared = total + new.total, changed + new.changed, spared + new.spared
        edited = [i for i, text in enumerate(new.captions) if text != captions[i]]
        new_texts = dict.fromkeys(new.captions[i] for i in edited)
        distinct = {text: int(caption_id(text), 16) for text in new_texts}
        given[rows[edited]] = [distinct[new.captions[i]] for i in edited]
        ids.append(np.fromiter(distinct.values(), np.uint64, len(distinct)))
        texts.append(pa.array(list(distinct), pa.large_string()))
    written_ids, first = np.unique(np.concatenate(ids), return_index=True)
    fresh = ~np.isin(written_ids, pairs.alternatives)
    share = "words_dropped_share" if scheme == "drop" else "features_changed_share"
    return Corrupted(
        given,
        np.zeros(len(given), bool),
        {share: repr(changed / max(total, 1))},
        _SPARED[scheme].format(spared=spared, total=total) if spared else "",
        written_ids[fresh],
        pa.concat_arrays(texts).take(pa.array(first[fresh])),
    )


def _check(keys: Iterable[str], captions: Iterable[str], truth: Mapping[str, list[str]]) -> None:
    for key, caption in zip(keys, captions, strict=True):
        if key not in truth:
            raise UserError(
                f"corrupt_captions: the ground truth has no features for the key {key!r}. Give the "
                "Parquet tables that were written with the shards."
            )
        if sorted(truth[key]) != sorted(named := read_caption(caption)):
            raise UserError(
                f"corrupt_captions: the caption {caption!r} of {key!r} names "
                f"{', '.join(named) or 'no feature'}, but its ground truth is "
                f"{', '.join(truth[key]) or 'no feature'}. The schemes spurious and missing change "
                "the sentences that make_scenes writes; keep those, or leave the schemes out."
            )


_SCHEMES: dict[str, Callable[[CaptionedPairs, float, int, Sources], Corrupted]] = {
    "random": _random,
    "similar": _similar,
    "similar-swap": _similar_swap,
    **{scheme: partial(_reworded, scheme) for scheme in _EDITS},
}


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
