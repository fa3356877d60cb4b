"""A user's caption table, in any of the usual forms: values and captions, row by row.

A caption table joins pairs by their keys, or by a field of img2dataset's JSON next to each image,
such as ``url``. A *value* is what a row and a pair then have in common.
"""

import csv
import logging
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mispair.core.files import UserError
from mispair.core.words import count
from mispair.pairs.captions.decoding import (
    ANSWER,
    listed_texts,
    numbered,
    turns_in,
    value_at,
    values_at,
)
from mispair.pairs.captions.json_rows import Naming, objects_in
from mispair.pairs.captions.key_lists import SEPARATOR_LINE, SEPARATORS, without_formula
from mispair.pairs.captions.table_files import KEY, OBJECTS, SHIFT, form_of, refuse_keys
from mispair.pairs.captions.text_lines import (
    first_line,
    lines,
    naming,
    rejoined,
    unquoted_lines,
)

log = logging.getLogger(__name__)

Row = tuple[str | None, str | None]
"""A value and one of its captions; None where the table has none."""

NumberedRow = tuple[int, Any, str | None]
"""Number of a row for messages, its value as the table has it, and one of its texts."""

BATCH_ROWS = 65_536
TRIED = 1000
"""Rows by which quotation marks, and how they are escaped, are found."""
QUOTES = "'\""
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class TableColumns:
    """What is read of a caption table.

    Attributes
    ----------
    key, caption : str
        Names of the columns. In Parquet and JSON they may lead into objects (``llava.caption``).
    join : str
        What the table joins pairs by. Keys are taken as they are, and a row without a key is an
        error. Other values lose the white space around them, and a missing value is None.
    section : str
        Section of the configuration that has these settings, for messages.
    """

    key: str = KEY
    caption: str = "caption"
    join: str = KEY
    section: str = "read_captions"


def read_rows(tables: Sequence[Path], keys: Path | None, columns: TableColumns) -> Iterator[Row]:
    """Yield value and caption of each row of tables, in order; several captions one by one.

    Parameters
    ----------
    tables : sequence of Path
        Each Parquet, CSV, TSV, JSONL or JSON with a column of keys (text) and one of captions: a
        text, or a list of texts, which a text may hold in the notation of JSON or Python. Or one
        text file with a caption a line.
    keys : Path or None
        Text file with the key of each line of a text file; needed there, refused elsewhere.
    columns : TableColumns
        Names of the columns, and what they join.

    Raises
    ------
    UserError
        If a file cannot be read, a column is missing, a value is not text, or the captions and the
        keys of a positional list differ in number.
    """
    with naming("captions" if columns.section == "read_captions" else f"{columns.section}.model"):
        for table in tables:
            for number, value, cell in _numbered_rows(table, keys, columns):
                joined = _joined(value, keys or table, number, columns)
                for caption in [None] if cell is None else texts_of(table, number, cell):
                    yield joined, caption


def _joined(value: Any, path: Path, number: int, columns: TableColumns) -> str | None:
    """Return the value of a row that joins it, as a text."""
    if columns.join == KEY:
        if not isinstance(value, str) or not value:
            raise UserError(
                f"{path}: row {number} has the key {value!r}. Write keys as texts, as in the "
                "shards: 00012 and 12 differ."
            )
        return without_formula(value)
    if value is not None and not isinstance(value, str):
        raise UserError(
            f"{path}: row {number} has {value!r} as {columns.key}, which is no text. "
            f"Name another column as {columns.section}.key_column, or store this as texts."
        )
    return (value or "").strip() or None


def _numbered_rows(table: Path, keys: Path | None, columns: TableColumns) -> Iterator[NumberedRow]:
    if not table.is_file():
        raise UserError(f"{table}: there is no such caption table. Correct its path.")
    form = form_of(table)
    refuse_keys(table, keys)
    if form == "txt" and keys is not None:
        return _positional(table, keys)
    if form == "parquet":
        return _parquet(table, columns)
    if form in OBJECTS:
        return _json(table, columns)
    return _csv(table, delimiter_of(table), columns)


def _positional(table: Path, keys: Path) -> Iterator[NumberedRow]:
    if not keys.is_file():
        raise UserError(f"{keys}: there is no such list of keys. Correct caption_keys.")
    lengths = {path: sum(1 for _ in lines(path)) for path in (table, keys)}
    if lengths[table] != lengths[keys]:
        raise UserError(
            f"{table} has {lengths[table]} lines, but {keys} has {lengths[keys]}. {SHIFT} Give "
            "the list of keys that the captions were written for."
        )
    return (
        (number, key.rstrip("\r\n"), caption.rstrip("\r\n"))
        for number, (key, caption) in enumerate(zip(lines(keys), lines(table), strict=True), 1)
    )


def delimiter_of(table: Path) -> str:
    """Return what separates the fields of a table: what its first line has most often, or names."""
    first = first_line(table)
    if named := SEPARATOR_LINE.match(first):
        return named[1]
    if table.name.lower().removesuffix(".gz").endswith(".tsv"):
        return "\t"
    return "\t" if "\t" in first else max(SEPARATORS, key=first.count)


def csv_reader(table: Path, delimiter: str) -> Any:
    """Return a reader of the rows of a table with long cells; a wrong row is a `csv.Error`."""
    csv.field_size_limit(1 << 27)
    first = first_line(table)
    is_spaced = delimiter == "," and 0 < first.count(",") == first.count(", ")
    form: dict[str, Any] = {"delimiter": delimiter, "strict": True, "skipinitialspace": is_spaced}
    start = re.compile(rf"(?:^|{re.escape(delimiter)})([\"'])")
    marks = {mark for line in islice(lines(table), 3) for mark in start.findall(line)}
    after = {sign for line in islice(lines(table), TRIED) for sign in _ESCAPED.findall(line)}
    escapes = [None, "\\"] if after & {*QUOTES} else [None]
    if after <= {*QUOTES, "\\"}:
        escapes.reverse()
    ways = [form | {"quotechar": mark, "escapechar": escape}
            for mark in ("'" * (marks == {"'"}) + '"') for escape in escapes]  # fmt: skip
    if delimiter == "\t":
        ways.append(form | {"quoting": csv.QUOTE_NONE})
    usable = (way for way in ways if len(ways) == 1 or _are_whole(table, way))
    return csv.reader(lines(table), **next(usable, form))


def _are_whole(table: Path, form: dict[str, Any]) -> bool:
    """Return whether first rows have one number of cells."""
    try:
        rows = [*islice(csv.reader(lines(table), **form), TRIED)]
    except csv.Error:
        return False
    return len({len(row) for row in rows if row}) == 1


def _csv(table: Path, delimiter: str, columns: TableColumns) -> Iterator[NumberedRow]:
    reader = csv_reader(table, delimiter)
    try:
        header = next((row for row in reader if any(map(str.strip, row))), None)
        if header and SEPARATOR_LINE.match(delimiter.join(header)):
            header = next(reader, None)
        if header is None:
            return
        example = (
            f"The first line has to name the columns: {columns.key}{delimiter}{columns.caption}."
        )
        names = _captions_in(header, columns.caption)
        for name in (columns.key, *names):
            if header.count(name) != 1:
                raise _missing(table, header, name, columns, example)
        key_at, captions_at = header.index(columns.key), [*map(header.index, names)]
        unquoted: set[int] | None = None
        for row in reader:
            if len(row) > len(header) and len(names) == 1:
                if unquoted is None:
                    unquoted = _unquoted(table, delimiter, len(header), captions_at[0])
                if reader.line_num in unquoted:
                    row = rejoined(row, captions_at[0], len(header), delimiter)
            if len(row) != len(header) and row:
                raise UserError(
                    f"{table}: the row that ends in line {reader.line_num} has {len(row)} fields, "
                    f"but the first line names {len(header)}. Complete the row, and quote captions "
                    f"that hold {delimiter!r} or a line end."
                )
            cells = [row[at] for at in captions_at] if row else []
            for caption in [*filter(None, cells)] or cells[:1]:
                yield reader.line_num, row[key_at], caption
    except csv.Error as error:
        raise UserError(
            f"{table}: line {reader.line_num} is not valid ({error}). Write a caption with a "
            'quotation mark as "so, ""quoted"" and closed", or use Parquet or JSONL.'
        ) from error


def _unquoted(table: Path, delimiter: str, width: int, start: int) -> set[int]:
    """Return the lines of rows whose caption has separators unquoted, and log their number."""
    reader = csv_reader(table, delimiter)
    rows = ((reader.line_num, row) for row in reader)
    found = unquoted_lines(table, delimiter, rows, width, start)
    if found:
        log.warning("%s: %s with %r unquoted", table, count(len(found), "caption"), delimiter)
    return found


def _captions_in(has: Sequence[str], name: str) -> list[str]:
    """Return the column of captions, or the numbered ones that its name, or ``NAME*``, stands for.

    Examples
    --------
    >>> _captions_in(["key", "caption_0", "caption_1"], "caption"), _captions_in(["a"], "b")
    (['caption_0', 'caption_1'], ['b'])
    """
    stem = name.removesuffix("*")
    several = () if name in has else numbered([stem, *has]).get(f"{stem}*", ())
    return [one for one in dict.fromkeys(several) if one in has] or [name]


def texts_of(table: Path, number: int, cell: str) -> list[str]:
    """Return the texts of a cell, as `listed_texts`; raise a UserError if it is no list."""
    try:
        return listed_texts(cell)
    except ValueError as error:
        raise UserError(
            f"{table}: row {number}: the caption {cell[:80]!r} is {error}. Write the table as "
            "Parquet or JSONL, with a list of texts."
        ) from error


def _json(table: Path, columns: TableColumns) -> Iterator[NumberedRow]:
    naming = Naming(columns.key, columns.caption, (columns.key,))
    seen: dict[str, None] = {}  # a row may lack some of numbered captions
    for number, row in objects_in(table, naming):
        seen |= dict.fromkeys(row)
        names = _captions_in([*seen], columns.caption)
        for one_of in ([columns.key], names):
            if not any(_head(name, row) for name in one_of):
                raise _missing(table, list(row), one_of[0], columns, f"(row {number})")
        for caption in [text for name in names for text in values_at(row, name)] or [None]:
            if caption is not None and not isinstance(caption, str):
                raise UserError(
                    f"{table}: row {number}: {columns.caption} is {caption!r:.80}, neither a text "
                    f"nor a list of texts. Name another field as {columns.section}.caption_column, "
                    "or correct the row."
                )
            yield number, value_at(row, columns.key), caption


def _head(name: str, has: Collection[str]) -> str | None:
    """Return the longest column of a table that begins a dotted name, or None."""
    names = name.split(".")
    heads = (".".join(names[:length]) for length in range(len(names), 0, -1))
    return next((head for head in heads if head in has), None)


def _parquet(table: Path, columns: TableColumns) -> Iterator[NumberedRow]:
    try:
        with pq.ParquetFile(table) as opened:
            schema = opened.schema_arrow
            names = [columns.key, *_captions_in(schema.names, columns.caption)]
            heads = [_text_column(table, schema, name, columns) for name in names]
            inner = [name[len(head) + 1 :] for name, head in zip(names, heads, strict=True)]
            number = 0
            for batch in opened.iter_batches(BATCH_ROWS, columns=[*dict.fromkeys(heads)]):
                cells = (batch.column(name).to_pylist() for name in heads)
                for key, *captions in zip(*cells, strict=True):
                    number += 1
                    value = value_at(key, inner[0])
                    for cell, path in zip(captions, inner[1:], strict=True):
                        for caption in values_at(cell, path):
                            yield number, value, caption
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise UserError(
            f"{table}: cannot be read as Parquet ({error}). Fetch or write the file again."
        ) from error


def _text_column(table: Path, schema: pa.Schema, name: str, columns: TableColumns) -> str:
    """Return the column of a table that has a dotted name; raise a UserError if it is no text."""
    head = _head(name, schema.names)
    if head is None or schema.names.count(head) != 1:
        raise _missing(table, schema.names, head or name, columns, "")
    kind = schema.field(head).type
    for part in filter(None, name[len(head) + 1 :].split(".")):
        kind = _item(kind)
        if part == ANSWER and _is_turn(kind):
            break
        place = kind.get_field_index(part) if pa.types.is_struct(kind) else -1
        if place < 0:
            has = [kind.field(i).name for i in range(kind.num_fields)]
            raise _missing(table, [f"{head}.{inner}" for inner in has], name, columns, "")
        kind = kind.field(place).type
    is_key = name == columns.key
    if _is_text(kind if is_key else _item(kind)) or (not is_key and _is_turn(_item(kind))):
        return head
    setting = f"{columns.section}.{'key_column' if is_key else 'caption_column'}"
    remedy = f"Set {setting} to a column of texts"
    if pa.types.is_struct(_item(kind)):
        remedy = f"Set {setting} to one of its fields, such as {name}.{_item(kind).field(0).name}"
    elif any(test(_item(kind)) for test in _BINARY):
        written = "string" if kind is _item(kind) else "list<item: string>"
        remedy += f", or write it as text: `table[name].cast('{written}')` of pyarrow"
    elif is_key:
        remedy = "Write it as text: the keys 00012 and 12 differ"
    raise UserError(f"{table}: the column {name!r} is of type {kind}, not text. {remedy}.")


_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
_BINARY = (
    pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)  # fmt: skip
_LISTS = (
    pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view,
    pa.types.is_large_list_view,
)  # fmt: skip


def _item(kind: pa.DataType) -> pa.DataType:
    """Return the type of the items of a list, or the type itself."""
    return kind.value_type if any(test(kind) for test in _LISTS) else kind


def _is_turn(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and turns_in([field.name for field in kind]) is not None


def _is_text(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return any(test(kind) for test in _TEXT)


def _missing(
    table: Path, has: Sequence[str], name: str, columns: TableColumns, remedy: str
) -> UserError:
    fault = "two columns" if has.count(name) > 1 else "no column"
    return UserError(
        f"{table}: has {fault} {name!r}, only {', '.join(map(repr, has)) or 'none'}. Set "
        f"{columns.section}.key_column and {columns.section}.caption_column to names that it has. "
        f"{remedy}".rstrip()
    )
