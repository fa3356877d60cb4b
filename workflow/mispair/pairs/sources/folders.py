"""Folders of pictures: with a caption next to each, or with Hugging Face's metadata."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from mispair.core.files import UserError, snapshot
from mispair.core.words import composed, count
from mispair.pairs.captions.decoding import numbered, read_json, text_fields, values_at
from mispair.pairs.shards.shards import (
    IMAGE_EXTENSIONS,
    MAX_MEMBER_BYTES,
    MAX_TEXT_BYTES,
    SIDECAR_EXTENSION,
)
from mispair.pairs.sources.alike import alike, stem_of
from mispair.pairs.sources.columns import CAPTION_COLUMNS, are_captions, columns_in, named_column
from mispair.pairs.sources.pictures import with_captions
from mispair.pairs.sources.source import (
    TEXT_ENDINGS,
    UNREAD,
    Entry,
    Named,
    Source,
    boundary_of,
    is_ending,
    links_out,
    merged,
    outside_words,
    picture_key,
    refuse_ambiguous,
    refuse_unreadable,
    walk,
)
from mispair.pairs.sources.table_rows import (
    TABLE_ENDINGS,
    TRIED,
    ending_of,
    unquoted_words,
)
from mispair.pairs.sources.tables import is_caption, pictures_of, rows_of

METADATA = "metadata"
"""Name of the tables that Hugging Face's `imagefolder` reads."""
ABOUT_THE_FOLDER = ("readme", "license", "licence", "copying")
"""Names of texts that are no captions, unless a picture has the same name."""


class Tree:
    """The files below a folder, as paths relative to it, by their endings in lower case."""

    def __init__(self, folder: Path, entries: Iterable[os.DirEntry[str]]):
        self.folder = folder
        self.boundary = boundary_of(folder)
        self._start = os.path.join(folder, "")
        self.names: dict[str, list[str]] = {}
        self.links: list[str] = []
        self.linked_folders: list[str] = []
        for entry in entries:
            name = entry.path[len(self._start) :]
            if entry.is_symlink():
                if os.path.isdir(entry.path):  # False for links that go in a circle
                    self.linked_folders.append(name)
                    continue
                self.links.append(name)
            self.names.setdefault(ending_of(name), []).append(name)

    @cached_property
    def pictures(self) -> list[str]:
        """The pictures, by their endings; of a format that is not read, those with no other one."""
        read = self.of(IMAGE_EXTENSIONS) + self.unnamed
        stems = {*map(stem_of, read)} if self.unread else {}
        return sorted(read + [name for name in self.unread if stem_of(name) not in stems])

    @cached_property
    def unnamed(self) -> list[str]:
        """The files without an ending that have a caption next to them."""
        names = self.of([""])
        texts = {*map(stem_of, self.of(TEXT_ENDINGS))} if names else ()
        return [name for name in names if name in texts and not is_about(name)]

    @property
    def unread(self) -> list[str]:
        """The pictures of formats that are not read."""
        return self.of(UNREAD)

    def of(self, endings: Iterable[str]) -> list[str]:
        """Return the files with one of some endings."""
        return sorted(name for ending in endings for name in self.names.get(ending, ()))

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return self._start + name

    def inside(self, path: str) -> str | None:
        """Return a folder below, as a relative path with a slash; None if it is none."""
        whole = os.path.abspath(os.path.expanduser(path))
        start = os.path.join(os.path.abspath(self.folder), "")
        is_below = whole.startswith(start) and os.path.isdir(whole)
        return whole[len(start) :] + "/" if is_below else None

    def left_words(self, *endings: str) -> str:
        """Return what is no pair, for the line of a source: links, and formats that are not read.

        Links are counted if they lead out of the folder and have some endings, or to folders.
        """
        links = [name for name in self.links if ending_of(name) in endings]
        outside = [name for name in links if links_out(self.path(name), self.boundary)]
        words = outside_words(outside, self.boundary)
        if folders := self.linked_folders:
            words += f", {count(len(folders), 'link')} to a folder left out ({folders[0]})"
        if unread := len({*self.unread} & {*self.pictures} if self.unread else ()):
            words += f", {unread:,} in HEIC, to be converted to JPEG"
        return words


def tree_of(folder: Path) -> Tree:
    """List the files below a folder; of a repository in a hub's cache, those of its commit.

    Raises
    ------
    UserError
        If a folder cannot be read.
    """
    folder = snapshot(folder)
    return Tree(folder, walk(folder))


def with_texts(tree: Tree, named: Named) -> Source | None:
    """Return the pictures below a folder that have a caption next to them; None if none has.

    If none has, the captions may be in a folder of their own with the paths of the pictures in
    theirs (``captions/a/1.txt`` of ``images/a/1.jpg``), or names that are alike (`alike`).

    Raises
    ------
    UserError
        If there are captions with several endings or in several folders, or none as named.
    """
    folder = tree.inside(named.captions) if named.captions else None
    named_ending = (named.captions or "").removeprefix(".") if is_ending(named.captions) else ""
    if named.captions and not named_ending and folder is None:
        return None
    pictures = tree.pictures
    pictured = {composed(stem_of(name)) for name in pictures} | {*map(composed, pictures)}
    move: dict[str, str] = {}
    where, inside, beside = "", "", _endings(tree, pictured, move) if folder is None else []
    if not beside and pictures:
        where, inside, move = _moved(tree, pictured, folder)
        beside = _endings(tree, pictured, move)
    if named_ending:
        endings = [named_ending]
        if pictured and named_ending not in beside:
            raise UserError(
                f"pairs.captions: none of the pictures in {tree.folder}, such as {pictures[0]!r}, "
                f"has a .{named_ending} next to it. Name captions that it has, or leave it out."
            )
    else:
        endings = _with_captions(tree, {ending: tree.of([ending]) for ending in beside})
        refuse_ambiguous(tree.folder, [f".{ending}" for ending in endings])
    if not pictured or not endings:
        return None
    if {*pictures} <= {*tree.unread}:
        raise UserError(
            f"pairs: the pictures in {tree.folder}, such as {pictures[0]!r}, are in HEIC, which is "
            "not read. Convert them to JPEG: magick mogrify -format jpg *.heic."
        )
    entries = tuple(_entries_with_texts(tree, endings[0], move, inside))
    captioned = sum(any(ending_of(text) == endings[0] for text in e.texts) for e in entries)
    lost = sum(not entry.pictures for entry in entries)
    words = f"{count(len(pictures), 'picture')} with .{endings[0]} captions"
    words += where
    if without := len(entries) - captioned:
        words += f", {without:,} without"
    if lost:
        words += f", {count(lost, 'caption')} without a picture"
    words += tree.left_words(*IMAGE_EXTENSIONS, endings[0])
    return Source("folder", words, entries, boundary=tree.boundary)


def with_objects(tree: Tree, named: Named) -> Source | None:
    """Return the pictures below a folder that have JSON with a caption next to them, if any has.

    The first of them that are JSON objects decide in which field the captions are.

    Raises
    ------
    UserError
        If they lack the field that is named, or no field has a usual name of captions.
    """
    pictured = {*tree.pictures, *map(stem_of, tree.pictures)}
    beside = [name for name in tree.of([SIDECAR_EXTENSION]) if stem_of(name) in pictured]
    chosen = named.caption_column
    first = [Path(tree.path(name)) for name in beside[:TRIED]]
    texts: dict[str, list[str]] = {}
    for name, text in (found for path in first for found in _texts_in(path)):
        texts.setdefault(name, []).append(text)
    fields = [*texts]
    if not fields:
        for path in first:
            refuse_unreadable(path)
        return None
    is_list = fields == [""] and not chosen
    field = chosen or _captioned_field(texts)
    if not is_list and field not in (*fields, *numbered(fields)):
        has = ", ".join(map(repr, fields[:12]))
        wrong = f"no field {field!r}" if field else "no field with a usual name of captions"
        raise UserError(
            f"pairs: {tree.path(beside[0])} next to a picture has {wrong}, only {has}. Name the "
            f"field of captions, or a table: pairs: {{path: {tree.folder}, caption_column: FIELD}}."
        )
    entries = tuple(_entries_with_texts(tree, SIDECAR_EXTENSION, {}))
    without = sum(not entry.texts for entry in entries)
    words = f"{count(len(tree.pictures), 'picture')} with {field or 'texts'} in JSON next to them"
    words += f", {without:,} without" if without else ""
    words += tree.left_words(*IMAGE_EXTENSIONS, SIDECAR_EXTENSION)
    place = SIDECAR_EXTENSION if is_list else f"{SIDECAR_EXTENSION}:{field}"
    return Source("objects", words, entries, boundary=tree.boundary, captions_in=place)


def _captioned_field(texts: Mapping[str, Sequence[str]]) -> str | None:
    """Return the field with the most usual name that has captions, or else that name."""
    fields, first = [*texts], None
    while field := named_column(fields, "", "caption_column", CAPTION_COLUMNS):
        group = numbered(fields).get(field, [field])
        if are_captions(text for one in group for text in texts[one]):
            return field
        first = first or field
        fields = [one for one in fields if one not in group]
    return first


def _texts_in(path: Path) -> list[tuple[str, str]]:
    """Return the fields of JSON in a file that hold texts, with these; "" if it has texts alone."""
    try:
        if path.stat().st_size > MAX_MEMBER_BYTES:
            return []
        content = read_json(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError):
        return []
    texts = content if isinstance(content, list) else [content]
    if all(isinstance(one, str) for one in texts) and any(map(is_caption, texts)):
        return [("", text) for text in texts]
    found = ((field, values_at(content, field)) for field in text_fields(content))
    return [(field, text) for field, values in found
            for text in values or [""] if isinstance(text, str)]  # fmt: skip


def is_about(name: str) -> bool:
    """Return whether a text of this name, without its ending, describes a folder."""
    return name.rpartition("/")[2].casefold() in ABOUT_THE_FOLDER


def _texts(
    tree: Tree, ending: str, move: Mapping[str, str], inside: str = ""
) -> dict[str, list[str]]:
    """Return the texts with an ending `inside` a folder by their picture's path without its ending.

    `move` has those that differ from the paths of the texts without ending.
    """
    texts: dict[str, list[str]] = {}
    for name in (name for name in tree.of([ending]) if name.startswith(inside)):
        texts.setdefault(move.get(stem_of(name), stem_of(name)), []).append(name)
    return texts


def _endings(tree: Tree, pictured: set[str], move: Mapping[str, str]) -> list[str]:
    """Return the endings of texts that belong to pictures."""
    stems = {ending: map(stem_of, tree.of([ending])) for ending in TEXT_ENDINGS}
    return [
        ending
        for ending, of_texts in stems.items()
        if any(composed(move.get(stem, stem)) in pictured for stem in of_texts)
    ]


def _with_captions(tree: Tree, places: Mapping[str, Sequence[str]]) -> list[str]:
    """Return those of several places of texts whose first ones have a caption, or all places."""
    if len(places) < 2:
        return [*places]
    real = [one for one, names in places.items()
            if any(_has_caption(tree, name) for name in names[:TRIED])]  # fmt: skip
    return real or [*places]


def _has_caption(tree: Tree, name: str) -> bool:
    path = tree.path(name)
    if links_out(path, tree.boundary):
        return False
    try:
        with open(path, encoding="utf-8-sig") as opened:
            return is_caption(opened.read(MAX_TEXT_BYTES))
    except (OSError, UnicodeDecodeError):
        return False


def _moved(tree: Tree, pictured: set[str], folder: str | None) -> tuple[str, str, dict[str, str]]:
    """Return where the texts are, for a line, their folder, and pictures by texts, without endings.

    The texts are in `folder`, or in one next to a folder that has all pictures, and have their
    paths; or else have names that are alike.

    Raises
    ------
    UserError
        If several folders have such texts.
    """
    names = tree.of(TEXT_ENDINGS)
    pictures = os.path.commonpath([os.path.dirname(name) for name in tree.pictures])
    while True:
        start, above = os.path.join(pictures, ""), os.path.join(os.path.dirname(pictures), "")
        texts: dict[str, dict[str, str]] = {}
        for name in names:
            near = above + name[len(above) :].partition("/")[0] + "/"
            of_texts = near if folder is None else folder
            picture = start + stem_of(name[len(of_texts) :])
            if name.startswith(of_texts) and of_texts != start:
                texts.setdefault(of_texts, {})[stem_of(name)] = picture
        texts = {of: move for of, move in texts.items()
                 if not pictured.isdisjoint(map(composed, move.values()))}  # fmt: skip
        inside = {of: [name for name in names if name.startswith(of)] for of in sorted(texts)}
        usable = _with_captions(tree, inside)
        refuse_ambiguous(tree.folder, map(tree.path, usable))
        for of_texts in usable:
            return f" of {of_texts}", of_texts, texts[of_texts]
        if not pictures:
            names = [name for name in names if name.startswith(folder or "")]
            names = [name for name in names if not is_about(stem_of(name))]
            return ", found by names that are alike", "", alike(tree.pictures, names)
        pictures = os.path.dirname(pictures)


def _entries_with_texts(
    tree: Tree, ending: str, move: Mapping[str, str], inside: str = ""
) -> Iterator[Entry]:
    """Yield the pictures and the captions below a folder by the names that they share."""
    pictures, texts = _by_stem(tree.pictures), _texts(tree, ending, move, inside)
    sidecars = {} if ending == SIDECAR_EXTENSION else _by_stem(tree.of([SIDECAR_EXTENSION]))
    for stem in sorted(texts.keys() & {*tree.pictures} - pictures.keys()):  # a.jpg.txt
        texts.setdefault(stem_of(stem), []).extend(texts.pop(stem))
    by_form = _by_composed_name(pictures.keys() - texts.keys())
    for stem in sorted(texts.keys() - pictures.keys()) if by_form else ():
        if picture := by_form.pop(composed(stem), None):
            texts[picture] = texts.pop(stem)
    for stem in [*texts.keys() - pictures.keys()]:
        if is_about(stem):
            del texts[stem]
    for stem in sorted(pictures.keys() | texts.keys()):
        files = [*texts.get(stem, ()), *(sidecars.get(stem, ()) if stem in pictures else ())]
        yield Entry(
            stem,
            tuple(tree.path(name) for name in pictures.get(stem, ())),
            tuple(tree.path(name) for name in files),
        )


def _by_stem(names: Iterable[str]) -> dict[str, list[str]]:
    by_stem: dict[str, list[str]] = {}
    for name in names:
        by_stem.setdefault(stem_of(name), []).append(name)
    return by_stem


def _by_composed_name(stems: Iterable[str]) -> dict[str, str]:
    """Return stems by their NFC form, without those that share one."""
    forms = [(composed(stem), stem) for stem in stems]
    times = Counter(form for form, _ in forms)
    return {form: stem for form, stem in forms if times[form] == 1}


def metadata_files(tree: Tree, only: str | None = None) -> list[str]:
    """Return Hugging Face's metadata below a folder, at most one file in each folder, or `only`.

    Raises
    ------
    UserError
        If a folder has two.
    """
    tables = [name for name in tree.of(TABLE_ENDINGS) if _is_metadata(name)]
    tables = [name for name in tables if only in (None, name)]
    by_folder: dict[str, list[str]] = {}
    for name in tables:
        by_folder.setdefault(os.path.dirname(name), []).append(name)
    for names in by_folder.values():
        refuse_ambiguous(tree.folder, map(tree.path, names))
    return tables


def _is_metadata(name: str) -> bool:
    return stem_of(name.rpartition("/")[2]) == METADATA


def with_metadata(tree: Tree, tables: Sequence[str], named: Named) -> Source:
    """Return the pictures below a folder, with the captions of its metadata.

    Pictures that no row names have no caption.

    Raises
    ------
    UserError
        If a table cannot be read, lacks a column, or has no picture, or their columns differ.
    """
    looked_up = {}
    for table in map(Path, map(tree.path, tables)):
        found = pictures_of(table, named, table.parent, tree.boundary)
        looked_up[table] = found.within(tree.boundary, tree.folder)
    columns, entries, unquoted = rows_of(looked_up, columns_in(named))
    listed = {os.path.normpath(path) for entry in entries for path in entry.pictures}
    left = [name for name in tree.pictures if os.path.normpath(tree.path(name)) not in listed]
    entries += [Entry(picture_key(name), (tree.path(name),), captions=()) for name in left]
    words = f"{count(len(tree.pictures), 'picture')} with {columns.caption} of "
    words += " and ".join(tables[:3]) + (f" and {len(tables) - 3} more" if len(tables) > 3 else "")
    if left:
        words += f", {len(left):,} of them without"
    words += unquoted_words(looked_up, unquoted)
    whole = merged(entries)
    words = with_captions(words, whole, *looked_up.values())
    return Source(
        "imagefolder", words, whole, (*looked_up,), tree.boundary, captions_in="json:captions"
    )
