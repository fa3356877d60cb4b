"""What a path under `pairs` is: one declaration for each kind of source."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mispair.core.files import UserError, if_of_hub
from mispair.core.words import count
from mispair.pairs.captions.json_rows import start_of_json
from mispair.pairs.captions.key_lists import naming
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS
from mispair.pairs.shards.sources import resolve_shards
from mispair.pairs.shards.stores import is_remote
from mispair.pairs.sources import coco, folders, parquet, tables
from mispair.pairs.sources.columns import columns_in
from mispair.pairs.sources.first_captions import have_same_captions
from mispair.pairs.sources.place import FLICKR, Place, has_bytes
from mispair.pairs.sources.source import (
    TEXT_ENDINGS,
    AmbiguousCaptionsError,
    Named,
    Source,
    is_ending,
    named_of,
    refuse_address,
    refuse_ambiguous,
    refuse_unreadable,
)
from mispair.pairs.sources.table_rows import TABLE_ENDINGS, ending_of, form_of, header_of, is_json
from mispair.pairs.sources.without_captions import pattern_words, refuse_without_captions


@dataclass(frozen=True)
class Kind:
    """A kind of source: its name, what it is, and how it is recognised and listed.

    Attributes
    ----------
    name : str
        As in logs and in `Source.kind`.
    what : str
        What a user has, for the documentation.
    recognise : callable
        Returns the source at a place, or None if it is none of this kind.
    """

    name: str
    what: str
    recognise: Callable[[Place], Source | None]


UNREAD_TABLES = (
    (("xls", "xlsx", "ods", "numbers"), "a spreadsheet",
     "Save its table of paths and captions as CSV in UTF-8, next to the pictures."),
    (("db", "sqlite", "sqlite3", "mdb"), "a data base",
     "Write its paths and captions as CSV in UTF-8, next to the pictures."),
    (("arrow",), "a file of Hugging Face's `save_to_disk`", "Write it as Parquet, in Python: "
     "datasets.load_from_disk(FOLDER).to_parquet('pairs.parquet'), for each split."),
    (("feather",), "a Feather file", "Write it as Parquet, in Python: "
     "pandas.read_feather(FILE).to_parquet('pairs.parquet')."),
)  # fmt: skip
"""Endings of files of captions that are not read, what they are, and the remedy."""
UNREAD_TEXTS = (
    (("yaml", "yml"), "YAML", "If it has captions, write it as JSON of the same name: python -c "
     "'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout, default=str)' "
     "< FILE.yaml > FILE.json."),
    (("xml", "toml"), "a text of another form", "If it has captions, write them as NAME.txt next "
     "to each picture, or as CSV."),
)  # fmt: skip
"""Those of texts that may be settings: in a folder, only if it has no other texts."""
UNREAD_FORMS = (
    (("zip", "7z", "rar", "tgz", "gz", "bz2", "xz", "zst"), "an archive",
     "Unpack it, then give the folder, or the table."),
    (("h5", "hdf5", "pkl", "npy", "npz", "lance", "tfrecord", "tfrecords", "mds", "beton", "rec"),
     "a store of arrays or rows", "Write its pairs as Parquet, with the bytes of pictures in a "
     "column image, or as files."),
    (("svg", "cr2", "cr3", "nef", "arw", "dng", "psd", "eps", "pdf", "jxl"), "a picture of "
     "another format", "Convert the pictures to JPEG or PNG."),
    (("mp4", "webm", "mov", "avi", "mkv"), "a video", "Write frames of it as JPEG."),
)  # fmt: skip
"""Those of other files, which are no captions of a folder with pictures."""


def _shards(place: Place) -> Source | None:
    is_pattern = "{" in place.named.path and not place.files and place.tree is None
    if not place.has_shards and not is_pattern:
        return None
    _refuse_pictures_and_shards(place)
    _refuse_columns(place, "tar shards")
    if place.named.captions is not None:
        raise UserError(
            "pairs.captions: tar shards have captions of their own. Name a table of key and "
            "caption by the key `captions` at the left."
        )
    try:
        shards = resolve_shards(place.named.path)
    except UserError as error:
        raise UserError(str(error).replace("shards:", "pairs:", 1)) from error
    if not any(ending_of(path.name) == "tar" for path in shards):
        return None
    return Source("shards", count(len(shards), "tar shard"), shards=tuple(shards))


def _coco(place: Place) -> Source | None:
    if place.captions is not None:
        folder = place.path
        if not coco.is_coco(place.captions):
            return None
        _refuse_columns(place, "COCO's JSON")
        return coco.of_coco(place.captions, folder)
    if place.tree is None:
        if not (len(place.files) == 1 and coco.is_coco(place.files[0])):
            return None
        _refuse_columns(place, "COCO's JSON")
        return coco.of_coco(place.files[0], None)
    if place.named.captions is not None:
        return None
    files = [path for path in place.coco_files if str(path) in place.own_captions]
    if not files:
        return None
    _refuse_several(place)
    return coco.of_coco(files[0], place.path)


def _imagefolder(place: Place) -> Source | None:
    if place.tree is None or (place.named.captions is not None and place.captions is None):
        return None
    if place.captions is not None:
        name = os.path.relpath(os.path.realpath(place.captions), os.path.realpath(place.path))
        is_metadata = name in folders.metadata_files(place.tree, name)
        return folders.with_metadata(place.tree, [name], place.named) if is_metadata else None
    metadata = folders.metadata_files(place.tree)
    if not metadata or place.tree.path(metadata[0]) not in place.own_captions:
        return None
    _refuse_several(place)
    return folders.with_metadata(place.tree, metadata, place.named)


def _table(place: Place) -> Source | None:
    if place.captions is not None:
        if form_of(place.captions.name) not in (*TABLE_ENDINGS, "txt"):
            _refuse_forms(place)
            _refuse_other_json(place.captions)
        return tables.of_tables([place.captions], place.path, place.named)
    if place.tree is None:
        files = place.files
        if not files or has_bytes(place):
            return None
        if not all(
            form_of(one.name) in (*TABLE_ENDINGS, "txt") or is_json(one, named=True)
            for one in files
        ):
            return None
        return tables.of_tables(files, None, place.named)
    if place.named.captions is not None:
        return None
    files = [*place.table_files, *place.lists]
    files = [path for path in files if str(path) in place.own_captions]
    if not files:
        return None
    _refuse_several(place)
    return tables.of_tables(files[:1], place.path, place.named)


def _refuse_no_json(path: Path) -> None:
    """Refuse a file with the ending of JSON and other content, with the reason."""
    if form_of(path.name) == "json" and not start_of_json(path).startswith((b"[", b"{")):
        header_of(path)


def _refuse_other_json(path: Path) -> None:
    """Refuse a file that is no table."""
    _refuse_no_json(path)
    if not is_json(path, named=True):
        raise UserError(
            f"pairs.captions: {path} is no table of paths and captions. Give CSV, TSV, JSONL, "
            "Parquet, a list of objects in JSON, or COCO's captions_*.json; COCO's files of "
            "instances and of keypoints have none."
        )


def _folder(place: Place) -> Source | None:
    if place.tree is None or place.captions is not None:
        return None
    source = folders.with_texts(place.tree, place.named)
    if source is not None:
        _refuse_columns(place, "a folder with a caption next to each picture")
    return source


def _objects(place: Place) -> Source | None:
    if place.tree is None or place.named.captions is not None:
        return None
    return folders.with_objects(place.tree, place.named)


def _tables_below(place: Place) -> Source | None:
    """Return the pairs of tables of one name in subfolders, next to their pictures."""
    if place.tree is None or place.named.captions is not None:
        return None
    names = place.tree.of((*TABLE_ENDINGS, "txt"))
    below = [Path(place.tree.path(name)) for name in names if "/" in name]
    given = columns_in(place.named)
    below = [path for path in below
             if form_of(path.name) in TABLE_ENDINGS or path.name.lower() == FLICKR]  # fmt: skip
    if not below or len({path.name for path in below}) > 1:
        return None
    if not all(tables.is_table(path, given) for path in below):
        return None
    source = tables.of_tables(below, None, place.named)
    return replace(source, kind="tables")


def _parquet(place: Place) -> Source | None:
    files = place.with_ending("parquet")
    if place.tree is not None and not files:
        files = [Path(place.tree.path(name)) for name in place.tree.of(["parquet"])]
    if not files or place.named.captions is not None:
        return None
    return parquet.of_parquet(files, place.named) if has_bytes(place, files) else None


def _table_of_any_column(place: Place) -> Source | None:
    """Return the pairs of a folder's table whose column of paths has no usual name."""
    if place.tree is None or place.captions is not None or not place.has_pictures:
        return None
    chosen = {}
    for path in place.tables + place.objects_in_json:
        named = tables.with_pictures(path, place.named, place.path)
        if named is not None and tables.is_table(path, columns_in(named)):
            chosen[path] = named
    refuse_ambiguous(place.path, chosen)
    return next((tables.of_tables([one], place.path, of) for one, of in chosen.items()), None)


KINDS = (
    Kind("shards", "webdataset tar shards, read in place", _shards),
    Kind("coco", "COCO's captions JSON and its folder of pictures", _coco),
    Kind("imagefolder", "a folder with metadata.csv, .jsonl or .parquet", _imagefolder),
    Kind("table", "a CSV, TSV, JSONL or Parquet table of paths and captions", _table),
    Kind("folder", "a folder of pictures with NAME.txt or NAME.caption next to each", _folder),
    Kind("parquet", "Parquet files with the bytes of pictures", _parquet),
    Kind("tables", "a folder with tables of one name in its subfolders", _tables_below),
    Kind("objects", "a folder of pictures with NAME.json next to each", _objects),
)
"""All kinds, in the order in which they are tried."""


def names_shards(path: str) -> bool:
    """Return whether a path, a folder or a pattern names tar shards."""
    return path.endswith(".tar") or is_remote(path) or Place(named_of(path)).has_shards


@naming("pairs", *(f"pairs.{name}" for name in Named.model_fields))
def recognise(given: str | Mapping[str, Any] | Named) -> Source:
    """Return the source of pairs that a configuration names, recognised by its content, listed.

    Parameters
    ----------
    given : str, mapping or Named
        A path, or what `Named` has.

    Raises
    ------
    UserError
        If it is of no kind, has captions in several places, or lacks a named column.
    """
    place = Place(named_of(given))
    try:
        return _recognised(place)
    except AmbiguousCaptionsError as error:
        if source := _if_alike(place, error.names):
            return source
        raise


def _if_alike(place: Place, names: Sequence[str]) -> Source | None:
    """Return the pairs with captions of the first of several places if all have the same ones."""
    if place.named.captions is not None:
        return None
    try:
        sources = [_recognised(place.with_captions(name)) for name in names]
    except UserError:
        return None
    if not have_same_captions(sources):
        return None
    words = f"{sources[0].words}, the same as in {' and '.join(names[1:])}"
    return replace(sources[0], words=words)


def _recognised(place: Place) -> Source:
    _refuse_what_is_not_there(place)
    for kind in KINDS:
        if source := kind.recognise(place):
            if not source.shards and not source.pairs:
                raise UserError(f"pairs: {place.path.absolute()} has no row. Fetch it again.")
            return source
    if source := _table_of_any_column(place):
        return source
    _refuse_unusual_columns(place)
    _refuse_forms(place)
    for path in place.files if place.tree is None else ():
        _refuse_no_json(path)
    if place.tree is not None:
        refuse_without_captions(place.tree, columns_in(place.named))
    raise UserError(
        f"pairs: {place.path.absolute()} is no source of pairs. Give one of: "
        f"{'; '.join(kind.what for kind in KINDS)}."
    )


def _refuse_unusual_columns(place: Place) -> None:
    """Refuse a table of which a column has no usual name; further below, if it has pictures."""
    certain, folder = place.tables + place.listed_in_json, place.path if place.tree else None
    for table in certain + place.further_tables:
        named = tables.with_pictures(table, place.named, folder)
        if named or table in certain:
            given = columns_in(named or place.named)
            tables.chosen_columns(table, header_of(table), given)


def _refuse_what_is_not_there(place: Place) -> None:
    path = place.named.path
    refuse_address("pairs", path)
    if any("\ud800" <= character <= "\udfff" for character in path):
        raise UserError(f"pairs: the path {path!r} is not UTF-8. Rename the folder.")
    if place.captions is not None and not os.path.isfile(place.captions):
        raise UserError(f"pairs.captions: there is no file {place.captions.absolute()}.")
    captions = place.named.captions
    is_folder = captions is not None and not is_ending(captions) and place.captions is None
    if is_folder and (place.tree is None or place.tree.inside(str(captions)) is None):
        above = os.path.commonpath([*map(os.path.abspath, (path, str(captions)))])
        raise UserError(
            f"pairs.captions: {captions} is a folder outside of {path}. Give the folder that has "
            f"both: pairs: {{path: {above}, captions: {captions}}}."
        )
    if not place.files and place.tree is None and "{" not in path:
        hint = "" if place.path.suffix else if_of_hub(path, "dataset")
        raise UserError(
            f"pairs: {place.path.absolute()} matches no file and no folder. Relative paths in a "
            f"--configfile start at the folder of that file.{hint}"
        )
    for named in (*(place.files if place.tree is None else ()), *filter(None, [place.captions])):
        refuse_unreadable(named)
    if pictures := place.with_ending(*IMAGE_EXTENSIONS) if place.tree is None else []:
        raise UserError(
            f"pairs: {path} names {count(len(pictures), 'picture')}, such as "
            f"{pictures[0].name!r}. Give the folder that has them and their captions, "
            f"{pictures[0].parent}."
        )


def _refuse_forms(place: Place) -> None:
    """Refuse files of a form that is not read; in a folder with pictures, tables alone."""
    tree = place.tree
    if tree is not None and not place.has_pictures and tree.of(["tar"]):
        return  # DataComp's shards have arrays of scores in a folder next to theirs
    has_texts = tree is not None and tree.of((*TEXT_ENDINGS, *TABLE_ENDINGS, "json"))
    forms = UNREAD_TABLES + (() if has_texts else UNREAD_TEXTS)
    for endings, what, remedy in forms + (() if place.has_pictures else UNREAD_FORMS):
        inside = place.files if tree is None else [Path(tree.path(one)) for one in tree.of(endings)]
        inside = [place.captions] if place.captions else inside
        if files := [path for path in inside if ending_of(path.name) in endings]:
            raise UserError(f"pairs: {files[0]} is {what}, which mispair does not read. {remedy}")


def _refuse_columns(place: Place, what: str) -> None:
    """Refuse names of columns for a source that has none."""
    given = place.named.model_dump()
    named = [name for name in ("image_column", "caption_column", "key_column") if given[name]]
    if named:
        raise UserError(
            f"pairs.{named[0]}: {place.path} is {what}, which has no columns. Leave it out."
        )


def _refuse_several(place: Place) -> None:
    """Refuse a folder with captions in several tables, or in one and next to pictures."""
    together = "" if place.endings else pattern_words(place.own_captions)
    refuse_ambiguous(place.path, [*place.own_captions, *place.endings], together)


def _refuse_pictures_and_shards(place: Place) -> None:
    """Refuse a folder with tar files and with pictures that have captions."""
    captions = place.has_pictures and [*place.own_captions, *place.endings]
    if captions:
        raise UserError(
            f"pairs: {place.path} has tar files, such as {place.with_ending('tar')[0].name}, and "
            f"pictures with captions in {captions[0]}. Name one of them: pairs: {{path: "
            f"{place.path}, captions: {captions[0]}}}, or pairs: {place.path / '*.tar'}."
        )
