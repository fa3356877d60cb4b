"""Listings of results in the form of ``sha256sum``: digests, and names relative to the listing.

A job that reads thousands of files has their listing as its input, so that Snakemake checks one
file instead of thousands. The listing changes when the content of any of the files does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from mispair.core.files import UserError, write_text
from mispair.core.provenance import file_digest

MARK = "@"
"""Prefix of the name of a listing on the command line of a step."""


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
        raise UserError(f"{listing}: cannot be read as a listing of files ({error}).") from error
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
