"""Every caption of a corpus once, in parts that text towers run over side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mispair.core import files
from mispair.pairs.captions.caption_texts import captions_of
from mispair.pairs.index.identities import hexadecimal

CAPTIONS = pa.schema([("caption_id", pa.string()), ("caption", pa.string())])
"""Columns of a part."""


def write_captions(parts: Sequence[Path], index: Iterable[Path], needed: np.ndarray) -> None:
    """Write captions, each once, in the order of their first use.

    A caption's identity says in which part it stands, so it is the same part whatever else the
    corpus holds. One group of shards is held at a time.

    Parameters
    ----------
    parts : sequence of Path
        Written.
    index : iterable of Path
        The index of each group.
    needed : (n,) uint64 array
        Identities of the captions, sorted and distinct.
    """
    written = np.zeros(len(needed), bool)
    with ExitStack() as stack:
        temporaries = [stack.enter_context(files.replacing(path)) for path in parts]
        writers = [
            stack.enter_context(pq.ParquetWriter(path, CAPTIONS, compression="zstd"))
            for path in temporaries
        ]
        for path in index:
            numbers, texts = captions_of(path, needed)
            positions = np.searchsorted(needed, numbers)
            new = np.flatnonzero(~written[positions])
            written[positions] = True
            for part, writer in enumerate(writers):
                of_part = new[numbers[new] % len(writers) == part]
                columns = [hexadecimal(numbers[of_part]), texts.take(pa.array(of_part))]
                writer.write_table(pa.table(columns, schema=CAPTIONS))
