"""Lines of a user's file of text."""

import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.pairs.captions.key_lists import PACKED, SPREADSHEET


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
                if number == 1 and line.startswith(PACKED):
                    raise UserError(f"{path}: {SPREADSHEET}")
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
