"""What is at a path under `pairs`, before any kind of source is tried."""

import os
from functools import cached_property
from pathlib import Path

from mispair.core.files import UserError, literal_folder, matches, snapshot
from mispair.pairs.sources import coco, folders, parquet, tables
from mispair.pairs.sources.alike import stem_of
from mispair.pairs.sources.columns import Columns, columns_in
from mispair.pairs.sources.folders import Tree
from mispair.pairs.sources.source import TEXT_ENDINGS, Named, inside_of, is_ending, is_file
from mispair.pairs.sources.table_rows import (
    TABLE_ENDINGS,
    TRIED,
    ending_of,
    form_of,
    is_json,
    is_list,
)

FLICKR = "captions.txt"
ANNOTATIONS = "annotations"
FEW_TABLES = 5
"""Tables further below that are looked into for a message."""


class Place:
    """A path that a configuration names, and what is there.

    Attributes
    ----------
    named : Named
        The configuration.
    path : Path
        A file, a folder or a pattern.
    captions : Path or None
        The table or JSON that is named.
    """

    def __init__(self, named: Named):
        self.named = named
        self.path = Path(os.path.expanduser(named.path))
        given = named.captions
        is_file = given is not None and not is_ending(given)
        captions = Path(os.path.expanduser(str(given)))
        self.captions = captions if is_file and not captions.is_dir() else None

    def with_captions(self, captions: str) -> "Place":
        """Return the same place with captions that are named; its files are not listed again."""
        place = Place(self.named.model_copy(update={"captions": captions}))
        place.files, place.tree = self.files, self.tree
        return place

    @cached_property
    def files(self) -> list[Path]:
        """The file that is named, those of a pattern, or those in a folder but not below."""
        if not os.path.isdir(self.path):
            return [self.path] if os.path.isfile(self.path) else self._matched
        folder = snapshot(self.path)
        inside = [entry for entry in inside_of(folder) if not entry.name.startswith(".")]
        return [Path(entry.path) for entry in inside if is_file(entry)]

    @cached_property
    def _matched(self) -> list[Path]:
        if any(sign in literal_folder(self.named.path)[1] for sign in "*?[{"):
            return [path for path in matches(str(self.path)) if os.path.isfile(path)]
        return []

    @cached_property
    def tree(self) -> Tree | None:
        """All files below a folder, or None if the path is none."""
        return folders.tree_of(self.path) if os.path.isdir(self.path) else None

    def with_ending(self, *endings: str) -> list[Path]:
        """Return those of the files that have one of some endings."""
        return [path for path in self.files if ending_of(path.name) in endings]

    @property
    def tables(self) -> list[Path]:
        """Those of the files that have the ending of a table."""
        return [path for path in self.files if form_of(path.name) in TABLE_ENDINGS]

    @cached_property
    def has_shards(self) -> bool:
        """Whether tar files are the pairs, and not an archive of pictures with captions."""
        has_tar = bool(self.with_ending("tar"))
        return has_tar and not (self.named.captions is not None and self.has_pictures)

    @property
    def has_pictures(self) -> bool:
        """Whether this is a folder with pictures as files."""
        return self.tree is not None and bool(self.tree.pictures)

    @cached_property
    def own_captions(self) -> list[str]:
        """The files in a folder that may hold its captions, apart from texts next to pictures.

        Of several places of captions, those without a caption of several words for a picture in the
        folder are left out, such as lists of labels, and captions of other pictures.
        """
        if self.tree is None:
            return []
        metadata = [Path(self.tree.path(name)) for name in folders.metadata_files(self.tree)[:1]]
        found = [*dict.fromkeys([*metadata, *self.coco_files, *self.table_files])] or self.lists
        others = [*self.endings, *self.with_ending("tar")] if found else []
        if len(found) + len(others) > 1:
            real = [path for path in found if self._holds_captions(path, path in metadata)]
            found = real if others else real or found
        return [*map(str, found)]

    def _holds_captions(self, path: Path, is_metadata: bool) -> bool:
        try:
            folder = path.parent if is_metadata else self.path
            if path in self.coco_files:
                entries = [*coco.of_coco(path, folder).entries]
            else:
                entries = tables.first_entries(path, self.named, folder)
        except UserError:
            return False
        texts = (text for entry in entries if entry.pictures for text in entry.captions or ())
        return any(map(tables.is_caption, texts))

    @cached_property
    def endings(self) -> list[str]:
        """The endings of the captions next to pictures of a folder."""
        named = Named(path=self.named.path)
        texts = None if self.tree is None else folders.with_texts(self.tree, named)
        names = [] if texts is None else [name for entry in texts.entries for name in entry.texts]
        endings = {*map(ending_of, names)}
        return [f".{ending}" for ending in TEXT_ENDINGS if ending in endings]

    @cached_property
    def coco_files(self) -> list[Path]:
        """COCO's captions in a folder, or in a folder `annotations` below."""
        return [path for path in self._json if coco.is_coco(path)]

    @cached_property
    def _json(self) -> list[Path]:
        """JSON in a folder, or in a folder `annotations` below, without the name of a picture."""
        if self.tree is None:
            return []
        paths = [Path(self.tree.path(name)) for name in self.tree.of(["json"])]
        paths = [path for path in paths if path.stem not in self._pictured]
        return [
            one for one in paths if one.parent == self.tree.folder or one.parent.name == ANNOTATIONS
        ]

    @property
    def listed_in_json(self) -> list[Path]:
        """JSON with a column of pictures, which may lack captions."""
        return [path for path in self.objects_in_json if tables.names_pictures(path)]

    @property
    def objects_in_json(self) -> list[Path]:
        """JSON of which some columns may have no usual names."""
        return [path for path in self._json if is_json(path, named=True)]

    @property
    def further_tables(self) -> list[Path]:
        """The first tables and JSON in a folder and below that are not next to a picture."""
        if not self.has_pictures or self.tree is None:
            return []
        paths = [Path(self.tree.path(name)) for name in self.tree.of((*TABLE_ENDINGS, "json"))]
        paths = [path for path in paths if path.stem not in self._pictured][:FEW_TABLES]
        return [one for one in paths if form_of(one.name) != "json" or is_json(one, named=True)]

    @cached_property
    def _pictured(self) -> set[str]:
        """The names of the pictures in a folder and below, with and without their endings."""
        names = [] if self.tree is None else [*map(os.path.basename, self.tree.pictures)]
        return {*names, *map(stem_of, names)}

    @cached_property
    def table_files(self) -> list[Path]:
        """Tables of paths and captions in a folder; of texts, Flickr's only."""
        given = columns_in(self.named)
        named = [path for path in self.files if path.name.lower() == FLICKR]
        json = [path for path in self._json if path not in self.coco_files and is_json(path)]
        candidates = [*self.tables, *named, *json]
        return [
            path for path in candidates
            if (form_of(path.name) == "json" or not path.name.startswith(f"{folders.METADATA}."))
            and tables.is_table(path, given) and not has_bytes(self, [path])
        ]  # fmt: skip

    @cached_property
    def lists(self) -> list[Path]:
        """Texts in a folder with a picture and its caption a line, if it has no other captions."""
        texts = [path for path in self.with_ending("txt")
                 if not (path.stem in self._pictured or folders.is_about(path.stem))]  # fmt: skip
        if len(texts) > TRIED or not self.has_pictures:  # they are captions without a picture
            return []
        found = [
            path
            for path in texts
            if is_list(path, self._pictured) and tables.is_table(path, Columns())
        ]
        return [] if found and self.endings else found


def has_bytes(place: Place, files: list[Path] | None = None) -> bool:
    """Return whether a place, or some of its files, are Parquet with the bytes of pictures."""
    files = place.files if files is None else files
    is_parquet = bool(files) and ending_of(files[0].name) == "parquet"
    return is_parquet and parquet.has_pictures(files[0], place.named)
