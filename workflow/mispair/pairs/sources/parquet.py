"""Parquet files with the bytes of pictures: shards of the Hugging Face hub, and img2dataset's."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.core.words import count
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS
from mispair.pairs.sources.columns import Columns, columns_in, usual, with_numbered
from mispair.pairs.sources.source import (
    Entry,
    Named,
    Source,
)
from mispair.pairs.sources.table_rows import (
    FIELDS,
    columns_to_read,
    ending_of,
    flat,
    header_of,
    parquet_schema,
)
from mispair.pairs.sources.tables import captioned_columns, chosen_columns

BYTES_COLUMNS = ("image", "jpg", "jpeg", "png", "webp", "img", "picture", "photo", "images",
                 "image_bytes", "img_bytes", "image_data", "bytes")  # fmt: skip
"""Names of columns of pictures, the most certain first."""
KEY = "key"
"""Name of the column of keys, also as webdataset writes it, `__key__`."""
ROWS = 64
"""Rows that are read at a time: pictures may be large."""
SIGNATURES = (
    (b"\xff\xd8", "jpg"), (b"\x89PNG", "png"), (b"GIF8", "gif"), (b"BM", "bmp"),
    (b"II*\0", "tif"), (b"MM\0*", "tif"),
)  # fmt: skip


def bytes_columns(schema: Any) -> list[str]:
    """Return the columns of a schema that hold bytes, or objects with bytes and a path.

    They may be in lists, of which those of one picture are read.
    """
    import pyarrow as pa

    def holds_bytes(kind: Any) -> bool:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return holds_bytes(kind.value_type)
        if pa.types.is_struct(kind):
            at = kind.get_field_index("bytes")
            return at >= 0 and holds_bytes(kind.field(at).type)
        tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
        return any(test(kind) for test in tests)

    return [field.name for field in schema if holds_bytes(field.type)]


def has_pictures(path: Path, named: Named) -> bool:
    """Return whether a Parquet file has a column of pictures, by its footer."""
    held = [name for name in bytes_columns(parquet_schema(path)) if not _is_empty(path, name)]
    if named.image_column is not None:
        return named.image_column in held
    return usual(held, BYTES_COLUMNS) is not None


def _is_empty(path: Path, column: str) -> bool:
    """Return whether all bytes of a column are null: its objects have paths of files alone."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(at) for group in groups for at in range(group.num_columns)]
    bytes_of = [
        one for one in chunks
        if one.path_in_schema.startswith(f"{column}.") and one.path_in_schema.endswith(".bytes")
    ]  # fmt: skip
    counted = [one.statistics for one in bytes_of if one.statistics and one.num_values]
    return (
        bool(bytes_of)
        and len(counted) == len(bytes_of)
        and not any(one.num_values for one in counted)
    )


def of_parquet(paths: Sequence[Path], named: Named) -> Source:
    """Return the pairs of Parquet files with pictures, a column each of pictures and captions.

    Raises
    ------
    UserError
        If a file cannot be read, or its columns are not those of the first one.
    """
    import pyarrow.parquet as pq

    paths = sorted(paths)
    columns = _columns(paths[0], named)
    names = [path.stem for path in paths]
    if len({*names}) < len(names):  # as of splits or partitions, each in its folder
        start = os.path.commonpath([path.parent for path in paths])
        names = [os.path.splitext(os.path.relpath(path, start))[0] for path in paths]
    entries = []
    named = named.model_copy(update={"caption_column": columns.caption})
    for path, name in zip(paths, names, strict=True):
        if (own := _columns(path, named)) != columns:
            raise UserError(
                f"pairs: {path} has the columns {', '.join(filter(None, own))}, and {paths[0]} has "
                f"{', '.join(filter(None, columns))}. Name files of one form."
            )
        rows = int(pq.read_metadata(path).num_rows)
        if rows:  # a shard has at least one sample
            entries.append(Entry(name, (str(path),), pairs=rows))
    total = sum(entry.pairs for entry in entries)
    words = f"{count(total, 'picture')} in {count(len(paths), 'Parquet file')} "
    words += f"(columns {columns.image}, {columns.caption})"
    if shared := sum(_sharing(Path(entry.pictures[0]), columns.key) for entry in entries):
        words += f", {shared:,} rows with the key of another in their file"
    return Source(
        "parquet", words, tuple(entries), columns=tuple(columns),
        captions_in="json:captions",
    )  # fmt: skip


def _sharing(path: Path, column: str) -> int:
    """Return how many rows of a file have a key that a row before them has."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not column:
        return 0
    try:
        table = pq.read_table(path, columns=[column])
        if column not in table.column_names:  # a field of an object
            return 0
        found = table[column].drop_null()
        return len(found) - int(pc.count_distinct(found).as_py())
    except (OSError, pa.ArrowException):  # damaged, which the job reports, or keys are no texts
        return 0


def _columns(path: Path, named: Named) -> Columns:
    import pyarrow as pa

    schema = parquet_schema(path)
    given = columns_in(named)
    image = given.image or usual(bytes_columns(schema), BYTES_COLUMNS) or ""
    key = given.key or usual(schema.names, (KEY,)) or ""
    columns = Columns(image, given.caption, key)
    try:
        return captioned_columns(path, columns)
    except (OSError, pa.ArrowException):  # damaged, which the job reports
        return chosen_columns(path, header_of(path), columns)


def samples(entry: Entry, columns: Columns) -> Iterator[tuple[str, str, bytes | None, list, dict]]:
    """Yield key, ending, picture, captions and further texts of each pair of a Parquet file.

    The key of a row is that of its column, or that of the file and the number of the row. Rows
    one after another with the same key and picture are one pair with the captions of all.
    """
    former: tuple[str, str, bytes | None, list, dict] | None = None
    for row in _rows(Path(entry.pictures[0]), entry.key, columns):
        if former is not None and (former[0], former[2]) == (row[0], row[2]):
            former[3].extend(row[3])
            continue
        if former is not None:
            yield former
        former = row
    if former is not None:
        yield former


def _rows(
    path: Path, name: str, columns: Columns
) -> Iterator[tuple[str, str, bytes | None, list, dict]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = columns_to_read(path, (*columns, *FIELDS))
    number = -1
    try:
        with pq.ParquetFile(path) as opened:
            for batch in opened.iter_batches(ROWS, columns=wanted):
                for row in map(flat, batch.to_pylist()):
                    number += 1
                    row = with_numbered(row, columns.caption)
                    cell, caption = row.get(columns.image), row.get(columns.caption)
                    if isinstance(cell, list):
                        cell = cell[0] if len(cell) == 1 else None
                    picture = cell.get("bytes") if isinstance(cell, dict) else cell
                    file = (cell.get("path") or "") if isinstance(cell, dict) else ""
                    key = row.get(columns.key)
                    if key is None or key == "":
                        key = f"{name}/{number:08d}"
                    fields = {n: row[n] for n in FIELDS if isinstance(row.get(n), str)}
                    captions = [*caption] if isinstance(caption, list) else [caption]
                    yield str(key), _ending(file, picture), picture, captions, fields
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"pairs: {path} cannot be read after row {number} ({error}). Fetch the file again."
        ) from error


def _ending(name: str, picture: bytes | None) -> str:
    """Return the ending of a picture by its name, or else by its first bytes."""
    ending = ending_of(name)
    return ending if ending in IMAGE_EXTENSIONS else ending_by_content(picture or b"")


def ending_by_content(picture: bytes) -> str:
    """Return the ending of a picture by its first bytes; that of JPEG if they are of no picture."""
    if picture[:4] == b"RIFF" and picture[8:12] == b"WEBP":
        return "webp"
    if picture[4:12] in (b"ftypavif", b"ftypavis"):
        return "avif"
    return next((ending for mark, ending in SIGNATURES if picture.startswith(mark)), "jpg")
