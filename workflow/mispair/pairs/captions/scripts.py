"""Words and visible characters of texts in any script.

Some scripts have no blanks between words. Each of their letters counts as a word here, with the
marks that follow it: to find words needs a dictionary of the language.
"""

import re
import unicodedata
from itertools import groupby

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f40-\u0fbc\u1000-\u109f\u1780-\u17df\u1950-\u19df\u1a20-\u1aaf"  # Tibetan to Tai Tham
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u3096\u3099-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9fe\uaa60-\uaa7f"
    "\uf900-\ufaff\uff66-\uff9f\U00016fe0-\U00018cff\U0001aff0-\U0001b2ff\U00020000-\U000323af"
)
"""Letters and marks of scripts without blanks between words: of South-East Asia, Tibetan, kana,
bopomofo and Chinese characters."""

_POINTS = [c for c in range(0x300, 0xFE30) if unicodedata.category(chr(c)).startswith("M")]
_RUNS = [[c for _, c in run] for _, run in groupby(enumerate(_POINTS), lambda of: of[1] - of[0])]
_MARKS = "\uff9e\uff9f" + "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in _RUNS)
"""Vowel signs, accents, points and tones: Python's ``\\w`` has none of them."""

_LETTER = f"[{_UNSPACED}](?:[\u1039\u17d2][{_UNSPACED}]|[{_MARKS}])*"
"""A letter with its marks; of Burmese and Khmer with the letters that are stacked below it."""

_SPACED = rf"[^\W{_UNSPACED}]"

TOKEN = (
    rf"{_LETTER}|{_SPACED}{{2,}}(?:[{_MARKS}]+{_SPACED}*)*|"
    rf"{_SPACED}(?:[{_MARKS}]+{_SPACED}+)+[{_MARKS}]*"
)
"""Regular expression of a word: two letters or digits or more, as scikit-learn counts words, with
their marks, or one letter of a script without blanks."""

_HAS_LETTER = re.compile(f"[{_UNSPACED}]").search
_WORD = rf"{_LETTER}|{_SPACED}+(?:[{_MARKS}]+{_SPACED}*)*"
_PIECE = rf"\s*(?:{_LETTER}|[^\s{_UNSPACED}]+)\s*"

INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that Unicode has without ink (Default_Ignorable_Code_Point) outside its category of
format characters, and the empty pattern of Braille."""


def pieces(text: str) -> list[str]:
    """Cut a text into words, each with the white space and the marks around it.

    Examples
    --------
    >>> pieces("a red cup, on it"), pieces("红色 mug")
    (['a ', 'red ', 'cup, ', 'on ', 'it'], ['红', '色 ', 'mug'])
    """
    return re.findall(_PIECE, text)


def count_words(text: str) -> int:
    """Count the words of a text between blanks; a letter of a script without blanks is one.

    Examples
    --------
    >>> count_words("a red cup."), count_words("红色的杯子。")
    (3, 5)
    """
    if text.isascii():
        return len(text.split())
    return sum(len(re.findall(_WORD, part)) if _HAS_LETTER(part) else 1 for part in text.split())


def is_blank(text: str) -> bool:
    r"""Return whether a text has no visible character.

    Examples
    --------
    >>> is_blank(" \u3164\u200b"), is_blank("\u3164a")
    (True, False)
    """
    return all(c.isspace() or unicodedata.category(c) in _UNSEEN for c in INVISIBLE.sub("", text))


_UNSEEN = frozenset(("Cc", "Cf"))
