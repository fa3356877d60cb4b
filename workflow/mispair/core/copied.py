"""Results in a copied folder: a copy has new times, and its bytes decide what runs again.

Snakemake runs a job again if an input is newer than an output. It compares the bytes of small
files only. A copy (``cp -r``, ``scp``, an object store) gives all files new times, in any order.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mispair.core import files, run_record
from mispair.core.reuse import FOLDER

PLACE = Path(".snakemake") / "mispair-place"
"""Names the folder that it is in; in a copy it names another one."""

TOLERANCE = 1.0
"""Seconds that a file may be dated ahead: every job takes longer."""
SECOND = 1_000_000_000
"""In nanoseconds."""


def restore_times(
    results: Path = Path("results"),
    others: Sequence[Path] = (Path("logs"), Path("benchmarks"), Path("reports")),
    report: Path = Path("reports/run.json"),
    place: Path = PLACE,
    now: float | None = None,
) -> int:
    """Give files in a copied folder times by which only what has changed runs again.

    All files get the time of the newest one, but none later than `now`. Outputs whose record names
    other bytes of an input get an earlier one, and so do all pages of the report if it was made of
    other results. Ends at once in a folder that is not a copy.

    Returns
    -------
    int
        Number of files whose time was set.
    """
    place.parent.mkdir(exist_ok=True)
    here = f"{place.parent.resolve()} {place.parent.stat().st_ino}"
    if place.exists() and place.read_text() == here:
        return 0
    agrees = cache(lambda name, facts: run_record.agrees(run_record.local_path(name), dict(facts)))

    def same(listed: Mapping[str, Mapping[str, Any]]) -> bool:
        return all(
            agrees(name, tuple(facts.items()))
            for name, facts in listed.items()
            if Path(name).is_relative_to(results)
        )

    result_files = _results(results)
    outdated: set[Path] = set()
    for path in result_files:
        record = _read(path, run_record.read) if path.name.endswith(run_record.ENDING) else {}
        if record and not same(record["inputs"]):
            outdated |= {Path(name) for name in record["outputs"]}
    reported = _read(report, files.read_json).get(run_record.RECORD, {}).get("results")
    pages = [path for folder in others for path in folder.rglob("*") if path.is_file()]
    if reported is None or outdated or not same(reported):
        outdated |= {path for path in pages if path.is_relative_to(report.parent)}
    latest = [] if now is None else [int(now * SECOND)]
    time = min(
        [max((path.stat().st_mtime_ns for path in [*result_files, *pages]), default=0), *latest]
    )
    for path in [*result_files, *pages]:
        own = time - SECOND if path in outdated else time
        os.utime(path, ns=(own, own))
    files.write_text(place, here)
    return len(result_files) + len(pages)


def date_back(now: float, folder: Path = Path("results")) -> int:
    """Give files that are dated ahead of the clock its time; return how many.

    Snakemake deletes an output that is older than one of its inputs. The results of a machine whose
    clock was wrong would be such inputs of all further jobs.

    Parameters
    ----------
    now : float
        Time of a file that is written now.
    """
    latest = now + TOLERANCE
    ahead = [path for path in _results(folder) if path.stat().st_mtime > latest]
    for path in ahead:
        os.utime(path, (now, now))
    return len(ahead)


def _results(folder: Path) -> list[Path]:
    """Return the files of results, each once: parts for later jobs are further names of them."""
    paths = (path for path in folder.rglob("*") if path.parent.name != FOLDER)
    return [path for path in paths if path.is_file()]


def _read(path: Path, reader: Any) -> dict[str, Any]:
    """Return a record, or an empty one if there is none that can be read."""
    try:
        content = reader(path)
    except (files.UserError, OSError):
        return {}
    return content if isinstance(content, dict) else {}
