"""What failed in a run: recorded while it goes on, told at its end, and written down for later."""

from __future__ import annotations

import contextlib
import datetime
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mispair.core import files
from mispair.core.words import count

RECORD = Path("logs/failures.json")
"""Where the failures of the last run lie; the next run that succeeds takes them away."""

LINES = 20
"""Lines of a log that are kept: its last ones."""
BYTES = 64 * 1024
"""Bytes at the end of a log in which they are looked for, however large it is."""
WIDTH, SHORT = 2000, 200
"""Characters of a line that are kept, and of a reason that is in many places."""
SHOWN = 10
"""Failed jobs that the end of a run tells in full; the others are counted by rule."""
KEPT_AT_ONCE = 50
"""Failures that are written down the moment that they happen; later ones at the end of the run."""

Failure = dict[str, Any]
"""A failed job: rule, wildcards, slurm_jobs, attempts, message, log, lines, output, blocked."""
Record = dict[str, Any]
"""Failures of a run: when, jobs, failed, and not_run with the place of its cause among them."""

_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)")
_POINTERS = "For further error details see the cluster/cloud log"


def tail(path: Path) -> list[str]:
    """Return the last lines of a log, harmless to print.

    Bytes that are not UTF-8 and control characters become a replacement character, colours go, a
    progress bar is what it last showed, and long lines are cut. Only the end of the file is read.
    """
    with path.open("rb") as log:
        start = max(0, log.seek(0, 2) - BYTES)
        log.seek(start)
        text = log.read().decode("utf-8", errors="replace")
    lines = text.strip("\r\n").rstrip().split("\n")
    whole = lines[1:] if start and len(lines) > 1 else lines  # the first may be half a line
    return [clean(line) for line in whole[-LINES:]] if text.strip() else []


def clean(line: str, width: int = WIDTH) -> str:
    """Return a line of text without anything that a terminal would act on."""
    shown = _COLOURS.sub("", line).rstrip().rsplit("\r", 1)[-1].expandtabs(4)
    safe = "".join(
        "�" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in shown
    )
    return safe if len(safe) <= width else safe[:width] + "…"


class Recorder(logging.Handler):
    """Keep what Snakemake's logger says of failed jobs; a job that succeeds later is no failure.

    Attributes
    ----------
    failed : dict of int to Failure
        By Snakemake's number of the job.
    cancelled : Counter
        How many attempts of a job were cancelled by hand on a cluster, by rule and wildcards.
    is_interrupted : bool
        Whether the user stopped the run: jobs that end after that are no failures.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_interrupted = False
        self.cancelled: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self.failed: dict[int, Failure] = {}
        self._started: dict[int, tuple[dict[str, str], dict[str, int | None]]] = {}
        self._groups: dict[int, Mapping[str, Any]] = {}
        self._made: set[int] = set()

    def interrupt(self, *_: object) -> None:
        """Handle SIGINT: remember it, and end as without this handler."""
        self.is_interrupted = True
        raise KeyboardInterrupt

    def passes(self, record: logging.LogRecord) -> bool:
        """Tell whether a record is shown: after an interruption no error is."""
        return not (self.is_interrupted and record.levelno >= logging.ERROR)

    def emit(self, record: logging.LogRecord) -> None:
        """Take in a record; those that are not of jobs are passed by."""
        try:
            self._take(record.__dict__)
        except Exception:
            self.handleError(record)  # what watches a run must not end it

    def _take(self, event: Mapping[str, Any]) -> None:
        match str(event.get("event")):
            case "job_info":
                before = {path: _changed(path) for path in event["log"]}
                self._made.discard(event["jobid"])
                self._started[event["jobid"]] = dict(event["wildcards"]), before
            case "job_finished":
                self.failed.pop(event["job_id"], None)
            case "group_error":
                # Records of its jobs follow, which do not know where the group ran.
                self._groups.update({job["jobid"]: event for job in event["job_error_info"]})
            case "job_error":
                self._fail(event)

    def _fail(self, event: Mapping[str, Any]) -> None:
        number = event["jobid"]
        wildcards, before = self._started.get(number, ({}, {}))
        group = self._groups.pop(number, {})
        recorded = self.failed.get(number, {"slurm_jobs": [], "attempts": 0})
        if _was_cancelled(event["rule_msg"] or "", group.get("aux_logs", [])):
            self.cancelled[event["rule_name"], tuple(sorted(wildcards.items()))] += 1
        slurm_job = {**group, **event["aux"]}.get("external_jobid")
        self.failed[number] = {
            "rule": event["rule_name"],
            "wildcards": wildcards,
            "slurm_jobs": recorded["slurm_jobs"] + ([str(slurm_job)] if slurm_job else []),
            "attempts": recorded["attempts"] + 1,
            "message": clean(" ".join((event["rule_msg"] or "").partition(_POINTERS)[0].split())),
            **_log([*filter(None, [*event["log"], *group.get("aux_logs", [])])], before),
            "output": list(event["output"]),
        }
        # Before Snakemake takes them away: of a group, these jobs are not the ones that failed.
        if group and all(Path(path).exists() for path in event["output"]):
            self._made.add(number)
        if len(self.failed) <= KEPT_AT_ONCE:
            # A full disk is told at the end of the run, if it is full still.
            with contextlib.suppress(files.UserError, OSError):
                write({"jobs": None, "failed": [*self.failed.values()], "not_run": []})

    def end(self, dag: Any, failed: Iterable[Any]) -> Record:
        """Return the failures of a run that is over, with the jobs that were not run.

        Parameters
        ----------
        dag : snakemake.dag.DAG
            Of the run.
        failed : iterable of snakemake.jobs.AbstractJob
            Jobs that the scheduler gave up, among them those whose output never came.
        """
        needed = [*dag.needrun_jobs()]
        lost = [job for job in needed if job.output]
        whole = [job for job in dag.needrun_jobs(exclude_finished=False) if job.output]
        entries: dict[Any, Failure] = {}
        cause: dict[Any, Any] = {}
        if self.is_interrupted:
            failed = [job for job in needed if dag.jobid(job) in self.failed]
        for job in failed:
            members = {member: dag.jobid(member) for member in getattr(job, "jobs", [job])}
            entries_of = {member: self._entry(number, member) for member, number in members.items()}
            left = [m for m, number in members.items() if number not in self._made] or [*members]
            # Of a group, jobs after the one that failed never began: they wrote no log.
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

    def _entry(self, number: int, job: Any) -> Failure:
        """Return what is known of a failed job; without an error of its own, nothing was made."""
        if number not in self.failed:
            before = self._started.get(number, ({}, {}))[1]
            self.failed[number] = {
                "rule": job.rule.name,
                "wildcards": dict(job.wildcards_dict),
                "slurm_jobs": [],
                "attempts": job.attempt,
                "message": "it ended without an error, but its output is missing or incomplete",
                **_log([str(path) for path in job.log], before),
                "output": [str(path) for path in job.output],
            }
        return self.failed[number]


def _was_cancelled(message: str, logs: Iterable[str]) -> bool:
    """Tell whether a job of SLURM was cancelled by hand; of a group only its log states it."""
    lines = [line for path in logs if Path(path).is_file() for line in tail(Path(path))]
    return "'CANCELLED'" in message or any(
        "CANCELLED AT" in line and "DUE TO" not in line for line in lines
    )


def _changed(path: str) -> int | None:
    """Return when a file was last written, in nanoseconds, or None if there is none."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return None


def _log(paths: list[str], before: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the log of a job with its last lines: the first of its logs that has any.

    `before` says when each was last written before the job began: what an earlier run wrote into
    it explains nothing.
    """
    note = "it has no log"
    for path in paths:
        try:
            if path in before and before[path] == _changed(path):
                note = "it wrote no log"
            elif lines := tail(Path(path)):
                return {"log": path, "lines": lines}
            else:
                note = "its log is empty"
        except OSError as error:
            note = f"its log cannot be read ({error.strerror})"
    return {"log": next(iter(paths), None), "lines": [], "no_lines": note}


def write(record: Record) -> None:
    """Write failures down, whole or not at all."""
    when = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    files.write_json(RECORD, {"when": when, **record})


def last() -> str:
    """Return what is known of the last run as plain text.

    Raises
    ------
    UserError
        If what it wrote cannot be read.
    """
    if not RECORD.exists():
        return f"No failed job is on record here: there is no {RECORD}."
    record = files.read_json(RECORD)
    return f"{record['when']}: {described(record)}"


def named(job: Mapping[str, Any]) -> str:
    """Return rule and wildcards of a job."""
    wildcards = ", ".join(f"{name}={value}" for name, value in sorted(job["wildcards"].items()))
    return f"{job['rule']} ({wildcards})" if wildcards else str(job["rule"])


def why(failure: Failure) -> str:
    """Return in one short line why a job failed: what SLURM says, and the last line of its log."""
    last = failure["lines"][-1:] or [failure["no_lines"]]
    text = "; ".join(filter(None, [failure["message"].rstrip("."), *last]))
    return text if len(text) <= SHORT else text[:SHORT] + "…"


def heading(record: Record) -> str:
    """Count the jobs that failed, and those that were not run."""
    failed, not_run = len(record["failed"]), record["not_run"]
    if record["jobs"] is None:
        return f"{count(failed, 'job')} failed so far: the run goes on, or was killed."
    stopped = sum(job["because"] is None for job in not_run)
    text = f"{failed} of {count(record['jobs'], 'job')} failed"
    if blocked := len(not_run) - stopped:
        text += f"; {blocked} more could not be run without what failed"
    if stopped:
        text += f"; {stopped} were not run because the run stopped (--keep-going runs them)"
    return text + "."


def described(record: Record, most: int | None = None) -> str:
    """Return failures as plain text, at most so many of them in full."""
    shown, rest = record["failed"][:most], record["failed"][most:] if most else []
    parts = [heading(record)]
    for number, failure in enumerate(shown, 1):
        details = [f"SLURM job {', '.join(failure['slurm_jobs'])}"] if failure["slurm_jobs"] else []
        details += [f"tried {failure['attempts']} times"] if failure["attempts"] > 1 else []
        if blocked := failure.get("blocked"):
            details.append(f"{count(blocked, 'job')} not run because of it")
        lines = failure["lines"]
        log = f"{failure['log'] or 'no log'}, " + (
            f"{'last ' * (len(lines) == LINES)}{count(len(lines), 'line')}:"
            if lines
            else failure["no_lines"]
        )
        block = [*filter(None, ["; ".join(details), failure["message"], log])]
        block += [f"| {line}".rstrip() for line in lines]
        parts.append("\n   ".join([f"{number}. {named(failure)}", *block]))
    if rest:
        rules = Counter(failure["rule"] for failure in rest)
        counts = ", ".join(f"{amount} × {rule}" for rule, amount in rules.most_common())
        parts.append(f"and {len(rest)} more: {counts}. `python -m mispair failures` prints all.")
    return "\n\n".join(parts)
