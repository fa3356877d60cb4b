"""The user's lists: keys whose captions are known to be right, and groups of pairs."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from mispair.audit.captions import FIELDS
from mispair.core.files import UserError
from mispair.core.metrics import Row
from mispair.pairs.captions.corpus_keys import SHOWN, as_in_corpus, forms_of, refuse_unknown
from mispair.pairs.captions.key_lists import SEPARATOR_LINE, TRUSTED, key_column, lines, read_keys
from mispair.pairs.captions.user_tables import delimiter_of
from mispair.pairs.index.books import read_columns

log = logging.getLogger(__name__)


def read_trusted(
    paths: Sequence[Path], keys: Any, left_out: Sequence[Path] | None = None
) -> np.ndarray:
    """Return which keys of the corpus are trusted, (n,) bool; none without a file.

    Keys of pairs that were rejected or excluded are left out, and so are a few unknown ones; both
    are counted in the log. Of a key in another form see `as_in_corpus`.

    Parameters
    ----------
    paths : sequence of Path
        None, or one file, as `mispair.pairs.captions.key_lists.read_keys` reads it.
    keys : (n,) pyarrow array
        Keys of the corpus.
    left_out : sequence of Path, optional
        Tables with the ``key`` of samples that were rejected or excluded.

    Raises
    ------
    UserError
        If the file cannot be read or is empty, `refuse_unknown` refuses its unknown keys, or none
        is that of a pair.
    """
    if not paths:
        return np.zeros(len(keys), bool)
    (path,) = paths
    named, missing = _named(path, keys)
    if len(missing):
        _count_missing(path, missing, len(named), left_out or ())
    return np.asarray(pc.is_in(_text(keys), value_set=named).to_numpy(zero_copy_only=False), bool)


def left_out_rows(paths: Sequence[Path], keys: Any) -> list[Row]:
    """Return how many keys of the user's file are no pairs, as a row; none without a file.

    Parameters are those of `read_trusted`.
    """
    return [{"metric": "trusted_left_out", "value": len(_named(path, keys)[1])} for path in paths]


def _named(path: Path, keys: Any) -> tuple[pa.Array, pa.Array]:
    """Return the distinct keys of a file, and those of them that are no keys of the corpus."""
    corpus, listed = _text(keys), read_keys(path, TRUSTED)
    given = pa.array(listed, pa.large_string())
    absent = given.filter(pc.invert(pc.is_in(given, value_set=corpus))).to_pylist()
    forms = pa.array([form for key in absent for form in forms_of(key)], pa.large_string())
    similar = pc.or_(pc.invert(pc.string_is_ascii(corpus)), pc.is_in(corpus, value_set=forms))
    known_as = as_in_corpus(absent, corpus.filter(similar).to_pylist())
    named = pc.unique(pa.array([known_as.get(key, key) for key in listed], pa.large_string()))
    return named, named.filter(pc.invert(pc.is_in(named, value_set=corpus)))


def _count_missing(path: Path, missing: pa.Array, named: int, left_out: Sequence[Path]) -> None:
    """Log how many keys of the list have no pair, or refuse the list for them."""
    unknown = missing
    for table in left_out:
        known = _text(read_columns(table, ["key"])[0]["key"])
        unknown = unknown.filter(pc.invert(pc.is_in(unknown, value_set=known)))
    rejected = len(missing) - len(unknown)
    shown = ", ".join(repr(key) for key in unknown[:SHOWN].to_pylist())
    refuse_unknown(TRUSTED, path, named, unknown.to_pylist())
    if len(missing) == named:
        raise UserError(
            f"{TRUSTED}: all {named} pairs that {path} names were rejected or excluded. Name pairs "
            "of results/pairs/CORPUS/corpus.parquet."
        )
    log.warning(
        "trusted: %s: of %d keys, %d are left out: %d of pairs that were rejected or excluded, "
        "%d that the corpus does not have%s",
        path, named, len(missing), rejected, len(unknown), f" ({shown})" * bool(shown),
    )  # fmt: skip


def _text(keys: Any) -> pa.Array:
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    return keys.cast(pa.large_string())


# The user's table of groups of pairs, such as the language and the source of each.


UNKNOWN = "not given"
"""Group of pairs that the table does not have, or that have no value in it."""

LONGEST = 40
"""Characters of the name of a group, at most."""


@contextmanager
def _opened(path: Path, fields: Sequence[str]) -> Iterator[tuple[list[str], Iterator[Any]]]:
    """Open a table of groups: the column of keys and the fields that it has, and their batches.

    Cells of CSV are texts. Only the head is read before the first batch.

    Raises
    ------
    UserError
        If it cannot be read, or has no column ``key`` or none of the fields.
    """
    try:
        if path.suffix.lower() == ".parquet":
            with pq.ParquetFile(path) as opened:
                columns = _columns(path, opened.schema_arrow.names, fields)
                yield columns, (b.select(columns) for b in opened.iter_batches(columns=columns))
            return
        cells: dict[str, Any] = {
            "parse_options": pyarrow.csv.ParseOptions(delimiter=delimiter_of(path)),
            "read_options": pyarrow.csv.ReadOptions(
                skip_rows=int(bool(SEPARATOR_LINE.match(next(lines(path), ""))))
            ),
        }
        with pyarrow.csv.open_csv(path, **cells) as head:
            columns = _columns(path, head.schema.names, fields)
        text = pyarrow.csv.ConvertOptions(
            include_columns=columns, column_types=dict.fromkeys(columns, pa.string())
        )
        with pyarrow.csv.open_csv(path, **cells, convert_options=text) as rows:
            yield columns, rows
    except UserError as error:
        raise UserError(f"groups: {error}") from error
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise UserError(
            f"groups: {path} cannot be read ({error}). Give CSV or Parquet (.parquet) with a "
            "column key and a column for each of select_pairs.group_fields."
        ) from error


def _columns(path: Path, names: Sequence[str], fields: Sequence[str]) -> list[str]:
    cleaned = [name.strip() for name in names]
    present = [names[cleaned.index(field)] for field in fields if field in cleaned]
    keys = key_column(names)
    if keys is None or not present:
        raise UserError(
            f"{path} has the columns {', '.join(names)}. In CSV or Parquet, it needs a column key "
            f"and at least one of select_pairs.group_fields ({', '.join(fields)}): set these to "
            "its columns."
        )
    return [names[keys], *present]


def first_rows(path: Path, fields: Sequence[str], most: int) -> list[str]:
    """Return the first keys of the table; see `_opened` for what it refuses.

    Raises
    ------
    UserError
        Also if no row has a group.
    """
    keys: list[str] = []
    has_group = False
    with _opened(path, fields) as (columns, batches):
        for batch in batches:
            first, *groups = [column.cast(pa.string()) for column in batch.columns]  # as a job
            keys += filter(None, first[: most - len(keys)].to_pylist())
            has_group = has_group or any(map(_has_text, groups))
            if has_group and len(keys) == most:
                break
        if keys and not has_group:
            raise UserError(
                f"{path} has no value in {' and '.join(columns[1:])}. Name other columns as "
                "select_pairs.group_fields, or take out `groups`."
            )
    return keys


def _has_text(values: Any) -> bool:
    return any(values.filter(pc.not_equal(pc.utf8_trim_whitespace(values), "")))


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
        As `_opened`, and if the table has none of the keys.
    """
    with _opened(path, fields) as (columns, opened):
        schema = pa.schema([(name.strip(), pa.string()) for name in ("key", *columns[1:])])
        batches = [batch.rename_columns(schema.names).cast(schema) for batch in opened]
    texts = pa.Table.from_batches(batches, schema).to_pandas()
    unused = texts["key"][~texts["key"].isin(keys) & texts["key"].notna()]
    if meant := as_in_corpus(unused, keys):
        texts["key"] = texts["key"].map(lambda key: meant.get(key, key))
    by_key = texts.drop_duplicates("key").set_index("key").reindex(keys)
    if not by_key.fillna("").any(axis=None):
        raise UserError(
            f"groups: {path} has no group of any key of the corpus, such as {keys.iloc[0]!r}. Keys "
            "are those of the shards, or of the column key of results/pairs/CORPUS/corpus.parquet."
        )
    return {FIELDS + name: _named_groups(by_key[name]) for name in by_key}


def _named_groups(values: pd.Series) -> Any:
    """Return the group of each pair: of values that differ by case or blanks, the first one."""
    values = values.str.split().str.join(" ").replace("", None).fillna(UNKNOWN)
    spelt = {value.casefold(): value for value in reversed(values.unique())}
    return values.map(lambda value: spelt[value.casefold()]).str.slice(0, LONGEST).to_numpy(object)
