"""The user's file of keys whose captions are known to be right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from mispair.core.files import UserError

SHOWN = 3


def read_trusted(paths: Sequence[Path], keys: Any) -> np.ndarray:
    """Return which keys of the corpus are trusted, (n,) bool; none without a file.

    Parameters
    ----------
    paths : sequence of Path
        None, or one file: a key a line, or CSV or Parquet with a column ``key``.
    keys : (n,) pyarrow array
        Keys of the corpus.

    Raises
    ------
    UserError
        If the file cannot be read, is empty, or names a key that the corpus does not have.
    """
    if not paths:
        return np.zeros(len(keys), bool)
    (path,) = paths
    named = pc.unique(_keys(path))
    if not len(named):
        raise UserError(f"trusted: {path} names no key.")
    in_corpus = pc.is_in(named, value_set=_text(keys))
    missing = named.filter(pc.invert(in_corpus))
    if len(missing):
        shown = ", ".join(repr(key) for key in missing[:SHOWN].to_pylist())
        raise UserError(
            f"trusted: {path} names {len(missing)} keys of {len(named)} that the "
            f"corpus does not have, such as {shown}. Keys are those of the shards, or of the "
            "column key of results/pairs/CORPUS/corpus.parquet."
        )
    return np.asarray(pc.is_in(_text(keys), value_set=named).to_numpy(zero_copy_only=False), bool)


def _text(keys: Any) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    return keys.cast(pa.large_string())


def _keys(path: Path) -> pa.Array:
    try:
        if path.suffix == ".parquet":
            return _text(pq.read_table(path, columns=["key"])["key"])
        if path.suffix == ".csv":
            options = pyarrow.csv.ConvertOptions(
                include_columns=["key"], column_types={"key": pa.string()}
            )
            return _text(pyarrow.csv.read_csv(path, convert_options=options)["key"])
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError, pa.ArrowException, KeyError) as error:
        raise UserError(
            f"trusted: {path} cannot be read ({error}). Give a text file with a key a "
            "line, or CSV or Parquet with a column key."
        ) from error
    return pa.array([line.strip() for line in lines if line.strip()], pa.large_string())
