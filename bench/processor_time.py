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


def processor_seconds(path: Path) -> float | None:
    """Return the mean processor time of all threads; None where the job was too short for it."""
    times = [row["cpu_time"] for row in rows_of(path.read_text(encoding="utf-8"))]
    measured = [seconds for seconds in times if seconds >= 0]
    return sum(measured) / len(measured) if measured else None


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
