"""Tables of picture paths and captions: CSV, TSV, JSONL and Parquet."""

from __future__ import annotations

import csv
import json
import os
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mispair.core.files import UserError
from mispair.core.words import nearest
from mispair.pairs.sources.source import (
    Entry,
    Named,
    Source,
    counted,
    member_key,
    merged,
    picture_key,
)

TABLE_ENDINGS = ("csv", "tsv", "jsonl", "ndjson", "parquet")
IMAGE_COLUMNS = (
    "filepath", "file_name", "filename", "image_path", "image_file", "img_path", "image", "img",
    "path", "picture", "photo", "file",
)  # fmt: skip
"""Names of columns of picture paths, the most certain first."""
CAPTION_COLUMNS = (
    "caption", "title", "text", "captions", "texts", "caption_text", "description", "alt_text",
    "comment", "sentence",
)  # fmt: skip
ADDRESS_COLUMNS = ("url", "image_url", "img_url")
DELIMITERS = ",\t;|"
FIELDS = ("url", "status", "sha256", "licence", "license", "LICENSE", "attribution", "uid")
"""Columns that packed pairs keep, as img2dataset's JSON has them."""
TRIED = 100
"""Rows whose pictures are looked for in each folder where they may be."""


class Columns(NamedTuple):
    """Names of the columns of a table; empty for what is not named."""

    image: str = ""
    caption: str = ""
    key: str = ""


def columns_in(named: Named) -> Columns:
    """Return the columns that a configuration names."""
    return Columns(named.image_column or "", named.caption_column or "", named.key_column or "")


def ending_of(name: str) -> str:
    """Return the ending of a file's name in lower case, without the dot."""
    _, dot, ending = name.rpartition(".")
    return ending.lower() if dot and "/" not in ending else ""


class Pictures:
    """The pictures that a table names, looked up in a folder.

    Parameters
    ----------
    folder : Path
        Where relative paths start.
    root : Path, optional
        Folder that keys are relative to; `folder` by default.
    """

    def __init__(self, folder: Path, root: Path | None = None):
        self.folder = folder
        self.root = root or folder
        self._names: dict[str, tuple[set[str], dict[str, str]]] = {}

    def find(self, path: str) -> str | None:
        """Return the path of a file that a table names, or None if there is none.

        A name with other Unicode characters for the same letters (NFC, NFD) is found as well.
        """
        for written in dict.fromkeys((path, path.strip())):
            whole = os.path.join(self.folder, written)
            parent, name = os.path.split(whole)
            names, composed = self._in(parent)
            if name in names:
                return whole
            if name and (same := composed.get(unicodedata.normalize("NFC", name))):
                return os.path.join(parent, same)
        return None

    def key(self, path: str, found: str | None) -> str:
        """Return the key of a picture that a table names: its path relative to the root.

        A picture outside has its path as the table has it.
        """
        whole = os.path.normpath(found or os.path.join(self.folder, path))
        root = os.path.join(os.path.normpath(self.root), "")
        inside = whole.startswith(root)
        return picture_key(whole.removeprefix(root) if inside else os.path.normpath(path))

    def _in(self, folder: str) -> tuple[set[str], dict[str, str]]:
        if folder not in self._names:
            try:
                names = os.listdir(folder or ".")
            except (OSError, ValueError):
                names = []
            composed = {unicodedata.normalize("NFC", name): name for name in sorted(names)}
            self._names[folder] = ({*names}, composed)
        return self._names[folder]


def chosen_columns(path: Path, has: Sequence[str], given: Columns) -> Columns:
    """Return the columns of a table that are named, or else those with usual names.

    Raises
    ------
    UserError
        If a named column is missing, with the nearest one, or no column has a usual name.
    """
    return Columns(
        _column(path, has, given.image, "image_column", IMAGE_COLUMNS),
        _column(path, has, given.caption, "caption_column", CAPTION_COLUMNS),
        _column(path, has, given.key, "key_column", ()),
    )


def usual(has: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the first of some names that a table has as a column, in any case of letters."""
    lowered = {column.strip().lower(): column for column in reversed(has)}
    return next((lowered[name] for name in names if name in lowered), None)


def _column(path: Path, has: Sequence[str], named: str, setting: str, names: Sequence[str]) -> str:
    if named and list(has).count(named) != 1:
        fault = "has two columns" if named in has else "has no column"
        raise UserError(
            f"pairs.{setting}: {path} {fault} {named!r}, only {_shown(has)}.{nearest(named, has)}"
        )
    found = named or usual(has, names)
    if not has:
        raise UserError(f"pairs: {path} is empty. Its first line has to name the columns.")
    if not found and setting == "image_column" and (address := usual(has, ADDRESS_COLUMNS)):
        raise UserError(
            f"pairs: {path} has addresses of pictures ({address}) and no column of paths. Fetch "
            "the pictures first: img2dataset --url_list TABLE --output_format webdataset."
        )
    if not found and names:
        what = "picture paths" if setting == "image_column" else "captions"
        raise UserError(
            f"pairs: {path} has the columns {_shown(has)}, none of which has a usual name of "
            f"{what} ({', '.join(names[:4])}, ...). Name it: pairs: {{path: {path}, {setting}: "
            "COLUMN}."
        )
    return found or ""


def _shown(has: Sequence[str]) -> str:
    return ", ".join(map(repr, has[:12])) + ", ..." * (len(has) > 12) or "none"


def is_table(path: Path, given: Columns) -> bool:
    """Return whether a file has columns of paths and captions, named or with usual names."""
    try:
        chosen_columns(path, header_of(path), given)
    except UserError:
        return False
    return True


def header_of(path: Path) -> list[str]:
    """Return the names of the columns of a table.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    ending = ending_of(path.name)
    if ending == "parquet":
        return parquet_schema(path).names
    from mispair.pairs.captions.user_tables import lines

    if ending in ("jsonl", "ndjson"):
        return next(([*row] for _, row in _objects(path)), [])
    first = next(lines(path), "")
    return next(csv.reader([first], delimiter=_delimiter(path, first)), [])


def parquet_schema(path: Path) -> Any:
    """Return the schema of a Parquet file.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"pairs: {path} cannot be read as Parquet ({error}). Fetch or write the file again."
        ) from error


def _delimiter(path: Path, header: str) -> str:
    """Return what separates the fields of a table: open_clip's default in .csv is a tab."""
    if ending_of(path.name) == "tsv":
        return "\t"
    counts = {delimiter: header.count(delimiter) for delimiter in DELIMITERS}
    return max(DELIMITERS, key=lambda delimiter: counts[delimiter])


def entries_of(path: Path, given: Columns, pictures: Pictures) -> tuple[Columns, list[Entry]]:
    """Return the columns of a table, and an entry for each of its rows.

    Raises
    ------
    UserError
        If the table cannot be read, or lacks a column.
    """
    columns, rows = chosen_columns(path, header_of(path), given), []
    for number, row in _rows(path, columns):
        image, captions = row[columns.image], _captions(path, number, row[columns.caption])
        if image is not None and not isinstance(image, str):
            raise UserError(
                f"pairs: {path}: row {number} has {image!r:.80} in the column {columns.image!r}, "
                "which is no path. Name the column of paths: pairs.image_column."
            )
        found = pictures.find(image) if image else None
        key = row[columns.key] if columns.key else None
        if key is None or key == "":
            key = pictures.key(image, found) if image else f"row {number}"
        fields = tuple((name, row[name]) for name in FIELDS if isinstance(row.get(name), str))
        rows.append(Entry(member_key(str(key)), (found,) if found else (), (), captions, fields))
    return columns, rows


def _captions(path: Path, number: int, cell: Any) -> tuple[str, ...]:
    """Return the captions in a cell, which may be a list."""
    if isinstance(cell, str):
        from mispair.pairs.captions.user_tables import texts_of

        return tuple(texts_of(path, number, cell))
    captions = tuple(text for text in (cell if isinstance(cell, list) else [cell])
                     if text is not None)  # fmt: skip
    if wrong := [text for text in captions if not isinstance(text, str)]:
        raise UserError(
            f"pairs: {path}: row {number} has {wrong[0]!r:.80} as a caption, which is no text. "
            "Name the column of captions: pairs.caption_column."
        )
    return captions


def _rows(path: Path, columns: Columns) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each row of a table, and its cells by column."""
    ending = ending_of(path.name)
    if ending == "parquet":
        import pyarrow.parquet as pq

        names = parquet_schema(path).names
        wanted = [name for name in dict.fromkeys((*columns, *FIELDS)) if name in names]
        with pq.ParquetFile(path) as opened:
            number = 0
            for batch in opened.iter_batches(columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    elif ending in ("jsonl", "ndjson"):
        for number, row in _objects(path):
            yield number, {name: None for name in columns if name} | row
    else:
        yield from _csv_rows(path)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    from mispair.pairs.captions.user_tables import lines

    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"pairs: {path}: line {number} is not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise UserError(f"pairs: {path}: line {number} is not a JSON object.")
        yield number, row


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    from mispair.pairs.captions.user_tables import lines

    csv.field_size_limit(1 << 27)
    first = next(lines(path), "")
    reader = csv.reader(lines(path), delimiter=_delimiter(path, first), strict=True)
    try:
        header = next(reader, [])
        for row in reader:
            if row and len(row) != len(header):
                raise UserError(
                    f"pairs: {path}: the row that ends in line {reader.line_num} has {len(row)} "
                    f"fields, but the first line names {len(header)}. Quote captions that hold "
                    f"{reader.dialect.delimiter!r}."
                )
            if row:
                yield reader.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise UserError(
            f"pairs: {path}: line {reader.line_num} is not valid ({error}). Write a caption with "
            'a quotation mark as "so, ""quoted"" and closed", or use Parquet or JSONL.'
        ) from error


def of_table(path: Path, folder: Path | None, named: Named) -> Source:
    """Return the pairs of a table of paths and captions; `folder` has the pictures, if named.

    Raises
    ------
    UserError
        If the table cannot be read, lacks a column, or none of its pictures is found.
    """
    given = columns_in(named)
    columns = chosen_columns(path, header_of(path), given)
    first = [row[columns.image] for _, row in _first(_rows(path, columns))]
    pictures = located(path, [image for image in first if isinstance(image, str)], folder)
    columns, rows = entries_of(path, given, pictures)
    entries = merged(rows)
    words = f"{counted(len(entries), 'picture')} of {path.name} "
    words += f"(columns {columns.image}, {columns.caption})"
    return Source(
        "table", with_captions(words, entries), entries, (path,), captions_in="json:captions"
    )


def _first(rows: Iterator[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    return [row for row, _ in zip(rows, range(TRIED), strict=False)]


def with_captions(words: str, entries: Sequence[Entry]) -> str:
    """Add the number of captions where pictures have several, and that of missing pictures."""
    captions = sum(len(entry.captions or ()) for entry in entries)
    if captions > len(entries):
        words += f", {captions:,} captions"
    missing = sum(1 for entry in entries if not entry.pictures)
    return words + f", {counted(missing, 'picture')} missing" * bool(missing)


def located(path: Path, images: Sequence[str], folder: Path | None) -> Pictures:
    """Return the pictures of a table in the folder that has most of its first ones.

    They are looked for in the named folder and those in it, or next to the table.

    Raises
    ------
    UserError
        If there is none.
    """
    starts = [folder] if folder else [path.parent, path.parent.parent]
    tried: dict[Path, int] = {}
    for start in starts:
        inside = sorted(one for one in start.iterdir() if one.is_dir()) if start.is_dir() else []
        for one in [start, *inside]:
            pictures = Pictures(one)
            tried.setdefault(one, sum(1 for image in images if pictures.find(image)))
        if any(tried.values()):
            break
    best = max(tried, key=lambda one: tried[one], default=path.parent)
    if images and not tried.get(best):
        raise UserError(
            f"pairs: none of the first {len(images)} pictures of {path}, such as {images[0]!r}, "
            f"is below {starts[0].absolute()}. Name the folder of the pictures: pairs: {{path: "
            f"FOLDER, captions: {path}}}."
        )
    return Pictures(best)
