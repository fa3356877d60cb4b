"""Decide which images of a shard can be encoded. No caption and no caption table decides on it."""

from __future__ import annotations

import errno
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mispair.core.files import UserError
from mispair.pairs.index.faults import Fault, ImageLimits, RejectedError
from mispair.pairs.shards import remote
from mispair.pairs.shards.images import (
    ExtremeShapeError,
    TooManyPixelsError,
    UndecodableImageError,
    decode_image,
    image_size,
)
from mispair.pairs.shards.shards import (
    BUFFER_BYTES,
    MAX_MEMBER_BYTES,
    ShardReader,
    image_candidates,
    is_encodable,
)
from mispair.pairs.shards.tar_members import BrokenTarError, Member

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image


MAX_DETAIL = 300
"""Characters of the detail of a fault."""

IMAGE_FAULTS = {
    UndecodableImageError: Fault.UNDECODABLE_IMAGE,
    TooManyPixelsError: Fault.TOO_MANY_PIXELS,
    ExtremeShapeError: Fault.EXTREME_SHAPE,
}


@dataclass
class ImageList:
    """The images of a shard, by their offsets in the file.

    Attributes
    ----------
    usable : dict of int to dict
        key, image_offset, image_bytes, image_id, width and height (pixels, as a viewer shows it),
        in the order of the shard.
    faults : dict of int to (str, str)
        Reason and detail of images that cannot be encoded.
    damage : (str, str), optional
        Reason and detail, if the shard was not read to its end: its other images are not listed.
    """

    usable: dict[int, dict[str, Any]] = field(default_factory=dict)
    faults: dict[int, tuple[str, str]] = field(default_factory=dict)
    damage: tuple[str, str] | None = None

    @cached_property
    def rows(self) -> dict[int, int]:
        """The row of each usable image in this list, by its offset."""
        return {offset: row for row, offset in enumerate(self.usable)}


def image_id(encoded: bytes) -> str:
    """Return 16 hexadecimal digits that name an image's file content."""
    return hashlib.sha256(encoded).hexdigest()[:16]


def readable(text: str) -> str:
    """Return the text with bytes that are not UTF-8 spelled out: Parquet holds characters only."""
    return text.encode("utf-8", "backslashreplace").decode()


def why_unopened(error: OSError, shard: Path) -> str:
    """Return why a shard cannot be opened; raise a UserError if it is gone."""
    if error.errno in (errno.ENOENT, errno.ESTALE):
        raise UserError(
            f"{shard}: is gone since this job began. Restore it and run the command again."
        ) from error
    return f"cannot be opened: {error.strerror}"


def list_images(
    shard: Path,
    limits: ImageLimits,
    max_member_bytes: int = MAX_MEMBER_BYTES,
    alive: Callable[[], None] = lambda: None,
) -> ImageList:
    """Read a shard and list its images; nothing in its content raises an error.

    `alive` is called at least once for each image. A member whose name is not UTF-8 is not listed,
    nor is one of several images with one key.

    Raises
    ------
    UserError
        If the shard is gone: it was there when the job began.
    """
    images = ImageList()
    try:
        opened = Path(shard).open("rb", buffering=BUFFER_BYTES)  # noqa: SIM115 (closed below)
    except OSError as error:
        images.damage = Fault.DAMAGED_SHARD, why_unopened(error, shard)
        return images
    with opened:
        reader = ShardReader(opened)
        try:
            for run in reader.runs():
                alive()
                for candidate in image_candidates(run)[0]:
                    alive()
                    image = candidate.image
                    is_one = len(candidate.images) == 1 and is_encodable(candidate.key)
                    if image is None or not is_one:
                        continue
                    try:
                        columns = _image(image, limits, max_member_bytes, reader)
                        images.usable[image.offset] = {"key": candidate.key, **columns}
                    except RejectedError as error:
                        images.faults[image.offset] = error.reason, error.detail
                if run.damage:
                    images.damage = Fault.DAMAGED_SHARD, run.damage
        except BrokenTarError as error:
            images.damage = Fault.DAMAGED_SHARD, str(error)
    return images


def content(member: Member, limit: int, reader: ShardReader) -> bytes:
    """Return the content of a member, or raise a RejectedError if it is over the limit (bytes)."""
    if member.size > limit:
        raise RejectedError(
            Fault.MEMBER_TOO_LARGE,
            f"{member.name}: {member.size} bytes are over the limit of {limit}",
        )
    return reader.read(member)


def _image(
    member: Member, limits: ImageLimits, max_member_bytes: int, reader: ShardReader
) -> dict[str, Any]:
    """Return where an image is and its size, or raise its fault."""
    encoded = content(member, max_member_bytes, reader)
    try:
        width, height = image_size(encoded, limits.max_image_pixels, limits.max_aspect_ratio)
    except UndecodableImageError as error:
        raise RejectedError(IMAGE_FAULTS[type(error)], str(error)) from error
    if min(width, height) < limits.min_image_side:
        raise RejectedError(
            Fault.TOO_SMALL_IMAGE,
            f"{width} x {height} pixels, a side is below {limits.min_image_side}",
        )
    return {
        "image_offset": member.offset,
        "image_bytes": member.size,
        "image_id": image_id(encoded),
        "width": width,
        "height": height,
    }


# Read images from the positions that an index has for them.


class MemberPlace(NamedTuple):
    """Where the bytes of an image are in its shard, and what they must be (`pixels`: its area)."""

    key: str
    offset: int
    size: int
    image_id: str
    pixels: int


def locations(index: pd.DataFrame) -> list[MemberPlace]:
    """Return the places of the images of an index, in its order."""
    columns = [index[name] for name in ("key", "image_offset", "image_bytes", "image_id")]
    pixels = index["width"].astype("int64") * index["height"]
    return [
        MemberPlace(*row) for row in zip(*(c.tolist() for c in [*columns, pixels]), strict=True)
    ]


def by_name(shards: Sequence[Path], sources: Sequence[str]) -> dict[str, Path]:
    """Return shards by the name that an index gives them, in their order.

    `sources` are the names of each shard's source, which precede the file name
    (``SOURCE/00000.tar``); empty where sources have no names.

    Raises
    ------
    UserError
        If two shards have one name.
    """
    named: dict[str, Path] = {}
    for shard, source in zip(shards, sources or [""] * len(shards), strict=True):
        name = f"{source}/{shard.name}" if source else shard.name
        if name in named:
            raise UserError(
                f"{shard} and {named[name]} have the same file name, by which the index names "
                "them. Rename one, or name their sources (shards: {a: ..., b: ...})."
            )
        named[name] = shard
    return named


def read_encoded(shard: Path, sites: Sequence[MemberPlace]) -> Iterator[bytes]:
    """Yield the bytes of images, each read at its offset: nothing else of the shard is read.

    Raises
    ------
    UserError
        If the shard is missing, or holds other bytes there than when it was indexed.
    """
    try:
        for site, encoded in zip(sites, _read_places(Path(shard), sites), strict=True):
            if image_id(encoded) != site.image_id:
                raise UserError(
                    f"{shard}: the image of {site.key!r} is no longer where the index says "
                    f"({site.size} bytes from byte {site.offset}): the shard was changed "
                    "after it was indexed. Index it again, or put the old shard back."
                )
            yield encoded
    except OSError as error:
        raise UserError(
            f"{shard}: cannot be read ({error.strerror}). Put the shard back where it was when it "
            "was indexed, or index again."
        ) from error


def _read_places(shard: Path, sites: Sequence[MemberPlace]) -> Iterator[bytes]:
    if (far := remote.listed(shard)) is not None:
        yield from remote.read_ranges(far, [(site.offset, site.size) for site in sites])
        return
    with shard.open("rb", buffering=0) as opened:
        for site in sites:
            yield os.pread(opened.fileno(), site.size, site.offset)


def read_images(shard: Path, sites: Sequence[MemberPlace]) -> Iterator[Image.Image]:
    """Yield images as RGB; see `read_encoded`."""
    for site, encoded in zip(sites, read_encoded(shard, sites), strict=True):
        try:
            yield decode_image(encoded, site.pixels, math.inf)  # the index has set the limits
        except UndecodableImageError as error:
            raise UserError(
                f"{shard}: the image of {site.key!r} cannot be decoded ({error}). Index the shard "
                "again with this version."
            ) from error
