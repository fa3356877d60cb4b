"""Pictures that a table names: the folder that has them, and their paths and keys."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote

from mispair.core.files import UserError
from mispair.core.settings import option
from mispair.core.words import composed, count
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS
from mispair.pairs.sources.source import (
    Entry,
    boundary_of,
    is_folder,
    is_inside,
    links_out,
    outside_words,
    picture_key,
)
from mispair.pairs.sources.table_rows import ending_of

LONGEST_PATH = 4096
_BASE64 = re.compile(r"data:image/|(/9j/|iVBORw0KGgo|UklGR|R0lGOD)[\w+/]{200}")
"""Start of a picture in base64."""
_FILE = re.compile(r"^file:(?://(?:localhost)?)?(?=/)")
"""Start of an address of a file on this machine."""
_OF_THE_WEB = re.compile(r"(?:https?|ftp)://")
"""Start of an address whose path need not be that of a file here, as one of a store (s3://) is."""
SURE = 0.9
"""Share of the first pictures that must be there, each of its own, if not at their paths."""
ARCHIVES = ("zip", "7z", "rar", "tgz", "gz", "bz2", "xz", "zst", "tar")
MOST_LEVELS = 64
"""Folders of a path that are dropped at most, one after another, to find its picture."""

MOST_FOLDERS = 500
"""Folders further below in which these pictures are looked for."""


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
    spread : sequence of Path
        Further folders, in one of which a picture may be that has no other path than its name.

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
        spread: Sequence[Path] = (),
    ):
        self.folder = folder
        self.boundary = boundary
        self.root = root or folder
        self.dropped = dropped
        self.by_name = by_name
        self.spread = spread
        self.refused: list[str] = []
        self.linked: list[str] = []
        self._is_inside = is_inside(folder, boundary)
        self._names: dict[str, tuple[set[str], dict[str, str]]] = {}

    def within(self, boundary: Path, root: Path | None = None) -> Pictures:
        """Return the same pictures with another boundary and root, none of them looked up."""
        return Pictures(self.folder, boundary, root, self.dropped, self.by_name, self.spread)

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
        ways = (path, bare, with_slashes(bare), unquote(_FILE.sub("", bare)))
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
        return self._by_form.get(composed(bare))

    @cached_property
    def _by_form(self) -> dict[str, str]:
        """The files of further folders by their names, with and without ending, if one has it."""
        files = [
            (name, os.path.join(one, name)) for one in self.spread for name in self._in(one)[0]
        ]
        forms = [(form, path) for name, path in files
                 for form in {composed(name), composed(picture_key(name))}]  # fmt: skip
        times = Counter(form for form, _ in forms)
        return {form: path for form, path in forms if times[form] == 1}

    def key(self, path: str, found: str | None) -> str:
        """Return the key of a picture that a table names: its path relative to the root.

        A picture outside has its path as the table has it.
        """
        path = self._shortened(path)
        whole = os.path.normpath(found or os.path.join(self.folder, path))
        root = os.path.join(os.path.normpath(self.root), "")
        inside = whole.startswith(root)
        return picture_key(whole.removeprefix(root) if inside else os.path.normpath(path))

    def _in(self, folder: str | Path) -> tuple[set[str], dict[str, str]]:
        folder = str(folder)
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
    without case and ending, if not `is_exact`. If that folder has only some of them, the others may
    be in folders next to it and below. Relative paths and links must stay in `boundary`: by
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
    is_sought = images and not found and not is_exact and not _OF_THE_WEB.match(images[0])
    for dropped, by_name in ways if is_sought else []:
        best, found = _most(path, images, starts, dropped, by_name)
        if len({*found}) >= SURE * len({*images}):  # no two names are one picture
            break
        found = []
    if 0 < len(found) < SURE * len(images) and not is_exact:  # each in a folder of a class or split
        for start in starts:
            below = [*_folders_in(start), *_folders_below(start)]
            spread = Pictures(start, Path("/"), spread=below)
            inside = [*filter(None, map(spread.find, images))]
            if len({*inside}) >= SURE * len({*images}):
                best, found = spread, inside
                break
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
        with os.scandir(folder) as opened:
            return sorted(Path(entry.path) for entry in opened if is_folder(entry))
    except (OSError, ValueError):
        return []


def _common_starts(images: Sequence[str]) -> list[str]:
    """Return the folders that all paths begin with, the uppermost first; `MOST_LEVELS` at most.

    Examples
    --------
    >>> _common_starts(["/data/a/1.jpg", "/data/a/2.jpg"]), _common_starts(["1.jpg"])
    (['/', '/data/', '/data/a/'], [])
    """
    paths = map(with_slashes, images)
    parts = [path.split("/")[:-1] for path in paths]
    shared = [*takewhile(lambda names: len({*names}) == 1, zip(*parts, strict=False))]
    return [
        "/".join(names[0] for names in shared[: end + 1]) + "/"
        for end in range(min(len(shared), MOST_LEVELS))
    ]


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


def elsewhere(pictures: Pictures, path: Path) -> str:
    """Return where the pictures of a table are, if not at its paths, for a sentence."""
    words = f" in {pictures.folder}" * (pictures.folder != path.parent)
    words += f", paths without {pictures.dropped!r}" * bool(pictures.dropped)
    words += ", each in one of its folders" * bool(pictures.spread)
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


def _not_there(path: Path, images: Sequence[str], start: Path) -> str:
    """Return why none of the first pictures of a table is found."""
    if "://" in images[0]:
        return addresses_words(path, images[0])
    if len(images[0]) > LONGEST_PATH or _BASE64.match(images[0]):
        return (
            f"pairs: {path} has texts of {len(images[0]):,} characters where paths of pictures are "
            "expected. Pictures in base64 are not read: decode them into a column of bytes."
        )
    try:
        archives = sorted(one for one in os.listdir(start) if ending_of(one) in ARCHIVES)
    except OSError:
        archives = []
    remedy = f"Name their folder, pairs: {{path: FOLDER, captions: {path}}}, or another column of "
    remedy += f"this table, by {option('image_column')}."
    if archives:
        remedy = f"If they are in {archives[0]}, unpack it there."
    return (
        f"pairs: none of the first {len(images)} pictures of {path}, such as "
        f"{images[0]!r:.300}, is below {start.absolute()}. {remedy}"
    )


def addresses_words(path: Path, where: str) -> str:
    """Return why a table of addresses of pictures cannot be used: `where` is one, or a column."""
    return (
        f"pairs: {path} has addresses of pictures ({where}) and no column of paths. Fetch the "
        "pictures first: img2dataset --url_list TABLE --output_format webdataset. If the pictures "
        "are here, name the column of their names: pairs.image_column."
    )
