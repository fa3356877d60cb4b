"""Vocabulary of generated scenes, sentences about them, and the features that a sentence names."""

import re
from collections.abc import Sequence

import numpy as np

from mispair.core import seeds
from mispair.pairs.corruption.draws import Draws

# The vocabulary of the generated corpus: every binary feature, its words, and what is held out.
#
# A feature is written ``kind:value``. A picture or a sentence is the set of its features, that is
# a binary code z as in the theory; `FEATURES` fixes the order of its entries.

VOCABULARY: dict[str, dict[str, list[str]]] = {
    "shape": {
        "circle": ["circle", "disc"],
        "square": ["square", "box"],
        "triangle": ["triangle", "wedge"],
        "star": ["star"],
        "cross": ["cross", "plus sign"],
        "heart": ["heart"],
        "ring": ["ring", "hoop"],
        "crescent": ["crescent", "half moon"],
    },
    "colour": {
        "red": ["red", "crimson"],
        "orange": ["orange"],
        "yellow": ["yellow", "golden"],
        "green": ["green"],
        "cyan": ["cyan", "turquoise"],
        "blue": ["blue"],
        "purple": ["purple", "violet"],
        "pink": ["pink", "rosy"],
    },
    "size": {"small": ["small", "little", "tiny"], "large": ["large", "big", "huge"]},
    "texture": {
        "striped": ["striped", "stripy"],
        "dotted": ["dotted", "spotted"],
        "glossy": ["glossy", "shiny"],
    },
    "position": {
        "left": ["on the left", "to the left"],
        "right": ["on the right", "to the right"],
        "top": ["at the top", "near the top"],
        "bottom": ["at the bottom", "near the bottom"],
    },
    "background": {
        "white": ["white"],
        "black": ["black", "dark"],
        "grey": ["grey", "gray"],
        "checkered": ["checkered", "chessboard"],
        "speckled": ["speckled", "grainy"],
        "faded": ["faded", "gradient"],
    },
    "digit": {
        "zero": ["zero", "0"],
        "one": ["one", "1"],
        "two": ["two", "2"],
        "three": ["three", "3"],
        "four": ["four", "4"],
        "five": ["five", "5"],
        "six": ["six", "6"],
        "seven": ["seven", "7"],
        "eight": ["eight", "8"],
        "nine": ["nine", "9"],
    },
    "print": {"pixelated": ["pixelated", "blocky"]},
    "count": {"pair": ["a pair", "a couple"], "trio": ["a trio", "a threesome"]},
    "arrangement": {
        "row": ["in a row", "side by side"],
        "column": ["in a column", "stacked"],
    },
    "frame": {"framed": ["with a frame", "with a border"]},
    "shadow": {"shadowed": ["with a shadow", "casting a shadow"]},
}
"""Words of each value of each kind; the first word is the one that evaluation sets use.

What has no feature is not mentioned: medium size, plain texture, the middle, a beige background,
a single object. A caption may therefore be as short as "a red circle" and still be complete.
"""

FEATURES: tuple[str, ...] = tuple(
    f"{kind}:{value}" for kind, values in VOCABULARY.items() for value in values
)
"""All features in the order of the entries of the binary codes z_x (picture) and z_y (caption)."""

SHAPES = tuple(VOCABULARY["shape"])
COLOURS = tuple(VOCABULARY["colour"])
DIGITS = tuple(VOCABULARY["digit"])

Part = dict[str, tuple[str, ...]]
"""Values of one object, or of the scene as a whole, by kind: ``{"colour": ("red",)}``."""


def _held_out(count: int, first: int, second: int) -> tuple[tuple[str, ...], ...]:
    return tuple(
        (COLOURS[(i + first) % len(COLOURS)], COLOURS[(i + second) % len(COLOURS)])
        for i in range(count)
    )


HELD_OUT_SHAPE_COLOURS: dict[str, tuple[str, ...]] = dict(
    zip(SHAPES, _held_out(len(SHAPES), 1, 4), strict=True)
)
"""Two colours per shape (and two shapes per colour) that no training picture shows together."""

HELD_OUT_DIGIT_COLOURS: dict[str, tuple[str, ...]] = dict(
    zip(DIGITS, _held_out(len(DIGITS), 2, 5), strict=True)
)
"""Two colours per digit that no training picture shows with it."""


def features_of(parts: list[Part]) -> list[str]:
    """Return the features that occur in any of the parts, in the order of `FEATURES`."""
    present = {
        f"{kind}:{value}" for part in parts for kind, values in part.items() for value in values
    }
    return [feature for feature in FEATURES if feature in present]


def codes(features: Sequence[Sequence[str]]) -> np.ndarray:
    """Return lists of features as binary codes, (n, f) bool.

    Raises
    ------
    KeyError
        If a name is not in `FEATURES`.
    """
    position = {feature: column for column, feature in enumerate(FEATURES)}
    entries = [(row, position[name]) for row, names in enumerate(features) for name in names]
    binary = np.zeros((len(features), len(FEATURES)), bool)
    binary[tuple(np.array(entries, dtype=np.int64).reshape(-1, 2).T)] = True
    return binary


def spurious_partners(seed: int) -> dict[str, str]:
    """Return the feature that each feature is spuriously linked to, as kind:value of one kind.

    The values of a kind are put on a random circle and each is linked to the next one, so that no
    feature is its own partner; kinds with a single value have none.
    """
    partners = {}
    for kind, values in VOCABULARY.items():
        order = [list(values)[i] for i in seeds.generator(seed, kind).permutation(len(values))]
        if len(order) > 1:
            for value, following in zip(order, order[1:] + order[:1], strict=True):
                partners[f"{kind}:{value}"] = f"{kind}:{following}"
    return partners


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
