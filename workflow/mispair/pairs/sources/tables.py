"""Tables of picture paths and captions: CSV, TSV, JSONL and Parquet."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, takewhile, zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from mispair.core.files import UserError
from mispair.core.settings import option
from mispair.core.words import composed, count, nearest
from mispair.pairs.captions.user_files import SEPARATOR_LINE
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS
from mispair.pairs.sources.source import (
    Entry,
    Named,
    Source,
    boundary_of,
    is_inside,
    links_out,
    merged,
    outside_words,
    picture_key,
    refuse_unreadable,
)

TABLE_ENDINGS = ("csv", "tsv", "token", "jsonl", "ndjson", "jsonlines", "parquet")
OBJECTS = ("jsonl", "ndjson", "jsonlines", "json")
"""Endings of tables of objects; JSON has them in a list."""
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
DELIMITED = ("csv", "tsv", "token", "txt")
ADDRESS_COLUMNS = ("url", "image_url", "img_url")
FIELDS = ("url", "status", "sha256", "licence", "license", "LICENSE", "attribution", "uid")
"""Columns that packed pairs keep, as img2dataset's JSON has them."""
HEAD = 65_536
"""Bytes at the start of a JSON file by which its form is recognised."""
_PICTURE_FIRST = re.compile(
    rf'^"?[^"]+?\.(?:{"|".join(IMAGE_EXTENSIONS)})(?:#\d+)?"?([,\t;|])', re.IGNORECASE
)
_BY_PICTURE = re.compile(
    rf'\{{\s*"[^"]+\.(?:{"|".join(IMAGE_EXTENSIONS)})"\s*:'.encode(), re.IGNORECASE
)
_BY_NAME = re.compile(rb'\{\s*"[^"]*"\s*:\s*["\[{]')
_LINES = re.compile(rb"\{[^\n]*\}\s*\n\s*\{")
_NUMBER = re.compile(r"#\d+$")
TURNS = (("from", "value", "gpt"), ("role", "content", "assistant"))
"""Fields of a turn in a conversation, and who gives the answers; the first is the caption."""
LONGEST_PATH = 4096
TRIED = 100
"""Rows whose pictures are looked for in each folder where they may be."""
SURE = 0.9
"""Share of these that have to be there, each of its own, if not at the paths as they are."""
ARCHIVES = ("zip", "7z", "rar", "tgz", "gz", "bz2", "xz", "zst", "tar")
MOST_FOLDERS = 500
"""Folders further below in which these are looked for."""


class Columns(NamedTuple):
    """Names of the columns of a table; empty for what is not named."""

    image: str = ""
    caption: str = ""
    key: str = ""


def columns_in(named: Named) -> Columns:
    """Return the columns that a configuration names."""
    return Columns(named.image_column or "", named.caption_column or "", named.key_column or "")


def form_of(name: str) -> str:
    """Return the ending of a table's name in lower case; that before `.gz` if it is compressed."""
    ending = ending_of(name)
    return ending_of(name[: -len(".gz")]) if ending == "gz" else ending


def ending_of(name: str) -> str:
    """Return the ending of a file's name in lower case, without the dot."""
    _, dot, ending = name.rpartition(".")
    return ending.lower() if dot and "/" not in ending else ""


class Pictures:
    """The pictures that a table names, looked up in a folder.

    Parameters
    ----------
    folder : Path
        Where relative paths start.
    boundary : Path
        Folder that relative paths and links must not lead out of.
    root : Path, optional
        Folder that keys are relative to; `folder` by default.
    dropped : str
        What all paths begin with on another machine, and not here.
    by_name : bool
        Whether a name counts without its case and ending, and a number without its zeros and what
        is before it.

    Attributes
    ----------
    refused, linked : list of str
        Relative paths that were looked up and lead out of the boundary, and those by a link.
    """

    def __init__(
        self,
        folder: Path,
        boundary: Path,
        root: Path | None = None,
        dropped: str = "",
        by_name: bool = False,
    ):
        self.folder = folder
        self.boundary = boundary
        self.root = root or folder
        self.dropped = dropped
        self.by_name = by_name
        self.refused: list[str] = []
        self.linked: list[str] = []
        self._is_inside = is_inside(folder, boundary)
        self._names: dict[str, tuple[set[str], dict[str, str]]] = {}

    def within(self, boundary: Path, root: Path | None = None) -> Pictures:
        """Return the same pictures with another boundary and root, none of them looked up."""
        return Pictures(self.folder, boundary, root, self.dropped, self.by_name)

    def find(self, path: str) -> str | None:
        """Return the path of a file that a table names, or None if there is none.

        A name with other Unicode characters for the same letters (NFC, NFD), with escapes of an
        address (``%20``), or without the ending of the picture, is found as well. None is returned
        for a relative path that leads out of the boundary. A link that does is returned, and
        refused where it is read; of a path that is given in full, it is not.
        """
        path = self._shortened(path)
        found = self._found(path)
        if found is None:
            return None
        leaves = (".." in path or not self._is_inside) and not os.path.isabs(path.strip())
        if leaves and not is_inside(found, self.boundary):
            self.refused.append(path)
            return None
        if links_out(found, self.boundary):
            self.linked.append(path)
        return found

    def _shortened(self, path: str) -> str:
        return with_slashes(path).removeprefix(self.dropped) if self.dropped else path

    def _found(self, path: str) -> str | None:
        bare = path.strip()
        ways = (path, bare, with_slashes(bare), unquote(bare.removeprefix("file://")))
        for written in dict.fromkeys(ways):
            whole = os.path.join(self.folder, written)
            if "./" in whole or "//" in whole:
                whole = str(Path(whole))  # a picture has one path, or it would be two
            parent, name = os.path.split(whole)
            names, by_form = self._in(parent)
            if name in names:
                return whole
            for form in (composed(name), *(loose_names(name) if self.by_name else ())):
                if name and (same := by_form.get(form)):
                    return os.path.join(parent, same)
        return None

    def key(self, path: str, found: str | None) -> str:
        """Return the key of a picture that a table names: its path relative to the root.

        A picture outside has its path as the table has it.
        """
        path = self._shortened(path)
        whole = os.path.normpath(found or os.path.join(self.folder, path))
        root = os.path.join(os.path.normpath(self.root), "")
        inside = whole.startswith(root)
        return picture_key(whole.removeprefix(root) if inside else os.path.normpath(path))

    def _in(self, folder: str) -> tuple[set[str], dict[str, str]]:
        if folder not in self._names:
            try:
                names = os.listdir(folder or ".")
            except (OSError, ValueError):
                names = []
            by_form: dict[str, str] = {}
            if self.by_name:
                forms = [(form, name) for name in names for form in loose_names(name)]
                times = Counter(form for form, _ in forms)
                by_form = {form: name for form, name in forms if times[form] == 1}
            by_form |= {composed(picture_key(name)): name for name in sorted(names)}
            by_form |= {composed(name): name for name in sorted(names)}
            self._names[folder] = ({*names}, by_form)
        return self._names[folder]


def with_slashes(path: str) -> str:
    """Return a path with slashes, as Windows need not have them."""
    return path.strip().replace("\\", "/")


def loose_names(name: str) -> list[str]:
    """Return a name without its case and ending, and its last number.

    Examples
    --------
    >>> loose_names("COCO_val2014_000000000042.JPG"), loose_names("42")
    (['coco_val2014_000000000042', '#42'], ['42', '#42'])
    >>> loose_names("42.0")  # as pandas writes a number in a column with gaps
    ['42', '#42']
    """
    stem = re.sub(r"^([0-9]+)\.0$", r"\1", composed(picture_key(name)).casefold())
    number = re.search(r"([0-9]+)$", stem)
    return [stem, *([f"#{int(number[1][-15:])}"] if number else ())]


def chosen_columns(path: Path, has: Sequence[str], given: Columns) -> Columns:
    """Return the columns of a table that are named, or else those with usual names.

    Raises
    ------
    UserError
        If a named column is missing, with the nearest one, or no column has a usual name.
    """
    return Columns(
        _column(path, has, given.image, "image_column", IMAGE_COLUMNS),
        _column(path, has, given.caption, "caption_column", CAPTION_COLUMNS),
        _column(path, has, given.key, "key_column", ()),
    )


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
    """Return the column that is named, or else the one with the most usual name."""
    return named or usual(has, names) or _usual_end(has, setting)


def _column(path: Path, has: Sequence[str], named: str, setting: str, names: Sequence[str]) -> str:
    if not has:
        raise UserError(f"pairs: {path} is empty. Its first line has to name the columns.")
    found = named_column(has, named, setting, names)
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
            raise UserError(_addresses(path, found))
    if not found and names:
        what = "picture paths" if setting == "image_column" else "captions"
        raise UserError(
            f"pairs: {path} has the columns {_shown(has)}, none of which has a usual name of "
            f"{what} ({', '.join(names[:4])}, ...). Name it, by {option(setting)} COLUMN or pairs: "
            f"{{path: {path}, {setting}: COLUMN}}.{_without_names(path, len(has))}"
        )
    return found or ""


def _has_addresses(path: Path, column: str) -> bool:
    """Return whether a column with the name of addresses has some in its first rows."""
    cells = [row.get(column) for _, row in islice(_rows(path, Columns(column)), TRIED)]
    return not any(cells) or any("://" in cell for cell in cells if isinstance(cell, str))


def _without_names(path: Path, columns: int) -> str:
    if form_of(path.name) not in DELIMITED:
        return ""
    if columns == 1:
        return " If it has a caption a line, begin each with the picture's name and a tab."
    from mispair.pairs.captions.user_tables import delimiter_of

    names = f"image_id{delimiter_of(path)}caption".replace("\t", "<TAB>")
    return f" If its first line is a pair, write one above it: {names}."


def _addresses(path: Path, where: str) -> str:
    return (
        f"pairs: {path} has addresses of pictures ({where}) and no column of paths. Fetch the "
        "pictures first: img2dataset --url_list TABLE --output_format webdataset. If the pictures "
        "are here, name the column of their names: pairs.image_column."
    )


def _shown(has: Sequence[str]) -> str:
    return ", ".join(map(repr, has[:12])) + ", ..." * (len(has) > 12) or "none"


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
        first = next(_cells(path), (1, []))[1] if form_of(path.name) in DELIMITED else []
    except UserError:
        return False
    return not _is_pair(first) or " " in first[-1].strip()


def header_of(path: Path) -> list[str]:
    """Return the names of the columns of a table.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    form = form_of(path.name)
    if form == "parquet":
        return _names_in(parquet_schema(path))
    if form in OBJECTS:
        # A row may lack what others have.
        rows = (flat(row) for _, row in islice(_objects(path), TRIED))
        return [*dict.fromkeys(name for row in rows for name in row)]
    return _names_of(next(_cells(path), (1, []))[1])


def _names_in(fields: Any) -> list[str]:
    """Return the names of the columns of a schema, and those in its objects (``meta.caption``)."""
    import pyarrow as pa

    names = [field.name for field in fields]
    for field in fields:
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_struct(kind):
            inside = _names_in(kind)
            inside += ["gpt"] if any({*inside} >= {*turn[:2]} for turn in TURNS) else []
            names += [f"{field.name}.{name}" for name in inside]
    return names


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of a row, and those of objects and of lists of objects in it.

    Examples
    --------
    >>> flat({"meta": {"caption": "y"}})
    {'meta': {'caption': 'y'}, 'meta.caption': 'y'}
    >>> flat({"sentences": [{"raw": "x"}, {"raw": "y"}]})["sentences.raw"]
    ['x', 'y']
    >>> flat({"talk": [{"from": "human", "value": "?"}, {"from": "gpt", "value": "x"}]})["talk.gpt"]
    'x'
    """
    inside: dict[str, Any] = {}
    for name, cell in row.items():
        if isinstance(cell, dict):
            inside |= {f"{name}.{key}": one for key, one in flat(cell).items()}
        elif isinstance(cell, list) and cell and all(isinstance(one, dict) for one in cell):
            for key in dict.fromkeys(key for one in cell for key in one):
                inside[f"{name}.{key}"] = [one.get(key) for one in cell]
            for who, what, answering in TURNS:
                if cell[0].keys() >= {who, what}:
                    answers = (one.get(what) for one in cell if one.get(who) == answering)
                    inside[f"{name}.gpt"] = next(answers, None)
    return row | inside


def columns_to_read(path: Path, names: Iterable[str]) -> list[str]:
    """Return the columns of a Parquet file that have some names, those in objects among them."""
    has = parquet_schema(path).names
    whole = (name if name in has else name.partition(".")[0] for name in names)
    return [name for name in dict.fromkeys(whole) if name in has]


def _is_pair(row: Sequence[str]) -> bool:
    """Return whether the first row of a table has no names: it begins with a picture."""
    return len(row) > 1 and ending_of(_NUMBER.sub("", row[0])) in IMAGE_EXTENSIONS


def _names_of(row: Sequence[str]) -> list[str]:
    """Return the names of columns, by the first row of a table; without names, by position."""
    if not _is_pair(row):
        return [*row]
    return ["image", "caption"] if len(row) == 2 else ["image", *map(str, range(2, len(row) + 1))]


def parquet_schema(path: Path) -> Any:
    """Return the schema of a Parquet file.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise UserError(
            f"pairs: {path} cannot be read as Parquet ({error}). Fetch or write the file again."
        ) from error


def entries_of(path: Path, given: Columns, pictures: Pictures) -> tuple[Columns, list[Entry]]:
    """Return the columns of a table, and an entry for each of its rows.

    Raises
    ------
    UserError
        If the table cannot be read, or lacks a column.
    """
    has = header_of(path)
    columns, rows = chosen_columns(path, has, given), []
    for number, row in _rows(path, columns):
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
            raise UserError(_wrong_number(path, number, cells, len(has)))
        key = row[columns.key] if columns.key else None
        fields = tuple((name, row[name]) for name in FIELDS if isinstance(row.get(name), str))
        for image, file in found.items() or [("", None)]:
            own = pictures.key(image, file) if image else f"row {number}"
            own = own if key is None or key == "" else str(key)
            rows.append(Entry(own, (file,) if file else (), (), captions, fields))
    return columns, rows


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


def _rows(path: Path, columns: Columns) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each row of a table, and its cells by column."""
    form = form_of(path.name)
    if form == "parquet":
        import pyarrow.parquet as pq

        wanted = columns_to_read(path, (*columns, *FIELDS))
        with pq.ParquetFile(path) as opened:
            number = 0
            for batch in opened.iter_batches(columns=wanted):
                for row in batch.to_pylist():
                    number += 1
                    yield number, flat(row)
    elif form in OBJECTS:
        for number, row in _objects(path):
            yield number, {name: None for name in columns if name} | flat(row)
    else:
        yield from _csv_rows(path)


def is_json(path: Path, named: bool = False) -> bool:
    """Return whether JSON is a list, lines, or has captions by picture, by its first bytes.

    Karpathy's splits have lists of sentences in a list of pictures. A file that is `named` may have
    pictures without their endings, or one list among other fields, as TextCaps has.
    """
    start = start_of_json(path)
    if start.startswith(b"[") or _LINES.match(start):
        return True
    if b'"images"' in start and start.startswith(b"{"):
        return b'"sentences"' in start
    form = _BY_NAME if named else _BY_PICTURE
    return form.match(start) is not None


def start_of_json(path: Path) -> bytes:
    """Return the first bytes of a JSON file after blanks; of others and unreadable ones, none."""
    if form_of(path.name) != "json":
        return b""
    try:
        opener: Any = gzip.open if ending_of(path.name) == "gz" else open
        with opener(path, "rb") as opened:
            return opened.read(HEAD).removeprefix(b"\xef\xbb\xbf").lstrip()
    except (OSError, EOFError, zlib.error):
        return b""


def _is_whole(path: Path) -> bool:
    """Return whether a file is one JSON value, by its first bytes, and not an object a line."""
    if form_of(path.name) == "json":
        return not _LINES.match(start_of_json(path))
    from mispair.pairs.captions.user_tables import lines

    return next((line for line in lines(path) if line.strip()), "").lstrip().startswith("[")


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number of each object of a table, and the object."""
    from mispair.pairs.captions.user_tables import lines

    is_whole = _is_whole(path)
    for number, line in enumerate(["".join(lines(path))] if is_whole else lines(path), 1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            where = path if is_whole else f"{path}: line {number}"
            raise UserError(
                f"pairs: {where} is not JSON ({error}). Each line of JSONL is one object; a list "
                "of objects is a file with the ending .json."
            ) from error
        if is_whole and isinstance(content, dict):
            lists = [one for one in content.values() if isinstance(one, list) and one
                     and isinstance(one[0], dict)]  # fmt: skip
            is_split = len(lists) == 1 or len(lists) == sum(one != [] for one in content.values())
            content = (
                [_of_split(one) for each in lists for one in each] if lists and is_split
                else _of_columns(content)
                or [_of_picture(name, value) for name, value in content.items()]
            )  # fmt: skip
        for position, row in enumerate(content if is_whole else [content], number):
            if isinstance(row, list) and len(row) == 2 and isinstance(row[0], str):
                row = {"image": row[0], "caption": row[1]}
            if not isinstance(row, dict):
                where = "object" if is_whole else "line"
                raise UserError(
                    f"pairs: {path}: {where} {position} is not a JSON object. Each one is such as "
                    '{"image": "a.jpg", "caption": "a red cup"}.'
                )
            yield position, row


def _of_split(picture: Any) -> Any:
    """Return a picture of Karpathy's splits as a row."""
    if not isinstance(picture, dict) or not isinstance(picture.get("filename"), str):
        return picture
    path = os.path.join(str(picture.get("filepath", "")), picture["filename"])
    return {"image": path, "captions": flat(picture).get("sentences.raw")}


def _of_columns(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of an object of columns, as pandas' `to_json` writes it; none of others."""
    if usual([*content], IMAGE_COLUMNS) is None:
        return []
    cells = [[*one.values()] if isinstance(one, dict) else one for one in content.values()]
    if not all(isinstance(one, list) for one in cells) or len({*map(len, cells)}) > 1:
        return []
    return [dict(zip(content, row, strict=True)) for row in zip(*cells, strict=True)]


def _of_picture(name: str, value: Any) -> dict[str, Any]:
    """Return an entry of JSON with captions by picture as a row."""
    return {"image": name} | (value if isinstance(value, dict) else {"caption": value})


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the line of each row, and its cells; those that a short row lacks are None."""
    cells = _cells(path)
    first = next(cells, (1, []))
    header, is_pair = _names_of(first[1]), _is_pair(first[1])
    for line, row in chain([first], cells) if is_pair else cells:
        if is_pair and row:  # Flickr8k.token.txt numbers the captions of a picture
            row[0] = _NUMBER.sub("", row[0])
        if len(row) > len(header):
            raise UserError(_wrong_number(path, line, len(row), len(header)))
        if row:
            yield line, dict(zip_longest(header, row))


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    from mispair.pairs.captions.user_tables import csv_reader, delimiter_of, lines

    first = next(lines(path), "")
    named = _PICTURE_FIRST.match(first) if form_of(path.name) != "tsv" else None
    reader = csv_reader(path, named[1] if named else delimiter_of(path))
    try:
        if SEPARATOR_LINE.match(first):
            next(reader)
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise UserError(
            f"pairs: {path}: line {reader.line_num} is not valid ({error}). Write a caption with "
            'a quotation mark as "so, ""quoted"" and closed" and end lines as Unix or Windows '
            "does, or use Parquet or JSONL."
        ) from error


def _wrong_number(path: Path, line: int, number: int, expected: int) -> str:
    return (
        f"pairs: {path}: the row that ends in line {line} has {number} fields, but the first line "
        f"names {expected}. Complete the row, and quote captions that hold the separator or a line "
        "end."
    )


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
    columns, rows = rows_of(pictures, columns_in(named))
    entries, first = merged(rows), paths[0]
    several = f" and {count(len(paths) - 1, 'more table')}" * (len(paths) > 1)
    words = f"{count(len(entries), 'picture')} of {first.name}{several} "
    words += f"(columns {columns.image}, {columns.caption}){elsewhere(pictures[first], first)}"
    words = with_captions(words, entries, *pictures.values())
    boundaries = [os.path.abspath(one.boundary) for one in pictures.values()]
    boundary = Path(os.path.commonpath(boundaries))
    return Source("table", words, entries, (*paths,), boundary, captions_in="json:captions")


def rows_of(tables: Mapping[Path, Pictures], given: Columns) -> tuple[Columns, list[Entry]]:
    """Return the columns of tables, and an entry for each of their rows.

    Raises
    ------
    UserError
        If a table cannot be read or lacks a column, or their columns differ.
    """
    entries: list[Entry] = []
    columns, first = given, next(iter(tables))
    for table, pictures in tables.items():
        own, rows = entries_of(table, given, pictures)
        if table != first and own != columns:
            raise UserError(
                f"pairs: {table} has the columns {own.image} and {own.caption}, and {first} has "
                f"{columns.image} and {columns.caption}. Name one of the tables, or columns that "
                "all have: pairs.image_column, pairs.caption_column."
            )
        columns = own
        entries += rows
    return columns, entries


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
    columns = chosen_columns(path, header_of(path), columns_in(named))
    first = (row[columns.image] for _, row in islice(_rows(path, columns), TRIED))
    return [image for cell in first for image in paths_in(cell) or ()]


def with_pictures(path: Path, named: Named, folder: Path | None) -> Named | None:
    """Name the column of paths: of several with usual names the first whose pictures are there.

    Without a usual name, that is the first column whose cells are paths of pictures that are there;
    or None, also if no column has a usual name of captions.
    """
    columns = _image_columns(path)
    for column in columns or header_of(path):
        one = named.model_copy(update={"image_column": column})
        try:
            if images := _first_images(path, one):
                located(path, images, folder, is_exact=not columns)
                return one
        except UserError:
            continue
    return None


def _image_columns(path: Path) -> list[str]:
    """Return the columns of a table with usual names of pictures, the most certain first."""
    has, columns = [*header_of(path)], []
    while image := usual(has, IMAGE_COLUMNS):
        has.remove(image)
        columns.append(image)
    return columns


def _folders_below(folder: Path) -> list[Path]:
    """Return at most `MOST_FOLDERS` folders below those in a folder, the uppermost first."""
    level = [one for inside in _folders_in(folder) for one in _folders_in(inside)]
    below: list[Path] = []
    while level and len(below) < MOST_FOLDERS:
        below += level
        level = [one for inside in level[:MOST_FOLDERS] for one in _folders_in(inside)]
    return below[:MOST_FOLDERS]


def _folders_in(folder: Path) -> list[Path]:
    """Return the folders in a folder, or none if it cannot be read."""
    try:
        names = sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []
    return [folder / name for name in names if os.path.isdir(folder / name)]


def elsewhere(pictures: Pictures, path: Path) -> str:
    """Return where the pictures of a table are, if not at its paths, for a sentence."""
    words = f" in {pictures.folder}" * (pictures.folder != path.parent)
    words += f", paths without {pictures.dropped!r}" * bool(pictures.dropped)
    return words + ", found by names without case and ending, or numbers" * pictures.by_name


def with_captions(words: str, entries: Sequence[Entry], *pictures: Pictures) -> str:
    """Add the number of captions where pictures have several, and those of pictures without file.

    These are missing, or outside of the folder that `pictures` may be in.
    """
    captions = sum(len(entry.captions or ()) for entry in entries)
    if captions > len(entries):
        words += f", {captions:,} captions"
    refused = [path for one in pictures for path in one.refused]
    missing = sum(1 for entry in entries if not entry.pictures) - len(refused)
    words += f", {count(missing, 'picture')} missing" * (missing > 0)
    return words + outside_words(
        [*refused, *(path for one in pictures for path in one.linked)], pictures[0].boundary
    )


def located(
    path: Path,
    images: Sequence[str],
    folder: Path | None,
    boundary: Path | None = None,
    is_exact: bool = False,
) -> Pictures:
    """Return the pictures of a table in the folder that has most of its first ones.

    They are looked for in the named folder, those in it and that of the table, or next to the
    table; then further below; then without what all paths begin with; and then by their names
    without case and ending, if not `is_exact`. Relative paths and links must stay in `boundary`: by
    default the named folder, or that of the table, or the one above it if the first pictures are
    there.

    Raises
    ------
    UserError
        If there is none, or all of the first ones are outside.
    """
    starts = [folder] if folder else [path.parent, path.parent.parent]
    best, found = _most(path, images, starts, "", False)
    if is_exact:  # and not a folder that happens to have the name
        found = [one for one in found if ending_of(one) in IMAGE_EXTENSIONS]
    ways = [(start, False) for start in _common_starts(images)] + [("", True)]
    is_sought = images and not found and not is_exact and "://" not in images[0]
    for dropped, by_name in ways if is_sought else []:
        best, found = _most(path, images, starts, dropped, by_name)
        if len({*found}) >= SURE * len({*images}):  # no two names are one picture
            break
        found = []
    if images and not found:
        raise UserError(_not_there(path, images, starts[0]))
    if boundary is None:
        starts = starts[:1] if folder else [path.parent, path.parent.parent]
        holding = (one for one in starts if any(is_inside(picture, one) for picture in found))
        boundary = boundary_of(next(holding, starts[0]))
    bounded = best.within(boundary)
    for image in images:
        bounded.find(image)
    outside = [*bounded.refused, *bounded.linked]
    if found and len(outside) == len(found):
        is_linked = links_out(os.path.join(best.folder, ""), boundary)
        raise UserError(
            f"pairs: all of the first {len(images)} pictures of {path}, such as "
            f"{outside[0]!r}, lead out of {boundary.absolute()}. "
            + (f"Name their folder: pairs: {{path: {best.folder}, captions: {path}}}." if is_linked
               else "Write their full paths into it.")
        )  # fmt: skip
    return best.within(boundary)


def _most(
    path: Path, images: Sequence[str], starts: Sequence[Path], dropped: str, by_name: bool
) -> tuple[Pictures, list[str]]:
    """Return the pictures in the folder with most of the first ones of a table, and these."""
    own = [path.parent] if path.parent not in starts else []
    levels = [[start, *_folders_in(start), *own] for start in starts]
    best: tuple[Pictures, list[str]] = Pictures(path.parent, Path("/")), []
    for folders in (*levels, None):
        for one in _folders_below(starts[0]) if folders is None else folders:
            pictures = Pictures(one, Path("/"), dropped=dropped, by_name=by_name)
            found = [*filter(None, map(pictures.find, images))]
            if len(found) > len(best[1]):
                best = pictures, found
        if best[1]:
            break
    return best


def _common_starts(images: Sequence[str]) -> list[str]:
    """Return the folders that all paths begin with, the uppermost first.

    Examples
    --------
    >>> _common_starts(["/data/a/1.jpg", "/data/a/2.jpg"]), _common_starts(["1.jpg"])
    (['/', '/data/', '/data/a/'], [])
    """
    paths = map(with_slashes, images)
    parts = [path.split("/")[:-1] for path in paths]
    shared = [*takewhile(lambda names: len({*names}) == 1, zip(*parts, strict=False))]
    return ["/".join(names[0] for names in shared[: end + 1]) + "/" for end in range(len(shared))]


def _not_there(path: Path, images: Sequence[str], start: Path) -> str:
    """Return why none of the first pictures of a table is found."""
    if "://" in images[0]:
        return _addresses(path, images[0])
    if len(images[0]) > LONGEST_PATH:
        return (
            f"pairs: {path} has texts of {len(images[0]):,} characters where paths of pictures are "
            "expected. Pictures in base64 are not read: decode them into a column of bytes."
        )
    try:
        archives = sorted(one for one in os.listdir(start) if ending_of(one) in ARCHIVES)
    except OSError:
        archives = []
    remedy = f"Name their folder: pairs: {{path: FOLDER, captions: {path}}}."
    if archives:
        remedy = f"If they are in {archives[0]}, unpack it there."
    return (
        f"pairs: none of the first {len(images)} pictures of {path}, such as "
        f"{images[0]!r:.300}, is below {start.absolute()}. {remedy}"
    )
