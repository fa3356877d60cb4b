"""Rows of tables in JSON: an object a line, a list, columns, values by name, or COCO's captions."""

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from mispair.core.files import UserError
from mispair.pairs.captions.decoding import read_json, values_at
from mispair.pairs.captions.key_lists import first_line, lines
from mispair.pairs.sources.columns import usual
from mispair.pairs.sources.source import picture_key

HEAD = 65_536
"""Bytes at the start of a JSON file by which its form is recognised."""
MOST_BYTES = 1 << 30
"""Bytes of JSON that is one value, from which on it is refused: it takes five times the memory."""
ABOUT = ("info", "meta", "metadata", "license", "licenses", "licences")
"""Fields of a file that describe it."""
SPLITS = {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "restval"}
"""Names under which a file has its rows in parts."""
LINES = re.compile(rb"\{[^\n]*\}\s*\n\s*\{")
"""Start of a file with an object a line."""


class Naming(NamedTuple):
    """Names of the columns of a table in JSON, where the rows have none of their own."""

    name: str
    """The column of what a caption belongs to: a picture or a key."""
    caption: str
    names: Sequence[str]
    """Names of that column by which an object of columns is recognised."""
    place: str = ""
    """Setting that names the table, for the beginning of messages."""


def start_of_json(path: Path) -> bytes:
    """Return the first bytes of a JSON file after blanks; of others and unreadable ones, none."""
    name = path.name.lower()
    if not name.removesuffix(".gz").endswith(".json"):
        return b""
    try:
        opener: Any = gzip.open if name.endswith(".gz") else open
        with opener(path, "rb") as opened:
            return opened.read(HEAD).removeprefix(b"\xef\xbb\xbf").lstrip()
    except (OSError, EOFError, zlib.error):
        return b""


def end_of_json(path: Path) -> bytes:
    """Return the last bytes of a JSON file, which may be compressed; of unreadable ones, none."""
    try:
        if not path.name.lower().endswith(".gz"):
            with path.open("rb") as opened:
                opened.seek(max(0, path.stat().st_size - HEAD))
                return opened.read()
        end = b""
        with gzip.open(path) as unpacked:
            while part := unpacked.read(HEAD):
                end = (end + part)[-HEAD:]
        return end
    except (OSError, EOFError, zlib.error):
        return b""


def objects_in(path: Path, naming: Naming) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each row of a table in JSON, and the row.

    Raises
    ------
    UserError
        If the file is not JSON, a row is no object, or the file is too large to be read whole.
    """
    start = start_of_json(path)
    first = b"" if start else first_line(path).encode()
    is_whole = not LINES.match(start) if start else first.lstrip().startswith(b"[")
    for number, line in enumerate([text_of(path, naming.place)] if is_whole else lines(path), 1):
        if not line.strip():
            continue
        content = parsed(line, path, naming.place, None if is_whole else number)
        for position, row in enumerate(_rows(content, naming) if is_whole else [content], number):
            if isinstance(row, list) and len(row) == 2 and isinstance(row[0], str):
                row = {naming.name: row[0], naming.caption: row[1]}
            if not isinstance(row, dict):
                where = "object" if is_whole else "line"
                example = json.dumps({naming.name: "a/0012", naming.caption: "a red cup"})
                raise UserError(
                    f"{naming.place}{path}: {where} {position} is not a JSON object. Each one is "
                    f"such as {example}."
                )
            yield position, row


def parsed(text: str, path: Path, place: str, line: int | None = None) -> Any:
    """Parse the text of a file, or of one of its lines; `place` begins messages.

    Raises
    ------
    UserError
        If it is not JSON, with the line.
    """
    try:
        return read_json(text)
    except ValueError as error:
        reason, remedy = str(error), "Each line of JSONL is one object; other JSON ends in .json."
        if isinstance(error, json.JSONDecodeError):
            reason = f"{error.msg.removesuffix(' at')} at column {error.colno}"
            if line is None:
                line, remedy = error.lineno, "Correct it there, or fetch or write the file again."
        where = f"{path}: line {line}" if line else path
        raise UserError(f"{place}{where} is not JSON ({reason}). {remedy}") from error


def text_of(path: Path, place: str) -> str:
    """Return the text of a JSON file; `place` begins messages.

    Raises
    ------
    UserError
        If it cannot be read, is not UTF-8, or is too large.
    """
    parts, size = list[str](), 0
    is_small = path.stat().st_size <= MOST_BYTES
    for line in lines(path) if is_small else ():
        size += len(line)
        if size > MOST_BYTES:  # it is compressed
            break
        parts.append(line)
    else:
        if is_small:
            return "".join(parts)
    raise UserError(
        f"{place}{path}: JSON of more than {MOST_BYTES / 1e9:.1f} GB is not read whole. "
        f"Write an object a line: jq -c '.[]' {quote(str(path))} > captions.jsonl."
    )


def _rows(content: Any, naming: Naming) -> Iterable[Any]:
    """Return the rows of one value."""
    content = _unwrapped(content, naming)
    if not isinstance(content, dict):
        return content if isinstance(content, list) else [content]
    pictures, captions = content.get("images"), content.get("annotations")
    if isinstance(pictures, list) and isinstance(captions, list):
        return _of_coco(pictures, captions, naming)
    splits = [one for one in content.values() if one]
    lists = [one for one in splits if isinstance(one, list) and isinstance(one[0], dict)]
    if lists and len(lists) in (1, len(splits)) and not any(map(_is_picture, content)):
        return (_of_split(one, naming) for each in lists for one in each)
    if (
        splits
        and all(isinstance(one, dict) for one in splits)
        and ({*content} <= SPLITS or all(_is_picture(next(iter(one))) for one in splits))
    ):
        return (row for one in splits for row in _by_name(one, naming))
    return _of_columns(content, naming) or _by_name(content, naming)


def _unwrapped(content: Any, naming: Naming) -> Any:
    """Return the object, or list of pairs, that is in objects with nothing else but single values.

    What describes the file (`ABOUT`) does not count. An object of a picture's name, and one with a
    text in a usual column, is none of these.
    """
    while isinstance(content, dict) and not any(map(_is_picture, content)):
        inside = [one for name, one in content.items()
                  if one and isinstance(one, dict | list) and name not in ABOUT]  # fmt: skip
        if len(inside) != 1:
            break
        (within,) = inside
        if isinstance(within, dict):
            column = usual([*within], naming.names)
            is_row = column is not None and isinstance(within[column], str)
        else:
            is_row = not isinstance(within[0], list)
        if is_row:
            break
        content = within
    return content


def _is_picture(name: str) -> bool:
    return picture_key(name) != name


def _by_name(content: dict[str, Any], naming: Naming) -> Iterator[dict[str, Any]]:
    """Yield rows of captions, objects, or lists of objects by the names of their pictures."""
    for name, value in content.items():
        several = value if isinstance(value, list) and value else [value]
        if not all(isinstance(one, dict) for one in several):
            several = [{naming.caption: value}]
        yield from ({naming.name: name} | one for one in several)


def captioned(
    pictures: Iterable[Any], captions: Iterable[Any]
) -> Iterator[tuple[dict[str, Any] | None, Any]]:
    """Yield COCO's captions, each with its picture, or None if that is not in the list.

    Some converters write one of both numbers of a picture as text.
    """
    by_number = {str(one.get("id")): one for one in pictures if isinstance(one, dict)}
    for caption in captions:
        number = caption.get("image_id") if isinstance(caption, dict) else None
        yield by_number.get(str(number)), caption


def _of_coco(pictures: list[Any], captions: list[Any], naming: Naming) -> Iterator[Any]:
    """Yield COCO's captions as rows, each with the name of its picture."""
    for picture, caption in captioned(pictures, captions):
        name = str(picture.get("file_name", "")) if picture else ""
        named = {naming.name: picture_key(name), "file_name": name} if picture else {}
        yield named | caption if isinstance(caption, dict) else caption


def _of_split(picture: Any, naming: Naming) -> Any:
    """Return a picture of Karpathy's splits as a row."""
    if not isinstance(picture, dict) or not isinstance(picture.get("filename"), str):
        return picture
    path = os.path.join(str(picture.get("filepath", "")), picture["filename"])
    return {naming.name: path, "captions": values_at(picture, "sentences.raw") or None}


def _of_columns(content: dict[str, Any], naming: Naming) -> list[dict[str, Any]]:
    """Return the rows of an object of columns, as pandas' `to_json` writes it, or of one row.

    There are none of others.
    """
    if {*content} >= {"columns", "data"} and isinstance(content["columns"], list):
        return [dict(zip(content["columns"], row, strict=False)) for row in content["data"]]
    known = usual([*content], naming.names)
    if known is None:
        return []
    if isinstance(content[known], str):
        return [content]
    cells = [[*one.values()] if isinstance(one, dict) else one for one in content.values()]
    if not all(isinstance(one, list) for one in cells) or len({*map(len, cells)}) > 1:
        return []
    return [dict(zip(content, row, strict=True)) for row in zip(*cells, strict=True)]
