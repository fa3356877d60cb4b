"""A run through SLURM, and through what clusters do to jobs."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.slurm_cluster import Cluster
from tests.workflow.conftest import Checkout, fewer_jobs

Job = dict[str, str]

OFTEN = """
import sys
sys.executable = sys.argv.pop(1)
from snakemake_executor_plugin_slurm import Executor
Executor.next_seconds_between_status_checks = property(lambda _: 1, lambda *_: None)
from snakemake.cli import main
main(sys.argv[1:])
"""
"""Snakemake that looks at its jobs each second. The plugin waits for 10 seconds more after each
look that saw none end: most of the time of a run of jobs of seconds. It calls Python by the path
that is its first argument."""
MET = ("simulate", "encode-features", "finetune-projection")
"""Steps that a fault meets."""


@dataclass
class Run:
    """What a run through SLURM left."""

    checkout: Checkout
    profile: dict[str, Any]
    printed: str = ""
    jobs: list[Job] = field(default_factory=list)
    timed_out: str = ""
    warned: str = ""
    warned_log: Path = Path()
    warned_words: str = ""
    cancelled: str = ""
    waited_while_drained: int = 0
    started_while_drained: int = 0
    done_before_the_kill: set[str] = field(default_factory=set)

    def of(self, rule: str) -> list[Job]:
        """Return the SLURM jobs of a rule."""
        return [job for job in self.jobs if rule_of(job) == rule]

    def attempts(self, job: Job) -> list[Job]:
        """Return all SLURM jobs that computed the same."""
        return [other for other in self.jobs if other["Comment"] == job["Comment"]]


def rule_of(job: Job) -> str:
    """Return the rule of a job, or the group, by the comment that the plugin gives it."""
    found = re.match(r"(?:rule|group)_(.+?)(?:_wildcards_.*)?$", job["Comment"])
    assert found is not None, job
    return found[1]


def shown(cluster: Cluster) -> list[Job]:
    """Return every job that SLURM remembers, as ``scontrol`` shows them."""
    lines = cluster.run("scontrol", "show", "jobs", "-o").splitlines()
    pairs = [[pair.partition("=") for pair in line.split(" ") if "=" in pair] for line in lines]
    return [{key: value for key, _, value in line} for line in pairs if line]


@dataclass
class Driver:
    """Snakemake on its way, with the means to see what SLURM does meanwhile."""

    cluster: Cluster
    checkout: Checkout
    options: list[str]
    python: Path = Path(sys.executable)
    """What its jobs run with."""

    def start(self) -> None:
        self.log = self.checkout.folder / "snakemake.log"
        with self.log.open("ab") as opened:
            self.process = subprocess.Popen(
                [sys.executable, "-c", OFTEN, self.python, *self.options],
                cwd=self.checkout.folder, env=self.cluster.environment,
                stdout=opened, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def until(self, happened: Callable[[], Any], what: str, seconds: float = 600) -> Any:
        """Wait for something to be true, while Snakemake runs."""
        deadline = time.monotonic() + seconds
        while not (found := happened()):
            running = self.process.poll() is None
            if not running or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace")[-4000:]
                raise AssertionError(f"{what} did not happen; Snakemake runs: {running}.\n{tail}")
            time.sleep(0.2)
        return found

    def jobs(self, rule: str, *states: str) -> list[Job]:
        """Return the jobs of a rule in one of the states."""
        return [
            job for job in shown(self.cluster)
            if rule_of(job) == rule and job["JobState"] in states
        ]  # fmt: skip

    def processes(self, verb: str) -> list[int]:
        """Return the processes of a step in this checkout."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes().decode().split("\0")
                here = (path / "cwd").readlink() == self.checkout.folder.resolve()
            except OSError:
                continue
            if here and words[1:4] == ["-m", "mispair", verb]:
                found.append(int(path.name))
        return found


def through_faults(
    cluster: Cluster, checkout: Checkout, python: Path = Path(sys.executable)
) -> Run:
    """Run to the end through all faults, with the profiles as they come, all but what is said."""
    profile = _profile_for_this_cluster(checkout)
    own = _own_profile(checkout)
    # Two real cores gain nothing from more jobs at a time.
    options = ["--profile", str(own), "--workflow-profile", "slurm", "--jobs", "6",
               "--latency-wait", "10", *fewer_jobs(checkout)]  # fmt: skip
    result = Run(checkout, profile)
    driver = Driver(cluster, checkout, options, python)
    driver.start()
    _let_one_run_out_of_time(driver, result)
    _drain_the_node(driver, result)
    _warn_one(driver, result)
    _cancel_one(driver, result)
    driver.until(lambda: _sent_again(driver, result.timed_out), "the held job's second attempt")
    _kill_snakemake(driver, result)
    driver.start()
    driver.process.wait(900)
    result.printed = driver.log.read_text(errors="replace")
    result.jobs = shown(cluster)
    assert driver.process.returncode == 0, result.printed[-4000:]
    return result


def _profile_for_this_cluster(checkout: Checkout) -> dict[str, Any]:
    """Let `simulate` have a minute, unwarned, and `encode_features` a GPU."""
    path = checkout.folder / "profiles/slurm/config.yaml"
    text = path.read_text()
    before, simulate, after = text.partition("\n  simulate:")
    after = re.sub(r"runtime: attempt \* \d+", "runtime: attempt * 1", after, count=1)
    after = re.sub(r"\n    slurm_extra: .*", "", after, count=1)
    path.write_text(
        (before + simulate + after).replace(
            "\n  encode_features:", "\n  encode_features:\n    gpu: 1"
        )
    )
    profile = yaml.safe_load(path.read_text())
    assert profile["set-resources"]["simulate"]["runtime"] == "attempt * 1"
    assert "slurm_extra" not in profile["set-resources"]["simulate"]
    assert profile["set-resources"]["encode_features"]["gpu"] == 1
    return profile


def _own_profile(checkout: Checkout) -> Path:
    """Copy the example of a user's own files as its comments say, with this cluster's GPUs."""
    folder = checkout.folder / "profiles/cluster-example"
    for path in folder.iterdir():
        text = path.read_text().replace("~/.config/snakemake/cluster", str(folder))
        path.write_text(text.replace("a100", "fake"))
    return folder


def _let_one_run_out_of_time(driver: Driver, result: Run) -> None:
    """Stop a step's process: its time goes by, and it cannot end."""
    (first, *_) = driver.until(lambda: driver.processes("simulate"), "a simulation")
    os.kill(first, signal.SIGSTOP)
    result.timed_out = _slurm_job_of(first)


def _drain_the_node(driver: Driver, result: Run) -> None:
    """Drain the node while jobs wait: none starts until it is resumed."""

    def waiting() -> set[str]:
        return {job["JobId"] for job in shown(driver.cluster) if job["JobState"] == "PENDING"}

    driver.until(lambda: driver.jobs("index_shards", "RUNNING", "PENDING"), "the index")
    driver.cluster.run(
        "scontrol", "update", f"nodename={driver.cluster.node}", "state=drain", "reason=test"
    )
    before = driver.until(waiting, "a job that waits for the drained node")
    time.sleep(5)
    still = waiting()
    result.waited_while_drained = len(before)
    result.started_while_drained = len(before - still)
    driver.cluster.run("scontrol", "update", f"nodename={driver.cluster.node}", "state=resume")


def _warn_one(driver: Driver, result: Run) -> None:
    """Send a step what SLURM sends before its time is up, as SLURM does it."""
    (process, *_) = driver.until(lambda: driver.processes("encode-features"), "an encoding")
    os.kill(process, signal.SIGSTOP)
    while not _waits_for_the_warning(process):
        # Slowly, so that it is met at its work and not after it.
        os.kill(process, signal.SIGCONT)
        time.sleep(0.02)
        os.kill(process, signal.SIGSTOP)
    result.warned = _slurm_job_of(process)
    result.warned_log = Path(f"/proc/{process}/fd/1").readlink()
    driver.cluster.run("scancel", "--signal=USR1", result.warned)
    os.kill(process, signal.SIGCONT)
    driver.until(
        lambda: result.warned in {job["JobId"] for job in driver.jobs("encode_features", "FAILED")},
        "the end of a warned step",
    )
    result.warned_words = result.warned_log.read_text()


def _waits_for_the_warning(process: int) -> bool:
    """Tell whether a process has a handler for SIGUSR1 by now."""
    status = Path(f"/proc/{process}/status").read_text()
    (caught,) = re.findall(r"^SigCgt:\s*(\w+)", status, re.M)
    return bool(int(caught, 16) >> (signal.SIGUSR1 - 1) & 1)


def _slurm_job_of(process: int) -> str:
    environment = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
    return dict(word.partition("=")[::2] for word in environment)["SLURM_JOB_ID"]


def _cancel_one(driver: Driver, result: Run) -> None:
    """Cancel a job on its way, as a user or an admin does."""

    (job, *_) = driver.until(
        lambda: driver.jobs("finetune_projection", "RUNNING"), "a training on its way"
    )
    driver.cluster.run("scancel", job["JobId"])
    result.cancelled = job["JobId"]


def _sent_again(driver: Driver, held: str) -> bool:
    """Tell whether the time of a job ran out, and Snakemake has noticed it."""
    jobs = {job["JobId"]: job for job in shown(driver.cluster)}
    same = [job for job in jobs.values() if job["Comment"] == jobs[held]["Comment"]]
    return jobs[held]["JobState"] == "TIMEOUT" and len(same) > 1


def _kill_snakemake(driver: Driver, result: Run) -> None:
    """Kill Snakemake without warning and take its lock away; jobs on their way go on."""
    driver.process.send_signal(signal.SIGKILL)
    driver.process.wait()
    result.done_before_the_kill = {
        job["Comment"] for job in shown(driver.cluster) if job["JobState"] == "COMPLETED"
    }
    subprocess.run(
        [sys.executable, "-m", "snakemake", "--unlock", *fewer_jobs(driver.checkout)],
        cwd=driver.checkout.folder, check=True, capture_output=True,
    )  # fmt: skip


def megabytes(text: str) -> int:
    number, unit = float(text[:-1]), text[-1]
    return round(number * {"M": 1, "G": 1024}[unit])


def minutes(text: str) -> int:
    days, _, clock = text.rpartition("-")
    hours, minutes, _ = map(int, clock.split(":"))
    return int(days or 0) * 1440 + hours * 60 + minutes
