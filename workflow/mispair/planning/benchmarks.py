"""Snakemake's benchmark files: what a job took when it ran."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from pathlib import Path

PEAK = re.compile(r"its peak memory was (\d+) MB")
MIB = 2**20
"""What Snakemake's benchmarks call MB."""

OFTEN, OFTEN_UNTIL, SELDOM = 0.5, 15, 30
"""Seconds between two looks of Snakemake's at a job, until this time, and after it."""


@dataclass(frozen=True)
class Benchmark:
    """What a job took.

    Attributes
    ----------
    seconds : float
        Wall time.
    megabytes : float, optional
        Largest resident memory; None where the job was too short to be looked at.
    processor_seconds : float, optional
        Processor time of all its threads, about: the job is looked at every half second at first,
        and what it took since the last look is added.
    """

    seconds: float
    megabytes: float | None = None
    processor_seconds: float | None = None


def read_benchmark(path: Path, log: Path | None = None) -> Benchmark | str | None:
    """Read the benchmark of a job; of several repetitions, the mean time and the largest memory.

    Parameters
    ----------
    path : Path
        Snakemake's file.
    log : Path, optional
        The job's log, in which a step says its own peak of memory: a job of a second has ended
        before Snakemake looks at it.

    Returns
    -------
    Benchmark, str or None
        None if there is no file; a complaint if it cannot be read.
    """
    try:
        with path.open(newline="", encoding="utf-8") as opened:
            rows = list(csv.DictReader(opened, delimiter="\t"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        return f"{path}: cannot be read ({error}); left out"
    seconds = [value for row in rows if (value := _number(row.get("s"))) is not None]
    if not seconds or len(seconds) < len(rows):
        return f"{path}: holds no time in its column s; left out"
    memory = [value for row in rows if (value := _number(row.get("max_rss"))) is not None]
    if log is not None and log.is_file():
        peaks = PEAK.findall(log.read_text(encoding="utf-8", errors="replace"))
        memory += [float(number) * 1e6 / MIB for number in peaks[-1:]]
    times = [value for row in rows if (value := _number(row.get("cpu_time"))) is not None]
    mean = sum(seconds) / len(seconds)
    processor = _whole(sum(times) / len(times), mean) if times else None
    return Benchmark(mean, max(memory, default=None), processor)


def _whole(seen: float, seconds: float) -> float | None:
    """Add to processor time what a job took since the last look, at its mean pace until then."""
    last = seconds - seconds % OFTEN
    if seconds > OFTEN_UNTIL:
        last = OFTEN_UNTIL + (seconds - OFTEN_UNTIL) // SELDOM * SELDOM
    return seen * seconds / last if seen and last else None


def _number(text: str | None) -> float | None:
    """Return a number that is not negative, or None for ``NA``, ``-`` and the like."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
