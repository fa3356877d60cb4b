"""The end of a run in which jobs failed: what is told, written and reported.

With ``--keep-going`` a report of all that there is appears, as a site of its own: the report's own
jobs are run again on the results that are there, with other paths and nothing else changed, so
that no output of Snakemake is touched.
"""

from __future__ import annotations

import logging
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mispair.core import failures
from mispair.core.files import UserError
from mispair.core.words import count
from mispair.report import studies

REPORTS, INCOMPLETE = "reports/", "reports/incomplete/"
LOGS = Path("logs/incomplete_report")
STEPS = (
    "gather_metrics",
    "record_run",
    "draw_figures",
    "draw_contact_sheet",
    "draw_neurons",
    "draw_suspects",
    "write_report",
)
"""The steps of the report, in the order in which they run."""


def watch(logger: logging.Logger) -> failures.Recorder:
    """Begin to record what Snakemake's logger says of failed jobs, and whether Ctrl-C ends them."""
    recorder = failures.Recorder()
    logger.addHandler(recorder)
    logger.addFilter(recorder.passes)
    if threading.current_thread() is threading.main_thread():  # others cannot set handlers
        signal.signal(signal.SIGINT, recorder.interrupt)
    return recorder


def forget() -> None:
    """Take away what an earlier run that failed has left."""
    failures.RECORD.unlink(missing_ok=True)
    for folder in (Path(INCOMPLETE), LOGS):
        shutil.rmtree(folder, ignore_errors=True)


def tell(workflow: Any, recorder: failures.Recorder, logger: logging.Logger) -> None:
    """Print what failed, write it down, and report what there is.

    Parameters
    ----------
    workflow : snakemake.workflow.Workflow
        Whose jobs are over.
    recorder : failures.Recorder
        What `watch` returned.
    logger : logging.Logger
        Snakemake's, which also writes the log of the run.
    """
    record = recorder.end(workflow.dag, workflow.scheduler.failed)
    if recorder.is_interrupted:
        done = record["jobs"] - len(record["failed"]) - len(record["not_run"])
        logger.warning(
            f"\nInterrupted: {done} of {count(record['jobs'], 'job')} were done. The same command "
            "goes on from there."
        )
    if not record["failed"]:
        return  # stopped by the user
    say = logger.warning if recorder.is_interrupted else logger.error
    say(f"\n{failures.described(record, failures.SHOWN)}\n")
    try:
        failures.write(record)
        say(f"The same again: python -m mispair failures ({failures.RECORD})")
        shutil.rmtree(INCOMPLETE, ignore_errors=True)
        stopped = any(job["because"] is None for job in record["not_run"])
        if workflow.execution_settings.keep_going and not stopped:
            jobs = [job for job in workflow.dag.jobs if job.rule.name in STEPS]
            if message := report(jobs, lost(record)):
                logger.error(message)
    except (OSError, UserError) as error:
        logger.error(f"No report of what there is: {error}")


def lost(record: failures.Record) -> set[str]:
    """Return what a run did not make, be it there from an earlier one or not."""
    return {path for job in [*record["failed"], *record["not_run"]] for path in job["output"]}


def report(jobs: Sequence[Any], lost: set[str]) -> str:
    """Write the report of all that there is; return where it is, or why there is none.

    Parameters
    ----------
    jobs : sequence of snakemake.jobs.Job
        Those of the report: there are none in a run for other targets.
    lost : set of str
        Paths that the run should have made and did not.
    """
    of_step = {step: [job for job in jobs if job.rule.name == step] for step in STEPS}
    if not any(lost.intersection(job.output) for job in of_step["write_report"]):
        return ""  # it was not asked for, or is whole
    (gathering,) = of_step["gather_metrics"]
    if not any(map(studies.is_measurement, {*gathering.input} - lost)):
        return "No report of what there is: nothing was measured."
    LOGS.mkdir(parents=True, exist_ok=True)
    done = {step: all([_run(job, lost) for job in of_step[step]]) for step in STEPS}
    page = Path(INCOMPLETE, "index.html")
    if not page.is_file():
        step = next(name for name in (STEPS[0], STEPS[-1]) if not done[name])
        return f"No report of what there is: {step} failed (see {LOGS / step}.log)."
    return f"Incomplete report, of all that there is: {page.resolve()}"


def _run(job: Any, lost: set[str]) -> bool:
    """Make the outputs of a job of the report below their folder of incomplete ones."""
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
    """Return the words of a rule's command that makes an incomplete report.

    What is in the folder of the report is in that of the incomplete one; inputs that were lost
    are left out.

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
