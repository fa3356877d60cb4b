"""The user's captions as index_shards looks them up: one row for each value, sorted by it."""

import bisect
import itertools
import logging
import operator
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mispair.core import files
from mispair.core.files import UserError
from mispair.pairs.captions.table_files import KEY
from mispair.pairs.captions.user_tables import BATCH_ROWS, Row

JOIN = b"join"
"""Metadata of `write_sorted`: what its table joins by."""

KEYS_PER_ROW_GROUP = 16_384
"""A lookup reads whole row groups: about as many keys as an img2dataset shard has."""

SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("captions", pa.list_(pa.string()), nullable=False),
    ]
)


def write_sorted(rows: Iterable[Row], captions: Path, join: str = KEY) -> None:
    """Write a table with one row for each value, sorted, its captions in input order.

    A caption that repeats another of its value, and rows without value or caption, are left out,
    and counted in the log. The table's metadata has its join, unless that is the key.

    Raises
    ------
    UserError
        If there is no caption at all, or a text is not Unicode.
    """
    table, nulls = _collect(rows)
    if not table.num_rows:
        raise UserError(
            "captions: the table holds no caption. Name the column that has them by caption_column."
        )
    schema = SCHEMA if join == KEY else SCHEMA.with_metadata({JOIN: join})
    keys = distinct = 0
    with (
        files.replacing(captions) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        grouped = itertools.groupby(_sorted(table), operator.itemgetter(0))
        entries = (
            {"key": key, "captions": list(dict.fromkeys(caption for _, caption in same))}
            for key, same in grouped
        )
        while group := list(itertools.islice(entries, KEYS_PER_ROW_GROUP)):
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            keys += len(group)
            distinct += sum(len(entry["captions"]) for entry in group)
    logging.getLogger(__name__).info(
        "%d captions of %d keys; left out: %d that repeat another of their key, %d that are null",
        distinct,
        keys,
        table.num_rows - distinct,
        nulls,
    )


def _collect(rows: Iterable[Row]) -> tuple[pa.Table, int]:
    """Return all rows that have a caption, and the number of the others."""
    # Large strings: the captions of twelve million keys may exceed the 2 GiB of a small one.
    schema = pa.schema([("key", pa.large_string()), ("caption", pa.large_string())])
    batches, nulls = [], 0
    rows = iter(rows)
    while batch := list(itertools.islice(rows, BATCH_ROWS)):
        present = [row for row in batch if None not in row]
        nulls += len(batch) - len(present)
        columns = ([row[0] for row in present], [row[1] for row in present])
        try:
            arrays = [pa.array(column, pa.large_string()) for column in columns]
        except UnicodeEncodeError as error:
            raise UserError(
                f"captions: the table holds half a character (an unpaired surrogate) in "
                f"{error.object!r}. Correct the text."
            ) from error
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return pa.Table.from_batches(batches, schema).combine_chunks(), nulls


def _sorted(table: pa.Table) -> Iterator[tuple[str, str]]:
    """Yield the rows by key; those of one key in the order of the table (the sort is stable)."""
    order = pc.sort_indices(table.column("key"))
    for start in range(0, len(order), BATCH_ROWS):
        rows = table.take(order[start : start + BATCH_ROWS])
        yield from zip(*(column.to_pylist() for column in rows.columns), strict=True)


def lookup(captions: Path) -> Callable[[list[str]], dict[str, list[str]]]:
    """Return a function that gives the captions of keys, from a table of `write_sorted`.

    It reads only row groups that may hold one of the keys, one at a time; keys that the table does
    not have are left out.

    Raises
    ------
    UserError
        If the table cannot be read.
    """
    try:
        opened = pq.ParquetFile(captions)
        firsts = [_first_key(opened, number) for number in range(opened.num_row_groups)]
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(captions, error) from error

    @lru_cache(maxsize=1)
    def row_group(number: int) -> tuple[dict[str, int], pa.ChunkedArray]:
        try:
            table = opened.read_row_group(number)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(captions, error) from error
        keys = table.column("key").to_pylist()
        return {key: row for row, key in enumerate(keys)}, table.column("captions")

    def captions_of(keys: list[str]) -> dict[str, list[str]]:
        rows_of = {}
        for key in sorted(set(keys)):
            number = bisect.bisect_right(firsts, key) - 1
            if number >= 0:
                rows, texts = row_group(number)
                if key in rows:
                    rows_of[key] = texts[rows[key]].as_py()
        return rows_of

    return captions_of


def join_of(captions: Path) -> str:
    """Return what a table of `write_sorted` joins pairs by; raise a UserError if it is damaged."""
    try:
        return (pq.read_schema(captions).metadata or {}).get(JOIN, KEY.encode()).decode()
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(captions, error) from error


def read_sorted(captions: Path) -> Iterator[tuple[pa.ChunkedArray, np.ndarray]]:
    """Yield the values of a table of `write_sorted`, and how many captions each has, in parts.

    Raises a UserError if the table cannot be read.
    """
    try:
        with pq.ParquetFile(captions) as opened:
            for number in range(opened.num_row_groups):
                table = opened.read_row_group(number)
                yield table["key"], pc.list_value_length(table["captions"]).to_numpy()
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(captions, error) from error


def _first_key(opened: pq.ParquetFile, number: int) -> str:
    statistics = opened.metadata.row_group(number).column(0).statistics
    if statistics is not None and statistics.has_min_max:
        return str(statistics.min)
    # Parquet keeps no statistics of very long texts.
    return str(opened.read_row_group(number, columns=["key"]).column("key")[0].as_py())


def _unreadable(captions: Path, error: Exception) -> UserError:
    return UserError(
        f"{captions}: cannot be read as a table of captions ({error}). Delete it and run again."
    )
