"""Samples of a shard of an evaluation set: names with dots, and members in any order.

Names are read as those of training shards (`mispair.pairs.shards.shards.split_run`). The members of
a sample need not be adjacent, because some tools order a tar by ending. So the headers of a shard
are read before its first sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mispair.pairs.shards.shards import (
    BUFFER_BYTES,
    IMAGE_EXTENSIONS,
    MAX_MEMBER_BYTES,
    MAX_TEXT_BYTES,
    AdjacentMembers,
    Candidate,
    Sample,
    ShardReader,
    TruncatedShardError,
    split_run,
)
from mispair.pairs.shards.tar_members import BrokenTarError


def read_set_samples(shard: Path, label_extension: str) -> Iterator[Sample]:
    """Yield the samples of a shard, in the order of their first members.

    Only plain files are read: images of at most `MAX_MEMBER_BYTES`, others of at most
    `MAX_TEXT_BYTES`. A sample lacks the rest. Of members with the same name the first one counts.

    Parameters
    ----------
    shard : Path
        The tar.
    label_extension : str
        Extension that, with an image, makes a sample complete: ``cls`` or ``txt``.

    Raises
    ------
    TruncatedShardError
        If the shard is damaged; every sample yielded before is whole.
    """
    key = None
    try:
        with Path(shard).open("rb", buffering=BUFFER_BYTES) as opened:
            reader = ShardReader(opened)
            for run in _joined([*reader.runs()]):
                key = run.key
                if run.damage:
                    raise TruncatedShardError(run.key or None, run.damage)
                for candidate in split_run(run, label_extension, lambda key: False):
                    yield _sample(candidate, reader)
    except (BrokenTarError, OSError) as error:
        raise TruncatedShardError(key, str(error)) from error


def _joined(runs: Sequence[AdjacentMembers]) -> Iterator[AdjacentMembers]:
    """Yield runs; those of one key as one, unless a name repeats: then they are other samples."""
    by_key: dict[str, list[AdjacentMembers]] = {}
    for run in runs:
        by_key.setdefault(run.key, []).append(run)
    for run in runs:
        of_key = by_key[run.key]
        names = [member.name.lower() for each in of_key for member in each.members]
        if len(of_key) == 1 or len(set(names)) < len(names) or any(one.damage for one in of_key):
            yield run
        elif run is of_key[0]:
            yield AdjacentMembers(run.key, [member for each in of_key for member in each.members])


def _sample(candidate: Candidate, reader: ShardReader) -> Sample:
    sample = Sample(candidate.key)
    for extension, member in candidate.members:
        limit = MAX_MEMBER_BYTES if extension in IMAGE_EXTENSIONS else MAX_TEXT_BYTES
        if member.is_file and member.size <= limit:
            sample.members.setdefault(extension, reader.read(member))
    return sample
