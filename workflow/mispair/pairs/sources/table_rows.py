"""Rows of tables of pairs, from CSV, TSV, JSON, JSONL and Parquet in all their usual forms."""

import csv
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.core.words import count
from mispair.pairs.captions.decoding import ANSWER, answer_in, numbered, turns_in
from mispair.pairs.captions.json_rows import LINES, Naming, objects_in, start_of_json
from mispair.pairs.captions.key_lists import (
    SEPARATOR_LINE,
    first_line,
    goes_on,
    lines,
    rejoined,
    unquoted_lines,
)
from mispair.pairs.captions.scripts import count_words
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS
from mispair.pairs.sources.columns import (
    ADDRESS_COLUMNS,
    CAPTION_COLUMNS,
    IMAGE_COLUMNS,
    Columns,
    with_numbered,
)
from mispair.pairs.sources.source import refuse_unreadable

TABLE_ENDINGS = ("csv", "tsv", "token", "jsonl", "ndjson", "jsonlines", "parquet")
OBJECTS = ("jsonl", "ndjson", "jsonlines", "json")
"""Endings of tables of objects; JSON has them in a list."""
DELIMITED = ("csv", "tsv", "token", "txt")
FIELDS = ("url", "status", "sha256", "licence", "license", "LICENSE", "attribution", "uid")
"""Columns that packed pairs keep, as img2dataset's JSON has them."""
TRIED = 100
"""Rows at the start of a table by which its columns and the folder of its pictures are found."""
_PICTURE_FIRST = re.compile(
    rf"""^["']?[^"']+?\.(?:{"|".join(IMAGE_EXTENSIONS)})(?:#\d+)?["']? *([,\t;|])""", re.IGNORECASE
)
_LISTED = re.compile(
    rf"^\s*(.+?\.(?:{'|'.join(IMAGE_EXTENSIONS)})(?:#\d+)?) *"
    r"(?:(?:->|=>|[:=]|--?|[–—]) *| (?=[^\W_]|[\"'(<]))(\S[^\t]*?)\s*$",
    re.IGNORECASE,
)
"""A line of a list: the name of a picture, a sign or a blank, and its caption."""
_QUOTED = re.compile(r"""^(["'])((?:(?!\1).)+)\1$""")
_PICTURES = re.compile(
    rf'(?:\{{\s*|\[\s*\{{[^{{}}\[\]]*:\s*)"[^"]+\.(?:{"|".join(IMAGE_EXTENSIONS)})"\s*[:,}}]'.encode(),
    re.IGNORECASE,
)
"""An object whose first name is a picture, or a list whose first object has the name of one."""
_OF_PICTURES = re.compile(rb'"(sentences|captions?)"\s*:')
"""Fields of pictures in a list, which COCO's files of boxes lack."""
_OBJECT = re.compile(rb'\{\s*"[^"]*"\s*:\s*(?:["\[{]|(?:[\d.]+|null)\s*,)')
_NUMBER = re.compile(r"#\d+$")
NAMING = Naming("image", "caption", (*IMAGE_COLUMNS, *CAPTION_COLUMNS, *ADDRESS_COLUMNS), "pairs: ")
"""Columns of rows in JSON that have no names of their own."""


def form_of(name: str) -> str:
    """Return the ending of a table's name in lower case; that before `.gz` if it is compressed."""
    ending = ending_of(name)
    return ending_of(name[: -len(".gz")]) if ending == "gz" else ending


def ending_of(name: str) -> str:
    """Return the ending of a file's name in lower case, without the dot."""
    _, dot, ending = name.rpartition(".")
    return ending.lower() if dot and "/" not in ending else ""


def header_of(path: Path) -> list[str]:
    """Return the names of the columns of a table.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    refuse_unreadable(path)
    form = form_of(path.name)
    if form == "parquet":
        return _names_in(parquet_schema(path))
    if form in OBJECTS:
        # A row may lack what others have.
        rows = (flat(row) for _, row in islice(objects_in(path, NAMING), TRIED))
        return [*dict.fromkeys(name for row in rows for name in row)]
    return _names_of(_first(cells_in(path))[1])


def _names_in(fields: Any) -> list[str]:
    """Return the names of the columns of a schema, and those in its objects (``meta.caption``)."""
    import pyarrow as pa

    names = [field.name for field in fields]
    for field in fields:
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(kind):
            inside = _names_in(kind)
            inside += [ANSWER] if turns_in(inside) else []
            names += [f"{field.name}.{name}" for name in inside]
    return names


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of a row, and those of objects and of lists of objects in it.

    Examples
    --------
    >>> flat({"meta": {"caption": "y"}})
    {'meta': {'caption': 'y'}, 'meta.caption': 'y'}
    >>> flat({"sentences": [{"raw": "x"}, {"raw": "y"}]})["sentences.raw"]
    ['x', 'y']
    >>> flat({"talk": [{"from": "human", "value": "?"}, {"from": "gpt", "value": "x"}]})["talk.gpt"]
    'x'
    """
    inside: dict[str, Any] = {}
    for name, cell in row.items():
        if isinstance(cell, dict):
            inside |= {f"{name}.{key}": one for key, one in flat(cell).items()}
        elif isinstance(cell, list) and cell and all(isinstance(one, dict) for one in cell):
            for key in dict.fromkeys(key for one in cell for key in one):
                inside[f"{name}.{key}"] = [one.get(key) for one in cell]
            if turns_in(cell[0]):
                inside[f"{name}.{ANSWER}"] = answer_in(cell)
    return row | inside


def columns_to_read(path: Path, names: Iterable[str]) -> list[str]:
    """Return the columns of a Parquet file that have some names, those in objects among them."""
    has = parquet_schema(path).names
    every = (one for name in names for one in numbered(has).get(name, [name]))
    whole = (name if name in has else name.partition(".")[0] for name in every)
    return [name for name in dict.fromkeys(whole) if name in has]


def is_pair(row: Sequence[str]) -> bool:
    """Return whether the first row of a table has no names: it begins with a picture.

    Of two cells the first may be a picture without its ending, which has a number, if the second is
    a sentence.

    Examples
    --------
    >>> is_pair(["a.jpg", "cup"]), is_pair(["PMC7_g001", "a red cup"]), is_pair(["id", "text"])
    (True, True, False)
    """
    first = _NUMBER.sub("", row[0].strip()) if len(row) > 1 else ""
    is_bare = len(row) == 2 and re.fullmatch(r"\S*\d\S*", first) and count_words(row[1]) > 2
    return ending_of(first) in IMAGE_EXTENSIONS or bool(is_bare)


def is_list(path: Path, pictures: Container[str]) -> bool:
    """Return whether delimited text begins with a picture and its caption.

    Without its ending, the name has to be that of one of some `pictures`.
    """
    try:
        row = _first(cells_in(path))[1]
    except UserError:
        return False
    name = _NUMBER.sub("", row[0].strip()) if row else ""
    return is_pair(row) and (ending_of(name) in IMAGE_EXTENSIONS or name in pictures)


def _names_of(row: Sequence[str]) -> list[str]:
    """Return the names of columns, by the first row of a table; without names, by position."""
    if not is_pair(row):
        return [*row]
    if len(row) == 2 or goes_on(row[1:]):
        return ["image", "caption"]
    names = ["image", *map(str, range(2, len(row) + 1))]
    texts = [at for at, cell in enumerate(row) if at and " " in cell.strip()]
    if len(texts) == 1:  # next to numbers or labels
        names[texts[0]] = "caption"
    return names


def parquet_schema(path: Path) -> Any:
    """Return the schema of a Parquet file.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    refuse_unreadable(path)
    try:
        return pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"pairs: {path} cannot be read as Parquet ({error}). Fetch or write the file again."
        ) from error


def rows_in(
    path: Path, columns: Columns, joined: Callable[[int], None] = lambda line: None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each row of a table, and its cells by column.

    `joined` gets the line of each row whose caption has separators unquoted.
    """
    for number, row in _rows_in(path, columns, joined):
        yield number, with_numbered(row, columns.caption)


def _rows_in(
    path: Path, columns: Columns, joined: Callable[[int], None]
) -> Iterator[tuple[int, dict[str, Any]]]:
    form = form_of(path.name)
    if form == "parquet":
        import pyarrow.parquet as pq

        wanted = columns_to_read(path, (*columns, *FIELDS))
        with pq.ParquetFile(path) as opened:
            number = 0
            for batch in opened.iter_batches(columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    yield number, _in_full(row, columns)
    elif form in OBJECTS:
        for number, row in objects_in(path, NAMING):
            yield number, _in_full(row, columns)
    else:
        yield from _csv_rows(path, columns, joined)


def _in_full(row: dict[str, Any], columns: Columns) -> dict[str, Any]:
    """Return the cells of a row, and None for columns that it lacks."""
    return dict.fromkeys(one for one in columns if not one.endswith("*")) | flat(row)


def is_json(path: Path, named: bool = False) -> bool:
    """Return whether JSON is a list, lines, or has names of pictures in it, by its first bytes.

    A list of pictures may have their captions, as Karpathy's splits do. A file that is `named` may
    have pictures without their endings.
    """
    start = start_of_json(path)
    if start.startswith(b"[") or LINES.match(start):
        return True
    if b'"images"' in start and start.startswith(b"{"):
        return _OF_PICTURES.search(start) is not None
    return (_OBJECT.match(start) if named else _PICTURES.search(start)) is not None


def _csv_rows(
    path: Path, columns: Columns, joined: Callable[[int], None]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line of each row, and its cells; those that a short row lacks are None."""
    cells = cells_in(path)
    first = _first(cells)
    header, has_no_names = _names_of(first[1]), is_pair(first[1])
    width, caption = len(header), columns.caption
    for line, row in chain([first], cells) if has_no_names else cells:
        if has_no_names and row:  # Flickr8k.token.txt numbers the captions of a picture
            row[0] = _NUMBER.sub("", row[0].strip())
        if len(row) > width and line in unquoted(path, caption):
            row = rejoined(row, header.index(caption), width, separator_of(path))
            joined(line)
        if len(row) > width:
            raise UserError(wrong_number(path, line, len(row), width))
        if any(map(str.strip, row)):  # spreadsheets end in rows of separators alone
            yield line, dict(zip_longest(header, row))


def unquoted_words(tables: Iterable[Path], number: int) -> str:
    """Return how many captions of tables have separators and no quotation marks, for a line."""
    if not number:
        return ""
    separator = separator_of(next(one for one in tables if form_of(one.name) in DELIMITED))
    return f", {count(number, 'caption')} with {separator!r} unquoted"


def unquoted(path: Path, caption: str) -> frozenset[int]:
    """Return the lines of rows whose caption has separators, and no quotation marks around it.

    The caption is in the first column or the last one, and a blank follows most of the separators:
    several cells have none.
    """
    status = os.stat(path)
    return _unquoted(path, caption, status.st_mtime_ns, status.st_size)


@lru_cache(4)
def _unquoted(path: Path, caption: str, time: int, size: int) -> frozenset[int]:
    separator, header = separator_of(path), header_of(path)
    if caption not in (header[0], header[-1]):
        return frozenset()
    rows, start = cells_in(path), header.index(caption)
    return frozenset(unquoted_lines(path, separator, rows, len(header), start))


def _first(cells: Iterator[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    """Return the first row that is not blank, or an empty one."""
    return next((row for row in cells if any(map(str.strip, row[1]))), (1, []))


def cells_in(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line of each row of delimited text, names of columns included, and its cells.

    Raises
    ------
    UserError
        If a line is not valid.
    """
    from mispair.pairs.captions.user_tables import csv_reader

    first, separator = first_line(path), separator_of(path)
    if not separator:
        yield from _listed(path)
        return
    reader = csv_reader(path, separator)
    try:
        if SEPARATOR_LINE.match(first):
            next(reader)
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise UserError(
            f"pairs: {path}: line {reader.line_num} is not valid ({error}). Write a caption with "
            'a quotation mark as "so, ""quoted"" and closed" and end lines as Unix or Windows '
            "does, or use Parquet or JSONL."
        ) from error


def separator_of(path: Path) -> str:
    """Return what separates the cells of delimited text; empty for a list of names and captions."""
    from mispair.pairs.captions.user_tables import delimiter_of

    first = first_line(path)
    if form_of(path.name) != "tsv" and (named := _PICTURE_FIRST.match(first)):
        return named[1]
    return "" if _LISTED.match(first) else delimiter_of(path)


def _listed(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the name of a picture and the caption of each line of a list."""
    for number, line in enumerate(lines(path), 1):
        if found := _LISTED.match(line):
            name, caption = found.groups()
            yield number, [name, _QUOTED.sub(r"\2", caption)]
        elif ending_of(name := line.strip().rstrip(":= -")) in IMAGE_EXTENSIONS:
            yield number, [name, ""]
        elif line.strip():
            raise UserError(
                f"pairs: {path}: line {number} is {line.strip()!r:.80}, and the first one has a "
                "picture and its caption. Write each line so: a.jpg: a red cup."
            )


def wrong_number(path: Path, line: int, number: int, expected: int) -> str:
    """Return what is wrong with a row of another number of cells than the first."""
    return (
        f"pairs: {path}: the row that ends in line {line} has {number} fields, but the first line "
        f"names {expected}. Complete the row, and quote captions that hold the separator or a line "
        "end."
    )
