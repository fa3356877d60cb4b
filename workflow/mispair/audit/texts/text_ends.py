"""Which texts are cut off: by their last sign or word, or at a length that many texts share."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ELLIPSIS = r"""(?:\.{2,}|…|⋯|。。)[\s"'”’»)\]]*$"""
OPEN = r"[,;:\-–—{&/、，：；「『]\s*$|[(\[（][^)\]）]*$"
CLOSED = r"""[.!?。！？।։؟][\s"'”’»)\]]*$"""
"""Texts that end in an ellipsis, in an open sign or bracket, and in the sign of a sentence."""

JOINING = (
    "a an the and or of with into their my your its "
    "ein eine einen einem einer der den dem und oder mit von zum zur im "
    "le les un une et avec dans sur au aux el los las del y con il gli nel della um uma com"
)
"""Words that hardly ever end a text, in lower case, where a corpus is too small to learn them."""

LEAST_TEXTS = 200
"""Texts from which ends of texts are learned, at least."""

SAMPLE = 200_000
"""Texts from which they are learned, at most."""

NEVER, SELDOM = 0.02, 0.3
"""How often words that never, and seldom, end a text do so, in relation to an average word."""

MOST_CLOSED, MOST_SELDOM = 0.5, 0.5
"""Share of texts with the sign of an end, and of seldom ends at one length, that are most."""

LEAST_ENDS = 50
"""Ends that an average word as frequent as one that never ends a text would have."""

PEAK, LEAST_PEAK = 1.5, 10
"""Texts of one length over those of lengths near it, and texts of one length, at least."""

DEVIATIONS = 4.0
"""Standard deviations of a count by which a peak is above lengths near it, at least."""

LEAST_SELDOM, MORE_SELDOM = 0.1, 3.0
"""Share of texts of one length that end in a seldom end: at least, and in relation to others."""


def cut_off(raw: Any, bare: Any) -> np.ndarray:
    """Return which texts are cut off, (t,) bool.

    These are texts that end in an ellipsis, an open sign or a word that joins others, or in a word
    that never ends other texts of the corpus. Of a length that is a peak among all lengths, where
    many texts end in words that other texts seldom end with, texts without the sign of an end are
    cut off: all, if they are most or the corpus has such signs; or those that end in words that
    usually end no text. The last two rules need blanks between words.

    Parameters
    ----------
    raw, bare : (t,) pyarrow arrays of str
        Distinct texts, and the same in lower case without signs.
    """
    joining = rf"(?:^|\s)(?:{'|'.join(JOINING.split())})\s*$"
    by_sign = _met(raw, ELLIPSIS) | _met(raw, OPEN) | _met(raw, joining)
    if len(raw) < LEAST_TEXTS:
        return by_sign
    closed = _met(raw, CLOSED)
    letters = _numbers(pc.utf8_length(raw))
    longest, peaks = letters.max(), [_peaks(_numbers(pc.count_substring(bare, " ")))]
    peaks.append(_peaks(letters))
    at_peak = np.any([lengths > 0 for lengths in peaks], axis=0)
    by_stops = bool(closed.mean() >= MOST_CLOSED)
    never, seldom, usual_end = _ends(bare, closed if by_stops else ~at_peak)
    found = by_sign | (never & ~closed)
    seldom |= by_sign
    others = (seldom & ~closed)[~at_peak]
    usual = float(others.mean()) if len(others) else 0.0
    for lengths in peaks:
        for length in np.unique(lengths[lengths > 0]):
            members = (lengths == length) & ~closed
            share = seldom[members].mean() if members.sum() >= LEAST_PEAK else 0.0
            if share >= max(LEAST_SELDOM, MORE_SELDOM * usual):
                # Most texts are of this many letters, and none is longer: there is a limit.
                limit = lengths is peaks[1] and members.mean() >= 0.5 and length > longest
                found |= members & (by_stops | limit | (share >= MOST_SELDOM) | ~usual_end)
    return found


def _ends(bare: Any, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which texts end in a word that never, seldom and usually ends those of reference.

    The beginning of a word of the reference, which is no word itself, seldom ends a text; any other
    word that the reference does not have ends it usually.

    Parameters
    ----------
    bare : (t,) pyarrow array of str
        Texts in lower case without signs.
    reference : (t,) bool array
        Texts that are not cut off, most of them.
    """
    places = np.flatnonzero(reference)
    places = places[:: max(1, len(places) // SAMPLE)]
    lists = pc.utf8_split_whitespace(bare.take(pa.array(places)))
    encoded = lists.flatten().dictionary_encode()
    words, codes = encoded.dictionary, encoded.indices.to_numpy()
    offsets = lists.offsets.to_numpy() - lists.offsets[0].as_py()
    total = np.bincount(codes, minlength=len(words))
    ends = np.bincount(codes[offsets[1:] - 1], minlength=len(words)) if len(codes) else total
    of_average = total * (len(places) / max(len(codes), 1))
    rate = np.append(ends / np.maximum(of_average, 1e-9), 1.0)
    learned = np.append(of_average >= LEAST_ENDS, False)
    last = pc.replace_substring_regex(bare, r"^.*\s", "").dictionary_encode()
    place = pc.fill_null(pc.index_in(last.dictionary, value_set=words), len(words)).to_numpy()
    unknown = place == len(words)
    part = np.zeros(len(place), bool)
    part[unknown] = _parts(last.dictionary.filter(pa.array(unknown)).to_pylist(), words)
    of_text = last.indices.to_numpy()
    never = learned[place] & (rate[place] < NEVER)
    seldom = part | ((rate[place] < SELDOM) & ~unknown)
    return never[of_text], seldom[of_text], ((rate[place] >= 1) & ~part)[of_text]


def _parts(fragments: list[str], words: Any) -> list[bool]:
    """Return whether each fragment, of letters, is the beginning of a word."""
    ordered = sorted(words.to_pylist())
    places = [bisect_left(ordered, fragment) for fragment in fragments]
    return [
        fragment.isalpha() and place < len(ordered) and ordered[place].startswith(fragment)
        for fragment, place in zip(fragments, places, strict=True)
    ]


def _met(texts: Any, pattern: str) -> np.ndarray:
    met = pc.match_substring_regex(texts, pattern)
    return np.asarray(met.to_numpy(zero_copy_only=False)).astype(bool)


def _numbers(values: Any) -> np.ndarray:
    return np.asarray(values.to_numpy(zero_copy_only=False)).astype(np.int64)


def _peaks(lengths: np.ndarray) -> np.ndarray:
    """Return 1 + the length of each text whose length is a peak, and 0 for others; (t,) int."""
    counts = np.bincount(lengths)
    padded = np.pad(counts, 2).astype(float)
    near = (padded[:-4] + padded[1:-3] + padded[3:-1] + padded[4:]) / 4
    chance = DEVIATIONS * np.sqrt(near)
    peak = (counts >= LEAST_PEAK) & (counts >= PEAK * near) & (counts >= near + chance)
    return np.where(peak[lengths], lengths + 1, 0)
