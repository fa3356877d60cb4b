"""The vocabulary of the generated corpus: every binary feature, its words, and what is held out.

A feature is written ``kind:value``. A picture or a sentence is the set of its features, that is
a binary code z as in the theory; `FEATURES` fixes the order of its entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mispair.core import seeds

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
