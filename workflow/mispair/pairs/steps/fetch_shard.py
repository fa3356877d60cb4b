"""Fetch a remote shard, once for all jobs that read it."""

from pathlib import Path

from mispair.core import settings


class Settings(settings.Settings):
    keep_local: bool = settings.sweep(
        False,
        description="Whether copies of remote shards stay below results/. Otherwise one job "
        "fetches the shards of a group, indexes and encodes them, and removes them; pages fetch "
        "the pictures that they show. Trainings of towers keep copies in any case.",
    )


def run(settings: Settings, *, address: str, size: int, mark: str, local: Path) -> None:
    """Write a copy of a remote shard.

    `size` (bytes) and `mark` (its ETag) are those of the listing at the start of the run.

    Raises
    ------
    UserError
        If the shard changed since then, or cannot be read.
    """
    from mispair.core.progress import Progress
    from mispair.pairs.shards.remote import RemoteShard, keep_copy

    with Progress("fetching", size, "bytes") as progress:
        keep_copy(RemoteShard(address, size, mark), local, progress.advance)
