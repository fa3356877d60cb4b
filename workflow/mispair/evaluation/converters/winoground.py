"""Winoground: two pictures and two captions of the same words in another order.

References
----------
.. [1] T. Thrush, R. Jiang, M. Bartolo, A. Singh, A. Williams, D. Kiela and C. Ross (2022),
   Winoground: Probing vision and language models for visio-linguistic compositionality, CVPR.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.evaluation.converters.entries import Entry, field, picture_in

COLUMNS = ("id", "image_0", "image_1", "caption_0", "caption_1")
CATEGORY = "collapsed_tag"
"""Object, Relation, or Both; it may be missing."""


def entries(table: Path, images: Path | None = None) -> Iterator[Entry]:
    """Yield both questions of every example.

    Parameters
    ----------
    table : Path
        Parquet with the pictures as ``{bytes, path}``, or JSON lines that name pictures.
    images : Path, optional
        Folder of the pictures that JSON lines name, without their ending ``.png``.

    Raises
    ------
    UserError
        If it cannot be read, or a column is missing.
    """
    is_parquet = table.suffix == ".parquet"
    if not is_parquet and images is None:
        raise UserError(f"{table}: name the folder of its pictures with --images.")
    for number, row in enumerate(_of_parquet(table) if is_parquet else _of_lines(table)):
        source = f"{table}: example {row.get('id', number)}"
        captions = [field(row, f"caption_{side}", str, source) for side in (0, 1)]
        for side in (0, 1):
            yield Entry(
                source,
                _picture(row[f"image_{side}"], images, source),
                (captions[side], captions[1 - side]),
                str(row.get(CATEGORY) or ""),
                str(row["id"]),
            )


def _picture(value: Any, images: Path | None, source: str) -> Path | bytes:
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
        return bytes(value["bytes"])
    if isinstance(value, str) and images is not None:
        return picture_in(images, value if Path(value).suffix else f"{value}.png", source)
    raise UserError(f"{source}: has no picture: bytes in Parquet, or a name and --images.")


def _of_parquet(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as opened:
            _refuse_missing(path, opened.schema_arrow.names)
            names = [*COLUMNS, *({CATEGORY} & {*opened.schema_arrow.names})]
            for batch in opened.iter_batches(16, columns=names):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: cannot be read as Parquet ({error}).") from error


def _of_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as JSON lines ({error}).") from error
    for row in rows:
        _refuse_missing(path, row if isinstance(row, dict) else ())
        yield row


def _refuse_missing(path: Path, names: Any) -> None:
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise UserError(
            f"{path}: has no {', '.join(missing)}; Winoground has {', '.join(COLUMNS)}."
        )
