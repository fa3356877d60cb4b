"""The public compositional sets that can be converted: SugarCrepe, ARO and Winoground.

SugarCrepe [1]_ has pictures of COCO's validation set of 2017, each with a true and a false caption.

ARO [2]_ has attribution and relation, on pictures of Visual Genome. (Its third part, order, needs
a tagger of parts of speech to make the false captions, and is not converted.)

Winoground [3]_ has two pictures and two captions of the same words in another order.

References
----------
.. [1] C.-Y. Hsieh, J. Zhang, Z. Ma, A. Kembhavi and R. Krishna (2023), SugarCrepe: Fixing hackable
   benchmarks for vision-language compositionality, NeurIPS.
.. [2] M. Yuksekgonul, F. Bianchi, P. Kalluri, D. Jurafsky and J. Zou (2023), When and why
   vision-language models behave like bags-of-words, and what to do about it?, ICLR.
.. [3] T. Thrush, R. Jiang, M. Bartolo, A. Singh, A. Williams, D. Kiela and C. Ross (2022),
   Winoground: Probing vision and language models for visio-linguistic compositionality, CVPR.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.evaluation.converters.entries import Entry, field, picture_in, read_json

SUGARCREPE_FILES = (
    "replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att",
)  # fmt: skip
"""Its seven files, each ``{id: {filename, caption, negative_caption}}``."""


def sugarcrepe(annotations: Path, images: Path) -> Iterator[Entry]:
    """Yield the questions of every file in the folder `annotations`, by category.

    Raises
    ------
    UserError
        If one of the seven files is missing or has another layout.
    """
    missing = [name for name in SUGARCREPE_FILES if not (annotations / f"{name}.json").is_file()]
    if missing:
        raise UserError(
            f"{annotations}: has no {', '.join(f'{name}.json' for name in missing)}. SugarCrepe "
            "has seven files; a score of fewer is not comparable."
        )
    for name in SUGARCREPE_FILES:
        path = annotations / f"{name}.json"
        content = read_json(path)
        if not isinstance(content, dict):
            raise UserError(f"{path}: must hold {{id: {{filename, caption, negative_caption}}}}.")
        for key, item in content.items():
            source = f"{path}: {key}"
            yield Entry(
                source,
                picture_in(images, field(item, "filename", str, source), source),
                tuple(field(item, part, str, source) for part in ("caption", "negative_caption")),
                name.replace("_", "-"),
            )


# ARO

FEWEST_OF_ATTRIBUTES = 25
"""Pairs of attributes with fewer questions are in no category, as in ARO's own evaluation."""

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


# Winoground

WINOGROUND_COLUMNS = ("id", "image_0", "image_1", "caption_0", "caption_1")
TAG = "collapsed_tag"
"""Object, Relation, or Both; it may be missing."""


def winoground(table: Path, images: Path | None = None) -> Iterator[Entry]:
    """Yield both questions of every example.

    Parameters
    ----------
    table : Path
        Parquet with the pictures as ``{bytes, path}``, or JSON lines that name pictures.
    images : Path, optional
        Folder of the pictures that JSON lines name, without their ending ``.png``.

    Raises
    ------
    UserError
        If it cannot be read, or a column is missing.
    """
    is_parquet = table.suffix == ".parquet"
    if not is_parquet and images is None:
        raise UserError(f"{table}: name the folder of its pictures with --images.")
    for number, row in enumerate(_of_parquet(table) if is_parquet else _of_lines(table)):
        source = f"{table}: example {row.get('id', number)}"
        captions = [field(row, f"caption_{side}", str, source) for side in (0, 1)]
        for side in (0, 1):
            yield Entry(
                source,
                _picture(row[f"image_{side}"], images, source),
                (captions[side], captions[1 - side]),
                str(row.get(TAG) or ""),
                str(row["id"]),
            )


def _picture(value: Any, images: Path | None, source: str) -> Path | bytes:
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
        return bytes(value["bytes"])
    if isinstance(value, str) and images is not None:
        return picture_in(images, value if Path(value).suffix else f"{value}.png", source)
    raise UserError(f"{source}: has no picture: bytes in Parquet, or a name and --images.")


def _of_parquet(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as opened:
            _refuse_missing(path, opened.schema_arrow.names)
            names = [*WINOGROUND_COLUMNS, *({TAG} & {*opened.schema_arrow.names})]
            for batch in opened.iter_batches(16, columns=names):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: cannot be read as Parquet ({error}).") from error


def _of_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as JSON lines ({error}).") from error
    for row in rows:
        _refuse_missing(path, row if isinstance(row, dict) else ())
        yield row


def _refuse_missing(path: Path, names: Any) -> None:
    missing = [name for name in WINOGROUND_COLUMNS if name not in names]
    if missing:
        raise UserError(
            f"{path}: has no {', '.join(missing)}; Winoground has {', '.join(WINOGROUND_COLUMNS)}."
        )


SETS: dict[str, tuple[Callable[[Any, Any], Iterable[Entry]], str]] = {
    "sugarcrepe": (sugarcrepe, "the folder of its seven JSON files; val2017 of COCO"),
    "aro-relation": (relations, "visual_genome_relation.json"),
    "aro-attribution": (attributes, "visual_genome_attribution.json"),
    "winoground": (winoground, "its Parquet, or examples.jsonl with the folder images"),
}
"""Reader of the annotations and the folder of pictures of each set, and what to give it."""
