"""The images of a group of shards, made from one finished part for each shard."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mispair.core.files import UserError
from mispair.pairs.index.faults import Fault
from mispair.pairs.index.image_limits import ImageLimits
from mispair.pairs.index.image_list import MAX_DETAIL, ImageList, list_images, readable
from mispair.pairs.index.parts import Part, named, table_of, write


def fields(nullable: bool, **types: pa.DataType) -> list[pa.Field]:
    """Return the fields of a schema."""
    return [pa.field(name, kind, nullable=nullable) for name, kind in types.items()]


IMAGES = pa.schema(
    fields(
        False,
        key=pa.string(),
        shard=pa.string(),
        image_offset=pa.int64(),
        image_bytes=pa.int64(),
        image_id=pa.string(),
        width=pa.int32(),
        height=pa.int32(),
    )
)
"""Columns of the table of images, which no caption decides on."""

UNUSABLE = pa.schema(
    fields(False, shard=pa.string())
    + fields(True, image_offset=pa.int64())
    + fields(False, reason=pa.string(), detail=pa.string())
)
"""Columns of the table of images that cannot be encoded; without an offset it is the shard."""


def write_part(part: Part, alive: Callable[[], None], *, limits: ImageLimits) -> float:
    """List the images of a shard, write its part; return seconds."""
    started = time.monotonic()
    images = list_images(part.shard, limits, alive=alive)
    faults = [*images.faults.items(), *([(None, images.damage)] if images.damage else [])]
    rows = [_unusable(part, offset, *fault) for offset, fault in faults]
    write(part.rejected, UNUSABLE, [table_of(rows, UNUSABLE)], {})
    write(part.main, IMAGES, [table_of(named(part, images.usable.values()), IMAGES)], {})
    return time.monotonic() - started


def _unusable(part: Part, offset: int | None, reason: str, detail: str) -> dict[str, object]:
    detail = readable(detail)[:MAX_DETAIL]
    return {"shard": part.name, "image_offset": offset, "reason": reason, "detail": detail}


def describe(part: Part) -> str:
    """Return the counts of a finished part."""
    usable, others = (pq.read_metadata(path).num_rows for path in (part.main, part.rejected))
    return f"{usable} images, {others} faults"


def gather(
    parts: Sequence[Part], lost: Mapping[Part, str], *, images: Path, unusable: Path
) -> tuple[int, int]:
    """Write the group's tables, a row group for each shard; return the numbers of rows.

    `lost` has the cause for each shard that no worker could read.
    """

    def faults(part: Part) -> pa.Table:
        if part in lost:
            return table_of([_unusable(part, None, Fault.LOST_WORKER, lost[part])], UNUSABLE)
        return pq.read_table(part.rejected)

    whole = [part for part in parts if part not in lost]
    write(images, IMAGES, (pq.read_table(part.main) for part in whole), {})
    write(unusable, UNUSABLE, (faults(part) for part in parts), {})
    return pq.read_metadata(images).num_rows, pq.read_metadata(unusable).num_rows


def read_lists(images: Path, unusable: Path) -> Mapping[str, tuple[pa.Table, ...]]:
    """Return the two tables of each shard of a group, by its name; empty ones for other shards.

    Raises
    ------
    UserError
        If a file cannot be read.
    """
    lists: dict[str, list[list[pa.Table]]] = defaultdict(lambda: [[], []])
    for number, path in enumerate((images, unusable)):
        try:
            with pq.ParquetFile(path) as opened:
                for group in range(opened.num_row_groups):
                    table = opened.read_row_group(group)  # rows of one shard
                    lists[table["shard"][0].as_py()][number].append(table)
        except (OSError, pa.ArrowException) as error:
            raise UserError(
                f"{path}: cannot be read as Parquet ({error}). Delete it and run again."
            ) from error
    empty = IMAGES.empty_table(), UNUSABLE.empty_table()
    whole = {
        name: tuple(
            pa.concat_tables(tables) if tables else none
            for tables, none in zip(both, empty, strict=True)
        )
        for name, both in lists.items()
    }
    return defaultdict(lambda: empty, whole)


def image_list(images: pa.Table, unusable: pa.Table) -> ImageList:
    """Return the list of a shard from its two tables."""
    usable = {row["image_offset"]: row for row in images.to_pylist()}
    faults = {row["image_offset"]: (row["reason"], row["detail"]) for row in unusable.to_pylist()}
    damage = faults.pop(None, None)
    return ImageList(usable, faults, damage)
