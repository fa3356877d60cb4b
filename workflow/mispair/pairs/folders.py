"""Folders that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mispair import files


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`; it takes the place of `path` once it is complete.

    Whatever was at `path` before is removed only then. On an error nothing half-written stays.

    Raises
    ------
    UserError
        If `path` is a file, or the disk is full, or the folder cannot be written.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise files.UserError(f"{path}: is a file where a folder is to be written. Move it away.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for written in sorted(temporary.rglob("*")):
            if written.is_file():
                with written.open("rb") as opened:
                    os.fsync(opened.fileno())
        if path.exists():
            former = path.with_name(f".{path.name}.{secrets.token_hex(4)}.former")
            path.rename(former)
            temporary.rename(path)
            shutil.rmtree(former)
        else:
            temporary.rename(path)
    except OSError as error:
        raise files.UserError(
            f"{path}: cannot be written ({error.strerror or error}). Nothing half-written was "
            "kept; free some space or give write access, and run the same command again."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
