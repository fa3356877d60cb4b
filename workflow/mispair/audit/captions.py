"""The captions of pairs: same words, most similar ones, and the script that they are written in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mispair.audit.pairs import first_places
from mispair.core.files import UserError
from mispair.pairs.index.books import read_columns
from mispair.pairs.index.identities import identities

NO_TEXT = "audit: a caption of the corpus has no text. Run gather_index again."


def bare_texts(texts: Any) -> Any:
    """Return pyarrow texts in lower case, with one blank for all that is no letter or digit."""
    bare = pc.utf8_lower(pc.replace_substring_regex(texts, r"[^\pL\pM\pN]+", " "))
    return pc.utf8_trim_whitespace(bare)


def caption_texts(texts: Sequence[Path], caption_ids: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """Return the distinct texts of captions, (t,) pyarrow, and which each caption has, (n,) int64.

    Parameters
    ----------
    texts : sequence of Path
        Tables of ``caption_id`` and ``caption``.
    caption_ids : (n,) uint64 array
        Identities of captions.

    Raises
    ------
    UserError
        If a caption has no text.
    """
    tables = [read_columns(path, ["caption_id", "caption"])[0] for path in texts]
    ids = [identities(table["caption_id"]) for table in tables]
    distinct, of_pair = np.unique(caption_ids, return_inverse=True)
    places = first_places(distinct, np.concatenate([np.zeros(0, np.uint64), *ids]))
    if (places < 0).any():
        raise UserError(NO_TEXT)
    chunks = [chunk for table in tables for chunk in table["caption"].chunks]
    every = pa.chunked_array([chunk.cast(pa.large_string()) for chunk in chunks], pa.large_string())
    return every.take(pa.array(places)).combine_chunks(), of_pair


def groups_of(texts: pa.Array) -> np.ndarray:
    """Return a number for each of t texts, the same for the same words, (t,) int64.

    Case, punctuation and spaces make no difference: such captions are right for the same pictures.
    """
    return np.asarray(bare_texts(texts).dictionary_encode().indices.to_numpy()).astype(np.int64)


def nearest_captions(similar: Path, caption_ids: np.ndarray) -> np.ndarray:
    """Return for each pair other pairs that have the most similar captions, best first.

    Parameters
    ----------
    similar : Path
        What find_similar_captions wrote.
    caption_ids : (n,) uint64 array
        Captions of the pairs.

    Returns
    -------
    (n, k) int64 array
        Positions of pairs; -1 where a caption has fewer neighbours.
    """
    table, _ = read_columns(similar, ["caption_id", "neighbour_ids"])
    ids = identities(table["caption_id"])
    lists = table["neighbour_ids"].combine_chunks()
    offsets = lists.offsets.to_numpy()
    flat = identities(lists.flatten())
    lengths = np.diff(offsets)
    columns = np.arange(int(lengths.max(initial=0)))
    at = np.minimum((offsets[:-1] - offsets[0])[:, None] + columns, max(len(flat) - 1, 0))
    by_caption = np.where(columns < lengths[:, None], first_places(flat, caption_ids)[at], -1)
    row = first_places(caption_ids, ids)
    return np.where((row >= 0)[:, None], by_caption[row], -1)


# The script of a text: which letters it is written in.

FIELDS = "group_"
"""What names of columns of groups begin with, in the table of pairs."""


SCRIPT = f"{FIELDS}script"

LATIN, NO_LETTERS = "Latin", "no letters"

SCRIPTS = {
    "Japanese": r"[\p{Hiragana}\p{Katakana}]",
    "Han": r"\p{Han}",
    **{name: rf"\p{{{name}}}" for name in (
        "Cyrillic", "Arabic", "Hangul", "Devanagari", "Thai", "Greek", "Hebrew", "Bengali",
        "Tamil", "Telugu", "Gujarati", "Gurmukhi", "Kannada", "Malayalam", "Sinhala", "Khmer",
        "Lao", "Myanmar", "Tibetan", "Georgian", "Armenian", "Ethiopic", "Mongolian",
    )},
    "another": r"\pL",
}  # fmt: skip
"""Letters of each script, in RE2's words; kana make Han Japanese."""

KANA_SHARE = 0.1
"""Kana to Han letters from which a text is Japanese."""


def scripts_of(texts: Any) -> np.ndarray:
    """Return the script that most letters of each text are of, (t,) array of str.

    Parameters
    ----------
    texts : (t,) pyarrow array of str
        Most are tested by their length in bytes alone: what has no letter beyond ASCII is Latin.

    Examples
    --------
    >>> scripts_of(pa.array(["a dog", "собака", "犬が走る", "一只狗", "12"])).tolist()
    ['Latin', 'Cyrillic', 'Japanese', 'Han', 'no letters']
    """
    found = np.full(len(texts), LATIN, object)
    latin = _counts(texts, r"\p{Latin}")
    found[latin == 0] = NO_LETTERS
    wide = np.asarray(pc.not_equal(pc.binary_length(texts), pc.utf8_length(texts)).to_numpy(False))
    places = np.flatnonzero(wide.astype(bool))
    some = texts.take(pa.array(places))
    counts = {name: _counts(some, pattern) for name, pattern in SCRIPTS.items()}
    total = counts["another"]
    known = np.sum([of for name, of in counts.items() if name != "another"], axis=0, dtype=int)
    counts["another"] = total - known - latin[places]
    kana = counts["Japanese"]
    together = kana + counts["Han"]
    japanese = (kana > KANA_SHARE * counts["Han"]) & (kana > 0)
    counts["Japanese"] = np.where(japanese, together, 0)
    counts["Han"] = np.where(japanese, 0, together)
    names = [LATIN, *counts]
    table = np.stack([latin[places], *counts.values()])
    best = np.array(names, object)[table.argmax(axis=0)]
    found[places] = np.where(total > 0, best, NO_LETTERS)
    return found


def _counts(texts: Any, pattern: str) -> np.ndarray:
    counts = pc.count_substring_regex(texts, pattern)
    return np.asarray(counts.to_numpy(zero_copy_only=False)).astype(np.int64)
