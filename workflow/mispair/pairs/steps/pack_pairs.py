"""Pack pairs of any source but tar shards into a shard, as they are: no picture is encoded."""

from __future__ import annotations

from pathlib import Path

from mispair.core import settings


class Settings(settings.Settings):
    pairs_per_shard: int = settings.sweep(
        5000, ge=1,
        description="Pairs that one job packs, indexes and encodes, approximately. Of more than 64 "
        "times as many, a job has more.",
    )  # fmt: skip


def run(
    settings: Settings,
    *,
    path: str,
    captions: str,
    image_column: str,
    caption_column: str,
    key_column: str,
    tables: list[Path],
    group: int,
    pairs_per_shard: int,
    pairs: int,
    shard: Path,
) -> None:
    """Write one of the shards of a source.

    `path`, `captions` and the columns are what the configuration names under `pairs`, or ``none``.
    `tables` are the files with the captions, for the record. `pairs` is the number of pairs that
    the shard gets.

    Raises
    ------
    UserError
        If the source has other pairs by now.
    """
    from mispair.core.files import UserError
    from mispair.core.progress import Progress
    from mispair.core.settings import NONE
    from mispair.core.stamps import remember_many
    from mispair.pairs.sources.packing import pack
    from mispair.pairs.sources.recognition import recognise
    from mispair.pairs.sources.source import Named, files_of

    columns = {"image_column": image_column, "caption_column": caption_column,
               "key_column": key_column}  # fmt: skip
    given = {"path": path, "captions": captions, **columns}
    named = Named(**{name: value for name, value in given.items() if value != NONE})
    source = recognise(named)
    shards = source.divided(pairs_per_shard)
    entries = shards[group] if group < len(shards) else []
    if sum(entry.pairs for entry in entries) != pairs:
        raise UserError(
            f"pairs: {path} was changed since the run began: shard {group} had {pairs:,} pairs. "
            "Run the command again."
        )
    remember_many(named.part(group, pairs_per_shard), files_of(entries))
    with Progress("packing", pairs, "pairs") as progress:
        pack(source, entries, shard, progress.advance)
