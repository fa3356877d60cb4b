"""What makes a generated caption unusable: a closed set of reasons, and how each is recognised."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from mispair.pairs.captions.scripts import INVISIBLE

EMPTY = "empty"
REPEATS_ITSELF = "repeats-itself"
CUT_OFF = "cut-off"
SAME_FOR_MANY = "same-for-many-pictures"
TOO_LONG = "too-long"
FAILED = "captioner-failed"

REASONS = (EMPTY, REPEATS_ITSELF, CUT_OFF, SAME_FOR_MANY, TOO_LONG, FAILED)
"""All reasons in a table of captions for a picture without a caption."""

COPIES = 3
"""Number of copies of a phrase in a row at which a caption repeats itself."""

FEWEST_ALIKE = 10
"""Number of pictures that may have the same caption, however few pictures there are."""


class Draft(NamedTuple):
    """A caption as a captioner wrote it."""

    text: str
    is_cut: bool = False
    """Whether the captioner ran out of room before the caption ended."""


class Caption(NamedTuple):
    """A caption that was checked; one that has a reason is not used."""

    text: str
    reason: str | None = None


def check(draft: Draft, max_words: int) -> Caption:
    r"""Return a draft as a clean caption, with the reason if it is unusable.

    Examples
    --------
    >>> check(Draft(" a\tred\x00 star "), 10)
    Caption(text='a red star', reason=None)
    >>> check(Draft("a red red red red"), 10).reason, check(Draft("\n"), 10).reason
    ('repeats-itself', 'empty')
    """
    text = clean(draft.text)
    words = text.split()
    if not any(character.isalnum() for character in INVISIBLE.sub("", text)):
        reason = EMPTY
    elif repeats_itself(words):
        reason = REPEATS_ITSELF
    elif draft.is_cut:
        reason = CUT_OFF
    elif len(words) > max_words:
        reason = TOO_LONG
    else:
        return Caption(text)
    return Caption(text, reason)


def clean(text: str) -> str:
    """Return a text on one line, without control characters and halves of characters.

    Characters in Unicode's categories of controls, surrogates, private use and unassigned
    characters become spaces, and so does the mark of an undecodable byte. Format characters stay:
    scripts and emoji need some.
    """
    if not (text.isascii() and text.isprintable()):
        text = "".join(
            " " if c == "\N{REPLACEMENT CHARACTER}" or unicodedata.category(c) in _UNUSABLE else c
            for c in text
        )
    return " ".join(text.split())


_UNUSABLE = frozenset(("Cc", "Cs", "Co", "Cn"))


def repeats_itself(words: Sequence[str]) -> bool:
    """Return whether some phrase occurs `COPIES` times in a row.

    A phrase of k words has that many copies exactly where words i and i + k are the same for
    (COPIES - 1) k places i in a row.

    Examples
    --------
    >>> repeats_itself("a cat and a dog and a cat and a dog".split())
    False
    >>> repeats_itself("a cat on a mat on a mat on a mat".split())
    True
    """
    words = [word.casefold().strip(",.;:") for word in words]
    for size in range(1, len(words) // COPIES + 1):
        same = 0
        for first, second in zip(words, words[size:], strict=False):
            same = same + 1 if first == second else 0
            if same == (COPIES - 1) * size:
                return True
    return False


def refuse_same_for_many(captions: Sequence[Caption], largest_share: float) -> list[Caption]:
    """Return captions with a reason for those that too many pictures have.

    Parameters
    ----------
    captions : sequence of Caption
        Of n pictures.
    largest_share : float
        Share of the n pictures that may have one caption; `FEWEST_ALIKE` always may.
    """
    most = max(FEWEST_ALIKE, largest_share * len(captions))
    counts = Counter(caption.text.casefold() for caption in captions if caption.reason is None)
    return [
        Caption(caption.text, SAME_FOR_MANY)
        if caption.reason is None and counts[caption.text.casefold()] > most
        else caption
        for caption in captions
    ]
