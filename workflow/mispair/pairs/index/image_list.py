"""Decide which images of a shard can be encoded. No caption and no caption table decides on it."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.pairs.index.faults import Fault, RejectedError
from mispair.pairs.index.image_limits import ImageLimits
from mispair.pairs.shards.images import (
    ExtremeShapeError,
    TooManyPixelsError,
    UndecodableImageError,
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
