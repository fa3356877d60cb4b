"""The table of each caption's most similar others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
"""Columns: a caption, the others that are most similar to it, best first, and how similar."""


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
        return np.unique(
            np.concatenate(
                [
                    identities(table["caption_id"]),
                    identities(pa.chunked_array(further, pa.string())),
                ]
            )
        )
    except ValueError as error:
        raise UserError(f"{corpus}: {error}. Delete it and run again.") from error


def write_similar(
    path: Path, captions: np.ndarray, portions: Iterable[Neighbours], metadata: Mapping[str, str]
) -> None:
    """Write the table as Parquet, portion by portion.

    Parameters
    ----------
    path : Path
        Written.
    captions : (n,) uint64 array
        Identities.
    portions : iterable of (others, similarities)
        Neighbours of consecutive captions, as positions in `captions`.
    metadata : mapping of str to str
        What to keep in the file's schema.
    """
    schema = SIMILAR.with_metadata(dict(metadata))
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
