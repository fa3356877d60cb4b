"""A user's captions, by key: read from any usual table, kept sorted, looked up by key."""

from __future__ import annotations

import bisect
import csv
import gzip
import itertools
import json
import logging
import operator
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mispair.core import files
from mispair.core.files import UserError

Row = tuple[str, str | None]
"""A key and one of its captions, or None where the table has none."""

BATCH_ROWS = 65_536
KEYS_PER_ROW_GROUP = 16_384
"""A lookup reads whole row groups: about as many keys as an img2dataset shard has."""

FORMS = ".parquet, .csv, .tsv, .jsonl or .txt (a list by position); text may be gzipped (.csv.gz)"

SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("captions", pa.list_(pa.string()), nullable=False),
    ]
)


def read_rows(
    table: Path, keys: Path | None, key_column: str, caption_column: str
) -> Iterator[Row]:
    """Yield key and caption of each row of a table, in order; several captions one by one.

    Parameters
    ----------
    table : Path
        Parquet, CSV, TSV or JSONL with a column of keys (text) and one of captions (text, or a
        list of texts in Parquet and JSONL), or a text file with a caption a line.
    keys : Path or None
        Text file with the key of each line of a text file; needed there, refused elsewhere.
    key_column, caption_column : str
        Names of the columns.

    Raises
    ------
    UserError
        If a file cannot be read, a column is missing, a key is not text, or the captions and the
        keys of a positional list differ in number.
    """
    kind = (table.with_suffix("") if table.suffix.lower() == ".gz" else table).suffix.lower()
    if not table.is_file():
        raise UserError(f"{table}: there is no such caption table.")
    if kind == ".txt":
        return _positional(table, keys)
    if keys is not None:
        raise UserError(
            f"{keys}: keys are given for a list of captions by position only, and {table} has keys "
            "of its own. Set caption_keys to null."
        )
    if kind == ".parquet" and table.suffix.lower() == ".parquet":
        return _parquet(table, key_column, caption_column)
    if kind in (".csv", ".tsv"):
        return _csv(table, "\t" if kind == ".tsv" else ",", key_column, caption_column)
    if kind in (".jsonl", ".ndjson"):
        return _jsonl(table, key_column, caption_column)
    raise UserError(f"{table}: a caption table ends in {FORMS}.")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their ends; only a line feed ends a line."""
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    number = 1
    try:
        with opener(path, "rb") as opened:
            for number, line in enumerate(opened, 1):
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: line {number} is not UTF-8 ({error.reason}). Convert the file, for example "
            "with `iconv -f LATIN1 -t UTF-8`."
        ) from error
    except (EOFError, zlib.error, OSError) as error:  # OSError includes gzip.BadGzipFile
        raise UserError(
            f"{path}: cannot be read after line {number} ({error}). Fetch the file again."
        ) from error


def _positional(table: Path, keys: Path | None) -> Iterator[Row]:
    why = (
        "A list by position is only right if it has exactly one line for each key: one image that "
        "is missing shifts the captions of all images after it."
    )
    if keys is None:
        raise UserError(
            f"{table}: holds captions without keys. {why} Give caption_keys, a text file with the "
            "key of each line, or a table with a column of keys (.parquet, .csv, .jsonl)."
        )
    if not keys.is_file():
        raise UserError(f"{keys}: there is no such list of keys.")
    lengths = {path: sum(1 for _ in _lines(path)) for path in (table, keys)}
    if lengths[table] != lengths[keys]:
        raise UserError(
            f"{table} has {lengths[table]} lines, but {keys} has {lengths[keys]}. {why} Give the "
            "list of keys that the captions were written for."
        )
    return (
        (_key(key.rstrip("\r\n"), keys, number), caption.rstrip("\r\n"))
        for number, (key, caption) in enumerate(zip(_lines(keys), _lines(table), strict=True), 1)
    )


def _csv(table: Path, delimiter: str, key_column: str, caption_column: str) -> Iterator[Row]:
    csv.field_size_limit(1 << 27)
    reader = csv.reader(_lines(table), delimiter=delimiter, strict=True)
    try:
        header = next(reader, None)
        if header is None:
            return
        _refuse_missing(
            table,
            header,
            (key_column, caption_column),
            f"The first line has to name the columns: {key_column}{delimiter}{caption_column}.",
        )
        key_at, caption_at = header.index(key_column), header.index(caption_column)
        for row in reader:
            if len(row) != len(header) and row:
                raise UserError(
                    f"{table}: the row that ends in line {reader.line_num} has {len(row)} fields, "
                    f"but the first line names {len(header)}. Quote captions that hold "
                    f"{delimiter!r}."
                )
            if row:
                yield _key(row[key_at], table, reader.line_num), row[caption_at]
    except csv.Error as error:
        raise UserError(
            f"{table}: line {reader.line_num} is not valid ({error}). A caption with a quotation "
            'mark is written "so, ""quoted"" and closed"; as Parquet or JSONL none needs it.'
        ) from error


def _jsonl(table: Path, key_column: str, caption_column: str) -> Iterator[Row]:
    for number, line in enumerate(_lines(table), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(
                f"{table}: line {number} is not JSON ({error}). Each line is an object such as "
                f'{{"{key_column}": "000000012", "{caption_column}": "a red cup"}}.'
            ) from error
        if not isinstance(row, dict):
            raise UserError(f"{table}: line {number} is not a JSON object.")
        _refuse_missing(table, list(row), (key_column, caption_column), f"(line {number})")
        key, captions = _key(row[key_column], table, number), row[caption_column]
        for caption in captions if isinstance(captions, list) else [captions]:
            if caption is not None and not isinstance(caption, str):
                raise UserError(
                    f"{table}: line {number}: {caption_column} is {caption!r}, neither a text nor "
                    "a list of texts."
                )
            yield key, caption


def _parquet(table: Path, key_column: str, caption_column: str) -> Iterator[Row]:
    try:
        with pq.ParquetFile(table) as opened:
            schema = opened.schema_arrow
            _refuse_missing(table, schema.names, (key_column, caption_column), "")
            _refuse_numbers(table, schema, key_column, caption_column)
            batches = opened.iter_batches(BATCH_ROWS, columns=[key_column, caption_column])
            number = 0
            for batch in batches:
                columns = (batch.column(name).to_pylist() for name in (key_column, caption_column))
                for key, captions in zip(*columns, strict=True):
                    number += 1
                    for caption in captions if isinstance(captions, list) else [captions]:
                        yield _key(key, table, number), caption
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise UserError(
            f"{table}: cannot be read as Parquet ({error}). Fetch or write the file again."
        ) from error


def _refuse_numbers(table: Path, schema: pa.Schema, key_column: str, caption_column: str) -> None:
    def is_text(kind: pa.DataType) -> bool:
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        return any(
            test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_null)
        )

    def is_texts(kind: pa.DataType) -> bool:
        nested = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        return is_text(kind) or (nested and is_text(kind.value_type))

    for name, allowed in ((key_column, is_text), (caption_column, is_texts)):
        kind = schema.field(name).type
        if not allowed(kind):
            raise UserError(
                f"{table}: the column {name!r} is of type {kind}, not text. Write it as text: "
                "the key 00012 is another than 12."
            )


def _refuse_missing(
    table: Path, columns: list[str], keys_needed: tuple[str, str], remedy: str
) -> None:
    for name in keys_needed:
        if columns.count(name) != 1:
            fault = "two columns" if columns.count(name) else "no column"
            raise UserError(
                f"{table}: has {fault} {name!r}, only {', '.join(map(repr, columns)) or 'none'}. "
                "Set read_captions.key_column and read_captions.caption_column to names that it "
                f"has. {remedy}".rstrip()
            )


def _key(key: Any, path: Path, number: int) -> str:
    if not isinstance(key, str) or not key:
        raise UserError(
            f"{path}: row {number} has the key {key!r}. A key is a text, as in the shards: "
            "00012 is another than 12."
        )
    return key


def write_sorted(rows: Iterable[Row], captions: Path) -> None:
    """Write a table with one row for each key, sorted, its captions in the order they came in.

    A caption that repeats another of its key, and one that is None, are left out, and counted in
    the log.

    Raises
    ------
    UserError
        If there is no caption at all, or a text is not Unicode.
    """
    table, nulls = _collect(rows)
    if not table.num_rows:
        raise UserError(f"{captions}: cannot be made: the caption table holds no caption.")
    keys = distinct = 0
    with (
        files.replacing(captions) as temporary,
        pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer,
    ):
        grouped = itertools.groupby(_sorted(table), operator.itemgetter(0))
        entries = (
            {"key": key, "captions": list(dict.fromkeys(caption for _, caption in same))}
            for key, same in grouped
        )
        while group := list(itertools.islice(entries, KEYS_PER_ROW_GROUP)):
            writer.write_table(pa.Table.from_pylist(group, schema=SCHEMA))
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
        present = [row for row in batch if row[1] is not None]
        nulls += len(batch) - len(present)
        columns = ([row[0] for row in present], [row[1] for row in present])
        try:
            arrays = [pa.array(column, pa.large_string()) for column in columns]
        except UnicodeEncodeError as error:
            raise UserError(
                f"the caption table holds half a character (an unpaired surrogate) in "
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


def _first_key(opened: pq.ParquetFile, number: int) -> str:
    statistics = opened.metadata.row_group(number).column(0).statistics
    if statistics is not None and statistics.has_min_max:
        return str(statistics.min)
    # Parquet keeps none for very long texts.
    return str(opened.read_row_group(number, columns=["key"]).column("key")[0].as_py())


def _unreadable(captions: Path, error: Exception) -> UserError:
    return UserError(
        f"{captions}: cannot be read as a table of captions ({error}). Delete it and run again."
    )
