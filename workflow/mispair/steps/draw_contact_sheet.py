"""Lay out sample pairs with their captions before and after shuffling."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import Field

from mispair import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    samples: int = Field(12, ge=0, le=60, description="Pairs shown.")
    shuffle_rate: float = Field(
        0.5, ge=0, le=1, description="C_m of the captions shown; the nearest one run is taken."
    )
    thumbnail: int = Field(96, ge=16, le=512, description="Longer side of an image, in pixels.")
    seed: int = Field(0, ge=0, description="Seed of the draw of samples.")


def run(
    settings: Settings,
    *,
    shards: list[Path],
    index: list[Path],
    pairing: list[Path],
    contact_sheet: Path,
) -> None:
    """Write a piece of HTML with pictures of the first shard that has kept pairs."""
    import pandas as pd
    import pyarrow.parquet as pq

    from mispair import files, seeds
    from mispair.pairs.shards import TruncatedShardError, read_samples
    from mispair.reporting.contact_sheet import Sample, fragment
    from mispair.reporting.tables import records

    def rows(paths: list[Path], column: str, values: list[str]) -> pd.DataFrame:
        # Filtered while reading: an index of millions of pairs does not fit into memory twice.
        found = [pq.read_table(p, filters=[(column, "in", values)]).to_pandas() for p in paths]
        return pd.concat(found, ignore_index=True)

    rate, chosen = None, None
    for path in pairing:
        nominal = float(pq.read_schema(path).metadata[b"nominal"])
        if rate is None or abs(nominal - settings.shuffle_rate) < abs(rate - settings.shuffle_rate):
            rate, chosen = nominal, path
    kept = pd.DataFrame()
    for shard in sorted(shards) if settings.samples else []:
        kept = rows(index, "shard", [shard.name]).sort_values("key", ignore_index=True)
        if len(kept):
            break
    samples: list[Sample] = []
    if len(kept):
        draw = seeds.generator(settings.seed, "contact-sheet")
        own = kept.loc[sorted(draw.permutation(len(kept))[: settings.samples])]
        images: dict[str, bytes | None] = {}
        try:
            for sample in read_samples(shard):
                if sample.key in set(own["key"]):
                    images[sample.key] = sample.image
        except TruncatedShardError as error:
            log.warning("%s is damaged: %s", shard, error)
        pairs = rows([chosen], "key", own["key"].tolist()) if chosen else own.assign(swapped=False)
        pairs = pairs.set_index("key")
        texts = rows(index, "caption_id", pairs["caption_id"].unique().tolist())
        text_of = dict(zip(texts["caption_id"], texts["caption"], strict=True))
        for row in records(own):
            new = pairs.loc[row["key"]]
            samples.append(
                Sample(row["key"], images.get(row["key"]), row["caption"],
                       text_of[new["caption_id"]], bool(new["swapped"]))
            )  # fmt: skip
    files.write_text(contact_sheet, fragment(samples, rate, settings.thumbnail))
    log.info("%d pairs at C_m = %s", len(samples), rate)
