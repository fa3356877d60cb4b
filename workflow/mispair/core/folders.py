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
    """Yield an empty folder next to `path`, which replaces `path` if the block succeeds.

    Without `durable`, it does not wait until the files are on disk; use this for many small files.

    Raises
    ------
    UserError
        If `path` is a file, or the disk is full, or the folder cannot be written.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise files.UserError(
            f"{path}: is a file, but a folder is to be written there. Move it away."
        )
    with files.folder_next_to(path) as temporary:
        yield temporary
        for written in [*sorted(temporary.rglob("*")), temporary] if durable else []:
            files.synced(written)
        _take_the_place(temporary, path)
        files.synced(path.parent)


def _take_the_place(new: Path, path: Path) -> None:
    """Rename a folder to `path`, and remove the former one."""
    while True:
        former = files.temporary_name(path, "former")
        with suppress(FileNotFoundError):
            path.rename(former)
        try:
            new.rename(path)
        except OSError as error:
            # Another copy of the job was quicker: its folder is replaced as well.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return
        finally:
            shutil.rmtree(former, ignore_errors=True)
