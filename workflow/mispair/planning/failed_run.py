"""The end of a run: the path of its report, and the handling of jobs that failed.

Failures lead to a message, a file, and an incomplete report.

With ``--keep-going`` the jobs of the report run again on the existing results. Only their paths
change, to ``reports/incomplete``, so no output of Snakemake is touched.
"""

import asyncio
import atexit
import contextlib
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mispair.core import failures, files
from mispair.core.commands import TOOK
from mispair.core.files import UserError
from mispair.core.words import count
from mispair.report import studies

# Record failed jobs from Snakemake's log during a run.

KEPT_AT_ONCE = 50
"""Most failures that are written at once; later ones are written at the end of the run."""

POSTPONED, LONGEST_WAIT = 0.05, 5.0
"""Seconds after which an interruption within a coroutine is tried again, and when it is raised."""

LATE = 0.5
"""Seconds by which Snakemake may notice an interruption later than the job that it ended."""

_POINTERS = "For further error details see the cluster/cloud log"


def _is_in_coroutine() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Recorder(logging.Handler):
    """Recorder of failed jobs from Snakemake's log; a job that succeeds later is no failure.

    Attributes
    ----------
    failed : dict of int to Failure
        By Snakemake's number of the job.
    cancelled : Counter
        Attempts of a job that were cancelled by hand on a cluster, by rule and wildcards.
    is_interrupted : bool
        Whether the user stopped the run; jobs that end after that are no failures.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_interrupted, self._interrupted = False, 0.0
        self.cancelled: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self.failed: dict[int, failures.Failure] = {}
        self._started: dict[int, tuple[dict[str, str], dict[str, int | None]]] = {}
        self._groups: dict[int, Mapping[str, Any]] = {}
        self._made: set[int] = set()

    def interrupt(self, *_: object) -> None:
        """Note an interruption by SIGINT, and end as without this handler.

        Raised within a coroutine, the exception would end that alone, and not the run in order. So
        it waits until Snakemake is out of it, for some seconds at most.
        """
        now = time.monotonic()
        self._interrupted = self._interrupted if self.is_interrupted else now
        self.is_interrupted = True
        if not _is_in_coroutine() or now > self._interrupted + LONGEST_WAIT:
            raise KeyboardInterrupt
        again = threading.Timer(POSTPONED, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    def passes(self, record: logging.LogRecord) -> bool:
        """Return whether a log record is shown: errors after an interruption are not.

        Ctrl-C reaches jobs and Snakemake at once, so a job may end before Snakemake has noticed.
        """
        latest = time.monotonic() + LATE
        while (
            str(getattr(record, "event", "")) in ("job_error", "group_error")
            and not self.is_interrupted
            and time.monotonic() < latest
        ):
            time.sleep(LATE / 20)
        return not (self.is_interrupted and record.levelno >= logging.ERROR)

    def emit(self, record: logging.LogRecord) -> None:
        """Process a log record; records that are not about jobs are ignored."""
        try:
            self._take(record.__dict__)
        except Exception:
            self.handleError(record)  # the recorder must not end the run

    def _take(self, event: Mapping[str, Any]) -> None:
        match str(event.get("event")):
            case "job_info":
                before = {path: _changed(path) for path in _logs(event["log"])}
                self._made.discard(event["jobid"])
                self._started[event["jobid"]] = dict(event["wildcards"]), before
            case "job_finished":
                self.failed.pop(event["job_id"], None)
            case "group_error":
                # Records of its jobs follow, without the cluster job and log of the group.
                self._groups.update({job["jobid"]: event for job in event["job_error_info"]})
            case "job_error":
                self._fail(event)

    def _fail(self, event: Mapping[str, Any]) -> None:
        number = event["jobid"]
        wildcards, before = self._started.get(number, ({}, {}))
        group = self._groups.pop(number, {})
        recorded = self.failed.get(number, {"slurm_jobs": [], "attempts": 0})
        if was_cancelled(event["rule_msg"] or "", group.get("aux_logs", [])):
            self.cancelled[event["rule_name"], tuple(sorted(wildcards.items()))] += 1
        slurm_job = {**group, **event["aux"]}.get("external_jobid")
        message = failures.clean(
            " ".join((event["rule_msg"] or "").partition(_POINTERS)[0].split())
        )
        logs = _logs([*event["log"], *group.get("aux_logs", [])])
        self.failed[number] = {
            "rule": event["rule_name"],
            "wildcards": wildcards,
            "slurm_jobs": recorded["slurm_jobs"] + ([str(slurm_job)] if slurm_job else []),
            "attempts": recorded["attempts"] + 1,
            "message": message,
            **_log(logs, before),
            "output": list(event["output"]),
        }
        # Before Snakemake removes outputs: a job of a group with all its outputs did not fail.
        if group and all(Path(path).exists() for path in event["output"]):
            self._made.add(number)
        if len(self.failed) <= KEPT_AT_ONCE:
            # If the disk is still full at the end of the run, that is reported then.
            with contextlib.suppress(files.UserError, OSError):
                failures.write({"jobs": None, "failed": [*self.failed.values()], "not_run": []})

    def end(self, dag: Any, failed: Iterable[Any]) -> failures.Record:
        """Return the failures of a run that is over, with the jobs that were not run.

        Parameters
        ----------
        dag : snakemake.dag.DAG
            Jobs of the run.
        failed : iterable of snakemake.jobs.AbstractJob
            Jobs that the scheduler gave up, including those without their output.
        """
        needed = [*dag.needrun_jobs()]
        lost = [job for job in needed if job.output]
        whole = [job for job in dag.needrun_jobs(exclude_finished=False) if job.output]
        entries: dict[Any, failures.Failure] = {}
        cause: dict[Any, Any] = {}
        if self.is_interrupted:
            failed = [job for job in needed if dag.jobid(job) in self.failed]
        for job in failed:
            members = {member: dag.jobid(member) for member in getattr(job, "jobs", [job])}
            entries_of = {member: self._entry(number, member) for member, number in members.items()}
            left = [m for m, number in members.items() if number not in self._made] or [*members]
            # Jobs of a group after the one that failed never began, so they wrote no log.
            guilty = [
                m for m in left if entries_of[m]["lines"] and entries_of[m]["log"] in m.log
            ] or left
            entries.update({member: entries_of[member] for member in guilty})
            cause.update({member: guilty[0] for member in members if member not in guilty})
        order = {id(entry): position for position, entry in enumerate(self.failed.values())}
        entries = dict(sorted(entries.items(), key=lambda item: order[id(item[1])]))
        for job, entry in entries.items():
            after = {*dag.bfs(dag.depending, job)} & {*lost} - {*entries}
            entry["blocked"] = len(after)
            for later in after:
                cause.setdefault(later, job)
        positions = {job: position for position, job in enumerate(entries)}
        return {
            "jobs": len(whole),
            "failed": [*entries.values()],
            "not_run": [
                {
                    "rule": job.rule.name,
                    "wildcards": dict(job.wildcards_dict),
                    "output": [str(path) for path in job.output],
                    "because": positions.get(cause.get(job)),
                }
                for job in sorted(lost, key=dag.jobid)
                if job not in entries
            ],
        }

    def _entry(self, number: int, job: Any) -> failures.Failure:
        """Return the entry of a failed job; a job without an error lacks its output."""
        if number not in self.failed:
            before = self._started.get(number, ({}, {}))[1]
            self.failed[number] = {
                "rule": job.rule.name,
                "wildcards": dict(job.wildcards_dict),
                "slurm_jobs": [],
                "attempts": job.attempt,
                "message": "it ended without an error, but its output is missing or incomplete",
                **_log(_logs(job.log), before),
                "output": [str(path) for path in job.output],
            }
        return self.failed[number]


def was_cancelled(message: str, logs: Iterable[str]) -> bool:
    """Return whether a SLURM job was cancelled by hand; for a group only its log shows it."""
    lines = [line for path in logs if Path(path).is_file() for line in failures.tail(Path(path))]
    return "'CANCELLED'" in message or any(
        "CANCELLED AT" in line and "DUE TO" not in line for line in lines
    )


def _changed(path: str) -> int | None:
    """Return the modification time of a file in nanoseconds, or None if there is no file."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return None


def _logs(files: Iterable[Any]) -> list[str]:
    """Return the logs of a job, without the file of its benchmark."""
    return [path for path in map(str, filter(None, files)) if not path.endswith(".tsv")]


def _log(paths: list[str], before: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the first log that a job wrote to (`before` has the earlier modification times)."""
    note = "it has no log"
    for path in paths:
        try:
            if path in before and before[path] == _changed(path):
                note = "it wrote no log"
            elif lines := failures.tail(Path(path)):
                return {"log": path, "lines": lines}
            else:
                note = "its log is empty"
        except OSError as error:
            note = f"its log cannot be read ({error.strerror})"
    return {"log": next(iter(paths), None), "lines": [], "no_lines": note}


REPORTS, INCOMPLETE = "reports/", "reports/incomplete/"
LOGS = Path("logs/incomplete_report")
STEPS = (
    "gather_metrics", "record_run", "draw_figures", "draw_contact_sheet", "draw_neurons",
    "draw_suspects", "draw_examples", "write_report",
)  # fmt: skip
"""The steps of the report, in the order in which they run."""


def watch(logger: logging.Logger) -> Recorder:
    """Begin to record failed jobs from Snakemake's log, and interruptions by Ctrl-C."""
    recorder = Recorder()
    logger.addHandler(recorder)
    logger.addFilter(recorder.passes)
    if threading.current_thread() is threading.main_thread():  # others cannot set handlers
        signal.signal(signal.SIGINT, recorder.interrupt)
    return recorder


_pages: list[Callable[[], Path | None]] = []


def report_of_this_process() -> Path | None:
    """Return the page that the last run in this process has written, or found up to date."""
    return _pages[-1]() if _pages else None


def show_report_at_exit(workflow: Any, recorder: Recorder) -> None:
    """Print the address of the report as the last line of a run, below Snakemake's messages."""
    folder = Path.cwd()  # Snakemake leaves it before the end

    def page() -> Path | None:
        return written_report(workflow, recorder, folder)

    def show() -> None:
        if written := page():
            print(f"\nThe report: {written.as_uri()}", file=sys.stderr)

    _pages.append(page)

    atexit.register(show)


def written_report(workflow: Any, recorder: Recorder, folder: Path) -> Path | None:
    """Return the page of a run, written or up to date, or the incomplete one if jobs failed.

    It is None after a dry run, an interruption, or a run for other targets.
    """
    if workflow.scheduler is None or workflow.dryrun or workflow.touch or recorder.is_interrupted:
        return None
    pages = [job.output[0] for job in workflow.dag.jobs if job.rule.name.endswith(STEPS[-1])]
    if pages and workflow.scheduler.failed:
        pages = [Path(INCOMPLETE, "index.html")]
    return next((page for page in (folder / page for page in pages) if page.is_file()), None)


def forget() -> None:
    """Remove the files of an earlier run that failed."""
    failures.RECORD.unlink(missing_ok=True)
    for folder in (Path(INCOMPLETE), LOGS):
        shutil.rmtree(folder, ignore_errors=True)


def tell(workflow: Any, recorder: Recorder, logger: logging.Logger) -> None:
    """Print the failures, write them to a file, and write an incomplete report.

    Parameters
    ----------
    workflow : snakemake.workflow.Workflow
        The workflow after its jobs.
    recorder : Recorder
        The result of `watch`.
    logger : logging.Logger
        Snakemake's, which also writes the log of the run.
    """
    record = recorder.end(workflow.dag, workflow.scheduler.failed)
    if recorder.is_interrupted:
        done = record["jobs"] - len(record["failed"]) - len(record["not_run"])
        logger.warning(
            f"\nInterrupted: {done} of {count(record['jobs'], 'job')} were done. The same command "
            "continues from there."
        )
    if not record["failed"]:
        return  # stopped by the user
    say = logger.warning if recorder.is_interrupted else logger.error
    say(f"\n{failures.described(record, failures.SHOWN)}\n")
    try:
        failures.write(record)
        say(f"To print this again: python -m mispair failures ({failures.RECORD})")
        shutil.rmtree(INCOMPLETE, ignore_errors=True)
        stopped = any(job["because"] is None for job in record["not_run"])
        if workflow.execution_settings.keep_going and not stopped:
            jobs = [job for job in workflow.dag.jobs if job.rule.name in STEPS]
            if message := report(jobs, lost(record)):
                logger.error(message)
    except (OSError, UserError) as error:
        logger.error(f"No incomplete report: {error}")


def lost(record: failures.Record) -> set[str]:
    """Return the outputs that a run did not write, even if an earlier run did."""
    return {path for job in [*record["failed"], *record["not_run"]] for path in job["output"]}


def report(jobs: Sequence[Any], lost: set[str]) -> str:
    """Write the incomplete report; return a message with its path, or why there is none.

    Parameters
    ----------
    jobs : sequence of snakemake.jobs.Job
        Jobs of the report; none in a run for other targets.
    lost : set of str
        Outputs that the run did not write (`lost`).
    """
    of_step = {step: [job for job in jobs if job.rule.name == step] for step in STEPS}
    if not any(lost.intersection(job.output) for job in of_step["write_report"]):
        return ""  # it was not requested, or is complete
    (gathering,) = of_step["gather_metrics"]
    if not any(map(studies.is_measurement, {*gathering.input} - lost)):
        return "No incomplete report: nothing was measured."
    LOGS.mkdir(parents=True, exist_ok=True)
    done = {step: all([_run(job, lost) for job in of_step[step]]) for step in STEPS}
    page = Path(INCOMPLETE, "index.html")
    if not page.is_file():
        step = next(name for name in (STEPS[0], STEPS[-1]) if not done[name])
        return f"No incomplete report: {step} failed (see {LOGS / step}.log)."
    return f"Incomplete report of the existing results: {page.resolve()}"


def _run(job: Any, lost: set[str]) -> bool:
    """Run a job of the report with outputs below the folder of the incomplete report."""
    step = job.rule.name
    with Path(LOGS, f"{'-'.join([step, *job.wildcards_dict.values()])}.log").open("wb") as log:
        command = incomplete_command(job.shellcmd, {*job.input}, lost)
        if step == "write_report":
            command += ["--failures", str(failures.RECORD)]
        done = subprocess.run(
            [sys.executable, *command[1:]], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    return done.returncode == 0


def incomplete_command(command: str, inputs: set[str], lost: set[str]) -> list[str]:
    """Return the words of a rule's command with the paths of the incomplete report.

    It omits inputs that were lost.

    Examples
    --------
    >>> incomplete_command("python -m x --a r/1 r/2 --b reports/t > log", {"r/1", "r/2"}, {"r/2"})
    ['python', '-m', 'x', '--a', 'r/1', '--b', 'reports/incomplete/t']
    """
    arguments = shlex.split(command)
    if TOOK in arguments:
        del arguments[(place := arguments.index(TOOK)) : place + 2]
    kept = []
    for word in arguments[: arguments.index(">")]:
        moved = INCOMPLETE + word.removeprefix(REPORTS) if word.startswith(REPORTS) else word
        missing = not Path(moved).exists() if moved != word else word in lost
        if not (word in inputs and missing):
            kept.append(moved)
    return kept
