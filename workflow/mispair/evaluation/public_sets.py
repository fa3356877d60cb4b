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

import io
import json
import logging
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from mispair.core.files import UserError, replacing_folder
from mispair.evaluation.sets import read_json
from mispair.pairs.shards.images import UndecodableImageError, decode_image
from mispair.pairs.shards.shard_writer import add_member

log = logging.getLogger(__name__)

MOST_NAMED = 5
"""Most missing pictures that a message names; further ones are counted."""

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class SetEntry:
    """One image with its captions.

    Attributes
    ----------
    source : str
        File and key, for messages.
    picture : Path or bytes
        A file, or the encoded picture itself.
    captions : tuple of str
        The true one first.
    category, pair : str
        Kind of the question, and the example that it belongs to; empty if not given.
    box : (left, top, right, bottom) or None
        The part of the picture that is shown, in pixels; all of it if None.
    """

    source: str
    picture: Path | bytes
    captions: tuple[str, ...]
    category: str = ""
    pair: str = ""
    box: Box | None = None


def field(item: Any, name: str, kind: type | tuple[type, ...], source: str) -> Any:
    """Return a field of an entry; a UserError if it is missing or of another kind."""
    value = item.get(name) if isinstance(item, Mapping) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise UserError(
            f"{source}: has no usable {name!r}. The file is not in the layout of the public set: "
            "see the command's --help."
        )
    return value


def picture_in(folder: Path, name: str, source: str) -> Path:
    """Return the path of a picture; a UserError if it would lead out of the folder."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise UserError(f"{source}: the picture {name[:100]!r} is outside of {folder}.")
    return folder / name


def checked(entries: Iterable[SetEntry]) -> list[SetEntry]:
    """Return entries with one line per caption and without repeated questions.

    A question that stands in several categories, as in the published SugarCrepe, is kept once in
    each: scores are means of categories. They are counted in a warning.

    Raises
    ------
    UserError
        If a caption is empty, a false one equals the true one, a question occurs twice in a
        category, pictures are missing, or there is no entry.
    """
    cleaned = [_on_lines(entry) for entry in entries]
    if not cleaned:
        raise UserError("There is no question in these files.")
    seen: dict[tuple[object, ...], dict[str, str]] = {}
    for entry in cleaned:
        categories = seen.setdefault((entry.picture, entry.captions, entry.box), {})
        if entry.category in categories:
            raise UserError(
                f"{entry.source}: is the same question on the same picture as "
                f"{categories[entry.category]}. Such a question would count twice: remove one."
            )
        categories[entry.category] = entry.source
    if shared := [categories for categories in seen.values() if len(categories) > 1]:
        log.warning(
            "questions in more than one category: %d, such as %s; each is kept once per category",
            len(shared),
            " and ".join(shared[0].values()),
        )
    _refuse_missing([entry.picture for entry in cleaned if isinstance(entry.picture, Path)])
    return cleaned


def _on_lines(entry: SetEntry) -> SetEntry:
    captions = tuple(" ".join(_printable(caption).split()) for caption in entry.captions)
    if len(captions) < 2 or "" in captions:
        raise UserError(
            f"{entry.source}: has {sum(map(bool, captions))} caption; a question has a true one "
            "and at least one false one."
        )
    true, *others = (caption.casefold() for caption in captions)
    if true in others:
        raise UserError(
            f"{entry.source}: a false caption is the true one, {captions[0][:80]!r}. No answer to "
            "it is right or wrong: remove the question."
        )
    return SetEntry(
        entry.source, entry.picture, captions, _name(entry.category), entry.pair, entry.box
    )


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _name(text: str) -> str:
    return " ".join(_printable(text).split())


def _refuse_missing(pictures: Sequence[Path]) -> None:
    missing = [path for path in dict.fromkeys(pictures) if not path.is_file()]
    if missing:
        named = ", ".join(map(str, missing[:MOST_NAMED]))
        more = f" and {len(missing) - MOST_NAMED:,} more" if len(missing) > MOST_NAMED else ""
        raise UserError(
            f"{len(missing):,} of {len(set(pictures)):,} pictures are missing: {named}{more}. "
            "Nothing was written. Give the folder that holds all of them."
        )


# Write questions as a folder in CLIP_benchmark's webdataset layout.

SAMPLES_PER_SHARD = 1000
KEPT = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp"}
"""Formats that are stored as they are found; others become PNG."""


def write_questions(target: Path, entries: Sequence[SetEntry]) -> None:
    """Write a set for the choice of captions: pictures, their captions, categories and pairs.

    Parameters
    ----------
    target : Path
        A folder that does not exist yet.
    entries : sequence of SetEntry
        As `entries.checked` returns them.

    Raises
    ------
    UserError
        If the folder exists, or a picture cannot be decoded or cut; nothing is written then.
    """
    if target.exists():
        raise UserError(f"{target}: exists already. Name a new folder, or move this one away.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing_folder(target) as folder:
        (folder / "dataset_type.txt").write_text("image_caption_selection\n", encoding="utf-8")
        test = folder / "test"
        test.mkdir()
        starts = range(0, len(entries), SAMPLES_PER_SHARD)
        (test / "nshards.txt").write_text(f"{len(starts)}\n", encoding="utf-8")
        for shard, start in enumerate(starts):
            with tarfile.open(test / f"{shard}.tar", "w", format=tarfile.PAX_FORMAT) as tar:
                for number, entry in enumerate(entries[start : start + SAMPLES_PER_SHARD], start):
                    for ending, content in _members(entry).items():
                        add_member(tar, f"s{number:07d}.{ending}", content)


def _members(entry: SetEntry) -> dict[str, bytes]:
    labels = {"category": entry.category, "pair": entry.pair}
    labels = {name: text for name, text in labels.items() if text}
    ending, picture = _picture(entry)
    members = {ending: picture, "txt": "\n".join(entry.captions).encode("utf-8")}
    if labels:
        members["json"] = json.dumps(labels, ensure_ascii=False).encode("utf-8")
    return members


def _picture(entry: SetEntry) -> tuple[str, bytes]:
    """Return the ending and the bytes of the picture, or of the part of it that is shown."""
    encoded = entry.picture
    if isinstance(encoded, Path):
        encoded = encoded.read_bytes()
    try:
        picture = decode_image(encoded)
    except UndecodableImageError as error:
        where = f"{entry.picture}" if isinstance(entry.picture, Path) else "its picture"
        raise UserError(f"{entry.source}: {where} cannot be decoded ({error}).") from error
    if entry.box is None:
        with Image.open(io.BytesIO(encoded)) as opened:
            ending = KEPT.get(opened.format or "")
        if ending:
            return ending, encoded
    else:
        left, top, right, bottom = entry.box
        if not (0 <= left < right <= picture.width and 0 <= top < bottom <= picture.height):
            raise UserError(
                f"{entry.source}: the box {entry.box} is not within the picture of "
                f"{picture.width} x {picture.height} pixels. Is it another version of it?"
            )
        picture = picture.crop(entry.box)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return "png", buffer.getvalue()


# The layouts of the sets.


SUGARCREPE_FILES = (
    "replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att", "add_obj", "add_att",
)  # fmt: skip
"""Its seven files, each ``{id: {filename, caption, negative_caption}}``."""


def sugarcrepe(annotations: Path, images: Path) -> Iterator[SetEntry]:
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
            yield SetEntry(
                source,
                picture_in(images, field(item, "filename", str, source), source),
                tuple(field(item, part, str, source) for part in ("caption", "negative_caption")),
                name.replace("_", "-"),
            )


# ARO

FEWEST_OF_ATTRIBUTES = 25
"""Pairs of attributes with fewer questions are in no category, as in ARO's own evaluation."""

BOX = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")


def relations(annotations: Path, images: Path) -> Iterator[SetEntry]:
    """Yield "the cat is under the table" questions; the category is the relation.

    ``visual_genome_relation.json`` is a list of questions with a box of the picture.
    """
    for source, item in _items(annotations):
        category = field(item, "relation_name", str, source)
        yield _of_visual_genome(item, source, images, category)


def attributes(annotations: Path, images: Path) -> Iterator[SetEntry]:
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


def _of_visual_genome(item: Any, source: str, images: Path, category: str) -> SetEntry:
    left, top, width, height = (round(field(item, name, (int, float), source)) for name in BOX)
    return SetEntry(
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


def winoground(table: Path, images: Path | None = None) -> Iterator[SetEntry]:
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
            yield SetEntry(
                source,
                _picture_of_winoground(row[f"image_{side}"], images, source),
                (captions[side], captions[1 - side]),
                str(row.get(TAG) or ""),
                str(row["id"]),
            )


def _picture_of_winoground(value: Any, images: Path | None, source: str) -> Path | bytes:
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
            _refuse_missing_columns(path, opened.schema_arrow.names)
            names = [*WINOGROUND_COLUMNS, *({TAG} & {*opened.schema_arrow.names})]
            for batch in opened.iter_batches(16, columns=names):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"{path}: cannot be read as Parquet ({error}). Fetch the file again."
        ) from error


def _of_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path}: cannot be read as JSON lines ({error}). Fetch the file again."
        ) from error
    for row in rows:
        _refuse_missing_columns(path, row if isinstance(row, dict) else ())
        yield row


def _refuse_missing_columns(path: Path, names: Any) -> None:
    missing = [name for name in WINOGROUND_COLUMNS if name not in names]
    if missing:
        raise UserError(
            f"{path}: has no {', '.join(missing)}; Winoground has {', '.join(WINOGROUND_COLUMNS)}."
        )


SETS: dict[str, tuple[Callable[[Any, Any], Iterable[SetEntry]], str]] = {
    "sugarcrepe": (sugarcrepe, "the folder of its seven JSON files; val2017 of COCO"),
    "aro-relation": (relations, "visual_genome_relation.json"),
    "aro-attribution": (attributes, "visual_genome_attribution.json"),
    "winoground": (winoground, "its Parquet, or examples.jsonl with the folder images"),
}
"""Reader of the annotations and the folder of pictures of each set, and what to give it."""
