"""Folders of pictures without captions: the message of what they have."""

import os
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from mispair.core.files import UserError
from mispair.core.words import count
from mispair.pairs.captions.decoding import fault_of_json
from mispair.pairs.captions.key_lists import lines
from mispair.pairs.shards.shards import MAX_TEXT_BYTES, SIDECAR_EXTENSION
from mispair.pairs.sources.alike import stem_of
from mispair.pairs.sources.coco import is_coco
from mispair.pairs.sources.columns import Columns
from mispair.pairs.sources.folders import Tree
from mispair.pairs.sources.pictures import ARCHIVES
from mispair.pairs.sources.source import TEXT_ENDINGS, picture_key, refuse_unreadable
from mispair.pairs.sources.table_rows import TABLE_ENDINGS, TRIED, form_of, header_of, is_json
from mispair.pairs.sources.tables import is_table

FEW_TEXTS = 5
"""Texts up to which one that has no picture's name may be a list of all captions."""


def refuse_without_captions(tree: Tree, given: Columns) -> None:
    """Refuse a folder that is no source, with what it has; `given` are columns that are named.

    Raises
    ------
    UserError
        Always.
    """
    pictures, names = tree.pictures, tree.of(tree.names)
    if not names:
        raise UserError(
            f"pairs: the folder {tree.folder.absolute()} has no file (links to folders are not "
            "followed). Name a folder of pictures with captions, a table, or tar shards."
        )
    beside = {*pictures, *map(stem_of, pictures)}
    may_be_tables = [one for one in tree.of((*TABLE_ENDINGS, "txt", "json", "gz")) if pictures]
    may_be_tables = [one for one in may_be_tables if stem_of(one) not in beside]
    tried = [Path(tree.path(name)) for name in may_be_tables[:TRIED]]
    for path in tried:
        refuse_unreadable(path)
        if _is_readable(path) and form_of(path.name) != "parquet":
            deque(islice(lines(path), TRIED), 0)  # raises if it is not UTF-8
    if tables := [path for path in tried if is_coco(path) or _may_be_table(path, given)]:
        others = f" (or {', '.join(map(str, tables[1:4]))})" * (len(tables) > 1)
        raise UserError(
            f"pairs: the folder {tree.folder.absolute()} has {count(len(pictures), 'picture')} "
            f"and no captions next to them. If {tables[0]}{others} has these, name it: pairs: "
            f"{{path: {tree.folder}, captions: {tables[0]}}}{pattern_words([*map(str, tables)])}."
        )
    if pictures and (texts := tree.of(TEXT_ENDINGS)):
        remedy = f"Give captions the names of their pictures: {picture_key(pictures[0])}.txt."
        if len(texts) <= FEW_TEXTS:
            name = os.path.basename(pictures[0])
            remedy = (
                f"If it has a caption a line, begin each with the picture's name and a tab "
                f"({name}<TAB>a red cup), and name it: pairs: {{path: {tree.folder}, captions: "
                f"{tree.path(texts[0])}}}."
            )
        raise UserError(
            f"pairs: the folder {tree.folder.absolute()} has {count(len(pictures), 'picture')}, "
            f"such as {pictures[0]!r}, and texts of other names, such as {texts[0]!r}. {remedy}"
        )
    sidecars = [one for one in tree.of([SIDECAR_EXTENSION]) if stem_of(one) in beside]
    for path in map(Path, map(tree.path, sidecars[:1])):
        refuse_unreadable(path)
        is_large = path.stat().st_size > MAX_TEXT_BYTES
        if (
            fault := f"has more than {MAX_TEXT_BYTES} bytes"
            if is_large
            else fault_of_json(path.read_bytes())
        ):
            raise UserError(
                f"pairs: {path}, next to a picture, cannot be read as JSON: it {fault}. Write it "
                "again as an object in UTF-8 (iconv -f CP1252 -t UTF-8), or name a table of paths "
                "and captions."
            )
    for path in tried:
        is_table = form_of(path.name) in (*TABLE_ENDINGS, "json")
        if is_table and not header_of(path):  # which raises if it cannot be parsed
            raise UserError(f"pairs: {path} is empty. Write it again, or move it away.")
    if pictures:
        near = [one for one in names if stem_of(one) in beside and one not in {*pictures}]
        remedy = "Name a table of paths and captions: pairs: {path: ..., captions: TABLE}."
        if packed := tree.of(ARCHIVES):
            remedy = f"If {packed[0]} has them, unpack it there."
        if near:
            remedy = f"If {near[0]} and the like are captions, give them the ending .txt."
        raise UserError(
            f"pairs: the folder {tree.folder.absolute()} has {count(len(pictures), 'picture')}, "
            f"such as {pictures[0]!r}, and no captions: neither {picture_key(pictures[0])}.txt "
            f"next to it, nor metadata.csv. {remedy}"
        )
    if shards := tree.of(["tar"]):
        raise UserError(
            f"pairs: the folder {tree.folder.absolute()} has tar shards further below, such as "
            f"{shards[0]}. Name their folder: pairs: {os.path.dirname(tree.path(shards[0]))}."
        )
    raise UserError(
        f"pairs: the folder {tree.folder.absolute()} has no pictures, tar shards, or Parquet files "
        f"with pictures; the first of its {count(len(names), 'file')} is "
        f"{names[0]!r}. Name the folder that has them."
    )


def pattern_words(paths: Sequence[str]) -> str:
    """Return the pattern of tables of one form for a remedy; nothing if they have none.

    Examples
    --------
    >>> pattern_words(["a/captions_1.json", "a/captions_2.json"]), pattern_words(["a/1.csv", "b"])
    (", or all by a pattern: pairs: 'a/captions_*.json'", '')
    >>> pattern_words(["a/test/test.csv", "a/val/val.csv"])
    ", or all by a pattern: pairs: 'a/*/*.csv'"
    """
    endings = {os.path.splitext(path)[1] for path in paths}
    levels = [path.split("/") for path in paths]
    if len(paths) < 2 or len(endings) > 1 or endings == {".txt"} or len({*map(len, levels)}) > 1:
        return ""
    *folders, names = zip(*levels, strict=True)
    parts = [one[0] if len({*one}) == 1 else "*" for one in folders]
    name = names[0] if len({*names}) == 1 else f"{os.path.commonprefix(names)}*{endings.pop()}"  # noqa: RUF071
    return f", or all by a pattern: pairs: '{'/'.join([*parts, name])}'"


def _may_be_table(path: Path, given: Columns) -> bool:
    return _is_readable(path) and is_table(path, given)


def _is_readable(path: Path) -> bool:
    """Return whether a file has the form of a table, by its ending and the start of JSON."""
    form = form_of(path.name)
    return form in (*TABLE_ENDINGS, "txt") or (form == "json" and is_json(path, named=True))
