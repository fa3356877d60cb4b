"""The user's table of groups of pairs, such as the language and the source of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from mispair.audit.texts.group_rates import FIELDS
from mispair.core.files import UserError
from mispair.pairs.captions.key_lists import as_in_corpus

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


def columns_of(path: Path, fields: Sequence[str]) -> list[str]:
    """Return which of the fields the table has; only its head is read.

    Raises
    ------
    UserError
        If it cannot be read, or has no column ``key`` or none of the fields.
    """
    with _readable(path):
        if path.suffix == ".parquet":
            names = pq.read_schema(path).names
        else:
            with pyarrow.csv.open_csv(path) as opened:
                names = opened.schema.names
    present = [field for field in fields if field in names]
    if "key" not in names or not present:
        raise UserError(
            f"groups: {path} has the columns {', '.join(names)}. It needs a column key and at "
            f"least one of select_pairs.group_fields ({', '.join(fields)}): set these to its "
            "columns."
        )
    return present


def read_groups(path: Path, fields: Sequence[str], keys: pd.Series) -> dict[str, Any]:
    """Return the group of each key by every field that the table has, as columns of a table.

    Parameters
    ----------
    path : Path
        CSV or Parquet with a column ``key``; of a key that is repeated, the first row counts. Of a
        key in another form of Unicode see `as_in_corpus`.
    fields : sequence of str
        Columns to read, as far as they exist.
    keys : (n,) Series of str
        Keys of the pairs.

    Raises
    ------
    UserError
        As `columns_of`, and if the table has none of the keys.
    """
    columns = ["key", *columns_of(path, fields)]
    with _readable(path):
        if path.suffix == ".parquet":
            table = pq.read_table(path, columns=columns)
        else:
            text = pyarrow.csv.ConvertOptions(
                include_columns=columns, column_types=dict.fromkeys(columns, pa.string())
            )
            table = pyarrow.csv.read_csv(path, convert_options=text)
        texts = pa.table({name: table[name].cast(pa.string()) for name in columns}).to_pandas()
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
