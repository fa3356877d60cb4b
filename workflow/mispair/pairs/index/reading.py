"""Read images from the positions that an index has for them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mispair.core.files import UserError
from mispair.pairs.index.image_list import image_id
from mispair.pairs.shards.images import UndecodableImageError, decode_image

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image


class Place(NamedTuple):
    """Where the bytes of an image are in its shard, and what they must be (`pixels`: its area)."""

    key: str
    offset: int
    size: int
    image_id: str
    pixels: int


def locations(index: pd.DataFrame) -> list[Place]:
    """Return the places of the images of an index, in its order."""
    columns = [index[name] for name in ("key", "image_offset", "image_bytes", "image_id")]
    pixels = index["width"].astype("int64") * index["height"]
    return [Place(*row) for row in zip(*(c.tolist() for c in [*columns, pixels]), strict=True)]


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


def read_encoded(shard: Path, sites: Sequence[Place]) -> Iterator[bytes]:
    """Yield the bytes of images, each read at its offset: nothing else of the shard is read.

    Raises
    ------
    UserError
        If the shard is missing, or holds other bytes there than when it was indexed.
    """
    try:
        with Path(shard).open("rb", buffering=0) as opened:
            for site in sites:
                encoded = os.pread(opened.fileno(), site.size, site.offset)
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


def read_images(shard: Path, sites: Sequence[Place]) -> Iterator[Image.Image]:
    """Yield images as RGB; see `read_encoded`."""
    for site, encoded in zip(sites, read_encoded(shard, sites), strict=True):
        try:
            yield decode_image(encoded, site.pixels, math.inf)  # the index has set the limits
        except UndecodableImageError as error:
            raise UserError(
                f"{shard}: the image of {site.key!r} cannot be decoded ({error}). Index the shard "
                "again with this version."
            ) from error
