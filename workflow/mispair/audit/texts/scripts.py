"""The script of a text: which letters it is written in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
