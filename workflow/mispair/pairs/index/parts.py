"""Finished parts on disk, one for each shard of a job, to reuse them; the images of a group."""

import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from mispair.core import files, provenance, stamps
from mispair.core.files import UserError
from mispair.pairs.index.faults import Fault, ImageLimits
from mispair.pairs.index.image_list import MAX_DETAIL, ImageList, list_images, readable
from mispair.pairs.shards import remote
from mispair.pairs.shards.staging import fetched
from mispair.pairs.shards.supervision import Lost, supervise


@dataclass(frozen=True)
class ShardPart:
    """What was read from one shard, on disk; `stem` differs when anything it depends on does."""

    name: str
    """As the index names the shard: its file name, after ``SOURCE/`` if sources have names."""
    shard: Path
    folder: Path
    stem: str
    tables: tuple[pa.Table, ...] = field(default=(), compare=False, repr=False)
    """What another job found in the shard, if the reader needs it."""

    def __str__(self) -> str:
        return self.name

    @property
    def prefix(self) -> str:
        """What precedes the keys of the shard: ``SOURCE/``, or nothing."""
        return self.name.removesuffix(self.shard.name)

    @property
    def main(self) -> Path:
        """The table that is written last, so the part is complete if it exists."""
        return self.folder / f"{self.stem}.parquet"

    @property
    def rejected(self) -> Path:
        """Table of the rejected samples."""
        return self.folder / f"{self.stem}.rejected.parquet"

    @property
    def files(self) -> tuple[Path, Path]:
        """Both tables."""
        return self.main, self.rejected


def plan(
    shards: Mapping[str, Path],
    folder: Path,
    shared: Sequence[str | bytes],
    tables: Mapping[str, tuple[pa.Table, ...]] | None = None,
) -> list[ShardPart]:
    """Name the part of each shard, in the order of the sorted shards, or of their named sources.

    A name depends on what all parts share, such as settings and code, on the shard (path, size,
    times, inode) and on its tables, so a part that is on disk can be reused. A file that is put in
    the place of another has another time of its inode, whatever its own time says.

    Raises
    ------
    UserError
        If a file is missing.
    """
    parts = []
    for name, shard in shards.items():
        given = () if tables is None else tables[name]
        content = [repr(table.to_pydict()) for table in given]
        digest = provenance.fingerprint([*shared, *state(shard), name, *content])
        parts.append(ShardPart(name, shard, folder, f"{shard.stem[:40]}.{digest}", given))
    return sorted(parts, key=lambda part: (part.prefix, part.shard))


def state(path: Path) -> list[str | bytes]:
    """Return path, size, times and inode of a file; raise a UserError if it is missing.

    Those of a remote shard are its address, size and ETag.
    """
    if (far := remote.listed(path)) is not None:
        return [far.address, str(far.size), far.mark]
    try:
        status = path.stat()
    except OSError as error:
        raise files.UserError(
            f"{path}: cannot be read ({error.strerror}). Restore it, or correct `shards`."
        ) from error
    return [os.fsencode(path), *map(str, stamps.file_state(status))]


def at_hand(parts: Sequence[ShardPart]) -> list[ShardPart]:
    """Return parts in their order; those that are not on disk yet with a copy of a remote shard."""
    waiting = [part.shard for part in parts if not part.main.is_file()]
    copies = dict(zip(waiting, fetched(waiting), strict=True))
    return [replace(part, shard=copies.get(part.shard, part.shard)) for part in parts]


def read_unfinished(
    task: Callable[[ShardPart, Callable[[], None]], float],
    parts: Sequence[ShardPart],
    *,
    workers: int,
    stall_seconds: float,
    describe: Callable[[ShardPart], object],
    ending: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda shards: None,
) -> dict[ShardPart, str]:
    """Read the shards whose parts are not on disk yet, in child processes, side by side.

    `task` writes a part and returns the seconds that it took. With 0 workers it runs in this
    process, which saves the start of another. It ends once `ending` returns True; shards that are
    read by then stay read. `progress` gets their number, and `describe` the content
    of a part for the log. Returns the cause for each shard that no worker could read.
    """
    log = logging.getLogger(__name__)
    waiting = [part for part in parts if not part.main.is_file()]
    if len(waiting) < len(parts):
        log.info("%d of %d shards were read before", len(parts) - len(waiting), len(parts))
    lost = {}
    finished = len(parts) - len(waiting)
    progress(finished)
    with closing(
        supervise(task, waiting, workers=workers, stall_seconds=stall_seconds, ending=ending)
    ) as outcomes:
        for done, (part, seconds) in enumerate(outcomes, start=finished + 1):
            if isinstance(seconds, Lost):
                log.warning("%s: lost: %s", part, seconds.detail)
                lost[part] = seconds.detail
            else:
                log.info("%s: %s, %.1f s", part, describe(part), seconds)
            progress(done)
    return lost


def named(part: ShardPart, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows with the name of their shard; keys of a named source begin with its name."""
    return [
        {**row, "shard": part.name, "key": row["key"] and part.prefix + row["key"]} for row in rows
    ]


def table_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table; raise a ValueError if their columns are not those of the schema."""
    names = {*schema.names}
    for row in rows:
        if row.keys() != names:  # pyarrow would leave columns out, or fill them
            raise ValueError(f"a row has columns {sorted(row)}, not {sorted(schema.names)}")
    if not rows:
        return empty_table(schema)
    # `Table.from_pylist` imports pandas, which takes as long as 2000 pictures.
    content = pa.py_buffer("\n".join(map(json.dumps, rows)).encode())
    whole = pyarrow.json.ReadOptions(use_threads=False, block_size=len(content) + 1)
    typed = pyarrow.json.ParseOptions(explicit_schema=schema)
    return pyarrow.json.read_json(pa.BufferReader(content), whole, typed).cast(schema)


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; `Schema.empty_table` imports pandas."""
    return pa.Table.from_batches([], schema)


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet file; `pyarrow.parquet.read_table` imports pandas."""
    with pq.ParquetFile(path) as opened:
        return opened.read(columns)


def write(
    path: Path, schema: pa.Schema, tables: Iterable[pa.Table], metadata: Mapping[str, str]
) -> None:
    """Write tables as the row groups of a Parquet file; empty ones are left out."""
    schema = schema.with_metadata(dict(metadata))
    with (
        files.replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for table in tables:
            if table.num_rows:
                writer.write_table(table.replace_schema_metadata(dict(metadata)))


# The images of a group of shards, made from one finished part for each shard.


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


def write_part(part: ShardPart, alive: Callable[[], None], *, limits: ImageLimits) -> float:
    """List the images of a shard, write its part; return seconds."""
    started = time.monotonic()
    images = list_images(part.shard, limits, alive=alive)
    faults = [*images.faults.items(), *([(None, images.damage)] if images.damage else [])]
    rows = [_unusable(part, offset, *fault) for offset, fault in faults]
    write(part.rejected, UNUSABLE, [table_of(rows, UNUSABLE)], {})
    write(part.main, IMAGES, [table_of(named(part, images.usable.values()), IMAGES)], {})
    return time.monotonic() - started


def _unusable(part: ShardPart, offset: int | None, reason: str, detail: str) -> dict[str, object]:
    detail = readable(detail)[:MAX_DETAIL]
    return {"shard": part.name, "image_offset": offset, "reason": reason, "detail": detail}


def describe(part: ShardPart) -> str:
    """Return the counts of a finished part."""
    usable, others = (pq.read_metadata(path).num_rows for path in (part.main, part.rejected))
    return f"{usable} images, {others} faults"


def gather(
    parts: Sequence[ShardPart], lost: Mapping[ShardPart, str], *, images: Path, unusable: Path
) -> tuple[int, int]:
    """Write the group's tables, a row group for each shard; return the numbers of rows.

    `lost` has the cause for each shard that no worker could read.
    """

    def faults(part: ShardPart) -> pa.Table:
        if part in lost:
            return table_of([_unusable(part, None, Fault.LOST_WORKER, lost[part])], UNUSABLE)
        return read_table(part.rejected)

    whole = [part for part in parts if part not in lost]
    write(images, IMAGES, (read_table(part.main) for part in whole), {})
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
    empty = empty_table(IMAGES), empty_table(UNUSABLE)
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
