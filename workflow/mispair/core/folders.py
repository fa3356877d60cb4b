"""Folders: their names in paths of results, patterns of names, and how they are written."""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mispair.core import files

_IN_HUB = re.compile(r"(?:^|/)(?:models|datasets|spaces)--(?:[^/]*--)?([^/]+)/snapshots/[^/]+$")
"""A commit in the cache of the Hugging Face hub; the group is the name of the repository."""

_ADDRESS = re.compile(r"(?P<scheme>hf-hub:|local-dir:|hf://|https?://[^/]+/)(?P<rest>.+)")


def path_name(name: str) -> str:
    """Return a name as one word without characters of a shell or of Snakemake's patterns.

    Letters of all scripts stay.

    Examples
    --------
    >>> path_name("my set"), path_name("[2024] run{v2}"), path_name("naïve & café")
    ('my-set', '2024-run-v2', 'naïve-café')
    """
    composed = unicodedata.normalize("NFC", name)
    return re.sub(r"[^\w.,+@=]+", "-", composed).strip("-.") or "unnamed"


def folder_name(folder: str | os.PathLike[str]) -> str:
    """Return `path_name` of a folder; for a commit in a hub's cache, that of its repository.

    Examples
    --------
    >>> folder_name("data/my set/"), folder_name("/hub/datasets--org--wds_pets/snapshots/3f8a1c")
    ('my-set', 'wds_pets')
    """
    whole = os.path.abspath(folder)
    in_hub = _IN_HUB.search(whole)
    return path_name(in_hub[1] if in_hub else os.path.basename(whole))


def snapshot(folder: Path) -> Path:
    """Return the current commit of a repository in a hub's cache; another folder as it is."""
    branch = folder / "refs" / "main"
    if not branch.is_file() or not (folder / "snapshots").is_dir():
        return folder
    return folder / "snapshots" / branch.read_text(encoding="utf-8", errors="replace").strip()


def if_of_hub(source: str) -> str:
    """Return a sentence on how to get a model that is named by its address in a hub, or nothing.

    Parameters
    ----------
    source : str
        A text that names no existing file or folder.

    Examples
    --------
    >>> if_of_hub("hf-hub:org/clip")[42:]
    'fetch it with `hf download org/clip --local-dir FOLDER`.'
    >>> if_of_hub("../towers/clip"), if_of_hub("local-dir:/models/clip")
    ('', ' Write the folder alone, /models/clip.')
    """
    address = _ADDRESS.match(source)
    if address and address["scheme"] == "local-dir:":
        return f" Write the folder alone, {address['rest']}."
    path = Path(source)
    is_path = source.startswith(".") or path.parent.exists() or not path.parent.parent.exists()
    if address is None and is_path:
        return ""
    parts = address["rest"].strip("/").split("/")[:2] if address else path.parts[-2:]
    if len(parts) < 2:
        return " Fetch it first: models are local files and folders here."
    fetches = f"fetch it with `hf download {'/'.join(parts)} --local-dir FOLDER`."
    if address is None:
        return f" If {'/'.join(parts)} is a model of a hub, {fetches}"
    return f" A model of a hub is a local folder here: {fetches}"


def literal_folder(pattern: str) -> tuple[str, str]:
    """Return the existing folder that a glob or brace pattern begins with, and the other part.

    So brackets and braces in names of existing folders are no pattern.
    """
    parts = pattern.split("/")
    for number in range(len(parts) - 1, 0, -1):
        folder = "/".join(parts[:number])
        if os.path.isdir(folder or "/"):
            return f"{folder}/", "/".join(parts[number:])
    return "", pattern


def matches(pattern: str) -> list[Path]:
    """Return the files and folders that a glob matches, sorted; ``**`` matches subfolders."""
    folder, rest = literal_folder(pattern)
    return sorted(Path(name) for name in glob.glob(glob.escape(folder) + rest, recursive=True))


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
