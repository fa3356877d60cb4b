"""Snakemake's benchmark files: what a job took when it ran."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Benchmark:
    """What a job took.

    Attributes
    ----------
    seconds : float
        Wall time.
    megabytes : float, optional
        Largest resident memory; None where the job was too short to be looked at.
    """

    seconds: float
    megabytes: float | None = None


def read_benchmark(path: Path) -> Benchmark | str | None:
    """Read the benchmark of a job; of several repetitions, the mean time and the largest memory.

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
    return Benchmark(sum(seconds) / len(seconds), max(memory, default=None))


def _number(text: str | None) -> float | None:
    """Return a number that is not negative, or None for ``NA``, ``-`` and the like."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
