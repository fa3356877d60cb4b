"""The user's table of groups of pairs, such as the language and the source of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from mispair.core.files import UserError
from mispair.core.metrics import Row
from mispair.pairs.captions.user_files import SEPARATOR_LINE, as_in_corpus, key_column
from mispair.pairs.captions.user_tables import delimiter_of, lines

# Wrong captions and what a selection leaves out, by groups such as scripts and sources.

FIELDS = "group_"
"""What names of columns of groups begin with, in the table of pairs."""

SCRIPT, SOURCE = f"{FIELDS}script", f"{FIELDS}source"

LEAST_PAIRS, MOST_GROUPS = 20, 12
"""Pairs of a group of its own, at least; groups of a field, at most. Others are one group."""

OTHERS = "all others"


def sources_of(keys: pd.Series) -> pd.Series:
    """Return the source of each key: what is before its first slash; "" without any source.

    Examples
    --------
    >>> sources_of(pd.Series(["web/0001", "book/0002", "book/0003"])).tolist()
    ['web', 'book', 'book']
    >>> sources_of(pd.Series(["web/0001", "0002"])).tolist()
    ['', '']
    """
    parts = keys.str.partition("/")
    return parts[0] if parts[1].ne("").all() else pd.Series("", keys.index)


def group_rows(table: pd.DataFrame, left_out: np.ndarray) -> list[Row]:
    """Return rates of each group of n pairs, where a field has several groups.

    ``group_pairs`` is the number of pairs, ``group_wrong`` the expected share of wrong captions,
    ``group_removed`` the share that is left out, ``group_wins`` how often captions beat random
    ones, and ``group_right_lost`` the expected share of right captions that is left out.

    Parameters
    ----------
    table : DataFrame
        Pairs: ``key``, ``probability``, ``p_value``, and a column of each field, whose name
        begins with `FIELDS`.
    left_out : (n,) bool array
        Pairs that a selection leaves out.
    """
    chance = table["probability"].to_numpy(float)
    wins = 1 - table["p_value"].to_numpy(float)
    rows: list[Row] = []
    table = table.assign(**{SOURCE: sources_of(table["key"])})
    for field in table.columns[table.columns.str.startswith(FIELDS)]:
        groups = _merged(table[field].to_numpy(object))
        names = [name for name, _ in Counter(groups.tolist()).most_common()]
        if len(names) < 2:
            continue
        for group in names:
            of = groups == group
            right = float((1 - chance[of]).sum())
            values = {
                "group_pairs": int(of.sum()),
                "group_wrong": float(chance[of].mean()),
                "group_wins": float(wins[of].mean()),
                "group_removed": float(left_out[of].mean()),
                "group_right_lost": float((1 - chance[of & left_out]).sum()) / max(right, 1e-9),
            }
            about = {"word": field.removeprefix(FIELDS), "text": group, "n": int(of.sum())}
            rows += [
                {"metric": metric, **about, "value": value} for metric, value in values.items()
            ]
    return rows


def _merged(groups: np.ndarray) -> np.ndarray:
    """Return groups with small ones, and those beyond the largest, as one."""
    sizes = Counter(groups.tolist()).most_common()
    kept = {name for name, size in sizes[:MOST_GROUPS] if size >= LEAST_PAIRS}
    return np.array([name if name in kept else OTHERS for name in groups.tolist()], object)


UNKNOWN = "not given"
"""Group of pairs that the table does not have, or that have no value in it."""

LONGEST = 40
"""Characters of the name of a group, at most."""


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise UserError(
            f"groups: {path} cannot be read ({error}). Give CSV or Parquet (.parquet) with a "
            "column key and a column for each of select_pairs.group_fields."
        ) from error


def _separated(path: Path) -> dict[str, Any]:
    """Return pyarrow's options for a table of cells."""
    try:
        delimiter = delimiter_of(path)
        begins = bool(SEPARATOR_LINE.match(next(lines(path), "")))
    except UserError as error:
        raise UserError(f"groups: {error}") from error
    return {
        "parse_options": pyarrow.csv.ParseOptions(delimiter=delimiter),
        "read_options": pyarrow.csv.ReadOptions(skip_rows=int(begins)),
    }


def columns_of(path: Path, fields: Sequence[str]) -> list[str]:
    """Return the column of keys, and which of the fields the table has; only its head is read.

    Raises
    ------
    UserError
        If it cannot be read, or has no column ``key`` or none of the fields.
    """
    with _readable(path):
        if path.suffix.lower() == ".parquet":
            names = pq.read_schema(path).names
        else:
            with pyarrow.csv.open_csv(path, **_separated(path)) as opened:
                names = opened.schema.names
    present = [field for field in fields if field in names]
    keys = key_column(names)
    if keys is None or not present:
        raise UserError(
            f"groups: {path} has the columns {', '.join(names)}. It needs a column key and at "
            f"least one of select_pairs.group_fields ({', '.join(fields)}): set these to its "
            "columns."
        )
    return [names[keys], *present]


def first_rows(path: Path, fields: Sequence[str], most: int) -> list[str]:
    """Return the first keys of the table.

    Raises
    ------
    UserError
        As `columns_of`.
    """
    keys: list[str] = []
    with _readable(path):
        for table in _batches(path, columns_of(path, fields)):
            keys += filter(None, table.column(0).cast(pa.string()).to_pylist())
            if len(keys) >= most:
                break
    return keys[:most]


def _batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some columns, in their order; those of a table of cells are texts."""
    if path.suffix.lower() == ".parquet":
        with pq.ParquetFile(path) as opened:
            yield from (batch.select(columns) for batch in opened.iter_batches(columns=columns))
        return
    text = pyarrow.csv.ConvertOptions(
        include_columns=columns, column_types=dict.fromkeys(columns, pa.string())
    )
    yield from pyarrow.csv.open_csv(path, **_separated(path), convert_options=text)


def read_groups(path: Path, fields: Sequence[str], keys: pd.Series) -> dict[str, Any]:
    """Return the group of each key by every field that the table has, as columns of a table.

    Parameters
    ----------
    path : Path
        CSV with any usual separator, or Parquet, with a column ``key``; of a key that is repeated,
        the first row counts. Of a key in another form see `as_in_corpus`.
    fields : sequence of str
        Columns to read, as far as they exist.
    keys : (n,) Series of str
        Keys of the pairs.

    Raises
    ------
    UserError
        As `columns_of`, and if the table has none of the keys.
    """
    columns = columns_of(path, fields)
    schema = pa.schema([(name, pa.string()) for name in ("key", *columns[1:])])
    with _readable(path):
        batches = [batch.rename_columns(schema.names).cast(schema) for batch in
                   _batches(path, columns)]  # fmt: skip
    texts = pa.Table.from_batches(batches, schema).to_pandas()
    unused = texts["key"][~texts["key"].isin(keys) & texts["key"].notna()]
    if meant := as_in_corpus(unused, keys):
        texts["key"] = texts["key"].map(lambda key: meant.get(key, key))
    by_key = texts.drop_duplicates("key").set_index("key").reindex(keys)
    if by_key.isna().all(axis=None):
        raise UserError(
            f"groups: {path} has none of the keys of the corpus, such as {keys.iloc[0]!r}. Keys "
            "are those of the shards, or of the column key of results/pairs/CORPUS/corpus.parquet."
        )
    named = by_key.replace("", None).fillna(UNKNOWN)
    return {FIELDS + name: named[name].str.slice(0, LONGEST).to_numpy(object) for name in named}
