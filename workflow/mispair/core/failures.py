"""Failed jobs of a run: their file, and how they are printed."""

import datetime
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mispair.core import files
from mispair.core.words import count

RECORD = Path("logs/failures.json")
"""File with the failures of the last run; the next run that succeeds removes it."""

LINES, BYTES = 20, 64 * 1024
"""Lines of a log that are kept, and bytes at its end in which they are searched."""
WIDTH, SHORT = 2000, 200
"""Characters of a line that are kept, and of a reason in one line."""
SHOWN = 10
"""Failed jobs that the end of a run prints in full; the others are counted by rule."""
Failure = dict[str, Any]
"""A failed job: rule, wildcards, slurm_jobs, attempts, message, log, lines, output, blocked."""
Record = dict[str, Any]
"""Failures of a run: when, jobs, failed, and not_run, whose ``because`` is an index of failed."""

_COLOURS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)")


def tail(path: Path) -> list[str]:
    """Return the last lines of a log, safe to print (`clean`). Only its end is read."""
    with path.open("rb") as log:
        start = max(0, log.seek(0, 2) - BYTES)
        log.seek(start)
        text = log.read().decode("utf-8", errors="replace")
    lines = text.strip("\r\n").rstrip().split("\n")
    whole = lines[1:] if start and len(lines) > 1 else lines  # the first may be half a line
    return [clean(line) for line in whole[-LINES:]] if text.strip() else []


def clean(line: str, width: int = WIDTH) -> str:
    """Return a line of text without control sequences for a terminal.

    Control characters and broken UTF-8 become a replacement character. Colours are removed, a
    progress bar keeps its last state, and a long line is cut.
    """
    shown = _COLOURS.sub("", line).rstrip().rsplit("\r", 1)[-1].expandtabs(4)
    safe = "".join(
        "�" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in shown
    )
    return safe if len(safe) <= width else safe[:width] + "…"


def write(record: Record) -> None:
    """Write failures to their file, whole or not at all."""
    when = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    files.write_json(RECORD, {"when": when, **record})


def last() -> str:
    """Return the failures of the last run as plain text.

    Raises
    ------
    UserError
        If their file cannot be read.
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
    """Return in one short line why a job failed: SLURM's message and the last line of its log."""
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
    """Return failures as plain text, at most `most` of them in full."""
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
