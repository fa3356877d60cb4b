"""ARO: attribution, relation and order, on pictures of Visual Genome, COCO and Flickr.

The false captions of the first two are part of the set. Those of the third are generated: ARO
shuffles words by their part of speech, which needs a tagger, and by trigrams. Here captions are
shuffled in three ways without a tagger, so these scores compare models with each other, but not
with published numbers.

References
----------
.. [1] M. Yuksekgonul, F. Bianchi, P. Kalluri, D. Jurafsky and J. Zou (2023), When and why
   vision-language models behave like bags-of-words, and what to do about it?, ICLR.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mispair.core import seeds
from mispair.core.files import UserError
from mispair.evaluation.converters.entries import Entry, field, picture_in, read_json

FEWEST_OF_ATTRIBUTES = 25
"""Pairs of attributes with fewer questions are in no category, as in ARO's own evaluation."""

MOST_WORDS = 30
"""Longer captions are cut off, as in ARO."""

BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")


def relations(annotations: Path, images: Path) -> Iterator[Entry]:
    """Yield "the cat is under the table" questions; the category is the relation.

    ``visual_genome_relation.json`` is a list of questions with a box of the picture.
    """
    for source, item in _items(annotations):
        category = field(item, "relation_name", str, source)
        yield _of_visual_genome(item, source, images, category)


def attributes(annotations: Path, images: Path) -> Iterator[Entry]:
    """Yield "the red cup and the green plate" questions; the category is the pair of attributes.

    ``visual_genome_attribution.json`` is a list of questions with a box of the picture.
    """
    items = [
        (source, item, "_".join(map(str, field(item, "attributes", list, source))))
        for source, item in _items(annotations)
    ]
    often = Counter(pair for *_, pair in items)
    for source, item, pair in items:
        category = pair if often[pair] >= FEWEST_OF_ATTRIBUTES else ""
        yield _of_visual_genome(item, source, images, category)


def order(annotations: Path, images: Path) -> Iterator[Entry]:
    """Yield each caption of a picture with itself in three other orders of its words.

    The file is a list of ``{image, caption: [...]}``, as in Karpathy's splits of COCO and Flickr.
    Captions without another order are left out. The orders of a caption depend on nothing else.
    """
    for source, item in _items(annotations):
        name = field(item, "image", str, source)
        given = field(item, "caption", (str, list), source)
        for number, text in enumerate([given] if isinstance(given, str) else given):
            if not isinstance(text, str):
                raise UserError(f"{source}: caption {number} is no text.")
            words = re.sub(r"[.!\"()*#:;~,]", " ", text.lower()).split()[:MOST_WORDS]
            others = {
                " ".join(moved)
                for how in ORDERS
                if (moved := _other_order(words, how, seeds.generator(0, name, number, how)))
            }
            if others:
                picture = picture_in(images, name, source)
                captions = (" ".join(words), *sorted(others))
                yield Entry(f"{source}, caption {number}", picture, captions)


def _trigrams(words: list[str]) -> list[list[str]]:
    return [words[start : start + 3] for start in range(0, len(words), 3)]


def _shuffled(things: list[Any], draw: np.random.Generator) -> list[Any]:
    return [things[place] for place in draw.permutation(len(things))]


ORDERS: dict[str, Callable[[list[str], np.random.Generator], list[str]]] = {
    "words": _shuffled,
    "trigrams": lambda words, draw: [*chain(*_shuffled(_trigrams(words), draw))],
    "within trigrams": lambda words, draw: [
        *chain.from_iterable(_shuffled(three, draw) for three in _trigrams(words))
    ],
}

TRIES = 20


def _other_order(words: list[str], how: str, draw: np.random.Generator) -> list[str] | None:
    for _ in range(TRIES):
        moved = ORDERS[how](words, draw)
        if moved != words:
            return moved
    return None


def _items(path: Path) -> Iterator[tuple[str, Any]]:
    content = read_json(path)
    if not isinstance(content, list):
        raise UserError(f"{path}: must hold a list of questions.")
    for number, item in enumerate(content):
        yield f"{path}: entry {number}", item


def _of_visual_genome(item: Any, source: str, images: Path, category: str) -> Entry:
    left, top, width, height = (round(field(item, name, (int, float), source)) for name in BOX)
    return Entry(
        source,
        picture_in(images, field(item, "image_path", str, source), source),
        tuple(field(item, name, str, source) for name in ("true_caption", "false_caption")),
        category,
        box=(left, top, left + width, top + height),
    )
