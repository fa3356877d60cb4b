"""Read tar shards and list which image-text pairs are whole, and why the others are not."""

from __future__ import annotations

import logging
from pathlib import Path

from mispair import settings

# With types, so that an empty table has the same columns as a full one.
KEPT_COLUMNS = {
    "key": "str",
    "shard": "str",
    "caption": "str",
    "caption_id": "str",
    "width": "int64",
    "height": "int64",
}
REJECTED_COLUMNS = {"key": "str", "shard": "str", "reason": "str", "detail": "str"}


class Settings(settings.Settings):
    """Settings of `index_shards`."""

    shards_per_job: int = settings.sweep(
        5, ge=1, description="Number of shards that one job reads (and later encodes)."
    )


def run(settings: Settings, *, shards: list[Path], index: Path, rejected: Path) -> None:
    """Write the kept pairs and the rejected ones of a group of shards; read = kept + rejected."""
    import pandas as pd

    from mispair import files
    from mispair.pairs.index import index_shard

    log = logging.getLogger(__name__)
    kept, refused = [], []
    for shard in sorted(shards):
        if not shard.is_file():
            raise files.UserError(f"{shard}: there is no such shard.")
        result = index_shard(shard)
        log.info(
            "%s: read %d, kept %d, rejected %d",
            shard.name,
            result.read,
            len(result.kept),
            len(result.rejected),
        )
        kept += result.kept
        refused += result.rejected
    counts = {
        "read": str(len(kept) + len(refused)),
        "kept": str(len(kept)),
        "rejected": str(len(refused)),
    }
    for path, rows, columns in ((rejected, refused, REJECTED_COLUMNS), (index, kept, KEPT_COLUMNS)):
        table = pd.DataFrame(rows, columns=list(columns)).astype(columns)
        files.write_parquet(path, table, counts)
