"""The end of a run: the path of its report, and the handling of jobs that failed.

Failures lead to a message, a file, and an incomplete report.

With ``--keep-going`` the jobs of the report run again on the existing results. Only their paths
change, to ``reports/incomplete``, so no output of Snakemake is touched.
"""

from __future__ import annotations

import atexit
import logging
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mispair.core import failures
from mispair.core.files import UserError
from mispair.core.words import count
from mispair.planning.recorder import Recorder
from mispair.report import studies

REPORTS, INCOMPLETE = "reports/", "reports/incomplete/"
LOGS = Path("logs/incomplete_report")
STEPS = (
    "gather_metrics", "record_run", "draw_figures", "draw_contact_sheet", "draw_neurons",
    "draw_suspects", "write_report",
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
    kept = []
    for word in arguments[: arguments.index(">")]:
        moved = INCOMPLETE + word.removeprefix(REPORTS) if word.startswith(REPORTS) else word
        missing = not Path(moved).exists() if moved != word else word in lost
        if not (word in inputs and missing):
            kept.append(moved)
    return kept
