"""Folders that are written whole or not at all."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mispair.core import files


@contextmanager
def replacing_folder(path: Path, durable: bool = True) -> Iterator[Path]:
    """Yield an empty folder next to `path`; it takes the place of `path` once it is complete.

    What was at `path` before is removed only then. On an error nothing half-written stays.
    What is not `durable`, such as a thousand small files that are quickly made again, is not waited
    for until it is on disk.

    Raises
    ------
    UserError
        If `path` is a file, or the disk is full, or the folder cannot be written.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise files.UserError(f"{path}: is a file where a folder is to be written. Move it away.")
    with files.folder_beside(path) as temporary:
        yield temporary
        for written in [*sorted(temporary.rglob("*")), temporary] if durable else []:
            files.synced(written)
        _take_the_place(temporary, path)
        files.synced(path.parent)


def _take_the_place(new: Path, path: Path) -> None:
    """Rename a folder to `path`, and remove what was there."""
    while True:
        former = files.temporary_name(path, "former")
        with suppress(FileNotFoundError):
            path.rename(former)
        try:
            new.rename(path)
        except OSError as error:
            # Another copy of the job was quicker: its folder gives way like any other.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return
        finally:
            shutil.rmtree(former, ignore_errors=True)
