"""Put the corpus together from the indexes of all groups, and refuse one that lost too much."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    max_quarantined_share: float = Field(
        0.2,
        ge=0,
        le=1,
        description="Largest share of samples that may be rejected or excluded, and of shards that "
        "may not be readable to their end, 0 to 1. Above it the run stops here, before any job "
        "computes from the corpus.",
    )
    duplicate_keys: Literal["refuse", "first", "drop"] = Field(
        "refuse",
        description="A key that is in several shards: refuse stops the run, first keeps the "
        "first in order of shards, drop takes all of them out.",
    )
    duplicate_images: Literal["keep", "first"] = Field(
        "keep",
        description="An image (the same bytes) in several pairs: keep them all, or only the first "
        "in order of shards.",
    )


def run(
    settings: Settings,
    *,
    index: list[Path],
    rejected: list[Path],
    corpus: Path,
    captions: list[Path],
    excluded: Path,
    statistics: Path,
) -> None:
    """Write the corpus (sorted by key), its captions, what policies took out, and statistics.

    The order of the arguments changes nothing: groups are taken in the order of their names.
    """
    import numpy as np

    from mispair.core import files, metrics
    from mispair.pairs.captions.distinct_captions import write_captions
    from mispair.pairs.index import books as bookkeeping
    from mispair.pairs.index import corpus as corpora
    from mispair.pairs.index import duplicates
    from mispair.pairs.index.corpus_statistics import COLUMNS, CorpusStatistics, downloads, written

    indexes, refused = bookkeeping.by_group(index, rejected)
    books = bookkeeping.read_books(indexes, refused)
    pairs = corpora.read_pairs(indexes)
    out = duplicates.exclude(pairs, settings.duplicate_keys, settings.duplicate_images)
    table = duplicates.excluded_table(pairs, out)
    books = books.with_excluded(duplicates.excluded_reasons(table))
    log.info("%s", books)
    bookkeeping.check_loss(books, settings.max_quarantined_share, rejected[0].parent)

    kept = duplicates.kept_positions(pairs, out)
    collected, statuses, compared = CorpusStatistics(), [], []
    for path, start, end in zip(indexes.values(), pairs.starts, pairs.starts[1:], strict=False):
        columns, said = bookkeeping.read_columns(path, list(COLUMNS))
        here = kept[start:end]
        collected.add(columns.filter(here), pairs.texts(start + np.flatnonzero(here)))
        statuses.append(said.get("downloads", "{}"))
        compared.append(said.get("written", "{}"))
    name = corpora.fingerprint(corpora.blocks(pairs, kept))
    metadata = {"pairs_fingerprint": name, **books.counts()}
    texts = np.unique(pairs.texts(np.flatnonzero(kept)))
    write_captions(captions, indexes.values(), texts)
    corpora.write_corpus(corpus, pairs, kept, metadata)
    files.write_parquet(excluded, table.to_pandas(), metadata)
    rows = collected.rows(books, pairs.caption_ids[kept], pairs.image_ids[kept])
    provenance = {"pairs_fingerprint": name, "policies": settings.model_dump()}
    rows += downloads(statuses) + written(compared)
    metrics.write_metrics(statistics, rows, provenance)
