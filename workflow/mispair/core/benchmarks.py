"""Snakemake's benchmark files: what each job took when it ran."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PEAK = re.compile(r"its peak memory was (\d+) MB")
MIB = 2**20
"""What Snakemake's benchmarks call MB."""


@dataclass(frozen=True)
class Benchmark:
    """Wall time of a job, and its largest resident memory (None: it was too short to measure)."""

    seconds: float
    megabytes: float | None = None


def texts_of(folder: Path) -> dict[str, str]:
    """Return the text of every benchmark file by its path below a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.tsv"))
    }


def rows_by_step(texts: Mapping[str, str]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the step and the numbers of each run of a job (`texts_of`).

    The first part of a path names the step. Numbers that are missing are NaN.
    """
    for path, text in texts.items():
        step = path.replace("\\", "/").split("/")[0].removesuffix(".tsv")
        for row in rows_of(text):
            yield step, row


def rows_of(text: str) -> list[dict[str, float]]:
    """Return wall time, memory and processor time of each run in a benchmark file."""
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter="\t")
    return [
        {name: _number(row.get(name)) for name in ("s", "max_rss", "cpu_time")} for row in table
    ]


def _number(text: str | None) -> float:
    """Return a finite number that is not negative, or NaN for ``NA``, ``-`` and the like."""
    try:
        value = float(text or "")
    except ValueError:
        return math.nan
    return value if math.isfinite(value) and value >= 0 else math.nan


def read_benchmark(path: Path, log: Path | None = None) -> Benchmark | str | None:
    """Read the benchmark of a job: the mean time and the largest memory of its repetitions.

    Parameters
    ----------
    path : Path
        Snakemake's file.
    log : Path, optional
        The job's log with the peak memory that the step measured: a job of a second ends before
        Snakemake measures it.

    Returns
    -------
    Benchmark, str or None
        None if there is no file; a message if it cannot be read.
    """
    try:
        rows = rows_of(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        return f"{path}: cannot be read ({error}); left out"
    seconds, memory = (
        [row[name] for row in rows if math.isfinite(row[name])] for name in ("s", "max_rss")
    )
    if not seconds or len(seconds) < len(rows):
        return f"{path}: holds no time in its column s; left out"
    if log is not None and log.is_file():
        peaks = PEAK.findall(log.read_text(encoding="utf-8", errors="replace"))
        memory += [float(number) * 1e6 / MIB for number in peaks[-1:]]
    return Benchmark(sum(seconds) / len(seconds), max(memory, default=None))
