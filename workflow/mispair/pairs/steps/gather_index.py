"""Put the corpus together from the indexes of all groups, and refuse one that lost too much."""

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
        "may be unreadable before their end, 0 to 1. Above it the run stops here.",
    )
    min_joined_share: float = Field(
        0.01,
        ge=0,
        le=1,
        description="With a caption table: least share of pairs that it must have a row for, 0 to "
        "1. Below it, or without any such pair, the run stops here.",
    )
    duplicate_keys: Literal["refuse", "first", "drop"] = Field(
        "refuse",
        description="A key that is in several shards: refuse stops the run, first keeps the "
        "first in order of shards, drop excludes all of them.",
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
    caption_table: list[Path],
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
    from mispair.pairs.captions.caption_texts import write_captions
    from mispair.pairs.index import books, corpus_statistics, joins
    from mispair.pairs.index import corpus as corpora

    indexes, refused = books.by_group(index, rejected)
    pairs = corpora.read_pairs(indexes)
    kept, table = corpora.exclude(pairs, settings.duplicate_keys, settings.duplicate_images)
    counts = books.read_books(indexes, refused).with_excluded(corpora.excluded_reasons(table))
    log.info("%s", counts)
    joined = joins.join_rows(caption_table, settings.min_joined_share, indexes, pairs, kept, counts)
    books.check_loss(counts, settings.max_quarantined_share, rejected[0].parent)
    rows = corpus_statistics.corpus_rows(indexes, pairs, kept, counts) + joined
    corpus_statistics.refuse_undecided_lines(rows, indexes)

    name = corpora.fingerprint(corpora.blocks(pairs, kept))
    metadata = {"pairs_fingerprint": name, **counts.counts()}
    write_captions(captions, indexes.values(), np.unique(pairs.texts(np.flatnonzero(kept))))
    corpora.write_corpus(corpus, pairs, kept, metadata)
    files.write_parquet(excluded, table.to_pandas(), metadata)
    policies = settings.model_dump(exclude=None if caption_table else {"min_joined_share"})
    metrics.write_metrics(statistics, rows, {"pairs_fingerprint": name, "policies": policies})
