"""Write questions as a folder in CLIP_benchmark's webdataset layout."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from mispair.core.files import UserError
from mispair.core.folders import replacing_folder
from mispair.evaluation.converters.entries import Entry
from mispair.pairs.shards.images import UndecodableImageError, decode_image
from mispair.pairs.shards.shard_writer import add_member

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
