"""The public compositional sets that can be converted, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mispair.evaluation.converters import aro, sugarcrepe, winoground
from mispair.evaluation.converters.entries import Entry

SETS: dict[str, tuple[Callable[[Any, Any], Iterable[Entry]], str]] = {
    "sugarcrepe": (sugarcrepe.entries, "the folder of its seven JSON files; val2017 of COCO"),
    "aro-relation": (aro.relations, "visual_genome_relation.json"),
    "aro-attribution": (aro.attributes, "visual_genome_attribution.json"),
    "aro-order": (
        aro.order,
        "a list of {image, caption: [...]}, of COCO or Flickr; other orders of the words are made "
        "without a tagger, so no published number is comparable",
    ),
    "winoground": (winoground.entries, "its Parquet, or examples.jsonl with the folder images"),
}
"""Reader of the annotations and the folder of pictures of each set, and what to give it."""
