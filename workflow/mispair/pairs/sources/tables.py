"""Tables of picture paths and captions: their columns, and an entry for each row."""

import os
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from mispair.core.files import UserError
from mispair.core.settings import option
from mispair.core.words import count, nearest
from mispair.pairs.captions.decoding import numbered
from mispair.pairs.captions.scripts import count_words
from mispair.pairs.sources.columns import (
    ADDRESS_COLUMNS,
    CAPTION_COLUMNS,
    IMAGE_COLUMNS,
    Columns,
    are_captions,
    columns_in,
    named_column,
    usual,
)
from mispair.pairs.sources.pictures import (
    Pictures,
    addresses_words,
    elsewhere,
    located,
    with_captions,
)
from mispair.pairs.sources.source import (
    Entry,
    Named,
    Source,
    merged,
    refuse_unreadable,
)
from mispair.pairs.sources.table_rows import (
    DELIMITED,
    FIELDS,
    TRIED,
    cells_in,
    form_of,
    header_of,
    is_pair,
    rows_in,
    separator_of,
    unquoted_words,
    wrong_number,
)


def chosen_columns(path: Path, has: Sequence[str], given: Columns) -> Columns:
    """Return the columns of a table that are named, or else those with usual names.

    Raises
    ------
    UserError
        If a named column is missing, with the nearest one, or no column has a usual name.
    """
    image = _column(path, has, given.image, "image_column", IMAGE_COLUMNS)
    chosen = Columns(
        image,
        _column(path, has, given.caption, "caption_column", CAPTION_COLUMNS, image),
        _column(path, has, given.key, "key_column", ()),
    )
    several = [] if given.caption or chosen.caption in has else [*numbered(has)]
    if any(usual([one.rstrip("*")], IMAGE_COLUMNS) for one in several):
        raise UserError(
            f"pairs: {path} has several pictures and several captions a row ({_shown(several)}). "
            "Name one of each: pairs.image_column, pairs.caption_column."
        )
    return chosen


def _column(
    path: Path, has: Sequence[str], named: str, setting: str, names: Sequence[str], image: str = ""
) -> str:
    """Return the column of a setting; `image` is that of the pictures, which is no other one."""
    if not has:
        raise UserError(f"pairs: {path} is empty. Its first line has to name the columns.")
    found = named_column([one for one in has if one != image], named, setting, names)
    if found in numbered(has):
        return found
    if found and found not in has:
        raise UserError(
            f"pairs.{setting}: {path} has no column {found!r}, only {_shown(has)}."
            f"{nearest(found, has)}"
        )
    if found and list(has).count(found) != 1:
        raise UserError(f"pairs.{setting}: {path} has two columns {found!r}. Rename one of them.")
    if not found and setting == "image_column":
        addresses = (name for name in has if "://" in name)  # a table without names of columns
        found = usual(has, ADDRESS_COLUMNS) or next(addresses, None)
        if found and _has_addresses(path, found):
            raise UserError(addresses_words(path, found))
    if not found and names:
        what = "picture paths" if setting == "image_column" else "captions"
        raise UserError(
            f"pairs: {path} has the columns {_shown(has)}, none of which has a usual name of "
            f"{what} ({', '.join(names[:4])}, ...). Name it, by {option(setting)} COLUMN or pairs: "
            f"{{path: {path}, {setting}: COLUMN}}.{_without_names(path, has, image)}"
        )
    return found or ""


def _has_addresses(path: Path, column: str) -> bool:
    """Return whether a column with the name of addresses has some in its first rows."""
    cells = [row.get(column) for _, row in islice(rows_in(path, Columns(column)), TRIED)]
    return not any(cells) or any("://" in cell for cell in cells if isinstance(cell, str))


def _without_names(path: Path, has: Sequence[str], image: str) -> str:
    if form_of(path.name) not in DELIMITED:
        return ""
    if len(has) == 1:
        return " If it has a caption a line, begin each with the picture's name and a tab."
    at = has.index(image) if image in has else 0
    names = [f"column_{number}" for number in range(1, len(has) + 1)]
    names[at] = "image_id"
    names[-2 if at == len(has) - 1 else -1] = "caption"
    line = separator_of(path).join(names).replace("\t", "<TAB>")
    return f" If its first line is a pair, write one above it: {line}."


def _shown(has: Sequence[str]) -> str:
    return ", ".join(map(repr, has[:12])) + ", ..." * (len(has) > 12) or "none"


def captioned_columns(path: Path, given: Columns) -> Columns:
    """Return `chosen_columns`, of which that of captions has some in the first rows.

    Names of pictures as ``title``, numbers and nothing are none. If no column has captions, the
    most usual one is returned.

    Raises
    ------
    UserError
        If the table cannot be read, or lacks a column.
    """
    has, first = header_of(path), None
    while True:
        try:
            columns = chosen_columns(path, has, given)
        except UserError:
            if first is None:
                raise
            return first
        rows = islice(rows_in(path, Columns(caption=columns.caption)), TRIED)
        cells = [row.get(columns.caption) for _, row in rows]
        lists = (cell if isinstance(cell, list) else [cell] for cell in cells)
        if given.caption or are_captions(str(text or "") for texts in lists for text in texts):
            return columns
        first = first or columns
        tried = {columns.caption, *numbered(has).get(columns.caption, ())}
        has = [name for name in has if name not in tried]


def is_table(path: Path, given: Columns) -> bool:
    """Return whether a file has columns of paths and captions, named or with usual names.

    Without names the second cell has to be of several words: it could be a label.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    refuse_unreadable(path)
    try:
        chosen_columns(path, header_of(path), given)
        first = next(cells_in(path), (1, []))[1] if form_of(path.name) in DELIMITED else []
    except UserError:
        return False
    return not is_pair(first) or is_caption(first[-1])


def is_caption(text: str) -> bool:
    """Return whether a text may be a caption: several words, and no numbers alone.

    Examples
    --------
    >>> is_caption("a cup"), is_caption("cup"), is_caption("10,20 3,4")
    (True, False, False)
    """
    return count_words(text) > 1 and any(map(str.isalpha, text))


def names_pictures(path: Path) -> bool:
    """Return whether a file can be read as a table, and has a usual column of pictures.

    It may have their addresses, but `url` alone is not always that of a picture.
    """
    try:
        return usual(header_of(path), (*IMAGE_COLUMNS, *ADDRESS_COLUMNS[1:])) is not None
    except UserError:
        return False


def first_entries(path: Path, named: Named, folder: Path) -> list[Entry]:
    """Return an entry for each of the first rows of a table, with its pictures in a folder.

    Raises
    ------
    UserError
        If the table cannot be read, lacks a column, or none of these pictures is found.
    """
    named = with_pictures(path, named, folder) or named
    pictures = pictures_of(path, named, folder)
    return entries_of(path, columns_in(named), pictures, most=TRIED)[1]


def entries_of(
    path: Path, given: Columns, pictures: Pictures, most: int | None = None
) -> tuple[Columns, list[Entry], int]:
    """Return the columns of a table, and an entry for each of its rows, or for at most `most`.

    The third value is the number of captions that have separators unquoted.

    Raises
    ------
    UserError
        If the table cannot be read, or lacks a column.
    """
    width, columns = len(header_of(path)), captioned_columns(path, given)
    rows: list[Entry] = []
    unquoted: list[int] = []
    for number, row in islice(rows_in(path, columns, unquoted.append), most):
        images, captions = (
            paths_in(row[columns.image]),
            _captions(path, number, row[columns.caption]),
        )
        if images is None:
            raise UserError(
                f"pairs: {path}: row {number} has {row[columns.image]!r:.80} in the column "
                f"{columns.image!r}, which is no path. Name the column of paths: "
                "pairs.image_column."
            )
        found = {image: pictures.find(image) for image in images}
        if not any(found.values()) and None in row.values() and form_of(path.name) in DELIMITED:
            # A short row is a picture without a caption, or the rest of a caption with a line end.
            cells = sum(cell is not None for cell in row.values())
            raise UserError(wrong_number(path, number, cells, width))
        key = row[columns.key] if columns.key else None
        fields = tuple((name, row[name]) for name in FIELDS if isinstance(row.get(name), str))
        for image, file in found.items() or [("", None)]:
            own = pictures.key(image, file) if image else f"row {number}"
            own = own if key is None or key == "" else str(key)
            rows.append(Entry(own, (file,) if file else (), (), captions, fields))
    return columns, rows, len(unquoted)


def paths_in(cell: Any) -> list[str] | None:
    """Return the paths of pictures in a cell: a text, a number, an object, or a list of these.

    Examples
    --------
    >>> paths_in("a.jpg"), paths_in(["a.jpg", "b.jpg"]), paths_in({"bytes": None, "path": "a.jpg"})
    (['a.jpg'], ['a.jpg', 'b.jpg'], ['a.jpg'])
    >>> paths_in(7), paths_in(None), paths_in(1.5) is None
    (['7'], [], True)
    """
    if cell is None or cell == "":
        return []
    if isinstance(cell, dict) and isinstance(cell.get("path"), str):
        cell = cell["path"]
    if isinstance(cell, list):
        several = [None if isinstance(one, int | list) else paths_in(one) for one in cell]
        return None if None in several else [path for one in several for path in one or ()]
    return [str(cell)] if isinstance(cell, str | int) and not isinstance(cell, bool) else None


def _captions(path: Path, number: int, cell: Any) -> tuple[str, ...]:
    """Return the captions in a cell, which may be a list."""
    if isinstance(cell, str):
        from mispair.pairs.captions.user_tables import texts_of

        return tuple(texts_of(path, number, cell))
    cells = cell if isinstance(cell, list) else [cell]
    lists = [one for one in cells if isinstance(one, list)]
    if any(" " in str(text) for one in lists for text in one):  # sentences, and no words
        cells = [text for one in cells for text in (one if isinstance(one, list) else [one])]
    captions = tuple(text for text in cells if text is not None)
    if wrong := [text for text in captions if not isinstance(text, str)]:
        raise UserError(
            f"pairs: {path}: row {number} has {wrong[0]!r:.80} as a caption, which is no text. "
            "Name the column of captions: pairs.caption_column."
        )
    return captions


def of_tables(paths: Sequence[Path], folder: Path | None, named: Named) -> Source:
    """Return the pairs of tables of paths and captions; `folder` has the pictures, if named.

    Raises
    ------
    UserError
        If a table cannot be read, lacks a column, has other columns than the first one, or none of
        its pictures is found.
    """
    if named.image_column is None and len(_image_columns(paths[0])) != 1:
        named = with_pictures(paths[0], named, folder) or named
    pictures = {path: pictures_of(path, named, folder) for path in paths}
    if len({one.folder for one in pictures.values()}) > 1:
        root = Path(os.path.commonpath([one.folder for one in pictures.values()]))
        pictures = {path: one.within(one.boundary, root) for path, one in pictures.items()}
    columns, rows, unquoted = rows_of(pictures, columns_in(named))
    entries, first = merged(rows), paths[0]
    several = f" and {count(len(paths) - 1, 'more table')}" * (len(paths) > 1)
    words = f"{count(len(entries), 'picture')} of {first.name}{several} "
    words += f"(columns {columns.image}, {columns.caption}){elsewhere(pictures[first], first)}"
    words = with_captions(words, entries, *pictures.values())
    words += unquoted_words(paths, unquoted)
    boundaries = [os.path.abspath(one.boundary) for one in pictures.values()]
    boundary = Path(os.path.commonpath(boundaries))
    return Source("table", words, entries, (*paths,), boundary, captions_in="json:captions")


def rows_of(tables: Mapping[Path, Pictures], given: Columns) -> tuple[Columns, list[Entry], int]:
    """Return the columns of tables, an entry for each of their rows, and as `entries_of`.

    Raises
    ------
    UserError
        If a table cannot be read or lacks a column, or their columns differ.
    """
    entries: list[Entry] = []
    columns, first, unquoted = given, next(iter(tables)), 0
    for table, pictures in tables.items():
        own, rows, number = entries_of(table, given, pictures)
        if table != first and own != columns:
            raise UserError(
                f"pairs: {table} has the columns {own.image} and {own.caption}, and {first} has "
                f"{columns.image} and {columns.caption}. Name one of the tables, or columns that "
                "all have: pairs.image_column, pairs.caption_column."
            )
        columns = own
        entries += rows
        unquoted += number
    return columns, entries, unquoted


def pictures_of(
    path: Path, named: Named, folder: Path | None, boundary: Path | None = None
) -> Pictures:
    """Return the pictures of a table by its first rows (`located`).

    Raises
    ------
    UserError
        If the table cannot be read, lacks a column, or none of these pictures is found.
    """
    return located(path, _first_images(path, named), folder, boundary)


def _first_images(path: Path, named: Named) -> list[str]:
    return _images_in(path, chosen_columns(path, header_of(path), columns_in(named)).image, named)


def _images_in(path: Path, column: str, named: Named) -> list[str]:
    given = named.caption_column or ""
    captions = named_column(header_of(path), given, "caption_column", CAPTION_COLUMNS) or ""
    rows = islice(rows_in(path, Columns(column, captions)), TRIED)
    cells = [paths_in(row[column]) or [] for _, row in rows]
    if cells and not any(cells):
        raise UserError(
            f"pairs: {path} has no path in its column {column!r}, by {count(len(cells), 'row')}. "
            f"Name another one, by {option('image_column')}. Pictures in base64 are not read: "
            "write them as Parquet with a column of bytes."
        )
    return [image for images in cells for image in images]


def with_pictures(path: Path, named: Named, folder: Path | None) -> Named | None:
    """Name the column of paths: of several with usual names the first whose pictures are there.

    Without a usual name, that is the column whose cells are paths of pictures that are there; or
    None.

    Raises
    ------
    UserError
        If columns without usual names have different pictures.
    """
    columns = _image_columns(path)
    found: dict[str, list[str | None]] = {}
    for column in columns or header_of(path):
        try:
            if images := _images_in(path, column, named):
                pictures = located(path, images, folder, is_exact=not columns)
                found[column] = [*map(pictures.find, images)]
        except UserError:
            continue
        if columns and found:
            break
    several = [one for one, pictures in found.items() if pictures != next(iter(found.values()))]
    if several:
        raise UserError(
            f"pairs: {path} has different pictures in the columns {next(iter(found))!r} and "
            f"{several[0]!r}. Name the one that the captions are of, by "
            f"{option('image_column')} COLUMN or pairs: {{path: {path}, image_column: COLUMN}}."
        )
    return next((named.model_copy(update={"image_column": column}) for column in found), None)


def _image_columns(path: Path) -> list[str]:
    """Return the columns of a table with usual names of pictures, the most certain first."""
    has, columns = [*header_of(path)], []
    while image := usual(has, IMAGE_COLUMNS):
        has.remove(image)
        columns.append(image)
    return columns
