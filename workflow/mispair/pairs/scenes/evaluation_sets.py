"""The generated evaluation sets, and their form: CLIP_benchmark's webdataset layout.

``scenes-shape`` (in colours seen with a shape) and ``scenes-digit`` (in black or white, as most
digits of the corpus) show new pictures of combinations that training has seen; these two have
other pictures of the same kind for training a linear probe. ``scenes-shape-textured`` shows shapes
in colours seen with them, each with a texture, on all backgrounds alike: a combination that is rare
in the corpus, so that a model is far from its ceiling. The other sets of scenes with classes
are out of domain: their shape-colour or digit-colour combinations are in no training picture.
``handwritten-digits`` are scans of real handwriting. ``scenes-retrieval`` has scenes of several
objects, each with several sentences. ``scenes-compositional`` asks which of two sentences is true.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mispair.core import seeds
from mispair.pairs.corruption.draws import Draws
from mispair.pairs.scenes.compositional import CATEGORIES, CaptionQuestion, question
from mispair.pairs.scenes.scene_captions import (
    COLOURS,
    DIGITS,
    HELD_OUT_DIGIT_COLOURS,
    HELD_OUT_SHAPE_COLOURS,
    SHAPES,
    VOCABULARY,
    features_of,
    write_caption,
)
from mispair.pairs.scenes.scenes import (
    Scene,
    digit_alone,
    several_objects,
    single_object,
    textured_object,
)
from mispair.pairs.shards.shard_writer import add_member

if TYPE_CHECKING:
    from PIL import Image

# Not imported from the reader: a change of the reader must not make other pictures.
CLASSNAMES = "classnames.txt"
TEMPLATES = "zeroshot_classification_templates.txt"
DATASET_TYPE = "dataset_type.txt"

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


CAPTIONS_PER_IMAGE = 5
"""As in the usual retrieval sets, Flickr and COCO."""


@dataclass(frozen=True)
class GeneratedSet:
    """What a generated set is for; class names and prompt templates (with ``{c}``); its splits."""

    classnames: tuple[str, ...]
    templates: tuple[str, ...]
    splits: tuple[str, ...] = ("test",)
    kind: Literal["classification", "retrieval", "image_caption_selection"] = "classification"


EVALUATION_SETS: dict[str, GeneratedSet] = {
    "scenes-shape": GeneratedSet(SHAPES, SHAPE_TEMPLATES, ("test", "train")),
    "scenes-shape-heldout": GeneratedSet(SHAPES, SHAPE_TEMPLATES),
    "scenes-shape-textured": GeneratedSet(SHAPES, SHAPE_TEMPLATES),
    "scenes-colour": GeneratedSet(COLOURS, COLOUR_TEMPLATES),
    "scenes-digit": GeneratedSet(
        DIGITS, DIGIT_TEMPLATES + GROUNDED_DIGIT_TEMPLATES, ("test", "train")
    ),
    "scenes-digit-heldout": GeneratedSet(DIGITS, COLOURED_DIGIT_TEMPLATES),
    "handwritten-digits": GeneratedSet(DIGITS, DIGIT_TEMPLATES),
    "scenes-retrieval": GeneratedSet((), (), kind="retrieval"),
    "scenes-compositional": GeneratedSet((), (), kind="image_caption_selection"),
}


def files_of_generated(name: str, splits: Sequence[str] | None = None) -> list[str]:
    """Return the files of a set, or of some of its splits, relative to its folder.

    The first file is in the folder itself.
    """
    chosen = EVALUATION_SETS[name]
    return [
        *((CLASSNAMES, TEMPLATES) if chosen.kind == "classification" else (DATASET_TYPE,)),
        *(f"{s}/{file}" for s in splits or chosen.splits for file in ("nshards.txt", "0.tar")),
    ]


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
    shape_is_new = {
        "scenes-shape": False,
        "scenes-shape-heldout": True,
        "scenes-shape-textured": False,
    }[name]
    colours = [colour for colour in COLOURS if (colour in held_out) == shape_is_new]
    scene = textured_object if name == "scenes-shape-textured" else single_object
    return scene(draws, shape, draws.choose(colours))


def labelled_pictures(
    name: str, *, images: int, size: int, seed: int, split: str = "test"
) -> Iterator[tuple[Image.Image, int]]:
    """Yield pictures of `size` by `size` pixels and labels of a set for classification.

    Classes come in turn; ``handwritten-digits`` always has all of its 1,797 pictures. Each split
    has its own draws.
    """
    if name == "handwritten-digits":
        from mispair.pairs.scenes.scene_images import handwritten_digits

        yield from zip(*handwritten_digits(size), strict=True)
        return
    classes = len(EVALUATION_SETS[name].classnames)
    for number in range(images):
        draws = Draws(seeds.generator(*_draws_of(seed, name, split), number))
        scene = evaluation_scene(name, number % classes, draws)
        yield scene.picture(draws, size), number % classes


def captioned_pictures(
    name: str, *, images: int, size: int, seed: int
) -> Iterator[tuple[Image.Image, list[str]]]:
    """Yield pictures of two or three objects, each with several different sentences about it.

    No two pictures show the same things in the same surroundings, in any order, so the
    sentences of a picture fit no other one. Pictures have `size` by `size` pixels.
    """
    seen: set[tuple[str, ...]] = set()
    draws = Draws(seeds.generator(*_draws_of(seed, name, "test")))
    while len(seen) < images:
        scene = several_objects(draws, draws.choose((2, 3)))
        parts = sorted(" ".join(features_of([part])) for part in scene.objects)
        content = (*parts, *features_of([scene.whole]))
        if content in seen:
            continue
        seen.add(content)
        captions: dict[str, None] = {}
        while len(captions) < CAPTIONS_PER_IMAGE:
            captions[write_caption(scene.objects, scene.whole, draws)] = None
        yield scene.picture(draws, size), list(captions)


def questions(
    name: str, *, images: int, size: int, seed: int
) -> Iterator[tuple[Image.Image, CaptionQuestion]]:
    """Yield pictures of `size` by `size` pixels with their questions, the categories in turn."""
    categories = list(CATEGORIES)
    for number in range(images):
        draws = Draws(seeds.generator(*_draws_of(seed, name, "test"), number))
        query = question(categories[number % len(categories)], draws)
        yield query.scene.picture(draws, size), query


def _draws_of(seed: int, name: str, split: str) -> tuple[object, ...]:
    # The test pictures are those of earlier versions, which had no other split.
    return (seed, "make_evaluation_set", name, *(() if split == "test" else (split,)))


def write_descriptions(folder: Path, chosen: GeneratedSet) -> None:
    """Write the files of a set that are in its folder: classes and templates, or its type."""
    lines = {CLASSNAMES: chosen.classnames, TEMPLATES: chosen.templates}
    if chosen.kind != "classification":
        lines = {DATASET_TYPE: (chosen.kind,)}
    for name, content in lines.items():
        (folder / name).write_text("\n".join(content) + "\n", encoding="utf-8")


def write_split(
    folder: Path, pictures: Iterable[tuple[Image.Image, int | list[str] | CaptionQuestion]]
) -> None:
    """Write a split: ``nshards.txt``, and ``0.tar`` with the samples.

    Each sample is ``sNNNNNNN.png`` (nothing is lost) and its class ``sNNNNNNN.cls``, or
    ``sNNNNNNN.txt`` with one caption a line; a question, whose true caption is the first, has its
    category in ``sNNNNNNN.json``.
    """
    folder.mkdir()
    (folder / "nshards.txt").write_text("1", encoding="utf-8")
    with tarfile.open(folder / "0.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, (picture, known) in enumerate(pictures):
            buffer = io.BytesIO()
            picture.save(buffer, "PNG", compress_level=6)
            for ending, text in _texts(known).items():
                add_member(tar, f"s{number:07d}.{ending}", text.encode())
            add_member(tar, f"s{number:07d}.png", buffer.getvalue())


def _texts(known: int | list[str] | CaptionQuestion) -> dict[str, str]:
    if isinstance(known, int):
        return {"cls": str(known)}
    if isinstance(known, CaptionQuestion):
        return {
            "txt": f"{known.true}\n{known.false}",
            "json": json.dumps({"category": known.category}),
        }
    return {"txt": "\n".join(known)}
