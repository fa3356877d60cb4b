"""Columns of tables of pairs: their usual names, and those that a configuration names."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mispair.pairs.captions.decoding import numbered
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS
from mispair.pairs.sources.source import Named

IMAGE_COLUMNS = (
    "filepath", "file_name", "image_path", "image_file_name", "image_filename", "image_name",
    "image_file", "img_path", "img_file", "local_path", "image", "img", "path", "picture", "photo",
    "file", "fname", "image_id", "img_id", "images", "image_paths",
)  # fmt: skip
"""Names of columns of picture paths, the most certain first."""
CAPTION_COLUMNS = (
    "caption", "title", "text", "captions", "texts", "caption_text", "description", "alt_text",
    "comment", "sentence", "sentences_raw", "caption_str", "alt", "prompt", "conversations_gpt",
    "messages_gpt", "txt", "raw",
)  # fmt: skip
"""Names of columns of captions; else it is the only column whose name ends in one of the first."""
ADDRESS_COLUMNS = ("url", "image_url", "img_url", "image_urls")


class Columns(NamedTuple):
    """Names of the columns of a table; empty for what is not named."""

    image: str = ""
    caption: str = ""
    key: str = ""


def columns_in(named: Named) -> Columns:
    """Return the columns that a configuration names."""
    return Columns(named.image_column or "", named.caption_column or "", named.key_column or "")


def usual(has: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the first of some names that a table has as a column.

    The case of letters, blanks and punctuation do not matter.

    Examples
    --------
    >>> usual(["id", "Image Path"], ["file_name", "image_path"]), usual(["a"], ["b"])
    ('Image Path', None)
    """
    columns = {_letters(column): column for column in reversed(has)}
    return next((columns[one] for one in map(_letters, names) if one in columns), None)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def with_numbered(row: dict[str, Any], column: str) -> dict[str, Any]:
    """Return a row with the texts of numbered columns as a list, if `column` stands for some.

    Examples
    --------
    >>> with_numbered({"caption1": "a", "caption2": ""}, "caption*")["caption*"]
    ['a']
    """
    if column in row or not column.endswith("*"):
        return row
    return row | {column: [row[one] for one in numbered([*row]).get(column, ()) if row[one]]}


def _usual_end(has: Sequence[str], setting: str) -> str | None:
    """Return the only column of captions by its end, such as `en_caption` or `meta.text`."""
    if setting != "caption_column":
        return None
    ending = [column for column in has if _letters(column).endswith(("caption", "captions"))]
    ending = ending or [
        column
        for column in has
        if "." in column and usual([column.rpartition(".")[2]], CAPTION_COLUMNS)
    ]
    return ending[0] if len(ending) == 1 else None


def named_column(has: Sequence[str], named: str, setting: str, names: Sequence[str]) -> str | None:
    """Return the column that is named, or else the one with the most usual name.

    Several columns of captions with numbers are the alternatives of a pair (`numbered`).
    """
    if setting == "caption_column" and not named:
        has = [*numbered(has), *has]
    return named or usual(has, names) or _usual_end(has, setting)


def are_captions(texts: Iterable[str]) -> bool:
    """Return whether some texts may be captions: neither empty, nor numbers, nor names of pictures.

    Examples
    --------
    >>> are_captions(["", "cup"]), are_captions(["7", ""]), are_captions(["IMG_1.jpg"])
    (True, False, False)
    """
    seen = [*texts]
    return any(map(str.isalpha, "".join(seen))) and not are_names(seen)


def are_names(captions: Iterable[str]) -> bool:
    """Return whether captions are names of pictures, most without a blank, apart from empty ones.

    Examples
    --------
    >>> are_names(["IMG_1.jpg", ""]), are_names(["a red cup.jpg"]), are_names([""])
    (True, False, False)
    """
    seen = [text for text in map(str.strip, captions) if text]
    endings = tuple(f".{ending}" for ending in IMAGE_EXTENSIONS)
    spaced = sum(len(text.split()) > 1 for text in seen)
    return (
        bool(seen)
        and 2 * spaced <= len(seen)
        and all(text.lower().endswith(endings) for text in seen)
    )
