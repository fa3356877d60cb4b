"""Read tar shards and list which image-text pairs are whole, and why the others are not."""

import logging
from pathlib import Path
from typing import Literal

from pydantic import Field

from mispair.core import settings
from mispair.pairs.index.policy import Policy, PolicySettings


class Settings(PolicySettings):
    table_captions: Literal["replace", "augment"] = Field(
        "replace",
        description="With a caption table: its captions replace those in the shards, or "
        "follow them. Without one it has no effect.",
    )
    shards_per_job: int = settings.sweep(
        10, ge=1, description="Number of shards that one job reads (and later encodes)."
    )
    workers: int = settings.sweep(
        1, ge=1, description="Shards that a job reads in parallel, a core each. Changes no result."
    )
    stall_seconds: float = Field(
        300,
        gt=0,
        description="A worker without a sign of life for this many seconds is killed; its shard "
        "is tried once more and then quarantined.",
    )


def run(
    settings: Settings,
    *,
    shards: list[Path],
    sources: list[str],
    images: Path,
    unusable: Path,
    captions: list[Path],
    workers: int,
    index: Path,
    rejected: Path,
) -> None:
    """Write the kept pairs and the rejected samples of a group of shards; read = kept + rejected.

    `images` and `unusable` are the lists of `list_images`.

    The index of each shard is kept next to `index`, for a job that is killed, and for later ones.
    """
    from functools import partial

    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.core.reuse import Parts, software
    from mispair.pairs.captions.sorted_captions import join_of
    from mispair.pairs.captions.table_files import KEY
    from mispair.pairs.index import index_parts, parts
    from mispair.pairs.index.image_list import by_name
    from mispair.pairs.index.index import index_shard
    from mispair.pairs.shards.packed_keys import is_packed

    table = captions[0] if captions else None
    policy = Policy(
        **{name: getattr(settings, name) for name in PolicySettings.model_fields},
        table=settings.table_captions if table else "none",
        join=join_of(table) if table else KEY,
    )
    code = [*code_version("index_shards"), *software()]
    kept = Parts(index, code)
    shared = [repr(policy), *code, *(parts.state(table) if table else [])]
    lists = parts.read_lists(images, unusable)
    planned = parts.plan(by_name(shards, sources), kept.folder, shared, lists)
    planned = parts.at_hand(planned)
    lost = index_parts.unlisted(planned)
    readable = [part for part in planned if part not in lost]
    # mispair wrote packed shards itself; their pictures were decoded before, under supervision.
    workers *= not all(part.main.is_file() or is_packed(part.shard) for part in readable)
    task = partial(index_parts.write_part, read=index_shard, policy=policy, table=table)
    with checkpoints(index.with_name(f"{index.name}.parts"), fingerprint(code)) as states:
        with Progress("indexing", len(readable), "shards") as progress:
            lost |= parts.read_unfinished(
                task, readable, workers=workers, stall_seconds=settings.stall_seconds,
                describe=index_parts.count, ending=states.ending, progress=progress.reach,
            )  # fmt: skip
        counts = index_parts.gather(planned, lost, policy, index=index, rejected=rejected)
        kept.finish(path for part in readable if part not in lost for path in part.files)
    log = logging.getLogger(__name__)
    log.info("%d shards: %s%s", len(planned), counts, counts.table())
