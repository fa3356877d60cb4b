"""A user's caption table, in any of the usual forms: values and captions, row by row.

A caption table joins pairs by their keys, or by a field of img2dataset's JSON next to each image,
such as ``url``. A *value* is what a row and a pair then have in common.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mispair.core.files import UserError

Row = tuple[str | None, str | None]
"""A value and one of its captions; None where the table has none."""

NumberedRow = tuple[int, Any, str | None]
"""Number of a row for messages, its value as the table has it, and one of its captions."""

KEY = "key"
"""The join by keys."""

BATCH_ROWS = 65_536

FORMS = ".parquet, .csv, .tsv, .jsonl or .txt (a list by position); text may be gzipped (.csv.gz)"


def read_rows(
    table: Path, keys: Path | None, key_column: str, caption_column: str, join: str = KEY
) -> Iterator[Row]:
    """Yield value and caption of each row of a table, in order; several captions one by one.

    Parameters
    ----------
    table : Path
        Parquet, CSV, TSV or JSONL with a column of keys (text) and one of captions (text, or a
        list of texts in Parquet and JSONL), or a text file with a caption a line.
    keys : Path or None
        Text file with the key of each line of a text file; needed there, refused elsewhere.
    key_column, caption_column : str
        Names of the columns.
    join : str
        What the table joins pairs by. Keys are taken as they are, and a row without a key is an
        error. Other values lose the white space around them, and a missing value is None.

    Raises
    ------
    UserError
        If a file cannot be read, a column is missing, a value is not text, or the captions and the
        keys of a positional list differ in number.
    """
    for number, value, caption in _numbered_rows(table, keys, key_column, caption_column):
        if join == KEY:
            yield _key(value, keys or table, number), caption
        elif value is None or isinstance(value, str):
            yield (value or "").strip() or None, caption
        else:
            raise UserError(
                f"{table}: row {number} has {value!r} as {key_column}, which is no text."
            )


def _numbered_rows(
    table: Path, keys: Path | None, key_column: str, caption_column: str
) -> Iterator[NumberedRow]:
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


def _positional(table: Path, keys: Path | None) -> Iterator[NumberedRow]:
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
        (number, key.rstrip("\r\n"), caption.rstrip("\r\n"))
        for number, (key, caption) in enumerate(zip(_lines(keys), _lines(table), strict=True), 1)
    )


def _csv(
    table: Path, delimiter: str, key_column: str, caption_column: str
) -> Iterator[NumberedRow]:
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
                yield reader.line_num, row[key_at], row[caption_at]
    except csv.Error as error:
        raise UserError(
            f"{table}: line {reader.line_num} is not valid ({error}). Write a caption with a "
            'quotation mark as "so, ""quoted"" and closed", or use Parquet or JSONL.'
        ) from error


def _jsonl(table: Path, key_column: str, caption_column: str) -> Iterator[NumberedRow]:
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
        captions = row[caption_column]
        for caption in captions if isinstance(captions, list) else [captions]:
            if caption is not None and not isinstance(caption, str):
                raise UserError(
                    f"{table}: line {number}: {caption_column} is {caption!r}, neither a text nor "
                    "a list of texts."
                )
            yield number, row[key_column], caption


def _parquet(table: Path, key_column: str, caption_column: str) -> Iterator[NumberedRow]:
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
                        yield number, key, caption
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
                "the keys 00012 and 12 differ."
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
            "00012 and 12 differ."
        )
    return key
