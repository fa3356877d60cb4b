"""What Snakemake compares in place of times: stamps of a user's files, and listings of results."""

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mispair.core import files
from mispair.core.files import UserError, unreadable, write_text
from mispair.core.provenance import SNAKEMAKE, file_digest, fingerprint

# Stamps of a user's own files: short texts that change when the content does.
#
# Snakemake compares times, and a file that was copied or moved over another keeps its time
# (``cp -p``, ``mv``, ``rsync -a``, ``tar -x``). Digests of all shards at each start would take
# hours. So a step stores the digest of a file that it reads, and a file is read again only when its
# size, times or inode differ from the stored ones.

log = logging.getLogger(__name__)

MADE = "results/"
"""Folder of files that rules write: Snakemake tracks their changes."""
DIGESTS = SNAKEMAKE / "mispair" / "digests"
"""Folder with a file for each large file of the user."""
SMALL = 65_536
"""Files of up to this many bytes are digested at each start."""

Entry = dict[str, Any]
"""``state`` and ``sha256`` of a file, and ``first``: its first digest, and the stamp then.

An entry of many files has in ``state`` those of each, with its digest at the end."""


def stamp(paths: Iterable[str]) -> str:
    """Return 16 hexadecimal digits that change when the content of any of a user's files does."""
    return fingerprint(_content(path) for path in paths if not path.startswith(MADE))


def stamp_of_many(name: str, paths: Iterable[str]) -> str:
    """Return a text that changes when the content of any of many small files of the user does.

    They have one entry together, under `name`, which `remember_many` writes.
    """
    paths = [*paths]
    entry = _remembered(Path(name))
    if not entry:
        return fingerprint(_state_at_first(path) for path in paths)
    digest, first = _of_many(Path(name), paths, entry)["sha256"], entry["first"]
    return str(first[1] if digest == first[0] else digest)


def remember_many(name: str, paths: Iterable[str], read: Mapping[str, list[Any]]) -> None:
    """Store the digests of many small files of the user; `read` has those that are known."""
    if SNAKEMAKE.is_dir():
        _of_many(Path(name), [*paths], _remembered(Path(name)), read)


def state_of(status: os.stat_result, content: bytes) -> list[Any]:
    """Return size, times, inode and digest of a file, given its content."""
    return [*file_state(status), hashlib.sha256(content).hexdigest()]


def _of_many(
    name: Path, paths: list[str], entry: Entry, read: Mapping[str, list[Any]] | None = None
) -> Entry:
    """Return the current entry of many files; only those are read whose state has changed."""
    former, read = entry.get("state", {}), read or {}
    # The name of a file may be no UTF-8, which JSON could not hold.
    states = {
        repr(path): read.get(path) or _state_and_digest(path, former.get(repr(path)))
        for path in paths
    }
    if states == former:
        return entry
    if any(states[path][:-1] != former[path][:-1] for path in states.keys() & former.keys()):
        _announce()
    digest = fingerprint(part for path, state in states.items() for part in (path, state[-1]))
    first = entry.get("first") or [
        digest, fingerprint(_state_at_first(path, states[repr(path)]) for path in paths)
    ]  # fmt: skip
    entry = {"state": states, "sha256": digest, "first": first}
    _store(name, entry)
    return entry


def _state_and_digest(path: str, former: list[Any] | None) -> list[Any]:
    """Return size, times, inode and digest of a file; a file that cannot be read has none."""
    try:
        state = file_state(os.stat(path))
        if former is not None and former[:-1] == state:
            return former
        if state[0] > SMALL:
            return [*state, file_digest(Path(path))]
        with open(path, "rb", buffering=0) as opened:
            return [*state, hashlib.sha256(opened.read()).hexdigest()]
    except OSError:
        return [""]


def _state_at_first(path: str, state: Sequence[Any] = ()) -> str:
    """Return the stamp of a file that no step has read yet; `state` is its state, if known."""
    if len(state) < 2:
        try:
            state = file_state(os.stat(path))
        except OSError:
            return repr(path)
    return f"{path!r} {state[0]} {state[1]}"


def file_state(status: os.stat_result) -> list[int]:
    """Return size, times and inode of a file; another file in its place differs in one of them."""
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def remember(path: Path) -> None:
    """Store the digest of a large file of the user that a step is about to read."""
    is_result = not path.is_absolute() and MADE.rstrip("/") in path.parts  # a module has a prefix
    if is_result or not SNAKEMAKE.is_dir() or not path.is_file():
        return
    if path.stat().st_size > SMALL:
        _updated(path, _remembered(path))


@cache
def _content(name: str) -> str:
    path = Path(name)
    if not path.is_file():
        return ""  # Snakemake reports that it is missing
    if path.stat().st_size <= SMALL:
        return file_digest(path)
    entry = _remembered(path)
    if not entry:
        return _first_stamp(path)
    digest, first = _updated(path, entry)["sha256"], entry["first"]
    return str(first[1] if digest == first[0] else digest)


def _updated(path: Path, entry: Entry) -> Entry:
    """Return the current entry of a file; the file is read only if its state has changed."""
    state = file_state(path.stat())
    if entry.get("state") == state:
        return entry
    if entry:
        _announce()
    digest = file_digest(path)
    entry = {
        "state": state,
        "sha256": digest,
        "first": entry.get("first", [digest, _first_stamp(path)]),
    }
    _store(path, entry)
    return entry


def _store(path: Path, entry: Entry) -> None:
    try:
        # Without indentation, which is slow for entries of many files.
        files.write_text(_entry_file(path), json.dumps(entry))
    except (OSError, files.UserError) as error:
        log.warning("%s: its digest could not be stored: %s", path, error)


def _first_stamp(path: Path) -> str:
    """Return the stamp of a file that no step has read, without its machine-dependent inode."""
    status = path.stat()
    return fingerprint([str(status.st_size), str(status.st_mtime_ns)])


def _remembered(path: Path) -> Entry:
    try:
        entry: Entry = json.loads(_entry_file(path).read_text(encoding="utf-8"))
        return entry if entry.keys() == {"state", "sha256", "first"} else {}
    except (OSError, ValueError, AttributeError):
        return {}


def _entry_file(path: Path) -> Path:
    return DIGESTS / f"{fingerprint([path.as_posix()])}.json"


@cache
def _announce() -> None:
    log.warning("Times of large input files changed; their contents are read and compared.")


# Listings of results in the form of ``sha256sum``: digests, and names relative to the listing.
#
# A job that reads thousands of files has their listing as its input, so that Snakemake checks one
# file instead of thousands. The listing changes when the content of any of the files does.

LISTING, MARK = ".sha256", "@"
"""Suffix of a listing, and the prefix of its name on the command line of a step."""


def write_listing(listing: Path, files: Iterable[Path]) -> None:
    """Write the SHA-256 and the name of each file, in the given order."""
    lines = [f"{file_digest(file)}  {os.path.relpath(file, listing.parent)}\n" for file in files]
    write_text(listing, "".join(lines))


def of_ending(files: Iterable[Path], listing: Path) -> list[Path]:
    """Return the files that a listing is for: ``parquet.sha256`` lists each ``NAME.parquet``."""
    return [file for file in files if file.name.partition(".")[2] == listing.stem]


def files_of(listing: Path) -> list[Path]:
    """Return the files of a listing, in its order.

    Raises
    ------
    UserError
        If the listing cannot be read, or one of its files is missing.
    """
    try:
        lines = listing.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(listing, "a listing of files", error) from error
    files = [listing.parent / line.partition("  ")[2] for line in lines]
    if missing := [file for file in files if not file.is_file()]:
        raise UserError(
            f"{listing}: {len(missing)} of its {len(files)} files are missing, the first is "
            f"{missing[0]}. Delete the listing and run again: Snakemake writes the files once more."
        )
    return files


def listing_of(path: object) -> Path | None:
    """Return the listing that an argument of a step names as ``@listing``, or None."""
    is_listing = isinstance(path, Path) and str(path).startswith(MARK)
    return Path(str(path).removeprefix(MARK)) if is_listing else None


def expanded(paths: Iterable[Path]) -> list[Path]:
    """Replace each ``@listing`` among paths by its files."""
    files: list[Path] = []
    for path in paths:
        listing = listing_of(path)
        files += files_of(listing) if listing else [path]
    return files
