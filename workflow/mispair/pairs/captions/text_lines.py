"""Lines of a user's file of text."""

import gzip
import zlib
from collections.abc import Iterator
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
