"""Read a table of captions by key, in any of the usual forms, and sort it."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from mispair.core import settings


class Settings(settings.Settings):
    """Settings of `read_captions`."""

    key_column: str = Field(
        "key", min_length=1, description="Column of the caption table that holds the keys."
    )
    caption_column: str = Field(
        "caption",
        min_length=1,
        description="Column of the caption table that holds the captions: a text, or a list of "
        "texts; several rows of one key are several captions.",
    )


def run(settings: Settings, *, table: Path, keys: list[Path], captions: Path) -> None:
    """Write the table's captions, one row for each key, sorted by key.

    Parameters
    ----------
    settings : Settings
        Names of the columns.
    table : Path
        The user's table: Parquet, CSV, TSV, JSONL, or a text file with a caption a line.
    keys : list of Path
        None, or for a text file the one list of keys, a key a line.
    captions : Path
        Parquet to write: key, captions (a list).
    """
    from mispair.pairs.captions import caption_tables

    rows = caption_tables.read_rows(
        table, keys[0] if keys else None, settings.key_column, settings.caption_column
    )
    caption_tables.write_sorted(rows, captions)
