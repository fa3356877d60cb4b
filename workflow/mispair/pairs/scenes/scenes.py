"""Sampling of generated scenes: what a picture shows, and what its caption mentions.

A scene has one to three objects (or a printed digit alone, or a digit on an object). Its features
are the ground truth z_x of the picture; the features that the caption mentions are z_y. In the
high-quality subset S_h the two agree. In the low-quality subset S_w each feature of the picture is
missing from the caption with probability C_s, and with probability C_s its spuriously linked
partner is mentioned (the two events independent, as in Eq. 5 of the multi-modal theory).
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mispair.core import seeds
from mispair.pairs.corruption.draws import Draws
from mispair.pairs.scenes.scene_captions import (
    COLOURS,
    DIGITS,
    HELD_OUT_DIGIT_COLOURS,
    HELD_OUT_SHAPE_COLOURS,
    SHAPES,
    VOCABULARY,
    Part,
    features_of,
    spurious_partners,
    write_caption,
)

if TYPE_CHECKING:
    from PIL import Image

SHAPES_ONLY = 0.45
SHAPE_WITH_DIGIT = 0.15
"""Shares of the three forms of scene; the rest is a digit alone."""

COLOURED_DIGITS = 0.25
"""Share of digits alone that have a colour; the others are black or white, whichever is legible."""

NUMBER_OF_OBJECTS = (1, 1, 1, 1, 1, 1, 1, 1, 2, 3)


@dataclass(frozen=True)
class Scene:
    """What a picture shows: its objects, and the scene as a whole."""

    objects: list[Part]
    whole: Part

    @property
    def features(self) -> list[str]:
        """Features of the picture (z_x), in the order of `scene_captions.FEATURES`."""
        return features_of([*self.objects, self.whole])

    def picture(self, draws: Draws, size: int) -> Image.Image:
        """Return a picture of the scene, of `size` by `size` pixels."""
        # Not at the top: the Snakefile imports this module, also where Pillow is not installed.
        from mispair.pairs.scenes.scene_images import render

        return render(self.objects, self.whole, draws, size)


# Features besides shape, colour and digit are kept sparse. With more of them, background, place and
# size distinguish nearly all captions of a batch, and a contrastive loss then leaves shapes and
# digits unlearnt.
def _some(draws: Draws, kind: str, probability: float) -> tuple[str, ...]:
    """Return one value of a kind with the given probability, else none."""
    return (draws.choose(list(VOCABULARY[kind])),) if draws.chance(probability) else ()


def _whole(draws: Draws, share: float = 1.0) -> Part:
    return {
        "background": _some(draws, "background", 0.2 * share),
        "frame": _some(draws, "frame", 0.04 * share),
        "shadow": _some(draws, "shadow", 0.04 * share),
    }


def _seen_colour(draws: Draws, held_out: tuple[str, ...]) -> str:
    return draws.choose([colour for colour in COLOURS if colour not in held_out])


def single_object(draws: Draws, shape: str, colour: str) -> Scene:
    """Return a scene with one object of the given shape and colour, all else at random."""
    thing = {
        "size": _some(draws, "size", 0.15),
        "texture": _some(draws, "texture", 0.12),
        "colour": (colour,),
        "shape": (shape,),
    }
    return Scene([thing], {"position": _some(draws, "position", 0.12), **_whole(draws)})


def textured_object(draws: Draws, shape: str, colour: str) -> Scene:
    """Return a scene with one textured object of medium size, in the middle of any background.

    The corpus shows such objects, but rarely: texture and background together in one of forty
    scenes of a single object.
    """
    thing: Part = {
        "texture": (draws.choose(list(VOCABULARY["texture"])),),
        "colour": (colour,),
        "shape": (shape,),
    }
    background = draws.choose(["", *VOCABULARY["background"]])
    return Scene([thing], {"background": (background,) if background else ()})


def several_objects(draws: Draws, number: int) -> Scene:
    """Return a scene with two or three objects in a row or a column."""
    things: list[Part] = []
    for _ in range(number):
        shape = draws.choose(SHAPES)
        colour = _seen_colour(draws, HELD_OUT_SHAPE_COLOURS[shape])
        texture = _some(draws, "texture", 0.1)
        things.append({"texture": texture, "colour": (colour,), "shape": (shape,)})
    count = {2: "pair", 3: "trio"}[number]
    arrangement = (draws.choose(list(VOCABULARY["arrangement"])),)
    return Scene(things, {"count": (count,), "arrangement": arrangement, **_whole(draws)})


def shape_with_digit(draws: Draws) -> Scene:
    """Return a scene with one large object that carries a printed digit."""
    digit, shape = draws.choose(DIGITS), draws.choose(SHAPES)
    held_out = HELD_OUT_SHAPE_COLOURS[shape] + HELD_OUT_DIGIT_COLOURS[digit]
    thing = {
        "colour": (_seen_colour(draws, held_out),),
        "shape": (shape,),
        "digit": (digit,),
        "print": _some(draws, "print", 0.12),
    }
    return Scene([thing], _whole(draws))


def digit_alone(draws: Draws, digit: str, colour: str | None) -> Scene:
    """Return a scene with only a digit, coloured, or (None) in legible black or white."""
    thing = {
        "print": _some(draws, "print", 0.3),
        "colour": (colour,) if colour else (),
        "digit": (digit,),
    }
    return Scene([thing], _whole(draws, 0.5))


def training_scene(draws: Draws) -> Scene:
    """Return a random scene without any held-out combination."""
    form = draws.unit()
    if form < SHAPES_ONLY:
        number = draws.choose(NUMBER_OF_OBJECTS)
        if number > 1:
            return several_objects(draws, number)
        shape = draws.choose(SHAPES)
        return single_object(draws, shape, _seen_colour(draws, HELD_OUT_SHAPE_COLOURS[shape]))
    if form < SHAPES_ONLY + SHAPE_WITH_DIGIT:
        return shape_with_digit(draws)
    digit = draws.choose(DIGITS)
    coloured = draws.chance(COLOURED_DIGITS)
    colour = _seen_colour(draws, HELD_OUT_DIGIT_COLOURS[digit])
    return digit_alone(draws, digit, colour if coloured else None)


def misdescribed(scene: Scene, draws: Draws, probability: float, partners: dict[str, str]) -> Scene:
    """Return what a low-quality caption mentions of a scene (Eq. 5).

    Each feature of the picture is missing with the probability C_s; independently, its partner
    (`spurious_partners`) is mentioned with this probability.
    """
    missing = {feature for feature in scene.features if draws.chance(probability)}
    spurious = {feature for feature in scene.features if draws.chance(probability)}

    def as_described(part: Part) -> Part:
        described: Part = {}
        for kind, values in part.items():
            names = [f"{kind}:{value}" for value in values]
            kept = [name for name in names if name not in missing]
            added = [partners[name] for name in names if name in spurious and name in partners]
            described[kind] = tuple(
                dict.fromkeys(name.split(":", 1)[1] for name in [*kept, *added])
            )
        return described

    return Scene([as_described(part) for part in scene.objects], as_described(scene.whole))


def encode_jpeg(scene: Scene, draws: Draws, size: int, quality: int) -> bytes:
    """Render a scene as JPEG bytes, with full colour resolution."""
    buffer = io.BytesIO()
    picture = scene.picture(draws, size)
    picture.save(buffer, "JPEG", quality=quality, subsampling=0)
    return buffer.getvalue()


def make_pair(
    key: str, *, seed: int, size: int, quality: int, high_quality_share: float, spurious: float
) -> dict[str, Any]:
    """Make one image-text pair; it depends on the key and the settings only.

    It belongs to S_h with the probability `high_quality_share`; in the others, S_w, C_s is
    `spurious`. The picture has `size` by `size` pixels and a JPEG quality of 1 to 95.

    Returns
    -------
    dict
        ``jpg`` (bytes), ``caption``, ``subset`` (``high`` or ``low``), ``image_features`` (z_x),
        ``caption_features`` (z_y) and ``objects``.
    """
    # Separate streams: the pictures stay the same when shares and probabilities change.
    scene_draws = Draws(seeds.generator(seed, "make_scenes", "picture", key))
    caption_draws = Draws(seeds.generator(seed, "make_scenes", "caption", key), buffer=64)
    scene = training_scene(scene_draws)
    jpg = encode_jpeg(scene, scene_draws, size, quality)
    described, subset = scene, "high"
    if not caption_draws.chance(high_quality_share):
        subset = "low"
        partners = spurious_partners(seed)
        described = misdescribed(scene, caption_draws, spurious, partners)
    return {
        "jpg": jpg,
        "caption": write_caption(described.objects, described.whole, caption_draws),
        "subset": subset,
        "image_features": scene.features,
        "caption_features": described.features,
        "objects": [features_of([thing]) for thing in scene.objects],
    }
