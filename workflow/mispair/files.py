"""Reading and writing: whole files or none, and one clear message when something is wrong."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import pyarrow as pa


class UserError(Exception):
    """Something that the user can put right: the message names the file, the key and the remedy."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; rename it to `path` once it is whole and on disk.

    A job that is killed half-way leaves at most the temporary file, never a part of `path`.

    Raises
    ------
    UserError
        If the disk is full, or the folder is missing or cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        # safetensors makes files that only their owner can read; a lab shares its results.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except Exception as error:
        number = getattr(error, "errno", None)
        # safetensors raises an error of its own, which has the system's words but no number.
        if number in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in str(error):
            raise UserError(
                f"{path}: the disk is full. Nothing half-written was kept; free some space and "
                "run the same command again."
            ) from error
        if number in (errno.EACCES, errno.EROFS, errno.EPERM):
            raise UserError(
                f"{path}: cannot be written ({os.strerror(number)}). Give write access to the "
                "folder or choose another one."
            ) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


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


def read_tensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read arrays and text metadata from safetensors.

    Raises
    ------
    UserError
        If the file is missing or is not safetensors.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as opened:
            tensors = {name: opened.get_tensor(name) for name in sorted(opened.keys())}
            metadata = json.loads((opened.metadata() or {}).get("mispair", "{}"))
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: cannot be read as safetensors ({error}).") from error
    return tensors, metadata
