"""Processor time and memory: of a job from its benchmark, of calls, and of a process of its own.

On a busy machine the wall time is too long.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
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


def fastest(work: Callable[[], object], runs: int) -> float:
    """Return the least processor time of some calls, in seconds."""
    times = []
    for _ in range(runs):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def alone(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with this process's modules, and return what it printed.

    A process can tell no more than the most memory that it ever held, so each search has its own.

    Raises
    ------
    SystemExit
        If it fails, with what it printed.
    """
    where = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": where, **variables},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    return done


def peak_memory(forget: bool = False) -> float:
    """Return the most megabytes that this process has held, mapped files included.

    If `forget`, only what it holds from now on counts later.
    """
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    # The system's other counter, ru_maxrss, starts with what the parent process held.
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 2**10
