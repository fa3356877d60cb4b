"""Conspicuous texts, found by simple checks of the text alone.

Most describe no picture, or not only one. A model ranks them like captions of other pictures, or
like those of similar ones, so the audit counts them apart. Patterns are those of RE2, whose time
is linear in the text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mispair.audit.captions import bare_texts
from mispair.core.metrics import Row

# Which texts are cut off: by their last sign or word, or at a length that many texts share.

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


LEAST_WORDS = 3
"""A text of fewer words is short."""

MANY_PAIRS = 5
"""A text of as many pairs is repeated."""

LETTERS_OF_A_WORD = {r"[\p{Han}\p{Hiragana}\p{Katakana}]": 2,
                     r"[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}]": 5}  # fmt: skip
"""Letters that are counted as one word, in scripts without blanks between words."""

EXAMPLES, LONGEST = 3, 60
"""Examples of each check in the results, and their characters at most."""

ADDRESS = (
    r"(?i)(?:https?|ftp)://\S*|\bwww\.[\w-]+\.\S*|[\w.+-]+@[\w-]+\.[a-z]{2,}|"
    r"\b(?:[\w-]+\.)+(?:com|net|org|edu|gov|info|biz|io|co|eu|uk|de|fr|es|it|nl|pl|ru|jp|cn|br)"
    r"(?:/\S*|\b)"
)
MARKUP = (
    r"(?i)</?[a-z!][^<>]*>|&(?:[a-z]{2,8}|#x?[0-9a-f]{1,6});|\[\[|\{\{|\{%|<\||\]\(\S|"
    r"""\\u[0-9a-f]{4}|%[0-9a-f]{2}%[0-9a-f]{2}|^\s*[\[{]\s*["']|\[/?(?:img|url|b|i|caption)\b|"""
    # Bytes as Python prints them, and UTF-8 that was read in another encoding.
    r"""^\s*b(?:'.*'|".*")\s*$|\x{FFFD}|[ÂÃ][\x{A0}-\x{BF}]|â€[™œ\x{9D}˜¦“”]"""
)
FILE_NAME = "|".join(
    (
        r"(?i)\.(?:jpe?g|png|gif|webp|bmp|tiff?|svg|hei[cf]|avif|ico|eps|psd|raw|cr2|nef|arw|dng|"
        r"mp4|mov|avi|webm|pdf|docx?|pptx?|xlsx?|txt|html?|php|aspx?)[^\pL\pN]*$",
        r"^\s*(?:img|imag|image|dscn?|dscf|pict?|picture|photo|foto|bild|gopr|mvi|vid|pxl|cimg|sam|"
        r"wp|scan|screen ?shot|whatsapp (?:image|video))[\s_-]*[0-9][0-9\s_.:()-]*"
        r"(?:(?:at|am|pm|copy|edit\w*|final|web|small|large|scaled|[0-9\s_.:()-]+)*)$",
        r"^\s*[^\s_]*_\S*$",
        r"^\s*[\pL\pN]+(?:-[\pL\pN]+){2,}\s*$",
        r"^\s*(?:[a-z]:\\|\\\\|~?/|\.\.?/)\S+$",
        r"^\s*[^\s/]+(?:/[^\s/]+){2,}\s*$",
    )
)
NO_WORDS = r"^(?:\s*(?:[\x21-\x7e]*[0-9][\x21-\x7e]*|[#@]\S+|[^\pL\s]+)(?:\s|$))*$"

PLACEHOLDERS = frozenset(
    """
    untitled|unnamed|null|none|nan|nil|n a|na|undefined|missing|empty|blank|unknown|default
    void|image|images|img|photo|photos|photograph|picture|pictures|pic|pics|thumbnail|thumb
    icon|logo|banner|avatar|placeholder|image placeholder|caption|captions|no caption|title
    no title|alt|alt text|no alt text|description|no description|no description available
    no image|no image available|image not available|image not found|image unavailable
    photo unavailable|no photo|no photo available|no picture|not available|not found|loading
    test|todo|tbd|tba|stock photo|stock image|product image|featured image|profile picture
    main image|header image|cover image|default image|click to enlarge|click to view
    view larger image|read more|error|404|lorem ipsum|true|false|a photo|a picture|an image
    the image|this image|this picture|ohne titel|unbenannt|kein titel|bild|bilder|foto|fotos
    ohne beschreibung|beschreibung|sans titre|sans nom|aucune description|aucune image|légende
    sin título|sin titulo|sin nombre|imagen|imágenes|sin descripción|senza titolo|immagine
    foto senza titolo|sem título|sem titulo|imagem|zonder titel|afbeelding|bez tytułu|zdjęcie
    obraz|без названия|изображение|фото|картинка|无标题|無標題|未命名|图片|圖片|照片|图像|無題
    画像|写真|イメージ|사진|이미지|제목 없음
    """.replace("\n    ", "|").split("|")
) - {""}


@dataclass(frozen=True)
class Texts:
    """The t distinct texts of a corpus.

    Attributes
    ----------
    raw, bare : (t,) pyarrow arrays of str
        As they are, and in lower case without signs (`bare_texts`).
    pairs : (t,) int array
        Pairs that have the text, or one with the same words.
    """

    raw: pa.Array
    bare: pa.Array
    pairs: np.ndarray

    @classmethod
    def of(cls, raw: pa.Array, pairs: np.ndarray) -> Texts:
        """Count texts of the same words together; `pairs` (t,) are those of each text itself."""
        bare = bare_texts(raw)
        codes = bare.dictionary_encode().indices.to_numpy()
        return cls(raw, bare, np.bincount(codes, weights=pairs)[codes].astype(np.int64))


@dataclass(frozen=True)
class Check:
    """A check: its name in results, its label in the report, and which texts meet it."""

    name: str
    label: str
    met: Callable[[Texts], np.ndarray]


def word_counts(texts: Any) -> np.ndarray:
    """Return the number of words of each text, (t,) int64.

    In scripts without blanks, `LETTERS_OF_A_WORD` letters are a word.

    Examples
    --------
    >>> word_counts(pa.array(["A dog.", "three word text", "一只狗", "桌子上有一个红色的圆形"]))
    array([2, 3, 2, 6])
    """
    words = np.zeros(len(texts), np.int64)
    for letters, of_a_word in LETTERS_OF_A_WORD.items():
        words += -(-_array(pc.count_substring_regex(texts, letters)) // of_a_word)
        texts = pc.replace_substring_regex(texts, letters, " ")
    word = r"[\pL\pM\pN]+(?:['’-][\pL\pM\pN]+)*"
    return words + _array(pc.count_substring_regex(texts, word))


def _array(values: Any) -> np.ndarray:
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _matches(pattern: str) -> Callable[[Texts], np.ndarray]:
    def met(texts: Texts) -> np.ndarray:
        return _array(pc.match_substring_regex(texts.raw, pattern)).astype(bool)

    return met


def _addresses(texts: Texts) -> np.ndarray:
    """Return which texts have an address and too few words next to it."""
    met = _matches(ADDRESS)(texts)
    rest = pc.replace_substring_regex(texts.raw.filter(pa.array(met)), ADDRESS, " ")
    met[met] = word_counts(rest) < LEAST_WORDS
    return met


def _placeholders(texts: Texts) -> np.ndarray:
    name = pc.replace_substring_regex(texts.bare, r" ?[0-9]+(?: of [0-9]+)?$", "")
    known = pa.array(sorted(PLACEHOLDERS), texts.bare.type)
    return _array(pc.is_in(name, value_set=known)).astype(bool)


CHECKS = (
    Check("placeholder", "placeholder, such as “untitled”", _placeholders),
    Check("address", "address of a web page or mailbox", _addresses),
    Check("file name", "name of a file", _matches(FILE_NAME)),
    Check("no words", "numbers, identifiers or signs only", _matches(NO_WORDS)),
    Check("markup", "markup or escape codes in the text", _matches(MARKUP)),
    Check("short", f"fewer than {LEAST_WORDS} words",
          lambda texts: word_counts(texts.raw) < LEAST_WORDS),
    Check("cut off", "cut off", lambda texts: cut_off(texts.raw, texts.bare)),
    Check("repeated", f"the same words for {MANY_PAIRS} pairs or more",
          lambda texts: texts.pairs >= MANY_PAIRS),
)  # fmt: skip
"""Each text counts at the first check that it meets."""

LABELS = {check.name: check.label for check in CHECKS}


def is_empty(names: np.ndarray) -> np.ndarray:
    """Return which texts are likely to describe nothing, by the check that each meets; (t,) bool.

    Texts of many pairs are not among them, as the name of a class is right for many pictures.
    """
    return (names != "") & (names != "repeated")


def checked(texts: pa.Array, pairs: np.ndarray) -> np.ndarray:
    """Return the name of the first of `CHECKS` that each text meets, (t,) array of str, or "".

    Parameters
    ----------
    texts : (t,) pyarrow array of str
        Distinct texts.
    pairs : (t,) int array
        Pairs that have each text.
    """
    first = np.full(len(texts), "", object)
    every = Texts.of(texts, pairs)
    for check in CHECKS:
        first[check.met(every) & (first == "")] = check.name
    return first


def check_rows(texts: pa.Array, pairs: np.ndarray, names: np.ndarray) -> list[Row]:
    """Return how many pairs meet each check, and examples: the texts of most pairs first.

    Parameters
    ----------
    texts, pairs : (t,) arrays
        As `checked` takes them.
    names : (t,) array of str
        From `checked`.
    """
    rows: list[Row] = []
    n = int(pairs.sum())
    for name in LABELS:
        members = np.flatnonzero(names == name)
        rows.append(
            {"metric": "text_check", "word": name, "value": int(pairs[members].sum()), "n": n}
        )
        shown = members[np.argsort(-pairs[members], kind="stable")[:EXAMPLES]]
        rows += [
            {"metric": "text_example", "word": name, "text": shortened(texts[place].as_py()),
             "value": int(pairs[place]), "n": n}
            for place in shown.tolist()
        ]  # fmt: skip
    return rows


def shortened(text: str) -> str:
    """Return a text on one line, without what cannot be printed, and not too long."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
