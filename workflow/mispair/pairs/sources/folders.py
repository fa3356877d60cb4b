"""Folders of pictures: with a caption next to each, or with Hugging Face's metadata."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mispair.core.files import UserError
from mispair.core.folders import snapshot
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS, SIDECAR_EXTENSION
from mispair.pairs.sources.source import (
    TEXT_ENDINGS,
    Entry,
    Named,
    Source,
    counted,
    member_key,
    merged,
    picture_key,
    refuse_ambiguous,
    walk,
)
from mispair.pairs.sources.tables import TABLE_ENDINGS, Pictures, columns_in, ending_of, entries_of

METADATA = "metadata"
"""Name of the tables that Hugging Face's `imagefolder` reads."""

_PICTURE = re.compile(rf"\.({'|'.join(IMAGE_EXTENSIONS)})$", re.IGNORECASE)


class Tree(NamedTuple):
    """The files below a folder, as paths relative to it."""

    folder: Path
    names: list[str]

    @property
    def pictures(self) -> list[str]:
        """The pictures, by their endings."""
        return [name for name in self.names if _PICTURE.search(name)]

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return os.path.join(self.folder, name)


def tree_of(folder: Path) -> Tree:
    """List the files below a folder; of a repository in a hub's cache, those of its commit.

    Raises
    ------
    UserError
        If a folder cannot be read.
    """
    folder = snapshot(folder)
    start = len(os.path.join(folder, ""))
    return Tree(folder, [entry.path[start:] for entry in walk(folder)])


def boundary_of(folder: Path) -> Path:
    """Return the folder that links must not lead out of: a hub's cache links to its blobs."""
    whole = Path(os.path.realpath(folder))
    return whole.parents[1] if whole.parent.name == "snapshots" else whole


def with_texts(tree: Tree, named: Named) -> Source | None:
    """Return the pictures below a folder that have a caption next to them; None if none has.

    Raises
    ------
    UserError
        If there are captions with several endings.
    """
    named_ending = (named.captions or "").removeprefix(".")
    if named.captions and named_ending not in TEXT_ENDINGS:
        return None
    pictured = {picture_key(name) for name in tree.pictures}
    beside = Counter(
        ending_of(name) for name in tree.names
        if ending_of(name) in TEXT_ENDINGS and _stem(name) in pictured
    )  # fmt: skip
    if named_ending:
        endings = [named_ending]
    else:
        endings = sorted(beside)
        refuse_ambiguous(tree.folder, [f".{ending}" for ending in endings])
    if not pictured or not endings:
        return None
    entries = tuple(_entries_with_texts(tree, endings[0]))
    captioned = [any(ending_of(text) == endings[0] for text in entry.texts) for entry in entries]
    pictures, lost = len(tree.pictures), sum(not entry.pictures for entry in entries)
    words = f"{counted(pictures, 'picture')} with .{endings[0]} captions"
    if without := len(entries) - sum(captioned):
        words += f", {without:,} without"
    if lost:
        words += f", {counted(lost, 'caption')} without a picture"
    return Source("folder", words, entries, boundary=boundary_of(tree.folder))


def _stem(name: str) -> str:
    return name[: name.rindex(".")] if "." in name.rpartition("/")[2] else name


def _entries_with_texts(tree: Tree, ending: str) -> Iterator[Entry]:
    """Yield the pictures and the captions below a folder by the names that they share."""
    pictures: dict[str, list[str]] = {}
    texts: dict[str, list[str]] = {}
    sidecars: dict[str, list[str]] = {}
    for name in tree.names:
        if _PICTURE.search(name):
            pictures.setdefault(picture_key(name), []).append(name)
        elif ending_of(name) == ending:
            texts.setdefault(_stem(name), []).append(name)
        elif ending_of(name) == SIDECAR_EXTENSION:
            sidecars.setdefault(_stem(name), []).append(name)
    composed = _by_composed_name(pictures.keys() - texts.keys())
    for stem in sorted(texts.keys() - pictures.keys()):
        # One program wrote é as one character, another as e with an accent.
        picture = composed.get(unicodedata.normalize("NFC", stem))
        if picture is not None:
            texts[picture] = texts.pop(stem)
            composed.pop(unicodedata.normalize("NFC", stem))
    for stem in sorted(pictures.keys() | texts.keys()):
        files = [*texts.get(stem, ()), *(sidecars.get(stem, ()) if stem in pictures else ())]
        yield Entry(
            member_key(stem),
            tuple(map(tree.path, pictures.get(stem, ()))),
            tuple(map(tree.path, files)),
        )


def _by_composed_name(stems: Iterable[str]) -> dict[str, str]:
    """Return stems by their NFC form, without those that share one."""
    forms = [(unicodedata.normalize("NFC", stem), stem) for stem in stems]
    times = Counter(form for form, _ in forms)
    return {form: stem for form, stem in forms if times[form] == 1}


def metadata_files(tree: Tree, only: str | None = None) -> list[str]:
    """Return Hugging Face's metadata below a folder, at most one file in each folder, or `only`.

    Raises
    ------
    UserError
        If a folder has two.
    """
    tables = [name for name in tree.names if _is_metadata(name) and only in (None, name)]
    by_folder: dict[str, list[str]] = {}
    for name in tables:
        by_folder.setdefault(os.path.dirname(name), []).append(name)
    for names in by_folder.values():
        refuse_ambiguous(tree.folder, map(tree.path, names))
    return tables


def _is_metadata(name: str) -> bool:
    base = name.rpartition("/")[2]
    return _stem(base) == METADATA and ending_of(base) in TABLE_ENDINGS


def with_metadata(tree: Tree, tables: Sequence[str], named: Named) -> Source:
    """Return the pictures below a folder, with the captions of its metadata.

    Pictures that no row names have no caption.

    Raises
    ------
    UserError
        If a table cannot be read or lacks a column.
    """
    entries: list[Entry] = []
    columns = columns_in(named)
    for name in tables:
        table = Path(tree.path(name))
        columns, rows = entries_of(table, columns, Pictures(table.parent, tree.folder))
        entries += rows
    listed = {os.path.normpath(path) for entry in entries for path in entry.pictures}
    left = [name for name in tree.pictures if os.path.normpath(tree.path(name)) not in listed]
    entries += [
        Entry(member_key(picture_key(name)), (tree.path(name),), captions=()) for name in left
    ]
    words = f"{counted(len(tree.pictures), 'picture')} with {columns.caption} of "
    words += " and ".join(tables[:3]) + (f" and {len(tables) - 3} more" if len(tables) > 3 else "")
    if left:
        words += f", {len(left):,} of them without"
    return Source(
        "imagefolder", words, merged(entries), tuple(Path(tree.path(name)) for name in tables),
        boundary_of(tree.folder), captions_in="json:captions",
    )  # fmt: skip


def refuse_without_captions(tree: Tree) -> None:
    """Refuse a folder that is no source, with what it has.

    Raises
    ------
    UserError
        Always.
    """
    pictures = tree.pictures
    if not tree.names:
        raise UserError(
            f"pairs: the folder {tree.folder.absolute()} is empty. Name a folder of pictures with "
            "captions, a table, or tar shards."
        )
    if pictures:
        raise UserError(
            f"pairs: the folder {tree.folder.absolute()} has {counted(len(pictures), 'picture')}, "
            f"such as {pictures[0]!r}, and no captions: neither {picture_key(pictures[0])}.txt "
            "next to it, nor metadata.csv. Name a table of paths and captions: pairs: {path: ..., "
            "captions: TABLE}."
        )
    raise UserError(
        f"pairs: the folder {tree.folder.absolute()} has no pictures, tar shards, or Parquet files "
        f"with pictures; the first of its {counted(len(tree.names), 'file')} is "
        f"{tree.names[0]!r}. Name the folder that has them."
    )
