"""The index of a group of shards, made from one finished part for each shard."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mispair.core import files
from mispair.pairs.captions import sorted_captions
from mispair.pairs.captions.decoding import SIDECAR_FIELDS
from mispair.pairs.index.faults import REASONS, Fault
from mispair.pairs.index.index import JOIN_VALUE, Lookup, ShardIndex
from mispair.pairs.index.parts import (
    IMAGES,
    ShardPart,
    fields,
    image_list,
    named,
    read_table,
    table_of,
    write,
)
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards import sources

KEPT = pa.schema(
    list(IMAGES)
    + fields(
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
    + fields(True, **dict.fromkeys(SIDECAR_FIELDS, pa.string()))
)
"""Columns of the index: one row for each kept pair; ``row`` is that of its image in `IMAGES`."""

REJECTED = pa.schema(
    fields(False, key=pa.string(), shard=pa.string(), reason=pa.string(), detail=pa.string())
)
"""Columns of the rejected table: one row for each sample that is not kept."""


def columns(policy: Policy) -> pa.Schema:
    """Return the columns of an index: `KEPT`, and what joins a caption table if not the key."""
    joined = [] if policy.join_field is None else [JOIN_VALUE]
    further = [pa.field(name, pa.string()) for name in (*joined, *policy.json_fields)]
    return pa.schema([*KEPT, *further])


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
            f"\n  {reason:<20} {number:>9} {100 * number / self.read:>7.2f} %"
            for reason, number in ordered
        )

    def metadata(self) -> dict[str, str]:
        """Return the counts as they are in the metadata of the group's tables."""
        names = ("read", "kept", "rejected", "ignored")
        return {name: str(getattr(self, name)) for name in names}


def write_part(
    part: ShardPart,
    alive: Callable[[], None],
    *,
    read: Callable[..., ShardIndex],
    policy: Policy,
    table: Path | None,
) -> float:
    """Read a shard with ``read(shard, policy, lookup, alive, images)``, write its part.

    Keys of a named source begin with its name, in the caption table too. Returns seconds.
    """
    started = time.monotonic()
    prefix = part.prefix if policy.join_field is None else ""

    def lookup(keys: list[str]) -> dict[str, list[str]]:
        captions = _opened(table)([prefix + key for key in keys]) if table else {}
        return {key.removeprefix(prefix): texts for key, texts in captions.items()}

    images = image_list(*part.tables)
    result = read(part.shard, policy, lookup if table else None, alive, images)
    alive()
    refused, kept = named(part, result.rejected), named(part, result.kept)
    write(part.rejected, REJECTED, [table_of(refused, REJECTED)], {})
    schema, ignored = columns(policy), {"ignored": str(result.ignored)}
    write(part.main, schema, [table_of(kept, schema)], ignored)
    return time.monotonic() - started


@lru_cache(maxsize=1)
def _opened(table: Path) -> Lookup:
    """Open a caption table once for all shards of a process."""
    return sorted_captions.lookup(table)


def unlisted(parts: Iterable[ShardPart]) -> dict[ShardPart, str]:
    """Return the cause for each shard that no worker could read when its images were listed."""
    damage = {part: image_list(*part.tables).damage for part in parts}
    return {part: why[1] for part, why in damage.items() if why and why[0] == Fault.LOST_WORKER}


def count(part: ShardPart) -> Counts:
    """Count the samples of a finished part."""
    kept = pq.read_metadata(part.main)
    reasons = read_table(part.rejected, ["reason"]).column("reason")
    return Counts(kept.num_rows, int(kept.metadata[b"ignored"]), Counter[str](reasons.to_pylist()))


def total(parts: Iterable[ShardPart], lost: Mapping[ShardPart, str]) -> Counts:
    """Count the samples of all parts; a shard without a part counts as one rejected sample."""
    return sum(
        (
            Counts(reasons=Counter({Fault.LOST_WORKER: 1})) if part in lost else count(part)
            for part in parts
        ),
        Counts(),
    )


def gather(
    parts: Sequence[ShardPart],
    lost: Mapping[ShardPart, str],
    policy: Policy,
    *,
    index: Path,
    rejected: Path,
) -> Counts:
    """Write the group's tables and return its counts: a row group for each shard.

    One shard is in memory at a time. `lost` has the cause for each shard that no worker could read.
    The metadata have the counts, and img2dataset's statistics of the shards.
    """
    counts, whole = total(parts, lost), [part for part in parts if part not in lost]
    samples = {part.shard: count(part).samples for part in whole}
    metadata = counts.metadata() | {
        "downloads": json.dumps(sources.downloads([p.shard for p in parts]), sort_keys=True),
        "written": json.dumps(sources.compare_counts(samples), sort_keys=True),
        "captions_per_line": json.dumps(policy.captions_per_line),
    }
    refused = (_lost(part, lost[part]) if part in lost else read_table(part.rejected)
               for part in parts)  # fmt: skip
    write(rejected, REJECTED, refused, metadata)
    write(index, columns(policy), _kept(parts, lost), metadata)
    return counts


def _lost(part: ShardPart, detail: str) -> pa.Table:
    row = {"key": "", "shard": part.name, "reason": Fault.LOST_WORKER, "detail": detail}
    return table_of([row], REJECTED)


def _kept(parts: Iterable[ShardPart], lost: Mapping[ShardPart, str]) -> Iterator[pa.Table]:
    """Yield the kept pairs of each shard, with the rows of their images in the whole group."""
    start = 0
    for part in parts:
        if part not in lost:
            table = read_table(part.main)
            if start:
                position = table.schema.get_field_index("row")
                rows = pc.add(table["row"], pa.scalar(start, pa.int32()))
                table = table.set_column(position, table.schema.field(position), rows)
            yield table
        start += len(part.tables[0])


def groups_rejected_for(reasons: Iterable[str], rejected_files: Iterable[Path]) -> list[Path]:
    """Return those rejected tables that have a row of one of the given reasons, in order.

    These groups are to be read again once the cause is gone, such as a broken disk.

    Raises
    ------
    UserError
        If a reason is not one of ``mispair.pairs.index.faults.REASONS``, or a table cannot be read.
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
            raise files.UserError(
                f"{path}: cannot be read as Parquet ({error}). Delete it and run again."
            ) from error
        if chosen & set(column.unique().to_pylist()):
            groups.append(path)
    return groups
