"""Read tar shards and list which image-text pairs are whole, and why the others are not."""

from __future__ import annotations

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
    captions: list[Path],
    workers: int,
    index: Path,
    rejected: Path,
    images: Path,
) -> None:
    """Write the kept pairs and the rejected samples of a group of shards; read = kept + rejected.

    `images` gets all images that can be encoded, whatever their captions: image features depend on
    this table only.

    Finished shards are kept next to `index` until all are, so that a killed job can resume.
    """
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.pairs.captions.sorted_captions import join_of
    from mispair.pairs.captions.table_files import KEY
    from mispair.pairs.index import index_parts
    from mispair.pairs.index.reading import by_name

    log = logging.getLogger(__name__)
    table = captions[0] if captions else None
    policy = Policy(
        **{name: getattr(settings, name) for name in PolicySettings.model_fields},
        table=settings.table_captions if table else "none",
        join=join_of(table) if table else KEY,
    )
    folder = index.with_name(f"{index.name}.parts")
    code = code_version("index_shards")
    parts = index_parts.plan(by_name(shards, sources), folder, policy, table, code)
    with checkpoints(folder, fingerprint(code)) as states:
        with Progress("indexing", len(parts), "shards") as progress:
            lost = index_parts.read_unfinished(
                parts, policy, table, workers=workers, stall_seconds=settings.stall_seconds,
                ending=states.ending, progress=progress.reach,
            )  # fmt: skip
        counts = index_parts.gather(
            parts, lost, policy, index=index, rejected=rejected, images=images
        )
    log.info("%d shards: %s%s", len(parts), counts, counts.table())
