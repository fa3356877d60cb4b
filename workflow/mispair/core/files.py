"""Whole files and folders: how they are named, read and written, and clear messages of failures."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import socket
import tempfile
import unicodedata
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    from numpy.typing import DTypeLike


LEAST_FREE = 1_000_000
"""Free bytes that a run needs to start: Snakemake itself writes metadata and logs."""


class UserError(Exception):
    """An error that the user can correct: the message names the file, the key and the remedy."""


_INSTEAD = (
    (rb"version https://git-lfs", "a pointer of Git LFS. Fetch the file with `git lfs pull`."),
    (rb"<!doctype html|<html|<\?xml",
     "a web page. Fetch the file itself (a Dropbox link ends in dl=1 instead of dl=0)."),
)  # fmt: skip
"""What files begin with that were not fetched, and what to do."""


def refuse_unfetched(*paths: Path, setting: str = "") -> None:
    """Refuse files if all of them hold what a download leaves in place of a file.

    `setting` names them, for the message.

    Raises
    ------
    UserError
        With the first one, and how to fetch it.
    """
    faults = [*filter(None, map(_instead, paths))]
    if paths and len(faults) == len(paths):
        raise UserError(f"{setting}: " * bool(setting) + f"{paths[0]}: is {faults[0]}")


def _instead(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            return in_place_of_file(opened.read(512))
    except OSError:
        return ""


def text_of_user(path: Path, errors: str = "strict") -> str:
    """Return the text of a user's file; `errors` as for `bytes.decode`.

    Raises
    ------
    UserError
        If it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig", errors=errors)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}). Give read access to it, or name another."
        ) from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: is not UTF-8 text ({error}). Convert it, for example with `iconv -f CP1252 "
            "-t UTF-8`."
        ) from error


def in_place_of_file(start: bytes) -> str:
    """Return what a download has left in place of a file, by its first bytes, and the remedy."""
    bare = start[:512].lstrip()
    return next((what for form, what in _INSTEAD if re.match(form, bare, re.IGNORECASE)), "")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name; rename it to `path` once it is whole and on disk.

    The name is in a new folder next to `path`; libraries may keep temporary files there. A killed
    job leaves at most that folder. The next job that writes `path` on this machine removes it.

    Raises
    ------
    UserError
        If the disk is full, or the folder is missing or cannot be written.
    """
    path = Path(path)
    with folder_next_to(path) as folder:
        temporary = folder / path.name
        yield temporary
        synced(temporary)
        # safetensors writes files that only their owner can read; a lab shares its results.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
        synced(path.parent)


@contextmanager
def folder_next_to(path: Path) -> Iterator[Path]:
    """Yield an empty folder next to `path`, which is removed at the end.

    Raises
    ------
    UserError
        If the disk is full, or the folder around `path` cannot be written.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = temporary_name(path)
        try:
            folder.mkdir()
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the errors of a full disk and of a read-only folder into clear messages.

    Raises
    ------
    UserError
        Naming `path`, which is written in the block.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        number = getattr(error, "errno", None)
        # The error of safetensors has the message of the system and no number.
        if number in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in str(error):
            raise UserError(
                f"{path}: the disk is full. No partial file was kept; free some space and "
                "run the same command again."
            ) from error
        if number in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise UserError(
                f"{path}: cannot be written ({os.strerror(number)}). Give write access to the "
                "folder or choose another one."
            ) from error
        raise


def refuse_full_or_read_only(*folders: str) -> None:
    """Write and delete a file in each folder, or in the nearest existing folder above it.

    Raises
    ------
    UserError
        If a folder cannot be written, or the disk has no room for `LEAST_FREE` bytes.
    """
    for folder in map(Path, folders):
        existing = next(path for path in [folder, *folder.absolute().parents] if path.is_dir())
        with explained(folder), tempfile.TemporaryFile(dir=existing) as probe:
            probe.write(bytes(LEAST_FREE))
            probe.flush()


def temporary_name(path: Path, ending: str = "part") -> Path:
    """Return a temporary name next to `path`, and remove those of processes that have ended.

    The name holds the machine and the process.
    """
    mine = f".{path.name}.{socket.gethostname()}"
    for left in path.parent.glob(f"{glob.escape(mine)}-*-*.{ending}"):
        if not _runs(left.name.removeprefix(mine).split("-")[1]):
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(True)
    return path.with_name(f"{mine}-{os.getpid()}-{secrets.token_hex(4)}.{ending}")


def _runs(process: str) -> bool:
    """Return whether a process with this number runs on this machine."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (ValueError, OSError):
        pass  # of another user, or a file with a name like ours
    return True


def synced(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        # Some file systems, mostly remote ones, cannot sync folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(number)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON (no NaN), whole or not at all."""
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def unreadable(path: Path, form: str, error: Exception) -> UserError:
    """Return the error of a file that is not of a form, with the remedy."""
    return UserError(
        f"{path}: cannot be read as {form} ({error}). Delete it and run again if it is a result; "
        "fetch or correct a file of your own."
    )


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises
    ------
    UserError
        If the file is missing or is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no such file.") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise unreadable(path, "JSON", error) from error


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table as CSV, whole or not at all."""
    write_text(path, table.to_csv(index=False, lineterminator="\n"))


def write_arrow_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a large table as CSV, piece by piece, whole or not at all; only texts are quoted."""
    import pyarrow as pa
    from pyarrow import csv

    with replacing(path) as temporary:
        csv.write_csv(pa.Table.from_pandas(table, preserve_index=False), temporary)


def write_parquet(path: Path, table: pd.DataFrame, metadata: dict[str, str] | None = None) -> None:
    """Write a table as Parquet with text metadata in its schema, whole or not at all.

    A column without any value is text: readers filter by it and join tables.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = pa.Table.from_pandas(table, preserve_index=False)
    texts = [one.with_type(pa.string()) if pa.types.is_null(one.type) else one
             for one in arrow.schema]  # fmt: skip
    arrow = arrow.cast(pa.schema(texts)).replace_schema_metadata({**(metadata or {})})
    with replacing(path) as temporary:
        pq.write_table(arrow, temporary, compression="zstd")


def read_parquet(path: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """Read a table and its metadata.

    Raises
    ------
    UserError
        If the file is missing or is not Parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        arrow = pq.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise unreadable(path, "Parquet", error) from error
    return arrow.to_pandas(), parquet_metadata(arrow.schema)


def parquet_metadata(schema: pa.Schema) -> dict[str, str]:
    """Return the text metadata that `write_parquet` put into a table's schema."""
    return {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}


def write_tensors(
    path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str] | None = None
) -> None:
    """Write arrays and text metadata as safetensors, whole or not at all."""
    import numpy as np
    from safetensors.numpy import save_file

    contiguous = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    with replacing(path) as temporary:
        # The library orders the metadata by a hash that differs from run to run; one sorted JSON
        # entry keeps the bytes the same.
        packed = {"mispair": json.dumps(metadata or {}, sort_keys=True)}
        save_file(contiguous, temporary, metadata=packed)


def read_tensors(
    path: Path, only: Collection[str] | None = None
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read arrays, or only those of the given names, and text metadata from safetensors.

    Raises
    ------
    UserError
        If the file is missing or is not safetensors.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as opened:
            names = sorted(opened.keys() if only is None else only)
            tensors = {name: opened.get_tensor(name) for name in names}
            metadata = json.loads((opened.metadata() or {}).get("mispair", "{}"))
    except (OSError, SafetensorError) as error:
        raise unreadable(path, "safetensors", error) from error
    return tensors, metadata


def mapped(scratch: IO[bytes], dtype: DTypeLike, shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """Return an array to be filled on an empty file, whose room is reserved if the system can.

    Raises
    ------
    OSError
        If the disk is full; while writing to the array that would end the process.
    """
    import numpy as np

    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(scratch.fileno(), 0, math.prod(shape) * np.dtype(dtype).itemsize)
    return np.memmap(scratch, dtype, "r+", shape=shape)


# Folders: their names in paths of results, patterns of names, and how they are written.

_IN_HUB = re.compile(r"(?:^|/)(?:models|datasets|spaces)--(?:[^/]*--)?([^/]+)/snapshots/[^/]+$")
"""A commit in the cache of the Hugging Face hub; the group is the name of the repository."""

_ADDRESS = re.compile(r"(?P<scheme>hf-hub:|local-dir:|hf://|https?://[^/]+/)(?P<rest>.+)")


MOST_BYTES = 150
"""Bytes of a name in paths, at most: names of files have room for 255, endings included."""


def path_name(name: str) -> str:
    """Return a name as one word without characters of a shell or of Snakemake's patterns.

    Letters of all scripts stay. A name that is too long for files that are called after it ends in
    a fingerprint.

    Examples
    --------
    >>> path_name("my set"), path_name("[2024] run{v2}"), path_name("naïve & café")
    ('my-set', '2024-run-v2', 'naïve-café')
    """
    composed = unicodedata.normalize("NFC", name)
    word = re.sub(r"[^\w.,+@=]+", "-", composed).strip("-.") or "unnamed"
    whole = word.encode()
    if len(whole) <= MOST_BYTES:
        return word
    short = whole[: MOST_BYTES - 9].decode(errors="ignore").rstrip("-.")
    return f"{short}-{hashlib.sha256(whole).hexdigest()[:8]}"


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
    """Return the current or only commit of a repository in a hub's cache; else the folder."""
    commits, refs = folder / "snapshots", folder / "refs"
    if not commits.is_dir() or not (refs.is_dir() or (folder / "blobs").is_dir()):
        return folder
    if (refs / "main").is_file():
        current = (refs / "main").read_text(encoding="utf-8", errors="replace").strip()
        if (commits / current).is_dir():
            return commits / current
    fetched = [path for path in commits.iterdir() if path.is_dir()]
    return fetched[0] if len(fetched) == 1 else folder


def if_of_hub(source: str, kind: str = "model") -> str:
    """Return a sentence on how to get what is named by its address in a hub, or nothing.

    Parameters
    ----------
    source : str
        A text that names no existing file or folder.
    kind : {"model", "dataset"}
        What it is to be.

    Examples
    --------
    >>> if_of_hub("hf-hub:org/clip")[42:]
    'fetch it with `hf download org/clip --local-dir FOLDER`.'
    >>> if_of_hub("../towers/clip"), if_of_hub("local-dir:/models/clip")
    ('', ' Write the folder alone, /models/clip.')
    >>> if_of_hub("https://hub.example/datasets/org/pets", "dataset")[44:]
    'fetch it with `hf download org/pets --repo-type dataset --local-dir FOLDER`.'
    """
    address = _ADDRESS.match(source)
    if address and address["scheme"] == "local-dir:":
        return f" Write the folder alone, {address['rest']}."
    path = Path(source)
    is_path = source.startswith(".") or path.parent.exists() or not path.parent.parent.exists()
    if address is None and is_path:
        return ""
    rest = address["rest"].removeprefix(f"{kind}s/").strip("/") if address else ""
    parts = rest.split("/")[:2] if address else path.parts[-2:]
    if len(parts) < 2:
        return f" Fetch it first: {kind}s are local files and folders here."
    option = "" if kind == "model" else f" --repo-type {kind}"
    fetches = f"fetch it with `hf download {'/'.join(parts)}{option} --local-dir FOLDER`."
    if address is None:
        return f" If {'/'.join(parts)} is a {kind} of a hub, {fetches}"
    return f" A {kind} of a hub is a local folder here: {fetches}"


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
        raise UserError(f"{path}: is a file, but a folder is to be written there. Move it away.")
    with folder_next_to(path) as temporary:
        yield temporary
        for written in [*sorted(temporary.rglob("*")), temporary] if durable else []:
            synced(written)
        _take_the_place(temporary, path)
        synced(path.parent)


def _take_the_place(new: Path, path: Path) -> None:
    """Rename a folder to `path`, and remove the former one."""
    while True:
        former = temporary_name(path, "former")
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
