"""Stamps of a user's own files: short texts that change when the content does.

Snakemake compares times, and a file that was copied or moved over another keeps its time (``cp
-p``, ``mv``, ``rsync -a``, ``tar -x``). Digests of all shards at each start would take hours. So a
step stores the digest of a file that it reads, and a file is read again only when its size, times
or inode differ from the stored ones.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from mispair.core import files
from mispair.core.provenance import file_digest, fingerprint

log = logging.getLogger(__name__)

MADE = "results/"
"""Folder of files that rules write: Snakemake tracks their changes."""
SNAKEMAKE = Path(".snakemake")
DIGESTS = SNAKEMAKE / "mispair" / "digests"
"""Folder with a file for each large file of the user."""
SMALL = 65_536
"""Files of up to this many bytes are digested at each start."""

Entry = dict[str, Any]
"""``state`` and ``sha256`` of a file, and ``first``: its first digest, and the stamp then."""


def stamp(paths: Iterable[str]) -> str:
    """Return 16 hexadecimal digits that change when the content of any of a user's files does."""
    return fingerprint(_content(path) for path in paths if not path.startswith(MADE))


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
    status = path.stat()
    state = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
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
    try:
        files.write_json(_entry_file(path), entry)
    except (OSError, files.UserError) as error:
        log.warning("%s: its digest could not be stored: %s", path, error)
    return entry


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
