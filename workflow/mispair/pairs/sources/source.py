"""A source of pairs: what it is, which pairs it has, and how these are divided among shards.

Sources are read when the configuration is, so nothing here imports a library that takes time.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from mispair.core.files import UserError, refuse_unfetched, write_text
from mispair.core.provenance import SNAKEMAKE, fingerprint
from mispair.core.settings import NONE, Located
from mispair.core.words import count
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS
from mispair.pairs.shards.stores import PROTOCOLS

UNREAD = ("heic", "heif")
"""Endings of pictures that Pillow has no reader for."""
TEXT_ENDINGS = ("txt", "caption")
"""Endings of files with the caption of the picture next to them."""
MOST_SHARDS = 64
"""Largest number of shards that a source is packed into: several rules have a job for each."""
WRITTEN = ("results", "logs", "benchmarks", "reports")
"""Folders that a run writes; its pictures are no pairs."""
OF_SYSTEMS = (
    "__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information",
    "Thumbs.db", "ehthumbs.db", "desktop.ini",
)  # fmt: skip
"""Folders and files that macOS, Windows and NAS drives write next to those of a user."""
FEW = 1000
"""Pairs from which on a source is packed into two shards at least: a job encodes on one core."""
LISTINGS = SNAKEMAKE / "mispair" / "pairs"
"""Folder with the pairs of each shard, as the source was listed at the last start."""


class Named(BaseModel):
    """What a configuration names under `pairs`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Annotated[str, Located()] = Field(
        min_length=1,
        description="A folder of pictures, a table, a JSON file, Parquet files or tar shards.",
    )
    captions: Annotated[str | None, Located(rf"\.({'|'.join(TEXT_ENDINGS)})")] = Field(
        None,
        description="Where the captions of a folder of pictures are, if it has several or they are "
        "elsewhere: a table, COCO's JSON, a folder of texts with the paths of the pictures, or the "
        "ending of files next to the pictures (`.txt`).",
    )
    image_column: str | None = Field(None, description="The column of picture paths, or bytes.")
    caption_column: str | None = Field(None, description="The column of captions.")
    key_column: str | None = Field(
        None, description="The column of keys, which are the paths of pictures by default."
    )

    def flags(self) -> dict[str, str]:
        """Return what is named as options of `pack_pairs`, with `none` for what is not."""
        return {name: value or NONE for name, value in self.model_dump().items()}

    def part(self, group: int, pairs_per_shard: int) -> str:
        """Return a name of the files that one shard is packed from."""
        return f"{self!r} {group} {pairs_per_shard}"


class Entry(NamedTuple):
    """A pair as a source lists it; or, in Parquet with pictures, a file of many pairs."""

    key: str
    """Path without ending, or the table's own."""
    pictures: tuple[str, ...] = ()
    """Paths of files; more than one is a fault of the source."""
    texts: tuple[str, ...] = ()
    """Paths of files that belong to the picture: its caption, and img2dataset's JSON."""
    captions: tuple[str, ...] | None = None
    """Captions of a table."""
    fields: tuple[tuple[str, str], ...] = ()
    """Further texts of a table that the index has columns for, such as the address."""
    pairs: int = 1


@dataclass(frozen=True)
class Source:
    """Pairs that a configuration names, listed.

    Attributes
    ----------
    kind : str
        Name of its kind.
    words : str
        What it is, in one line.
    entries : tuple of Entry
        Its pairs; none for shards, which are read in place.
    tables : tuple of Path
        Files with the captions, apart from those next to pictures.
    boundary : Path or None
        Folder that links must not lead out of.
    columns : tuple of str
        Columns of pictures, captions and keys in Parquet with pictures.
    shards : tuple of Path
        Tar shards that are read in place.
    captions_in : str
        Where packed shards have the captions (``index_shards.caption_from``).
    """

    kind: str
    words: str
    entries: tuple[Entry, ...] = ()
    tables: tuple[Path, ...] = ()
    boundary: Path | None = None
    columns: tuple[str, ...] = ()
    shards: tuple[Path, ...] = ()
    captions_in: str = "txt"

    @cached_property
    def pairs(self) -> int:
        """Number of pairs."""
        return sum(entry.pairs for entry in self.entries)

    @property
    def files(self) -> list[str]:
        """The files whose content the pairs depend on, apart from tables."""
        return [file for entry in self.entries for file in entry.pictures + entry.texts]

    @cached_property
    def stamp(self) -> str:
        """A text that differs if the pairs do, apart from the content of their files."""
        return fingerprint([*map(repr, self.entries), repr((self.boundary, self.columns))])

    def divided(self, pairs_per_shard: int) -> list[Source]:
        """Divide the pairs among shards of at most `pairs_per_shard`, or among `MOST_SHARDS`.

        The shard of a pair depends on its key, and the number of shards is a power of 2: a pair
        that is added or removed changes one shard only, unless the number of shards changes.
        Files of many pairs have a shard each, as far as that makes no more than `MOST_SHARDS`.
        """
        if any(entry.pairs != 1 for entry in self.entries):
            size = math.ceil(len(self.entries) / MOST_SHARDS)
            starts = range(0, len(self.entries), size)
            return [replace(self, entries=self.entries[start : start + size]) for start in starts]
        number = 1 if len(self.entries) < FEW else 2
        while number < MOST_SHARDS and number * pairs_per_shard < len(self.entries):
            number *= 2
        shards: list[list[Entry]] = [[] for _ in range(number)]
        for entry in self.entries:
            data = entry.key.encode("utf-8", "surrogatepass")
            shards[int.from_bytes(hashlib.sha256(data).digest()[:4], "big") % number].append(entry)
        return [replace(self, entries=tuple(sorted(shard))) for shard in shards if shard]


def keep_listings(parts: Sequence[Source]) -> None:
    """Store parts of a source, so that the jobs that pack them need not list the whole source.

    Those of former parts are removed.
    """
    if not SNAKEMAKE.is_dir():
        return
    current = {_listing(part.stamp, Path()): part for part in parts}
    for path in LISTINGS.glob("*.jsonl"):
        if path not in current:
            path.unlink(missing_ok=True)
    for path, part in current.items():
        if not path.is_file():
            boundary = None if part.boundary is None else str(part.boundary)
            facts = [part.kind, part.words, boundary, part.columns, part.captions_in]
            write_text(path, "".join(json.dumps(one) + "\n" for one in (facts, *part.entries)))


def kept_listing(stamp: str, folder: Path = Path()) -> Source | None:
    """Return the stored part of a source that has a stamp, if there is one.

    `folder` is that in which Snakemake runs.
    """
    try:
        with _listing(stamp, folder).open(encoding="ascii") as opened:
            kind, words, boundary, columns, captions_in = json.loads(next(opened))
            entries = tuple(map(_entry, map(json.loads, opened)))
    except OSError:
        return None
    inside = None if boundary is None else Path(boundary)
    return Source(kind, words, entries, (), inside, tuple(columns), (), captions_in)


def _listing(stamp: str, folder: Path) -> Path:
    return folder / LISTINGS / f"{stamp}.jsonl"


def _entry(row: list[Any]) -> Entry:
    key, pictures, texts, captions, fields, pairs = row
    own = None if captions is None else tuple(captions)
    return Entry(key, tuple(pictures), tuple(texts), own, tuple(map(tuple, fields)), pairs)


def picture_key(path: str) -> str:
    """Return the key of a picture: its path without the ending of a picture.

    Examples
    --------
    >>> picture_key("a/b.JPG"), picture_key("a/b.raw"), picture_key("/a/b.heic")
    ('a/b', 'a/b.raw', 'a/b')
    """
    stem, dot, ending = path.rpartition(".")
    is_picture = dot and ending.lower() in (*IMAGE_EXTENSIONS, *UNREAD)
    return (stem if is_picture else path).lstrip("/")


def merged(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Join the entries of one key: several rows of a picture are its captions."""
    by_key: dict[str, Entry] = {}
    for entry in entries:
        former = by_key.get(entry.key)
        if former is not None:
            entry = Entry(
                entry.key,
                tuple(dict.fromkeys(former.pictures + entry.pictures)),
                tuple(dict.fromkeys(former.texts + entry.texts)),
                None
                if former.captions is None and entry.captions is None
                else (former.captions or ()) + (entry.captions or ()),
                former.fields or entry.fields,
            )
        by_key[entry.key] = entry
    return tuple(by_key.values())


OTHER_NAMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
"""Names that other programs have for the stores of `PROTOCOLS`."""


def refuse_address(option: str, path: str) -> None:
    """Refuse an address where a path is expected.

    Raises
    ------
    UserError
        If the path is one.
    """
    if "://" in path:
        scheme = path.partition("://")[0]
        store = OTHER_NAMES.get(scheme.lower(), scheme.lower())
        if option in ("pairs", "PATH") and store in PROTOCOLS and store != scheme:
            raise UserError(f"{option}: {path}: write {store}:// in place of {scheme}://.")
        raise UserError(
            f"{option}: {path} is not on this machine. Fetch it first (img2dataset, `hf download`, "
            "curl), then give its path."
        )


def refuse_unreadable(path: Path) -> None:
    """Refuse a file of captions that cannot be read or was not fetched.

    Raises
    ------
    UserError
        If it cannot.
    """
    try:
        path.open("rb").close()
    except OSError as error:
        raise UserError(
            f"pairs: {path} cannot be read ({error.strerror}). Give read access to it, or move it "
            "away."
        ) from error
    refuse_unfetched(path, setting="pairs")


class AmbiguousCaptionsError(UserError):
    """A folder has captions in several places, which may be the same; `names` has the places."""

    def __init__(self, path: Path, names: Sequence[str], remedy: str):
        super().__init__(
            f"pairs: {path} has captions in {names[0]} and in {names[1]}. Name one of them: "
            f"pairs: {{path: {path}, captions: {names[0]}}}{remedy}."
        )
        self.names = names


def refuse_ambiguous(path: Path, candidates: Iterable[str | Path], remedy: str = "") -> None:
    """Refuse a folder with captions in several places.

    Raises
    ------
    AmbiguousCaptionsError
        Naming two of them.
    """
    names = [str(candidate) for candidate in candidates]
    if len(names) > 1:
        raise AmbiguousCaptionsError(path, names, remedy)


def inside_of(folder: str | Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, sorted.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    try:
        with os.scandir(folder) as opened:
            return sorted(opened, key=lambda entry: entry.name)
    except OSError as error:
        raise UserError(
            f"pairs: the folder {folder} cannot be read ({error.strerror}). Give read access to "
            "it, or move it away."
        ) from error


def is_file(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry of a folder is a file, or a link to one; a loop of links is none."""
    return os.path.isfile(entry.path) if entry.is_symlink() else entry.is_file()


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry of a folder is one, or a link to one; a loop of links is none."""
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()


def boundary_of(folder: Path) -> Path:
    """Return the folder that paths and links must not lead out of: a hub's cache has blobs."""
    for parent in folder.parents:
        if parent.name == "snapshots" and (parent.parent / "blobs").is_dir():
            return parent.parent
    return folder


def is_inside(path: str | Path, folder: str | Path) -> bool:
    """Return whether a path begins with that of a folder; links are not followed."""
    return Path(os.path.abspath(path)).is_relative_to(os.path.abspath(folder))


def links_out(path: str, boundary: Path) -> bool:
    """Return whether a path in a folder leads out of it by a link, of a file or of a folder.

    A path that does not begin with that of the folder was given in full, on purpose.
    """
    parent = os.path.dirname(path)
    if not os.path.islink(path):
        return _leads_out(parent, boundary)
    return is_inside(path, boundary) and not _is_really_inside(path, boundary)


@lru_cache(4096)
def _leads_out(folder: str, boundary: Path) -> bool:
    return is_inside(folder, boundary) and not _is_really_inside(folder, boundary)


def _is_really_inside(path: str, boundary: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(boundary))


def outside_words(outside: Sequence[str], boundary: Path) -> str:
    """Return how many paths of a source lead out of its folder, for its line."""
    if not outside:
        return ""
    return f", {count(len(outside), 'path')} out of {boundary}, such as {outside[0]!r}"


def walk(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the files and links below a folder, sorted; linked folders are not entered.

    Hidden ones are left out, and so is what mispair writes where it runs.

    Raises
    ------
    UserError
        If a folder cannot be read.
    """
    waiting = [str(folder)]
    while waiting:
        inside = inside_of(waiting.pop())
        folders = []
        own = WRITTEN if any(entry.name == SNAKEMAKE.name for entry in inside) else ()
        for entry in inside:
            if entry.name.startswith(".") or entry.name in (*OF_SYSTEMS, *own):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                yield entry
        waiting += reversed(folders)


def is_ending(captions: Any) -> bool:
    """Return whether captions are the ending of files next to pictures, such as `.txt`."""
    return isinstance(captions, str) and captions.removeprefix(".") in TEXT_ENDINGS


def named_of(given: str | Mapping[str, Any] | Named) -> Named:
    """Return what a configuration names under `pairs`, in one form."""
    if isinstance(given, Named):
        return given
    return Named(path=given) if isinstance(given, str) else Named(**given)
