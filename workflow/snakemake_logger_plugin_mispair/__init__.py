"""A run in one line for each job: ``snakemake --logger mispair``.

Snakemake finds this package by its name. A terminal has a line at the bottom in addition, with the
progress of the run and what runs now. ``.snakemake/log`` has all that Snakemake says, as ever.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, field
from typing import Any

from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from tqdm import tqdm

from snakemake_logger_plugin_mispair.arguments import refuse_unreadable

refuse_unreadable(sys.argv)

FORMS = (
    "Select jobs to execute", "Execute ", "Using shell", "Provided ", "Building DAG", "Group jobs",
    "Rules claiming more threads", "Assuming unrestricted", "Conda environments", "Config file ",
    "Singularity containers", "Using workflow specific profile", "Elapsed time",
)  # fmt: skip
"""How messages begin that say the same in every run."""
HIDDEN = {
    LogEvent.WORKFLOW_STARTED, LogEvent.RUN_INFO, LogEvent.RESOURCES_INFO, LogEvent.PROGRESS,
    LogEvent.JOB_INFO, LogEvent.JOB_STARTED, LogEvent.JOB_FINISHED, LogEvent.GROUP_INFO,
    LogEvent.SHELLCMD,
}  # fmt: skip
"""Events that become lines of ours, or none. All others are errors."""


@dataclass
class Lines:
    """What the events of a run become: a line for each job, and what runs."""

    total: int = 0
    done: int = 0
    running: dict[int, str] = field(default_factory=dict)
    """By the number of a job what it does, in the order in which the jobs began."""

    def take(self, event: LogEvent, record: Any) -> str | None:
        """Return the line that an event of Snakemake adds, if it adds one."""
        if event is LogEvent.RUN_INFO:
            self.total = record.stats["total"]
            return f"{self.total} jobs"
        if event is LogEvent.JOB_INFO:
            self.running[record.jobid] = record.rule_msg or record.rule_name
        elif event is LogEvent.JOB_FINISHED:
            self.done += 1
            width = len(str(self.total))
            what = self.running.pop(record.job_id, f"job {record.job_id}")
            return f"{self.done:{width}d} of {self.total}  {what}"
        elif event is LogEvent.JOB_ERROR:
            self.running.pop(record.jobid, None)
        return None

    @property
    def now(self) -> str:
        """What runs, in one line."""
        return " · ".join(self.running.values())


class LogHandler(LogHandlerBase):
    """Writes lines for jobs, and everything that is no everyday message as Snakemake does."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Take over what the command line says of colours, of quiet and of the stream."""
        said = self.common_settings
        self._stream = sys.stdout if said.stdout else sys.stderr
        self._plain = ColorizingTextHandler(nocolor=said.nocolor, stream=self._stream)
        self._plain.setFormatter(DefaultFormatter(said.quiet, said.show_failed_logs))
        self._plain.addFilter(
            DefaultFilter(
                said.quiet, said.debug_dag, said.verbose, said.dryrun, said.printshellcmds
            )
        )
        self._lines = Lines()
        self._bar: tqdm[Any] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write what a record says."""
        event = getattr(record, "event", None)
        if self.common_settings.dryrun or self.common_settings.verbose:
            self._plain.handle(record)
        elif event in HIDDEN:
            self._say(self._lines.take(event, record))
        elif event or not str(record.msg).startswith(FORMS):
            with tqdm.external_write_mode(file=self._stream):
                self._plain.handle(record)

    def _say(self, line: str | None) -> None:
        bar = self._bar
        if bar is None and self._lines.total and self._stream.isatty():
            bar = self._bar = tqdm(
                total=self._lines.total, file=self._stream, leave=False, dynamic_ncols=True,
                bar_format="{percentage:3.0f} %  {elapsed}, about {remaining} left  {desc}",
            )  # fmt: skip
        if line:
            tqdm.write(line, file=self._stream)
        if bar is not None:
            bar.n = self._lines.done
            bar.set_description_str(self._lines.now[: max(10, (bar.ncols or 80) - 40)])

    def close(self) -> None:
        """Take the line at the bottom away."""
        if self._bar is not None:
            self._bar.close()
        super().close()
