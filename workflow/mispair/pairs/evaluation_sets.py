"""The evaluation sets of the generated corpus, and their form: CLIP_benchmark's webdataset layout.

``scenes-shape`` (in colours seen with a shape) and ``scenes-digit`` (in black or white, as most
digits of the corpus) show new pictures of combinations that training has seen. All other sets of
scenes are out of domain: their shape-colour or digit-colour combinations are in no training
picture. ``handwritten-digits`` are scans of real handwriting.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from mispair import seeds
from mispair.pairs.digits import handwritten_digits
from mispair.pairs.draws import Draws
from mispair.pairs.scene_features import (
    COLOURS,
    DIGITS,
    HELD_OUT_DIGIT_COLOURS,
    HELD_OUT_SHAPE_COLOURS,
    SHAPES,
    VOCABULARY,
)
from mispair.pairs.scene_images import render
from mispair.pairs.scenes import Scene, digit_alone, single_object
from mispair.pairs.shard_writer import add_member

SHAPE_TEMPLATES = tuple(
    f"{opening}the {colour} {{c}}" for opening in ("", "a picture of ") for colour in COLOURS
)
COLOUR_TEMPLATES = tuple(
    f"{opening}the {{c}} {shape}" for opening in ("", "a picture of ") for shape in SHAPES
)
DIGIT_TEMPLATES = (
    "the number {c}",
    "the digit {c}",
    "a picture of the number {c}",
    "a picture of the digit {c}",
    "a drawing of the number {c}",
    "this image shows the number {c}",
    "there is the digit {c}",
    "we can see the number {c}",
)
COLOURED_DIGIT_TEMPLATES = tuple(
    f"the {colour} {word} {{c}}" for word in ("number", "digit") for colour in COLOURS
)
GROUNDED_DIGIT_TEMPLATES = tuple(
    f"the {word} {{c}} on a {ground} background"
    for word in ("number", "digit")
    for ground in VOCABULARY["background"]
)
"""Like those of shapes and colours, these name in turn what else the pictures may show."""


@dataclass(frozen=True)
class EvaluationSet:
    """Class names and prompt templates (with ``{c}``) of an evaluation set."""

    classnames: tuple[str, ...]
    templates: tuple[str, ...]


EVALUATION_SETS: dict[str, EvaluationSet] = {
    "scenes-shape": EvaluationSet(SHAPES, SHAPE_TEMPLATES),
    "scenes-shape-heldout": EvaluationSet(SHAPES, SHAPE_TEMPLATES),
    "scenes-colour": EvaluationSet(COLOURS, COLOUR_TEMPLATES),
    "scenes-digit": EvaluationSet(DIGITS, DIGIT_TEMPLATES + GROUNDED_DIGIT_TEMPLATES),
    "scenes-digit-heldout": EvaluationSet(DIGITS, COLOURED_DIGIT_TEMPLATES),
    "handwritten-digits": EvaluationSet(DIGITS, DIGIT_TEMPLATES),
}


def evaluation_scene(name: str, label: int, draws: Draws) -> Scene:
    """Return a random scene of the given class of a set of scenes.

    Raises
    ------
    KeyError
        If `name` is no set of scenes.
    """
    if name == "scenes-colour":
        colour = COLOURS[label]
        shapes = [shape for shape in SHAPES if colour in HELD_OUT_SHAPE_COLOURS[shape]]
        return single_object(draws, draws.choose(shapes), colour)
    if name == "scenes-digit":
        return digit_alone(draws, DIGITS[label], None)
    if name == "scenes-digit-heldout":
        digit = DIGITS[label]
        return digit_alone(draws, digit, draws.choose(HELD_OUT_DIGIT_COLOURS[digit]))
    shape = SHAPES[label]
    held_out = HELD_OUT_SHAPE_COLOURS[shape]
    wanted = {"scenes-shape": False, "scenes-shape-heldout": True}[name]
    colours = [colour for colour in COLOURS if (colour in held_out) == wanted]
    return single_object(draws, shape, draws.choose(colours))


def labelled_pictures(
    name: str, *, images: int, size: int, seed: int
) -> Iterator[tuple[Image.Image, int]]:
    """Yield pictures and labels of an evaluation set.

    Parameters
    ----------
    name : str
        One of `EVALUATION_SETS`.
    images : int
        Number of pictures, classes in turn; ``handwritten-digits`` always has all of its 1,797.
    size : int
        Side of the pictures in pixels.
    seed : int
        Seed of the set.
    """
    if name == "handwritten-digits":
        yield from zip(*handwritten_digits(size), strict=True)
        return
    classes = len(EVALUATION_SETS[name].classnames)
    for number in range(images):
        draws = Draws(seeds.generator(seed, "make_evaluation_set", name, number))
        scene = evaluation_scene(name, number % classes, draws)
        yield render(scene.objects, scene.whole, draws, size), number % classes


def write_evaluation_set(
    folder: Path,
    classnames: Sequence[str],
    templates: Sequence[str],
    pictures: Iterator[tuple[Image.Image, int]],
) -> None:
    """Write an evaluation set in CLIP_benchmark's webdataset layout.

    ``classnames.txt``, ``zeroshot_classification_templates.txt``, ``test/nshards.txt`` and
    ``test/0.tar`` with ``sNNNNNNN.png`` (nothing is lost) and ``sNNNNNNN.cls``.
    """
    (folder / "test").mkdir(parents=True)
    lines = {"classnames.txt": classnames, "zeroshot_classification_templates.txt": templates}
    for name, content in lines.items():
        (folder / name).write_text("\n".join(content) + "\n", encoding="utf-8")
    (folder / "test" / "nshards.txt").write_text("1", encoding="utf-8")
    with tarfile.open(folder / "test" / "0.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, (picture, label) in enumerate(pictures):
            buffer = io.BytesIO()
            picture.save(buffer, "PNG", compress_level=6)
            add_member(tar, f"s{number:07d}.cls", str(label).encode())
            add_member(tar, f"s{number:07d}.png", buffer.getvalue())
