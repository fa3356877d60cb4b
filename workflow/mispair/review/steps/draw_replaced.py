"""Draw a random sample of replaced captions, which a person compares with the new ones."""

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    size: int = Field(
        100, ge=20, le=100_000,
        description="Replaced captions that are drawn. A larger number keeps those already drawn.",
    )  # fmt: skip
    seed: int = Field(0, ge=0, description="Seed of the draw.")


def run(
    settings: Settings, *, pairing: Path, repaired: Path, captions: list[Path], sample: Path
) -> None:
    """Write ``key``, ``order``, ``old`` and ``new`` of a uniform sample, in a random order.

    `repaired` is the result of a rule on the pairs of `pairing`, and `captions` are the texts of
    both. The metadata of `sample` has how many captions the rule replaced (``replaced``).
    """
    import numpy as np

    from mispair.core import files
    from mispair.pairs.captions.caption_texts import texts_by_id
    from mispair.pairs.corruption.draws import streams

    before, after = (files.read_parquet(path)[0] for path in (pairing, repaired))
    new = after.loc[after["kept"], ["key", "caption_id"]].rename(columns={"caption_id": "new"})
    old = before[["key", "caption_id"]].rename(columns={"caption_id": "old"})
    both = old.merge(new, on="key")
    both = both[both["old"] != both["new"]]
    order = np.argsort(streams(both["key"], settings.seed, "replaced"), kind="stable")
    table = both.iloc[order[: settings.size]].reset_index(drop=True)
    table.insert(1, "order", range(len(table)))
    text_of = texts_by_id(captions, [*table["old"], *table["new"]])
    for name in ("old", "new"):
        table[name] = table[name].map(text_of)
    files.write_parquet(sample, table, {"replaced": str(len(both))})
    log.info("%d of %d replaced captions are drawn", len(table), len(both))
