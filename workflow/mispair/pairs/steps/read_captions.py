"""Read a table of captions by key, url or hash, in any of the usual forms, and sort it."""

from pathlib import Path

from pydantic import Field

from mispair.core import settings
from mispair.pairs.captions.table_files import JOIN


class Settings(settings.Settings):
    join: str = Field(
        "key",
        pattern=JOIN,
        description="What joins rows of the caption table to pairs: the key, or a text in "
        "img2dataset's JSON of the pair (KEY.json): its url, its sha256, or `json:FIELD`. All "
        "pairs with the value of a row get its captions. White space around values other than "
        "keys is ignored.",
    )
    key_column: str = Field(
        "key",
        min_length=1,
        description="Column of the caption table that holds the keys, or the values that `join` "
        "names.",
    )
    caption_column: str = Field(
        "caption",
        min_length=1,
        description="Column of the caption table that holds the captions: a text, or a list of "
        "texts; several rows of one key or value are several captions, and so are numbered columns "
        "(`caption_0`, `caption_1`; `caption*` names them next to one without a number). In "
        "Parquet and JSON a name such as `llava.caption` leads into an object.",
    )


def run(settings: Settings, *, table: list[Path], key_list: list[Path], captions: Path) -> None:
    """Write the table's captions, one row for each key (or url, ...), sorted by it.

    Parameters
    ----------
    settings : Settings
        Names of the columns, and what joins the table to pairs.
    table : list of Path
        The files of the user's table: Parquet, CSV, TSV, JSONL, JSON, or one text file with a
        caption per line.
    key_list : list of Path
        Empty, or for a text file the one list of keys, one per line.
    captions : Path
        Written: ``key`` (or what `join` names) and ``captions`` (a list).
    """
    from mispair.pairs.captions import sorted_captions, user_tables

    columns = user_tables.TableColumns(settings.key_column, settings.caption_column, settings.join)
    rows = user_tables.read_rows(table, key_list[0] if key_list else None, columns)
    sorted_captions.write_sorted(rows, captions, settings.join)
