"""Reading and writing of whole files, and one clear message for each kind of failure."""

from __future__ import annotations

import errno
import glob
import json
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa


LEAST_FREE = 1_000_000
"""Free bytes that a run needs to start: Snakemake itself writes metadata and logs."""


class UserError(Exception):
    """An error that the user can correct: the message names the file, the key and the remedy."""


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


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises
    ------
    UserError
        If the file is missing or is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(
            f"{path}: cannot be read as JSON ({error}). Delete it and run again."
        ) from error


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
    """Write a table as Parquet with text metadata in its schema, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = pa.Table.from_pandas(table, preserve_index=False)
    arrow = arrow.replace_schema_metadata({**(metadata or {})})
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
        raise UserError(f"{path}: cannot be read as Parquet ({error}).") from error
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
        raise UserError(f"{path}: cannot be read as safetensors ({error}).") from error
    return tensors, metadata
