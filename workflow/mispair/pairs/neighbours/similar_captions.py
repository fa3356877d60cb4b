"""The table of each caption's most similar others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mispair.core.files import UserError
from mispair.pairs.index.books import read_columns
from mispair.pairs.index.identities import hexadecimal, identities
from mispair.pairs.neighbours.nearest import NOBODY, Neighbours

SIMILAR = pa.schema(
    [
        ("caption_id", pa.string()),
        ("neighbour_ids", pa.list_(pa.string())),
        ("similarities", pa.list_(pa.float32())),
    ]
)
"""Columns: a caption, the others most similar to it, best first, and their similarities."""


def read_distinct_captions(corpus: Path) -> np.ndarray:
    """Return the identities of all captions of a corpus, first and further ones, sorted, uint64.

    Raises
    ------
    UserError
        If the file is no corpus.
    """
    table, _ = read_columns(corpus, ["caption_id", "more_caption_ids"])
    further = [part.flatten().cast(pa.string()) for part in table["more_caption_ids"].chunks]
    try:
        first, more = (
            identities(table["caption_id"]),
            identities(pa.chunked_array(further, pa.string())),
        )
        return np.union1d(first, more)
    except ValueError as error:
        raise UserError(f"{corpus}: {error}. Delete it and run again.") from error


def write_similar(
    path: Path, captions: np.ndarray, portions: Iterable[Neighbours], measure: str
) -> None:
    """Write the table as Parquet, portion by portion, with the measure in its metadata.

    `captions` are the (n,) uint64 identities. A portion holds the neighbours of consecutive
    captions, as positions in `captions`, and their similarities.
    """
    schema = SIMILAR.with_metadata({"measure": measure})
    start = 0
    # Most identities of a portion differ: a dictionary would be built and thrown away.
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as writer:
        for neighbours, similarities in portions:
            present = neighbours != NOBODY
            offsets = pa.array(np.append(0, present.sum(axis=1).cumsum()).astype(np.int32))
            columns = [
                hexadecimal(captions[start : start + len(neighbours)]),
                pa.ListArray.from_arrays(offsets, hexadecimal(captions[neighbours[present]])),
                pa.ListArray.from_arrays(offsets, pa.array(similarities[present], pa.float32())),
            ]
            writer.write_table(pa.table(columns, schema=schema))
            start += len(neighbours)


def read_similar(similar: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table of `write_similar` in batches.

    Raises
    ------
    UserError
        If it cannot be read, or lacks a column.
    """
    fault = f"{similar}: cannot be read as a table of similar captions; delete it and run again"
    try:
        with pq.ParquetFile(similar) as opened:
            if missing := sorted(set(SIMILAR.names) - set(opened.schema_arrow.names)):
                raise UserError(f"{fault} (it has no {', '.join(missing)}).")
            yield from opened.iter_batches(columns=SIMILAR.names)
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{fault} ({error}).") from error
