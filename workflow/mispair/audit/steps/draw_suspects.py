"""Lay out the pairs whose captions are most likely wrong, and those that could be either."""

import logging
from pathlib import Path
from typing import Any

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    samples: int = Field(12, ge=0, le=60, description="Pairs shown of each kind.")
    thumbnail: int = Field(96, ge=16, le=512, description="Longer side of an image, in pixels.")


def run(
    settings: Settings, *, audit: Path, captions: list[Path], index: list[Path],
    shards: list[Path], sources: list[str], suspects: Path,
) -> None:  # fmt: skip
    """Write a piece of HTML with pictures of the pairs; only their images are read from shards.

    Where the share of wrong captions has no lower limit, pairs have a rank and no probability.
    """
    import numpy as np

    from mispair.audit.report.gallery import Suspect, fragment
    from mispair.audit.selection import shown_kinds
    from mispair.core import files
    from mispair.pairs.captions.caption_texts import texts_by_id
    from mispair.pairs.index.books import read_columns
    from mispair.pairs.report.contact_sheet import alone, images_of

    columns = ["key", "caption_id", "probability", "similarity", "score"]
    read, origin = read_columns(audit, columns)
    table = read.to_pandas()
    chance, similarity = (table[name].to_numpy(float) for name in ("probability", "similarity"))
    known = origin["identified"] == "interval"
    kinds = shown_kinds(chance, similarity, settings.samples, known)
    chosen = table.iloc[np.unique(np.concatenate([*kinds.values()]).astype(int))]
    text_of = texts_by_id(captions, chosen["caption_id"].tolist())
    images = images_of(chosen["key"].tolist(), index, shards, sources)
    n, judged = len(table), np.isfinite(chance)

    def suspect(row: Any) -> Suspect:
        pair = row.key, images.get(row.key), text_of[row.caption_id]
        if known or not np.isfinite(row.probability):
            return Suspect(*pair, row.probability)
        rank = 1 + int((chance[judged] > row.probability).sum())
        return Suspect(*pair, np.nan, (rank, n, row.score))

    groups = {
        kind: [suspect(row) for row in table.iloc[rows].itertuples()]
        for kind, rows in kinds.items()
    }
    html = fragment(groups, settings.thumbnail)
    files.write_text(suspects, alone(html, "Suspicious pairs"))
    log.info("%s", ", ".join(f"{len(group)} {kind}" for kind, group in groups.items()))
