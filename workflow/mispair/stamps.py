"""What a user's own files hold, in a few digits, so that a replaced one is noticed.

Snakemake looks at times, and a file that was moved or copied into the place of another keeps its
own (``mv``, ``cp -p``, ``rsync -a``), which may be older than all results.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from mispair.provenance import fingerprint, sampled_digest

MADE = "results/"
"""Where files lie that rules write: of these Snakemake knows when they change."""


def stamp(paths: Iterable[str]) -> str:
    """Return what changes when any of a user's files does, and is the same wherever they lie.

    Of shards the sizes only: there may be thousands, on disks that are slow to seek.
    """
    return fingerprint(_content(path) for path in paths if not path.startswith(MADE))


@cache
def _content(path: str) -> str:
    found = Path(path)
    if not found.is_file():
        return ""  # Snakemake says that it is missing
    return str(found.stat().st_size) if found.suffix == ".tar" else sampled_digest(found)
