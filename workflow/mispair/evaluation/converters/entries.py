"""Questions from the files of public sets: checked, then written as an evaluation set."""

from __future__ import annotations

import io
import json
import logging
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from mispair.core.files import UserError, replacing_folder
from mispair.pairs.shards.images import UndecodableImageError, decode_image
from mispair.pairs.shards.shard_writer import add_member

log = logging.getLogger(__name__)

MOST_NAMED = 5
"""Most missing pictures that a message names; further ones are counted."""

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class Entry:
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


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; a repeated key is refused, not overwritten.

    Raises
    ------
    UserError
        If the file is missing, is not JSON, or has a key twice.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for key, value in pairs:
            if key in entries:
                raise UserError(
                    f"{path}: lists {key!r} twice. One of them would be lost silently: remove one, "
                    "or give it a key of its own."
                )
            entries[key] = value
        return entries

    try:
        return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)
    except FileNotFoundError as error:
        raise UserError(f"{path}: is missing.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON ({error}).") from error


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


def checked(entries: Iterable[Entry]) -> list[Entry]:
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


def _on_lines(entry: Entry) -> Entry:
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
    return Entry(
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


def write_questions(target: Path, entries: Sequence[Entry]) -> None:
    """Write a set for the choice of captions: pictures, their captions, categories and pairs.

    Parameters
    ----------
    target : Path
        A folder that does not exist yet.
    entries : sequence of Entry
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


def _members(entry: Entry) -> dict[str, bytes]:
    labels = {"category": entry.category, "pair": entry.pair}
    labels = {name: text for name, text in labels.items() if text}
    ending, picture = _picture(entry)
    members = {ending: picture, "txt": "\n".join(entry.captions).encode("utf-8")}
    if labels:
        members["json"] = json.dumps(labels, ensure_ascii=False).encode("utf-8")
    return members


def _picture(entry: Entry) -> tuple[str, bytes]:
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
