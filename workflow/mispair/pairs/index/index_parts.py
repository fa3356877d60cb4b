"""The index of a group of shards, made from one finished part for each shard."""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mispair.core import files, provenance
from mispair.pairs.captions import sorted_captions
from mispair.pairs.captions.decoding import SIDECAR_FIELDS
from mispair.pairs.index import index
from mispair.pairs.index.index import JOIN_VALUE, ShardIndex
from mispair.pairs.index.policy import REASONS, Fault, Policy
from mispair.pairs.shards import sources
from mispair.pairs.shards.supervision import Lost, supervise


def _fields(nullable: bool, **types: pa.DataType) -> list[pa.Field]:
    return [pa.field(name, kind, nullable=nullable) for name, kind in types.items()]


IMAGES = pa.schema(
    _fields(
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

KEPT = pa.schema(
    list(IMAGES)
    + _fields(
        False,
        row=pa.int32(),
        caption=pa.string(),
        caption_id=pa.string(),
        more_captions=pa.list_(pa.string()),
        words=pa.int32(),
        characters=pa.int32(),
        person=pa.bool_(),
        non_ascii=pa.bool_(),
        control=pa.bool_(),
    )
    + _fields(True, **dict.fromkeys(SIDECAR_FIELDS, pa.string()))
)
"""Columns of the index: one row for each kept pair; ``row`` is that of its image in `IMAGES`."""

REJECTED = pa.schema(
    _fields(False, key=pa.string(), shard=pa.string(), reason=pa.string(), detail=pa.string())
)
"""Columns of the rejected table: one row for each sample that is not kept."""


def columns(policy: Policy) -> pa.Schema:
    """Return the columns of an index: `KEPT`, and what joins a caption table if not the key."""
    joined = [] if policy.join_field is None else [JOIN_VALUE]
    further = [pa.field(name, pa.string()) for name in (*joined, *policy.json_fields)]
    return pa.schema([*KEPT, *further])


@dataclass(frozen=True)
class Part:
    """What was read from one shard, on disk; `stem` differs when anything it depends on does."""

    name: str
    """As the index names the shard: its file name, after ``SOURCE/`` if sources have names."""
    shard: Path
    folder: Path
    stem: str

    def __str__(self) -> str:
        return self.name

    @property
    def prefix(self) -> str:
        """What precedes the keys of the shard: ``SOURCE/``, or nothing."""
        return self.name.removesuffix(self.shard.name)

    @property
    def kept(self) -> Path:
        """Table of the kept pairs; written last, so the part is complete if it exists."""
        return self.folder / f"{self.stem}.parquet"

    @property
    def rejected(self) -> Path:
        """Table of the rejected samples."""
        return self.folder / f"{self.stem}.rejected.parquet"

    @property
    def images(self) -> Path:
        """Table of the usable images."""
        return self.folder / f"{self.stem}.images.parquet"


@dataclass
class Counts:
    """Counts of kept and rejected samples of one shard, or of several."""

    kept: int = 0
    ignored: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def rejected(self) -> int:
        """Number of rejected samples."""
        return self.reasons.total()

    @property
    def read(self) -> int:
        """Number of samples seen."""
        return self.kept + self.rejected

    @property
    def samples(self) -> int:
        """Number of samples seen, without the rows for damage."""
        return self.read - self.reasons[Fault.DAMAGED_SHARD]

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.kept + other.kept, self.ignored + other.ignored, self.reasons + other.reasons
        )

    def __str__(self) -> str:
        return f"read {self.read}, kept {self.kept}, rejected {self.rejected}"

    def table(self) -> str:
        """Return one line for each reason, the most frequent first."""
        ordered = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))
        return "".join(
            f"\n  {reason:<20} {number:>9} {number / self.read:>8.2%}" for reason, number in ordered
        )

    def metadata(self) -> dict[str, str]:
        """Return the counts as they are in the metadata of the group's tables."""
        names = ("read", "kept", "rejected", "ignored")
        return {name: str(getattr(self, name)) for name in names}


def plan(
    shards: Mapping[str, Path],
    folder: Path,
    policy: Policy,
    table: Path | None,
    code: Sequence[str],
) -> list[Part]:
    """Name the part of each shard, in the order of the sorted shards, or of their named sources.

    A name depends on the policy, the code, the shard (path, size, time of change) and the caption
    table, so a part that is on disk can be reused. Raises a UserError if a file is missing.
    """
    shared = [repr(policy), *code, *(_state(table) if table else [])]
    parts = []
    for name, shard in shards.items():
        digest = provenance.fingerprint([*shared, *_state(shard), name])
        parts.append(Part(name, shard, folder, f"{shard.stem[:40]}.{digest}"))
    return sorted(parts, key=lambda part: (part.prefix, part.shard))


def _state(path: Path) -> list[str | bytes]:
    try:
        stat = path.stat()
    except OSError as error:
        raise files.UserError(
            f"{path}: cannot be read ({error.strerror}). Restore it, or correct `shards`."
        ) from error
    return [os.fsencode(path), str(stat.st_size), str(stat.st_mtime_ns)]


def read_unfinished(
    parts: Sequence[Part],
    policy: Policy,
    table: Path | None,
    *,
    workers: int,
    stall_seconds: float,
    ending: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] = lambda shards: None,
) -> dict[Part, pa.Table]:
    """Read the shards whose parts are not on disk yet, in child processes, side by side.

    It ends once `ending` returns True; shards that are read by then stay read. `progress` gets
    their number. Returns the one rejected row of each shard that no worker could read.
    """
    log = logging.getLogger(__name__)
    waiting = [part for part in parts if not part.kept.is_file()]
    if len(waiting) < len(parts):
        log.info("%d of %d shards were read before", len(parts) - len(waiting), len(parts))
    task = partial(write_part, read=index.index_shard, policy=policy, table=table)
    lost = {}
    finished = len(parts) - len(waiting)
    progress(finished)
    with closing(
        supervise(task, waiting, workers=workers, stall_seconds=stall_seconds, ending=ending)
    ) as outcomes:
        for done, (part, seconds) in enumerate(outcomes, start=finished + 1):
            if isinstance(seconds, Lost):
                log.warning("%s: lost: %s", part, seconds.detail)
                lost[part] = _lost(part, seconds.detail)
            else:
                log.info("%s: %s, %.1f s", part, count(part), seconds)
            progress(done)
    return lost


def write_part(
    part: Part,
    alive: Callable[[], None],
    *,
    read: Callable[..., ShardIndex],
    policy: Policy,
    table: Path | None,
) -> float:
    """Read a shard with ``read(shard, policy, lookup, alive)``, write its part; return seconds.

    Keys of a named source begin with its name, in the caption table too.
    """
    started = time.monotonic()
    whole = sorted_captions.lookup(table) if table else None
    prefix = part.prefix if policy.join_field is None else ""

    def lookup(keys: list[str]) -> dict[str, list[str]]:
        assert whole is not None
        captions = whole([prefix + key for key in keys])
        return {key.removeprefix(prefix): texts for key, texts in captions.items()}

    result = read(part.shard, policy, lookup if whole else None, alive)
    for row in result.kept + result.rejected + result.images:
        row["shard"] = part.name
        row["key"] = row["key"] and part.prefix + row["key"]
    alive()
    _write(part.rejected, REJECTED, [_table(result.rejected, REJECTED)], {})
    _write(part.images, IMAGES, [_table(result.images, IMAGES)], {})
    schema, ignored = columns(policy), {"ignored": str(result.ignored)}
    _write(part.kept, schema, [_table(result.kept, schema)], ignored)
    return time.monotonic() - started


def _table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    for row in rows:
        if row.keys() != set(schema.names):  # pyarrow would leave columns out, or fill them
            raise ValueError(f"a row has columns {sorted(row)}, not {sorted(schema.names)}")
    return pa.Table.from_pylist(rows, schema=schema)


def _lost(part: Part, detail: str) -> pa.Table:
    row = {"key": "", "shard": part.name, "reason": Fault.LOST_WORKER, "detail": detail}
    return _table([row], REJECTED)


def count(part: Part) -> Counts:
    """Count the samples of a finished part."""
    kept = pq.read_metadata(part.kept)
    reasons = pq.read_table(part.rejected, columns=["reason"]).column("reason")
    return Counts(kept.num_rows, int(kept.metadata[b"ignored"]), Counter[str](reasons.to_pylist()))


def total(parts: Iterable[Part], missing: Mapping[Part, pa.Table]) -> Counts:
    """Count the samples of all parts; a shard without a part counts as one rejected sample."""
    return sum(
        (
            Counts(reasons=Counter({Fault.LOST_WORKER: 1})) if part in missing else count(part)
            for part in parts
        ),
        Counts(),
    )


def gather(
    parts: Sequence[Part],
    missing: Mapping[Part, pa.Table],
    policy: Policy,
    *,
    index: Path,
    rejected: Path,
    images: Path,
) -> Counts:
    """Write the group's tables and return its counts: a row group for each shard.

    One shard is in memory at a time. `missing` has the rejected rows of the shards that have no
    part. The metadata have the counts, and img2dataset's statistics of the shards.
    """
    counts, whole = total(parts, missing), [part for part in parts if part not in missing]
    samples = {part.shard: count(part).samples for part in whole}
    metadata = counts.metadata() | {
        "downloads": json.dumps(sources.downloads([p.shard for p in parts]), sort_keys=True),
        "written": json.dumps(sources.compare_counts(samples), sort_keys=True),
        "captions_per_line": json.dumps(policy.captions_per_line),
    }
    refused = (missing[part] if part in missing else pq.read_table(part.rejected) for part in parts)
    _write(rejected, REJECTED, refused, metadata)
    _write(images, IMAGES, (pq.read_table(part.images) for part in whole), {})
    _write(index, columns(policy), _kept(whole), metadata)
    return counts


def _kept(parts: Iterable[Part]) -> Iterator[pa.Table]:
    """Yield the kept pairs of each shard, with the rows of their images in the whole group."""
    start = 0
    for part in parts:
        table = pq.read_table(part.kept)
        position = table.schema.get_field_index("row")
        rows = pc.add(table["row"], pa.scalar(start, pa.int32()))
        yield table.set_column(position, table.schema.field(position), rows)
        start += pq.read_metadata(part.images).num_rows


def _write(
    path: Path, schema: pa.Schema, tables: Iterable[pa.Table], metadata: dict[str, str]
) -> None:
    schema = schema.with_metadata(metadata)
    with (
        files.replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for table in tables:
            if table.num_rows:
                writer.write_table(table.replace_schema_metadata(metadata))


def groups_rejected_for(reasons: Iterable[str], rejected_files: Iterable[Path]) -> list[Path]:
    """Return those rejected tables that have a row of one of the given reasons, in order.

    These groups are to be read again once the cause is gone, such as a broken disk.

    Raises
    ------
    UserError
        If a reason is not one of ``mispair.pairs.index.policy.REASONS``, or a table cannot be read.
    """
    chosen = set(reasons)
    if unknown := sorted(chosen - set(REASONS)):
        raise files.UserError(
            f"{', '.join(unknown)}: no such reason. The reasons are {', '.join(sorted(REASONS))}."
        )
    groups = []
    for path in rejected_files:
        try:
            column = pq.read_table(path, columns=["reason"]).column("reason")
        except (OSError, pa.ArrowException) as error:
            raise files.UserError(f"{path}: cannot be read as Parquet ({error}).") from error
        if chosen & set(column.unique().to_pylist()):
            groups.append(path)
    return groups
