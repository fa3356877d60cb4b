"""Lay out the pairs whose captions are most likely wrong, and those that could be either."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    samples: int = Field(12, ge=0, le=60, description="Pairs shown of each kind.")
    thumbnail: int = Field(96, ge=16, le=512, description="Longer side of an image, in pixels.")


def run(
    settings: Settings,
    *,
    audit: Path,
    captions: list[Path],
    index: list[Path],
    shards: list[Path],
    sources: list[str],
    suspects: Path,
) -> None:
    """Write a piece of HTML with pictures of the pairs.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    audit : Path
        What audit_pairs wrote.
    captions : list of Path
        Texts of the captions.
    index : list of Path
        The index of each group, for where images are in their shards.
    shards : list of Path
        All shards; only images that are shown are read.
    sources : list of str
        Name of the source of each shard; none where sources have no names.
    suspects : Path
        Written.
    """
    import numpy as np
    import pandas as pd
    import pyarrow.parquet as pq

    from mispair.audit.report.gallery import Suspect, fragment
    from mispair.audit.selection import borderline, most_likely
    from mispair.core import files
    from mispair.pairs.index.reading import by_name, locations, read_encoded

    columns = ["key", "caption_id", "probability", "similarity"]
    table = pq.read_table(audit, columns=columns).to_pandas()
    chance = table["probability"].to_numpy(float)
    # Without probabilities the least similar pairs are the most suspicious.
    judged = bool(np.isfinite(chance).any())
    order = chance if judged else -table["similarity"].to_numpy(float)
    kinds = {
        "most likely wrong" if judged else "least similar": most_likely(order, settings.samples),
        "could be either": borderline(chance, settings.samples),
    }
    chosen = table.iloc[np.unique(np.concatenate([*kinds.values()]).astype(int))]
    filters = [("key", "in", chosen["key"].tolist())]
    places = pd.concat([pq.read_table(path, filters=filters).to_pandas() for path in index])
    ids = [("caption_id", "in", chosen["caption_id"].tolist())]
    texts = pd.concat([pq.read_table(path, filters=ids).to_pandas() for path in captions])
    text_of = dict(zip(texts["caption_id"], texts["caption"], strict=True))
    named = by_name(shards, sources)
    images: dict[str, bytes] = {}
    for shard, rows in places.groupby("shard"):
        encoded = read_encoded(named[str(shard)], locations(rows))
        images |= dict(zip(rows["key"], encoded, strict=True))

    def shown(rows: np.ndarray) -> list[Suspect]:
        return [
            Suspect(row.key, images.get(row.key), text_of[row.caption_id], row.probability)
            for row in table.iloc[rows].itertuples()
        ]

    groups = {kind: shown(rows) for kind, rows in kinds.items()}
    files.write_text(suspects, fragment(groups, settings.thumbnail))
    log.info("%s", ", ".join(f"{len(group)} {kind}" for kind, group in groups.items()))
