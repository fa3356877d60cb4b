"""What is at the start of tar shards: read before any job, and once a shard."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import BinaryIO, NamedTuple

from mispair.pairs.shards.shards import (
    IMAGE_EXTENSIONS,
    MAX_TEXT_BYTES,
    AdjacentMembers,
    Candidate,
    ShardReader,
    split_run,
)
from mispair.pairs.shards.tar_members import BLOCK, BrokenTarError, Member

MEMBERS = 300
"""Members at the start of a shard whose names are read."""
SAMPLES = 20
"""Samples at the start of a shard whose texts are read."""
LEAST_BYTES = 2 * BLOCK
"""A header and a file: a smaller shard has no sample."""
REMEMBERED = 64
"""Shards whose start is kept in memory: texts of first samples have some kilobytes."""


class FirstSamples(NamedTuple):
    """The start of a shard, without the content of its pictures."""

    runs: tuple[AdjacentMembers, ...] = ()
    """As many as have `MEMBERS` members, and `SAMPLES` at least."""
    texts: Mapping[Member, bytes] = {}
    """Content of all small members that are no pictures, of the first samples."""
    fault: str = ""
    """Why no sample can be read; empty if one can."""

    @property
    def is_whole(self) -> bool:
        """Whether this is the shard to its end, with all of its texts."""
        members = sum(len(run.members) for run in self.runs)
        return members < MEMBERS and len(self.runs) <= SAMPLES

    def candidates(
        self, extension: str, has_table: bool = False
    ) -> Iterator[tuple[AdjacentMembers, Candidate]]:
        """Yield what the first samples hold, with captions of an ending or of a table."""
        for run in self.runs[:SAMPLES]:
            yield from ((run, one) for one in split_run(run, extension, lambda key: has_table))


def first_samples(shard: str, is_whole: bool = False, names_only: bool = False) -> FirstSamples:
    """Return the start of a shard on this machine, or all of it (`is_whole`).

    Only its start is remembered, until the file changes. Of a whole shard texts may be left out
    (`names_only`).
    """
    try:
        status = os.stat(shard)
        start = _remembered(shard, status.st_mtime_ns, status.st_size)
        if not is_whole or start.is_whole:
            return start
        with open(shard, "rb") as opened:
            return read_first_samples(opened, sys.maxsize, texts_of=0 if names_only else None)
    except OSError as error:
        return FirstSamples(fault=f"cannot be read: {error.strerror}")


@lru_cache(REMEMBERED)
def _remembered(shard: str, time: int, size: int) -> FirstSamples:
    with open(shard, "rb") as opened:
        return read_first_samples(opened)


def read_first_samples(
    opened: BinaryIO, samples: int = SAMPLES, goes_on: bool = False, texts_of: int | None = None
) -> FirstSamples:
    """Read the start of an opened shard.

    A shard that `goes_on` has more bytes than are opened: a sample that these cut off is left out.
    Texts are those of the first `texts_of` samples, of all that are read if it is None.
    """
    reader, runs, members = ShardReader(opened), list[AdjacentMembers](), 0
    for run in reader.runs():
        runs.append(run)
        members += len(run.members)
        if members >= MEMBERS and len(runs) >= samples:
            break
    if goes_on and members and runs[-1].damage:
        runs.pop()
    texts: dict[Member, bytes] = {}
    texts_of = samples if texts_of is None else texts_of
    for member in (member for run in runs[:texts_of] for member in run.members):
        is_picture = member.name.lower().endswith(IMAGE_EXTENSIONS)
        if member.is_file and not is_picture and member.size <= MAX_TEXT_BYTES:
            with suppress(BrokenTarError):  # it is cut off
                texts[member] = reader.read(member)
    is_read = any(not run.damage for run in runs) or (goes_on and members)
    fault = "" if is_read else next((run.damage for run in runs), "has no sample")
    return FirstSamples(tuple(runs), texts, fault)
