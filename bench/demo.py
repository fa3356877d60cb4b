"""The demo as a newcomer runs it: its wall time, the share of each step, and the overhead."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def measure() -> Iterator[tuple[str, str, str, str]]:
    """Run config.yaml from nothing in a folder of its own and yield the rows."""
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        planned = _planned(folder, cores)
        wall = _snakemake(folder, cores)
        seconds, jobs = _steps(Path(folder) / "benchmarks")
        again = _snakemake(folder, cores)
    busy = sum(seconds.values())
    start_up = _interpreter()
    total = sum(jobs.values())
    yield (
        "demo, wall time",
        f"{wall:.0f} s",
        f"{total} jobs on {cores} cores",
        f"{wall / 60:.1f} min",
    )
    yield (
        "demo, as `mispair plan` estimates it",
        f"{planned:.0f} s",
        f"{wall:.0f} s measured",
        f"{planned / wall:.2f}x",
    )
    for step, spent in seconds.most_common():
        yield (
            f"demo, {step}",
            f"{spent:.1f} s",
            f"{jobs[step]} jobs",
            f"{spent / busy:.1%} of job time",
        )
    overhead = again + total * start_up
    yield (
        "Snakemake's overhead",
        f"{again:.1f} s to find nothing to do + {total} x {start_up:.2f} s to start a job",
        f"{wall * cores:.0f} core seconds",
        f"{overhead / (wall * cores):.1%}",
    )
    yield (
        "cores not busy with a job",
        f"{wall * cores - busy:.0f} s",
        f"{wall * cores:.0f} core seconds",
        f"{1 - busy / (wall * cores):.1%}",
    )


def _snakemake(folder: str, cores: int) -> float:
    started = time.perf_counter()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "snakemake",
            "--snakefile",
            str(REPOSITORY / "Snakefile"),
            "--directory",
            folder,
            "--cores",
            str(cores),
            "--quiet",
            "all",
        ],
        check=True,
        cwd=REPOSITORY,
    )
    return time.perf_counter() - started


def _planned(folder: str, cores: int) -> float:
    """Return the wall time that the plan expects, in seconds."""
    snakefile = str(REPOSITORY / "Snakefile")
    done = subprocess.run(
        [sys.executable, "-m", "mispair", "plan", "--json", "--cores", str(cores),
         "--snakefile", snakefile, "--directory", folder],
        check=True, cwd=REPOSITORY, text=True, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "workflow")},
    )  # fmt: skip
    return 3600 * float(json.loads(done.stdout)["totals"]["wall_hours"])


def _steps(folder: Path) -> tuple[Counter[str], Counter[str]]:
    seconds: Counter[str] = Counter()
    jobs: Counter[str] = Counter()
    for path in folder.rglob("*.tsv"):
        step = path.relative_to(folder).parts[0].removesuffix(".tsv")
        with path.open() as opened:
            for row in csv.DictReader(opened, delimiter="\t"):
                seconds[step] += float(row["s"])
                jobs[step] += 1
    return seconds, jobs


def _interpreter(repetitions: int = 5) -> float:
    started = time.perf_counter()
    for _ in range(repetitions):
        subprocess.run(
            [sys.executable, "-m", "mispair", "--version"],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "workflow")},
        )
    return (time.perf_counter() - started) / repetitions
