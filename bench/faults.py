"""What a run survives: 20 kills by SIGTERM and 20 by SIGKILL, and faults of SLURM's jobs.

The smoke configuration is run once in peace and once under fire, with kills at any moment;
results are compared byte by byte. Then it runs through SLURM, which says what that costs more than
the same two cores without it, and a part of it through faults.
"""

import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults import Faults, Kill
from tests.slurm_cluster import Cluster, missing_programs
from tests.slurm_faults import Run, through_faults
from tests.workflow.conftest import SMOKE, Checkout, fewer_jobs, new_checkout, other_bytes

CONFIG = ("--cores", "2", "--configfile", "config/smoke.yaml")
SAVE_SECONDS = 60.0
"""As outside tests."""

Row = tuple[str, str, str, str]


def measure() -> Iterator[Row]:
    """Yield a row for each kind of fault."""
    with tempfile.TemporaryDirectory() as temporary:
        quiet = new_checkout(Path(temporary) / "quiet")
        loud = quiet.copy(Path(temporary) / "loud")  # not from files that may be edited meanwhile
        quiet.snakemake(*CONFIG, fresh=True)
        jobs = len(list((quiet.folder / "benchmarks").rglob("*.tsv")))
        arguments = ["--retries", "60", *CONFIG]
        faults = Faults(
            loud.folder, arguments, jobs, seed=1, save_seconds=SAVE_SECONDS, at_a_state=0.0
        )
        faults.run()
        expected, found = quiet.results(), loud.results()
        other = [name for name in expected | found if expected.get(name) != found.get(name)]
        survived = not other
        if not survived:
            print(*(f"not the same: {name}" for name in other), sep="\n", file=sys.stderr)
            kept = shutil.copytree(temporary, tempfile.mkdtemp(), symlinks=True, dirs_exist_ok=True)
            print(f"both runs are kept in {kept}", file=sys.stderr)
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


def through_slurm() -> Iterator[Row]:
    """Run the smoke configuration without SLURM and through it, and a part of it through faults."""
    if lacking := missing_programs():
        yield "smoke configuration through SLURM", "not measured", f"no {lacking[0]} here", ""
        return
    with tempfile.TemporaryDirectory() as temporary:
        local, remote, faulty = (
            new_checkout(Path(temporary) / folder) for folder in ("local", "slurm", "faults")
        )
        started = time.perf_counter()
        local.snakemake("--quiet", "all", fresh=True)
        without = time.perf_counter() - started
        with Cluster() as cluster:
            started = time.perf_counter()
            _through(cluster, remote)
            through = time.perf_counter() - started
            submitted = cluster.run("scontrol", "show", "jobs", "-o").count("JobId=")
        same = local.results() == remote.results()
        yield (
            "smoke configuration through SLURM",
            f"{through:.0f} s, {submitted} submissions",
            f"{without:.0f} s with --cores 2, {'same' if same else 'OTHER'} bytes",
            f"{(through - without) / submitted:.1f} s a submission",
        )
        with Cluster(account="my-lab") as cluster:
            run = through_faults(cluster, faulty)
        local.snakemake("simulation", "image_text", "--quiet", "all", *fewer_jobs(local))
        yield from _rows_of_slurm(run, survived=not other_bytes(faulty, local))


def _rows_of_slurm(run: Run, *, survived: bool) -> Iterator[Row]:
    """Yield a row for each fault; a job that ended early has lost no more than all that it did."""
    seconds = {job["JobId"]: _seconds(job["RunTime"]) for job in run.jobs}
    lost = {
        "a job of SLURM runs out of time": seconds[run.timed_out],
        "a job is warned of its time limit (SIGUSR1)": seconds[run.warned],
        "a job is cancelled (scancel)": seconds[run.cancelled],
        "Snakemake is killed while its jobs run": _done_twice(run),
    }
    for fault, most in lost.items():
        yield (
            f"fault: {fault}",
            "1 injected",
            f"{int(survived)} survived, with the same bytes",
            f"work lost: at most {most} s of jobs",
        )
    yield (
        "fault: the node is drained and resumed",
        "1 injected",
        f"{int(survived)} survived, with the same bytes",
        f"{run.waited_while_drained} jobs waited, {run.started_while_drained} started meanwhile",
    )


def _done_twice(run: Run) -> int:
    """Return the seconds of jobs that ended well and were sent again all the same."""
    seconds, seen = 0, set()
    for job in sorted(run.jobs, key=lambda job: int(job["JobId"]), reverse=True):
        if job["JobState"] == "COMPLETED":
            seconds += _seconds(job["RunTime"]) if job["Comment"] in seen else 0
            seen.add(job["Comment"])
    return seconds


def _seconds(clock: str) -> int:
    days, _, time_of_day = clock.rpartition("-")
    hours, minutes, seconds = map(int, time_of_day.split(":"))
    return (int(days or 0) * 24 + hours) * 3600 + minutes * 60 + seconds


def _through(cluster: Cluster, checkout: Checkout) -> None:
    command = [
        *(sys.executable, "-m", "snakemake", "--workflow-profile", "slurm", "--jobs", "6"),
        *("--quiet", "all", "--configfile", SMOKE),
    ]
    subprocess.run(command, cwd=checkout.folder, env=cluster.environment, check=True)
