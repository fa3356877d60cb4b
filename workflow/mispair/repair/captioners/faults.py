"""What makes a generated caption unusable: a closed set of reasons, and how each is recognised."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from mispair.core.files import UserError
from mispair.pairs.captions.scripts import INVISIBLE, count_words, pieces

EMPTY = "empty"
REPEATS_ITSELF = "repeats-itself"
CUT_OFF = "cut-off"
SAME_FOR_MANY = "same-for-many-pictures"
TOO_LONG = "too-long"
TOO_SHORT = "too-short"
FAILED = "captioner-failed"
NOT_BETTER = "captioner-not-better"

REASONS = (EMPTY, REPEATS_ITSELF, CUT_OFF, SAME_FOR_MANY, TOO_LONG, TOO_SHORT, FAILED, NOT_BETTER)
"""All reasons in a table of captions for a picture without a caption."""

FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an the this that these those it its is are was were be been being am has have had "
        "having do does did of in on at by to for from with and or but as into onto over under up "
        "down out off there here his her their he she they who which what",
    )
)
"""English words that alone describe no picture."""

REMEDIES = {
    REPEATS_ITSELF: "Set its decoding so that it does not repeat itself",
    CUT_OFF: "Raise recaption_pairs.max_words",
    SAME_FOR_MANY: "Raise recaption_pairs.max_same_share if one caption may have many pictures",
    TOO_LONG: "Raise recaption_pairs.max_words",
    TOO_SHORT: "Set recaption_pairs.min_words: 1 if single words will do",
    FAILED: "Read its traceback in the log",
}
"""What to do where most captions have a reason."""

SHOWN = 60
"""Letters of an example in a message."""

COPIES = 3
"""Number of copies of a phrase in a row at which a caption repeats itself."""

MARKS = " ,.;:\u3001\u3002\uff0c\uff0e\uff1a\uff1b"
"""Blanks and marks around a word that do not tell copies apart, those of East Asia included."""

FEWEST_ALIKE = 10
"""Number of pictures that may have the same caption, however few pictures there are."""

LEAST_HELD_OUT, LEARNED_FROM = 20, 2
"""Fewest trusted pictures that test the captioner `trained`, and how many times as many it learns
from, at least."""

LEAST_TO_TEST = (1 + LEARNED_FROM) * LEAST_HELD_OUT
"""Trusted pairs from which on the captioner `trained` is tested."""


class Draft(NamedTuple):
    """A caption as a captioner wrote it."""

    text: str
    is_cut: bool = False
    """Whether the captioner ran out of room before the caption ended."""


class Caption(NamedTuple):
    """A caption that was checked; one that has a reason is not used."""

    text: str
    reason: str | None = None


def check(draft: Draft, max_words: int, min_words: int = 2) -> Caption:
    r"""Return a draft as a clean caption, with the reason if it is unusable.

    Examples
    --------
    >>> check(Draft(" a\tred\x00 star "), 10)
    Caption(text='a red star', reason=None)
    >>> check(Draft("a red red red red"), 10).reason, check(Draft("\n"), 10).reason
    ('repeats-itself', 'empty')
    >>> check(Draft("has."), 10).reason, check(Draft("in the"), 10).reason
    ('too-short', 'too-short')
    """
    text = clean(draft.text)
    words = text.split()
    if not any(character.isalnum() for character in INVISIBLE.sub("", text)):
        reason = EMPTY
    elif repeats_itself(pieces(text)):
        reason = REPEATS_ITSELF
    elif draft.is_cut:
        reason = CUT_OFF
    elif count_words(text) > max_words:
        reason = TOO_LONG
    elif is_too_short(words, min_words):
        reason = TOO_SHORT
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
    words = [word.casefold().strip(MARKS) for word in words]
    for size in range(1, len(words) // COPIES + 1):
        same = 0
        for first, second in zip(words, words[size:], strict=False):
            same = same + 1 if first == second else 0
            if same == (COPIES - 1) * size:
                return True
    return False


def is_too_short(words: Sequence[str], least: int) -> bool:
    """Return whether a caption has fewer words than `least`, or English function words alone.

    Each letter of a script without spaces counts as a word.

    Examples
    --------
    >>> is_too_short(["A", "."], 2), is_too_short(["red", "star"], 2), is_too_short(["赤い星"], 2)
    (True, False, False)
    """
    words = [word for word in words if any(map(str.isalnum, word))]
    if sum(map(count_words, words)) < least:
        return True
    bare = ("".join(filter(str.isalnum, word)).casefold() for word in words)
    return least > 1 and FUNCTION_WORDS.issuperset(bare)


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


def refuse_all_unusable(captions: Sequence[Caption], captioner: str) -> None:
    """Refuse captions of which none is usable, for other reasons than a test on held-out pairs.

    Raises
    ------
    UserError
        With the reasons, an example and a remedy.
    """
    counts = Counter(caption.reason for caption in captions)
    if not captions or counts[None] or counts[NOT_BETTER] == len(captions):
        return
    reasons = ", ".join(f"{reason} {number:,}" for reason, number in counts.most_common())
    common = counts.most_common(1)[0][0]
    texts = [caption.text for caption in captions if caption.reason == common and caption.text]
    example = f", such as {texts[0][:SHOWN]!r}" if texts else ""
    raise UserError(
        f"recaption_pairs: captioner {captioner} wrote no usable caption for any of "
        f"{len(captions):,} pictures ({reasons}{example}). "
        f"{REMEDIES.get(str(common), 'Look at what it returns')}, or take another captioner."
    )
