"""Lay out sample pairs with their captions before and after shuffling."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

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
    sources: list[str],
    index: list[Path],
    pairing: list[Path],
    captions: list[Path],
    contact_sheet: Path,
) -> None:
    """Write a piece of HTML with pictures of the first shard that has kept pairs."""
    import pandas as pd
    import pyarrow.parquet as pq

    from mispair.core import files, seeds
    from mispair.pairs.index.reading import by_name, distinct_captions, locations, read_encoded
    from mispair.pairs.report.contact_sheet import Sample, fragment
    from mispair.report.tables import main_first, records

    def rows(paths: list[Path], column: str, values: list[str]) -> pd.DataFrame:
        # Filtered while reading: an index of millions of pairs does not fit into memory twice.
        tables_read = [
            pq.read_table(p, filters=[(column, "in", values)]).to_pandas() for p in paths
        ]
        return pd.concat(tables_read, ignore_index=True)

    metadata = {path: pq.read_schema(path).metadata for path in pairing}
    schemes = {path: metadata[path][b"scheme"].decode() for path in pairing}
    main = next(iter(main_first(schemes.values())), None)
    rates = {p: float(metadata[p][b"nominal"]) for p in pairing if schemes[p] == main}
    chosen = min(rates, key=lambda path: abs(rates[path] - settings.shuffle_rate), default=None)
    rate = rates[chosen] if chosen else None
    kept = pd.DataFrame()
    named = by_name(shards, sources) if settings.samples else {}
    for name in named:
        kept = rows(index, "shard", [name]).sort_values("key", ignore_index=True)
        if len(kept):
            break
    samples: list[Sample] = []
    if len(kept):
        draw = seeds.generator(settings.seed, "contact-sheet")
        drawn = kept.loc[sorted(draw.permutation(len(kept))[: settings.samples])]
        images = dict(zip(drawn["key"], read_encoded(named[name], locations(drawn)), strict=True))
        pairs = (
            rows([chosen], "key", drawn["key"].tolist()) if chosen else drawn.assign(swapped=False)
        )
        pairs = pairs.set_index("key")
        given = pairs["caption_id"].unique().tolist()
        # Most are a pair's first caption or come from a scheme; the others are further captions.
        tables = [*index, *captions]
        texts = rows(tables, "caption_id", given)
        text_of = dict(zip(texts["caption_id"], texts["caption"], strict=True))
        for path in index if set(given) - text_of.keys() else []:
            columns = ["caption_id", "caption", "more_captions"]
            text_of |= distinct_captions(pq.read_table(path, columns=columns).to_pandas())
        for row in records(drawn):
            new = pairs.loc[row["key"]]
            samples.append(
                Sample(row["key"], images[row["key"]], row["caption"],
                       text_of[new["caption_id"]], bool(new["swapped"]))
            )  # fmt: skip
    files.write_text(contact_sheet, fragment(samples, rate, settings.thumbnail))
    log.info("%d pairs at C_m = %s", len(samples), rate)
