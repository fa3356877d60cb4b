"""Questions that ask whether a model binds words to things: a picture, a true and a false sentence.

The false sentence differs in one thing: a value is replaced by another of its kind, two values
change places, or something is added that the picture does not show. So the true one is known
exactly. Sentences use the words that the other evaluation sets use, and no synonyms. Every pair of
shape and colour, or digit and colour, that a sentence names is one that the corpus shows, and true
and false values come from the same draws: words alone do not tell which sentence is true, except
that a sentence with an addition is longer.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mispair.pairs.corruption.draws import Draws
from mispair.pairs.scenes.scene_captions import (
    COLOURS,
    DIGITS,
    HELD_OUT_DIGIT_COLOURS,
    HELD_OUT_SHAPE_COLOURS,
    SHAPES,
    VOCABULARY,
    Part,
    with_article,
)
from mispair.pairs.scenes.scenes import Scene, digit_alone, single_object

OPENINGS = ("", "", "a picture of ", "there is ", "we can see ")
"""The bare phrase occurs twice, as in the corpus."""

PLACES = {position: words[0] for position, words in VOCABULARY["position"].items()}
ENDS = {"row": ("left", "right"), "column": ("top", "bottom")}
"""Where the first and the second of two things are."""


class Choice(NamedTuple):
    """What a picture shows, what is true of it, and what is not."""

    scene: Scene
    true: str
    false: str


class CaptionQuestion(NamedTuple):
    """A choice with whole sentences, and its category."""

    scene: Scene
    true: str
    false: str
    category: str


def question(category: str, draws: Draws) -> CaptionQuestion:
    """Return a random question of a category, one of `CATEGORIES`."""
    scene, true, false = CATEGORIES[category](draws)
    opening = draws.choose(OPENINGS)
    return CaptionQuestion(scene, opening + true, opening + false, category)


def _thing(shape: str, colour: str) -> str:
    return with_article(f"{colour} {shape}")


def _others(values: tuple[str, ...], *excluded: str) -> list[str]:
    return [value for value in values if value not in excluded]


def _shown(shape: str, colour: str) -> bool:
    return colour not in HELD_OUT_SHAPE_COLOURS[shape]


def _single(draws: Draws) -> tuple[str, str, Scene]:
    """Return shape, colour and scene of a thing in the middle."""
    shape = draws.choose(SHAPES)
    colour = draws.choose(_others(COLOURS, *HELD_OUT_SHAPE_COLOURS[shape]))
    scene = single_object(draws, shape, colour)
    return shape, colour, Scene(scene.objects, {**scene.whole, "position": ()})


def _placed(scene: Scene, position: str) -> Scene:
    return Scene(scene.objects, {**scene.whole, "position": (position,)})


def _replace_shape(draws: Draws) -> Choice:
    shape, colour, scene = _single(draws)
    wrong = draws.choose([each for each in _others(SHAPES, shape) if _shown(each, colour)])
    return Choice(scene, _thing(shape, colour), _thing(wrong, colour))


def _replace_colour(draws: Draws) -> Choice:
    shape, colour, scene = _single(draws)
    wrong = draws.choose([each for each in _others(COLOURS, colour) if _shown(shape, each)])
    return Choice(scene, _thing(shape, colour), _thing(shape, wrong))


def _replace_position(draws: Draws) -> Choice:
    shape, colour, scene = _single(draws)
    position = draws.choose(list(PLACES))
    wrong = draws.choose(_others(tuple(PLACES), position))
    thing = _thing(shape, colour)
    return Choice(
        _placed(scene, position),
        f"{thing} {PLACES[position]}",
        f"{thing} {PLACES[wrong]}",
    )


def _replace_digit(draws: Draws) -> Choice:
    digit = draws.choose(DIGITS)
    wrong = draws.choose(_others(DIGITS, digit))
    word = draws.choose(("number", "digit"))
    return Choice(digit_alone(draws, digit, None), f"the {word} {digit}", f"the {word} {wrong}")


def _two_things(draws: Draws) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return two shapes and two colours; the corpus shows all four pairs of them."""
    while True:
        first, second = draws.choose(SHAPES), draws.choose(SHAPES)
        colours = draws.choose(COLOURS), draws.choose(COLOURS)
        all_shown = all(_shown(shape, colour) for shape in (first, second) for colour in colours)
        if first != second and colours[0] != colours[1] and all_shown:
            return (first, second), colours


def _pair(draws: Draws) -> tuple[tuple[str, str], tuple[str, str], str, Scene]:
    shapes, colours = _two_things(draws)
    arrangement = draws.choose(list(ENDS))
    things: list[Part] = [
        {"colour": (colour,), "shape": (shape,)}
        for shape, colour in zip(shapes, colours, strict=True)
    ]
    return shapes, colours, arrangement, Scene(things, {"arrangement": (arrangement,)})


def _swap(draws: Draws, first_shape: int) -> Choice:
    """Exchange two shapes or two colours; the meaning is the same, the order of words differs."""
    shapes, colours, _, scene = _pair(draws)
    true = [_thing(shape, colour) for shape, colour in zip(shapes, colours, strict=True)]
    false = [_thing(shapes[first_shape], colours[1 - first_shape]),
             _thing(shapes[1 - first_shape], colours[first_shape])]  # fmt: skip
    return Choice(scene, " and ".join(true), " and ".join(false))


def _swap_position(draws: Draws) -> Choice:
    shapes, colours, arrangement, scene = _pair(draws)
    things = [_thing(shape, colour) for shape, colour in zip(shapes, colours, strict=True)]
    ends = [PLACES[end] for end in ENDS[arrangement]]
    if draws.chance(0.5):  # Else "on the left" would come first in every true sentence.
        things, ends = things[::-1], ends[::-1]
    return Choice(
        scene,
        f"{things[0]} {ends[0]} and {things[1]} {ends[1]}",
        f"{things[0]} {ends[1]} and {things[1]} {ends[0]}",
    )


def _swap_digit(draws: Draws) -> Choice:
    while True:
        shape, digit = draws.choose(SHAPES), draws.choose(DIGITS)
        one, two = draws.choose(COLOURS), draws.choose(COLOURS)
        colours = {one, two}
        held_out = HELD_OUT_SHAPE_COLOURS[shape] + HELD_OUT_DIGIT_COLOURS[digit]
        if one != two and colours.isdisjoint(held_out):
            break
    things: list[Part] = [
        {"colour": (one,), "shape": (shape,)},
        {"colour": (two,), "digit": (digit,)},
    ]
    scene = Scene(things, {"arrangement": (draws.choose(list(ENDS)),)})
    true = f"{_thing(shape, one)} and {_thing(f'number {digit}', two)}"
    return Choice(scene, true, f"{_thing(shape, two)} and {_thing(f'number {digit}', one)}")


def _add_shape(draws: Draws) -> Choice:
    (shape, other), (colour, second) = _two_things(draws)
    scene = single_object(draws, shape, colour)
    thing = _thing(shape, colour)
    return Choice(scene, thing, f"{thing} and {_thing(other, second)}")


def _add_colour(draws: Draws) -> Choice:
    shape, colour, scene = _single(draws)
    wrong = draws.choose([each for each in _others(COLOURS, colour) if _shown(shape, each)])
    return Choice(scene, with_article(shape), _thing(shape, wrong))


def _add_position(draws: Draws) -> Choice:
    shape, colour, scene = _single(draws)
    thing = _thing(shape, colour)
    return Choice(scene, thing, f"{thing} {PLACES[draws.choose(list(PLACES))]}")


def _add_digit(draws: Draws) -> Choice:
    shape, colour, scene = _single(draws)
    thing = _thing(shape, colour)
    return Choice(scene, thing, f"{thing} with the number {draws.choose(DIGITS)} on it")


CATEGORIES: dict[str, Callable[[Draws], Choice]] = {
    "replace-shape": _replace_shape,
    "replace-colour": _replace_colour,
    "replace-position": _replace_position,
    "replace-digit": _replace_digit,
    "swap-shape": partial(_swap, first_shape=1),
    "swap-colour": partial(_swap, first_shape=0),
    "swap-position": _swap_position,
    "swap-digit": _swap_digit,
    "add-shape": _add_shape,
    "add-colour": _add_colour,
    "add-position": _add_position,
    "add-digit": _add_digit,
}
"""Kinds of questions, named as in SugarCrepe: the operation, and what it changes."""
