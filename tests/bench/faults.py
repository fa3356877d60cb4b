"""What a run survives: 20 kills by SIGTERM and 20 by SIGKILL, and the work that they cost.

Two studies of the smoke configuration are cut down to their long steps: encoding, fine-tuning and
simulation. The run is done once in peace and once under fire; results are compared byte by byte.
"""

from __future__ import annotations

import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.faults import Faults, Kill

REPOSITORY = Path(__file__).parents[2]
CHECKOUT = ("Snakefile", "config.yaml", "workflow", "profiles", "envs")
ARM = "results/arms/scenes/scenes-small/pretrained_{scheme}~0.5/projection.safetensors"
TARGETS = ("simulation", *(ARM.format(scheme=scheme) for scheme in ("random", "similar")))
CONFIG = ("--cores", "2", "--configfile", "workflow/configs/smoke.yaml")
SAVE_SECONDS = 60.0
"""As outside tests."""

Row = tuple[str, str, str, str]


def measure() -> Iterator[Row]:
    """Yield a row for each kind of fault."""
    with tempfile.TemporaryDirectory() as temporary:
        quiet, loud = (_checkout(Path(temporary) / name) for name in ("quiet", "loud"))
        command = [sys.executable, "-m", "snakemake", *TARGETS, *CONFIG]
        subprocess.run(command, cwd=quiet, check=True, capture_output=True)
        jobs = len(list((quiet / "benchmarks").rglob("*.tsv")))
        arguments = [*TARGETS, "--retries", "60", *CONFIG]
        faults = Faults(loud, arguments, jobs, seed=1, save_seconds=SAVE_SECONDS)
        faults.run()
        survived = _results(quiet) == _results(loud)
        for how in (signal.SIGTERM, signal.SIGKILL):
            for what in ("a step", "Snakemake"):
                yield _row(faults, how, what, survived)


def _row(faults: Faults, how: signal.Signals, what: str, survived: bool) -> Row:
    def meant(kill: Kill) -> bool:
        return kill.how is how and (kill.verb == "snakemake") == (what == "Snakemake")

    kills = [kill for kill in faults.landed if meant(kill)]
    lost = [seconds for kill, seconds in faults.work_lost() if meant(kill)]
    return (
        f"fault: {what} is ended by {how.name}",
        f"{len(kills)} injected",
        f"{len(kills) if survived else 0} survived, with the same bytes",
        f"work lost: {statistics.median(lost):.1f} s in the median, {max(lost):.1f} s at most"
        if lost
        else "work lost: that of the jobs which ran",
    )


def _checkout(folder: Path) -> Path:
    for name in CHECKOUT:
        source = REPOSITORY / name
        ignore = shutil.ignore_patterns("__pycache__", ".snakemake")
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        folder.mkdir(exist_ok=True)
        copy(source, folder / name, **({"ignore": ignore} if source.is_dir() else {}))
    return folder


def _results(folder: Path) -> dict[str, bytes]:
    files = [path for path in (folder / "results").rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
