"""Words and visible characters of texts in any script.

Some scripts have no blanks between words. Each of their letters counts as a word here, with the
marks that follow it: to find words needs a dictionary of the language.
"""

from __future__ import annotations

import re
import unicodedata

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u0f40-\u0fbc\u1000-\u109f\u1780-\u17df\u1950-\u19df\u1a20-\u1aaf"  # Tibetan to Tai Tham
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b\u3041-\u3096\u3099-\u312f"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9fe\uaa60-\uaa7f"
    "\uf900-\ufaff\uff66-\uff9f\U00016fe0-\U00018cff\U0001aff0-\U0001b2ff\U00020000-\U000323af"
)
"""Letters and marks of scripts without blanks between words: of South-East Asia, Tibetan, kana,
bopomofo and Chinese characters."""

_MARKS = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u3099\u309a\uff9e\uff9f"
_LETTER = f"[{_UNSPACED}][{_MARKS}]*"

TOKEN = rf"{_LETTER}|[^\W{_UNSPACED}]{{2,}}"
"""Regular expression of a word: two letters or digits or more, as scikit-learn counts words, or one
letter of a script without blanks."""

_HAS_LETTER = re.compile(_LETTER).search
_WORD = re.compile(rf"{_LETTER}|[^\W{_UNSPACED}]+")
_PIECE = re.compile(rf"\s*(?:{_LETTER}|[^\s{_UNSPACED}]+)\s*")

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
    return _PIECE.findall(text)


def count_words(text: str) -> int:
    """Count the words of a text between blanks; a letter of a script without blanks is one.

    Examples
    --------
    >>> count_words("a red cup."), count_words("红色的杯子。")
    (3, 5)
    """
    if text.isascii():
        return len(text.split())
    return sum(len(_WORD.findall(part)) if _HAS_LETTER(part) else 1 for part in text.split())


def is_blank(text: str) -> bool:
    r"""Return whether a text has no visible character.

    Examples
    --------
    >>> is_blank(" \u3164\u200b"), is_blank("\u3164a")
    (True, False)
    """
    return all(c.isspace() or unicodedata.category(c) in _UNSEEN for c in INVISIBLE.sub("", text))


_UNSEEN = frozenset(("Cc", "Cf"))
