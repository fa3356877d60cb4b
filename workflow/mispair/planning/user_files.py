"""The user's own files as inputs of rules: their names are taken as they are, and their times."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

from mispair.core.copied import TOLERANCE
from mispair.core.files import UserError

LITERAL = "mispair-literal"
"""Flag of an input whose braces are no wildcards."""


def time_of_new_files(folder: Path = Path()) -> float:
    """Return the time that a file gets which is written now, by the clock of the folder's disk."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(b"0")
        probe.flush()
        return os.fstat(probe.fileno()).st_mtime


def refuse_dated_ahead(paths: Iterable[str], now: float) -> None:
    """Refuse files that are dated later than files that jobs write.

    Snakemake deletes an output that is older than one of its inputs.

    Raises
    ------
    UserError
        With the first such file, and how far it is ahead.
    """
    for path in map(Path, map(os.path.abspath, paths)):
        try:
            ahead = max(path.stat().st_mtime, path.lstat().st_mtime) - now
        except OSError:
            continue  # Snakemake reports that it is missing
        if ahead > TOLERANCE:
            named = shlex.quote(str(path))
            raise UserError(
                f"{path}: is dated {timedelta(seconds=round(ahead))} (hours:minutes:seconds) ahead "
                "of this machine's clock, so all results made from it would count as outdated and "
                f"be deleted. Correct the clock, or date the file now: touch -h {named} and "
                f"touch {named}."
            )


def take_literally() -> Callable[[str], str]:
    """Return a function that marks a path whose braces are no wildcards.

    Snakemake has no escape for braces in inputs, so the function that fills in wildcards leaves
    marked paths as they are.
    """
    from snakemake import io

    fill_in = io.apply_wildcards

    def fill_in_unmarked(pattern: Any, wildcards: Any) -> Any:
        return pattern if io.is_flagged(pattern, LITERAL) else fill_in(pattern, wildcards)

    io.apply_wildcards = fill_in_unmarked
    return lambda path: io.flag(path, LITERAL) if "{" in path else path
