"""Processor time of a job from its benchmark: on a busy machine the wall time is too long."""

from pathlib import Path

from mispair.core.cost import rows_of

OFTEN, OFTEN_UNTIL, SELDOM = 0.5, 15, 30
"""Seconds between Snakemake's measurements of a job, until this time, and after it."""


def processor_seconds(path: Path) -> float | None:
    """Return the mean processor time of all threads, extrapolated from the last measurement.

    None where the job was too short to be measured.
    """
    rows = rows_of(path.read_text(encoding="utf-8"))
    measured = [row["cpu_time"] for row in rows if row["cpu_time"] >= 0]
    if not measured:
        return None
    seconds = sum(row["s"] for row in rows) / len(rows)
    last = seconds - seconds % OFTEN
    if seconds > OFTEN_UNTIL:
        last = OFTEN_UNTIL + (seconds - OFTEN_UNTIL) // SELDOM * SELDOM
    mean = sum(measured) / len(measured)
    return mean * seconds / last if mean and last else None
