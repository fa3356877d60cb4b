"""Pack pairs of any source but tar shards into a shard, as they are: no picture is encoded."""

from pathlib import Path

from mispair.core import settings


class Settings(settings.Settings):
    pairs_per_shard: int = settings.sweep(
        20_000, ge=1,
        description="Pairs that one job packs, indexes and encodes, at most; with more than 64 "
        "times as many pairs it is more.",
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
    listed: str,
    shard: Path,
) -> None:
    """Write one of the shards of a source.

    `path`, `captions` and the columns are what the configuration names under `pairs`, or ``none``.
    `tables` are the files with the captions, for the record. `pairs` is the number of pairs that
    the shard gets, and `listed` their stamp.

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
    from mispair.pairs.sources.source import Named, kept_listing

    columns = {"image_column": image_column, "caption_column": caption_column,
               "key_column": key_column}  # fmt: skip
    given = {"path": path, "captions": captions, **columns}
    named = Named(**{name: value for name, value in given.items() if value != NONE})
    name = named.part(group, pairs_per_shard)
    part = kept_listing(listed)
    if part is None:
        part = dict(enumerate(recognise(named).divided(pairs_per_shard))).get(group)
    if part is None or part.stamp != listed:
        raise UserError(
            f"pairs: {path} has other pairs than when the run began, when shard {group} had "
            f"{pairs:,}. Run the command again."
        )
    with Progress("packing", pairs, "pairs") as progress:
        remember_many(name, part.files, pack(part, shard, progress.advance))
