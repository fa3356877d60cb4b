"""A user's list of keys, in any form in which people save one."""

import csv
import gzip
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, takewhile, zip_longest
from pathlib import Path
from typing import Any

import yaml

from mispair.core.files import UserError
from mispair.core.words import count

TRUSTED = "trusted (--checked)"
"""The setting of pairs that are known to be right, in messages: as in a file and as an option."""
COLUMN = "key"
_YES = (
    "yes y true t 1 1.0 ok okay right correct good match matches x fine clean pass trusted checked "
    "✓ ✔ + ja richtig oui vrai si sí"
)
_NO = (
    "no n false f 0 0.0 wrong incorrect bad mismatch fail failed noisy unsure unclear maybe "
    "unknown skip skipped todo ✗ ✘ - ? nein falsch non faux"
)
YES, NO = frozenset(_YES.split()), frozenset(["", *_NO.split()])
"""Verdicts on a pair, in lower case; an unsure or missing one is no yes."""
_ZIP, _OLD_EXCEL = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_STORES = (b"\x80", b"\x93NUMPY", b"\x89HDF")
"""First bytes of pickles, and of files of NumPy and HDF5: no text in UTF-8 has them."""
_OF_SHEETS = ("xl/", "content.xml", "Index/")
"""Members of the zips of Excel, LibreOffice and Numbers."""
SEPARATOR_LINE = re.compile(r"^sep=(.)[,;\t|]*\s*$", re.IGNORECASE)
"""First line by which Excel states the separator of the cells."""
SEPARATORS = ",;\t|"
_QUOTED = re.compile(r"""^(["'])(.*)\1[,;]?$""")
_HAS_DIGIT = re.compile(r"\d").search


def read_keys(path: Path, setting: str) -> list[str]:
    """Return the keys of a list, in its order.

    A list is text with a key a line (quoted or not, with or without a first line ``key``), or with
    a key and a verdict such as ``ok`` a line; a table with a column ``key``, separated by commas,
    semicolons or tabs; Parquet with such a column; JSON: a list, or an object a line; or a list of
    YAML, whose items begin with a dash.

    Raises
    ------
    UserError
        If the file cannot be read, has no column of keys, or names no key.
    """
    try:
        keys = [*map(without_formula, _keys(path, setting))]
    except (OSError, ValueError, RecursionError, csv.Error, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{setting}: {path} cannot be read ({reason}). Give a text file with a key a line, or "
            f"CSV or Parquet with a column {COLUMN}."
        ) from error
    if not keys:
        raise UserError(f"{setting}: {path} names no key. Give a key a line.")
    return keys


def _keys(path: Path, setting: str) -> Iterator[str]:
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == ".parquet":
        return _of_parquet(path, setting)
    lines = lines_of_text(path, setting)
    if suffix == ".json":
        return _of_objects(json.loads("\n".join(lines)), path, setting)
    if suffix in (".jsonl", ".ndjson"):
        return _of_objects([json.loads(line) for line in lines if line.strip()], path, setting)
    filled = [line for line in lines if line.strip()]
    if suffix in (".yaml", ".yml") or all(line.startswith("- ") for line in filled):
        # The base loader takes each scalar for a text: keys keep their zeros.
        return _of_objects(yaml.load("\n".join(lines), yaml.BaseLoader) or [], path, setting)
    header = next(iter(filled), "")
    for delimiter in SEPARATORS:
        names = next(csv.reader([header], delimiter=delimiter))
        if (column := key_column(names)) is not None:
            rows = [row for row in csv.reader(lines, delimiter=delimiter) if row][1:]
            cells = zip(names, zip_longest(*rows, fillvalue=""), strict=False)
            _refuse_verdicts({**dict(cells), names[column]: ()}, path, setting)
            return filter(None, (row[column].strip() for row in rows if len(row) > column))
    if (judged := _judged_keys(lines, path, setting)) is not None:
        return filter(None, judged)
    if suffix in (".csv", ".tsv") or "\t" in header.strip():
        raise _without_column(path, setting, re.split(f"[{SEPARATORS}]", header))
    if len(filled) == 1:  # all keys in one line
        line = re.sub(r"^\s*\[(.*)\]\s*$", r"\1", filled[0])  # a list of JSON or Python
        filled = [key for key in re.split(r"[,;]", line) if key.strip()]
    return map(_bare, filled)


def _judged_keys(lines: Sequence[str], path: Path, setting: str) -> list[str] | None:
    """Return the keys of lines that have a key and a verdict each, without names of columns.

    Blanks separate them as well, where no key has one. None if the lines are of another form.
    """
    filled = [line.strip(" ") for line in lines if line.strip()]
    for delimiter in (*SEPARATORS, " "):
        rows = csv.reader(filled, delimiter=delimiter, skipinitialspace=True)
        cells = [*takewhile(lambda row: len(row) == 2, rows)]
        if not cells or len(cells) < len(filled):
            continue
        columns = [[cell.strip() for cell in column] for column in zip(*cells, strict=True)]
        for key, verdict in ((0, 1), (1, 0)):
            judged, keys = ({*map(str.lower, columns[at])} for at in (verdict, key))
            if judged & YES and judged <= YES | NO and not keys <= YES | NO:
                first, *others = columns[key]
                if others and all(map(_HAS_DIGIT, others)) and not _HAS_DIGIT(first):
                    return None  # names of columns
                _refuse_verdicts({str(verdict + 1): columns[verdict]}, path, setting)
                return columns[key]
    return None


def lines_of_text(path: Path, setting: str) -> list[str]:
    """Return the lines of a user's file, in UTF-8 or UTF-16, with or without a mark of this.

    The file may be gzipped. Excel's first line ``sep=;`` becomes an empty one.

    Raises
    ------
    UserError
        If it is a spreadsheet, an archive or a store of arrays.
    OSError, ValueError
        If it cannot be read, or has another encoding.
    """
    content = path.read_bytes()
    if path.suffix.lower() == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error) as error:
            raise ValueError(f"is cut off: {error}") from error
    if packed := _packed(path, content):
        raise UserError(f"{setting}: {path} {packed}")
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))
    lines = content.decode("utf-16" if wide else "utf-8-sig").splitlines()
    return ["", *lines[1:]] if lines and SEPARATOR_LINE.match(lines[0]) else lines


def _packed(path: Path, start: bytes) -> str:
    """Return what a file is that begins so and is no text, with the remedy; "" for others."""
    members: list[str] = []
    if start.startswith(_ZIP):
        with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            members = archive.namelist()
    if start.startswith(_STORES) or (
        members and not any(name.startswith(_OF_SHEETS) for name in members)
    ):
        return (
            "is an archive or a store of arrays (zip, NumPy, HDF5, pickle), which mispair does not "
            "read. Write its content as CSV, or as a text file with a line for each pair."
        )
    if start.startswith((_ZIP, _OLD_EXCEL)):
        return (
            f"is a spreadsheet, which mispair does not read. Format the column {COLUMN} as text, "
            "so that keys keep their leading zeros, and save the sheet as CSV."
        )
    return ""


def _refuse_verdicts(columns: Mapping[str, Iterable[Any]], path: Path, setting: str) -> None:
    """Refuse a list with a column of verdicts of which some are no, or missing."""
    for name, values in columns.items():
        verdicts = ["" if value is None else str(value).strip().lower() for value in values]
        others = [verdict for verdict in verdicts if verdict in NO]
        both = any(map(str.isalpha, others)) and any(v in YES and v.isalpha() for v in verdicts)
        if both or (others and any(verdicts) and {*verdicts} <= YES | NO):
            raise UserError(
                f"{setting}: {path} has {others[0]!r} in the column {name!r} of "
                f"{count(len(others), 'key')}, and every key of the list counts. Leave out the "
                "rows that are not meant, and this column."
            )


def without_formula(cell: str) -> str:
    """Return a text without the formula by which spreadsheets keep its zeros.

    Examples
    --------
    >>> without_formula('="00012"'), without_formula("00012")
    ('00012', '00012')
    """
    return cell[2:-1] if cell.startswith('="') and cell.endswith('"') else cell


def _bare(line: str) -> str:
    quoted = _QUOTED.match(line.strip())
    return quoted[2] if quoted else line.strip()


def key_column(names: Sequence[str]) -> int | None:
    """Return the position of the column of keys, in any case of letters; None if there is none."""
    cleaned = [name.strip().strip("\"'") for name in names]
    if COLUMN in cleaned:
        return cleaned.index(COLUMN)
    lowered = [name.lower() for name in cleaned]
    return lowered.index(COLUMN) if lowered.count(COLUMN) == 1 else None


def _of_parquet(path: Path, setting: str) -> Iterator[str]:
    # Not at the top: the plan of a workflow needs no tables.
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    column = key_column(schema.names)
    if column is None:
        raise _without_column(path, setting, schema.names)
    name = schema.names[column]
    few = [one.name for one in schema if one.name != name and _may_be_verdict(one.type)]
    _refuse_verdicts(pq.read_table(path, columns=few).to_pydict(), path, setting)
    values = pq.read_table(path, columns=[name])[name]
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not pa.types.is_null(values.type) and not _is_text(values.type):
        raise _no_text(path, setting, name, str(values.type))
    return (key for key in values.to_pylist() if key)


def _may_be_verdict(kind: Any) -> bool:
    return _is_text(kind) or str(kind).startswith(("bool", "int", "uint", "dictionary"))


def _is_text(kind: Any) -> bool:
    return str(kind) in ("string", "large_string", "string_view")


def _of_objects(rows: Any, path: Path, setting: str) -> Iterator[str]:
    if not isinstance(rows, list):
        raise UserError(f"{setting}: {path} is not a list of keys. Write these alone, as a list.")
    tables = [row for row in rows if isinstance(row, Mapping)]
    names = [*tables[0]] if tables else []
    columns = {name: [row.get(name) for row in tables] for name in names if name.lower() != COLUMN}
    _refuse_verdicts(columns, path, setting)
    for row in rows:
        if isinstance(row, Mapping):
            column = key_column([*row])
            if column is None:
                raise _without_column(path, setting, [*row])
            row = [*row.values()][column]
        if not isinstance(row, str):
            raise _no_text(path, setting, COLUMN, type(row).__name__)
        yield row


def _without_column(path: Path, setting: str, names: Iterable[str]) -> UserError:
    shown = ", ".join(repr(name[:40]) for name in islice(names, 8))
    return UserError(
        f"{setting}: {path} has no column {COLUMN!r}, only {shown}. Name the column of keys so in "
        "the first line, or give a text file (.txt) with a key a line."
    )


def _no_text(path: Path, setting: str, column: str, kind: str) -> UserError:
    return UserError(
        f"{setting}: the column {column!r} of {path} holds values of type {kind}, not text. Write "
        "keys as text: 00012 and 12 differ."
    )


@contextmanager
def naming(setting: str, *others: str) -> Iterator[None]:
    """Begin messages on a user's files with the setting that names these, or one of some others."""
    try:
        yield
    except UserError as error:
        if str(error).partition(":")[0] in (setting, *others):
            raise
        raise UserError(f"{setting}: {error}") from error


_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""Beginnings of a file in UTF-16, as spreadsheets write "Unicode text"."""


def first_line(path: Path) -> str:
    """Return the first line that is not blank, or nothing."""
    return next((line for line in lines(path) if line.strip()), "")


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file with their ends; only a line feed ends a line."""
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    number = 1
    try:
        with opener(path, "rb") as opened:
            for number, line in enumerate(opened, 1):
                if number == 1 and (packed := _packed(path, line)):
                    raise UserError(f"{path}: {packed}")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: line {number} is not UTF-8 ({error.reason}). Convert the file, for example "
            f"with `iconv -f {'UTF-16' if error.object[:2] in _UTF_16 else 'CP1252'} -t UTF-8`."
        ) from error
    except PermissionError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}). Give read access to it."
        ) from error
    except (EOFError, zlib.error, OSError) as error:  # OSError includes gzip.BadGzipFile
        raise UserError(
            f"{path}: cannot be read after line {number} ({error}). Fetch the file again."
        ) from error


def unquoted_lines(
    path: Path, separator: str, rows: Iterable[tuple[int, list[str]]], width: int, start: int
) -> set[int]:
    """Return the lines of rows of a table whose text has separators and no quotation marks.

    The text is in the first column or the last one, and a blank follows most of the separators:
    several cells have none.

    Parameters
    ----------
    path : Path
        The table.
    separator : str
        What separates its cells.
    rows : iterable of (int, list of str)
        Line and cells of each row.
    width, start : int
        Number of columns, and the place of that of the text.
    """
    numbered, found, texts = enumerate(lines(path), 1), set[int](), 0
    for line, row in rows:
        if len(row) > width and start in (0, width - 1):
            raw = next(text for number, text in numbered if number == line)
            cells = row[start : start + len(row) - width + 1]
            if raw.rstrip("\r\n").split(separator) == row and any(map(str.strip, cells[1:])):
                found.add(line)
                texts += goes_on(cells)
    return found if 2 * texts > len(found) else set()


def rejoined(row: Sequence[str], start: int, width: int, separator: str) -> list[str]:
    """Return a row whose text at a place was split at separators, with the text as one cell.

    Examples
    --------
    >>> rejoined(["1", "a cup", " red"], 1, 2, ",")
    ['1', 'a cup, red']
    """
    end = start + len(row) - width + 1
    return [*row[:start], separator.join(row[start:end]), *row[end:]]


def goes_on(cells: Sequence[str]) -> bool:
    """Return whether cells are one text with separators in it: a blank follows each of these.

    Examples
    --------
    >>> goes_on(["a red circle", " and a square"]), goes_on([" 0", " a cup"]), goes_on(["a", ""])
    (True, False, False)
    """
    return not cells[0].startswith(" ") and all(
        one.startswith(" ") and one.strip() for one in cells[1:]
    )
