"""Sentences about generated scenes, and the way back from a sentence to its features."""

from __future__ import annotations

import re

from mispair.pairs.corruption.draws import Draws
from mispair.pairs.scenes.scene_features import FEATURES, VOCABULARY, Part

TEMPLATES: tuple[str, ...] = (
    "{what}{where}{around}",
    "{what}{where}{around}",
    "a picture of {what}{where}{around}",
    "this image shows {what}{where}{around}",
    "there is {what}{where}{around}",
    "a drawing of {what}{where}{around}",
    "we can see {what}{where}{around}",
    "a simple image with {what}{where}{around}",
)
"""Sentence templates; the bare phrase occurs twice, so it is the commonest."""

_ADJECTIVES = ("size", "texture", "print", "colour")
_FAVOURITE = 0.6


def write_caption(objects: list[Part], whole: Part, draws: Draws) -> str:
    """Write a sentence that mentions exactly the features of the objects and of the whole scene.

    A kind of an object may have no value (missing) or two (one of them spurious), which are joined
    by "and". Template, synonyms and word order are drawn.
    """
    phrases = [_object_phrase(part, draws) for part in objects]
    listed = phrases[0] if len(phrases) == 1 else ", ".join(phrases[:-1]) + " and " + phrases[-1]
    if whole.get("count"):
        listed = f"{_words(whole, 'count', draws)}: {listed}"
    where = [_words(whole, kind, draws) for kind in ("position", "arrangement", "shadow", "frame")]
    where_text = "".join(f" {phrase}" for phrase in where if phrase)
    around = _words(whole, "background", draws)
    if around:
        form = draws.choose((" on {} background", " against {} backdrop", " with {} background"))
        around = form.format(with_article(around))
    return draws.choose(TEMPLATES).format(what=listed, where=where_text, around=around)


def read_caption(caption: str) -> list[str]:
    """Return the features that a sentence of `write_caption` mentions, in order of `FEATURES`."""
    return [FEATURES[i] for i in sorted({_WORDS[word] for word in _PATTERN.findall(caption)})]


def find_mentions(caption: str) -> list[tuple[int, int, str]]:
    """Return where a sentence mentions features: start, end and feature, in order of the text.

    Examples
    --------
    >>> find_mentions("a crimson star")
    [(2, 9, 'colour:red'), (10, 14, 'shape:star')]
    """
    matches = _PATTERN.finditer(caption)
    return [(match.start(), match.end(), FEATURES[_WORDS[match[0]]]) for match in matches]


def with_article(phrase: str) -> str:
    """Put "a" or "an" before a phrase, by the sound of its first word.

    Examples
    --------
    >>> with_article("orange star"), with_article("one"), with_article("eight")
    ('an orange star', 'a one', 'an eight')
    """
    return f"{'an' if re.match(r'[aeiou8](?!ne)', phrase) else 'a'} {phrase}"


def _words(part: Part, kind: str, draws: Draws) -> str:
    return " and ".join(_word(kind, value, draws) for value in part.get(kind, ()))


def _word(kind: str, value: str, draws: Draws) -> str:
    synonyms = VOCABULARY[kind][value]
    if len(synonyms) == 1 or draws.chance(_FAVOURITE):
        return synonyms[0]
    return draws.choose(synonyms[1:])


def _object_phrase(part: Part, draws: Draws) -> str:
    if "shape" not in part:
        return _digit_phrase(part, draws)
    # A digit's own adjectives stay with the digit.
    body = {kind: values for kind, values in part.items() if kind not in ("digit", "print")}
    noun = _words(body, "shape", draws) or draws.choose(("thing", "object"))
    phrase = _described(body, noun, draws)
    if "digit" not in part:
        return phrase
    number = _digit_phrase({kind: part.get(kind, ()) for kind in ("digit", "print")}, draws)
    if draws.chance(0.5):
        return f"{number} on {phrase}"
    return f"{phrase} with {number} on it"


def _digit_phrase(part: Part, draws: Draws) -> str:
    name = _words(part, "digit", draws)
    noun = draws.choose(("number", "digit", "")) if name else draws.choose(("number", "digit"))
    return _described(part, f"{noun} {name}".strip(), draws, definite=0.5 if noun else 0.1)


def _described(part: Part, noun: str, draws: Draws, definite: float = 0.15) -> str:
    """Return article, adjectives and noun; sometimes the adjectives follow the noun."""
    adjectives = [_words(part, kind, draws) for kind in _ADJECTIVES]
    adjectives = [adjective for adjective in adjectives if adjective]
    after = ""
    if adjectives and draws.chance(0.15):
        after = f" that is {' and '.join(adjectives)}"
        adjectives = []
    phrase = " ".join([*adjectives, noun])
    return (f"the {phrase}" if draws.chance(definite) else with_article(phrase)) + after


def _words_of_features() -> dict[str, int]:
    """Map every word or phrase to the position of its feature; no word may belong to two."""
    features_of: dict[str, int] = {}
    for index, feature in enumerate(FEATURES):
        kind, value = feature.split(":")
        for word in VOCABULARY[kind][value]:
            if features_of.setdefault(word, index) != index:
                raise ValueError(f"{word!r} belongs to two features")
    return features_of


_WORDS = _words_of_features()
_PATTERN = re.compile(
    r"\b(" + "|".join(sorted(map(re.escape, _WORDS), key=len, reverse=True)) + r")\b"
)
