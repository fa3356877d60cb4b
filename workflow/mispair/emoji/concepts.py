"""The concepts of the emoji corpus: names and keywords of emoji."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.emoji.packages import PACKAGES, json_member

COMPONENTS = 2
"""Emojibase's group of parts of emoji, such as skin tones, which are no pictures of something."""

VARIATION_SELECTOR = 0xFE0F
"""Selects the coloured form of a character; packages differ in where they write it."""

MOST_KEYWORDS = 3
"""Keywords of one caption."""


class Concept(NamedTuple):
    """An emoji: its characters, its name, keywords, and its place in Unicode's order of emoji."""

    code: str
    """Code points in hexadecimal, joined by hyphens, without variation selectors."""
    name: str
    keywords: tuple[str, ...]
    category: str
    subcategory: str


def code_of(text: str) -> str:
    """Return the code of an emoji, or of code points in hexadecimal joined by hyphens.

    Examples
    --------
    >>> code_of("0023-FE0F-20e3"), code_of("❤️")
    ('23-20E3', '2764')
    """
    if text.isascii():
        points = [int(part, 16) for part in text.split("-")]
    else:
        points = [ord(letter) for letter in text]
    return "-".join(f"{point:X}" for point in points if point != VARIATION_SELECTOR)


def read_concepts(folder: Path) -> list[Concept]:
    """Read names and keywords from the packages ``emojibase`` and ``emojilib`` in a folder.

    The concepts are in Unicode's order, without skin tones and other components.

    Raises
    ------
    UserError
        If a package is missing or does not have the expected form.
    """
    base = folder / PACKAGES["emojibase"].file
    emoji = json_member(base, "package/en/data.json")
    messages = json_member(base, "package/en/messages.json")
    library = json_member(folder / PACKAGES["emojilib"].file, "package/dist/emoji-en-US.json")
    try:
        keywords = {code_of(text): listed for text, listed in library.items()}
        categories, subcategories = (
            {group["order"]: group["key"] for group in reversed(messages[name])}
            for name in ("groups", "subgroups")
        )
        entries = [one for one in emoji if one.get("group", COMPONENTS) != COMPONENTS]
        entries.sort(key=lambda one: one["order"])
        return [_concept(one, keywords, categories, subcategories) for one in entries]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{base} and {PACKAGES['emojilib'].file}: do not have the form of the versions that "
            f"are needed ({type(error).__name__}: {error}). Delete them and run `make emoji`."
        ) from error


def _concept(
    entry: Mapping[str, Any],
    keywords: Mapping[str, Sequence[str]],
    categories: Mapping[int, str],
    subcategories: Mapping[int, str],
) -> Concept:
    code, name = code_of(entry["hexcode"]), str(entry["label"])
    candidates = [*keywords.get(code, ()), *entry.get("tags", ())]
    cleaned = [word.replace("_", " ").strip().lower() for word in candidates]
    kept = dict.fromkeys(word for word in cleaned if _is_word(word) and word != name.lower())
    return Concept(
        code, name, tuple(kept), categories[entry["group"]], subcategories[entry["subgroup"]]
    )


def _is_word(text: str) -> bool:
    """Return whether a keyword has letters and is no emoticon."""
    return any(letter.isalpha() for letter in text) and not set(text) & set(":;<>=()|/\\^*_")


def caption(concept: Concept, vendor: str, seed: int) -> str:
    """Return the caption of a vendor's picture: the name, and up to three keywords.

    The keywords are drawn for each vendor alone, so that pictures of a concept have several
    captions.
    """
    draws = seeds.generator(seed, "emoji-caption", concept.code, vendor)
    number = min(int(draws.integers(0, MOST_KEYWORDS + 1)), len(concept.keywords))
    if not number:
        return concept.name
    chosen = draws.choice(len(concept.keywords), number, replace=False)
    return ", ".join([concept.name, *(concept.keywords[int(one)] for one in chosen)])


def unseen(concept: Concept, share: float, seed: int) -> bool:
    """Return whether a concept is held out of the pairs, with all of its pictures."""
    return bool(seeds.generator(seed, "emoji-unseen", concept.code).random() < share)
