"""What a user reads while a run goes on, and its last line."""

import logging
import os
import pty
import re
import shutil
import subprocess
import termios

from snakemake.settings.types import OutputSettings
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_mispair import LogHandler
from tests.fork_server import python
from tests.workflow.conftest import SMOKE, Checkout


def address(run: Checkout) -> str:
    return f"The report: {(run.folder / 'reports/index.html').resolve().as_uri()}"


def last_line(printed: str) -> str:
    return printed.strip().splitlines()[-1]


def test_each_job_is_a_line_and_the_last_line_is_the_address_of_the_report(finished: Checkout):
    printed = finished.folder.with_name("printed.log").read_text()
    logs = [path.read_text() for path in sorted((finished.folder / ".snakemake/log").iterdir())]
    jobs = int(re.findall(r"^total +(\d+)$", "\n".join(logs), re.MULTILINE)[-1])
    assert jobs > 20
    numbered = re.findall(rf"^ *(\d+) of {jobs}  \S.*$", printed, re.MULTILINE)
    assert list(map(int, numbered)) == list(range(1, jobs + 1))
    lines = printed.strip().splitlines()
    assert max(map(len, lines)) < 300
    assert len(lines) <= jobs + 8
    assert last_line(printed) == address(finished)


def test_the_last_line_is_the_report_also_where_nothing_is_to_be_done(run: Checkout) -> None:
    printed = run.snakemake()
    assert "Nothing to be done" in printed
    assert last_line(printed) == address(run)
    assert "The report:" not in run.snakemake("--dry-run")
    assert "The report:" not in run.snakemake("results/pairs/scenes/index/0000.parquet")


def event(kind: LogEvent | None, message: str = "", **details: object) -> logging.LogRecord:
    record = logging.makeLogRecord({"msg": message, "levelno": logging.INFO, "levelname": "INFO"})
    record.__dict__.update(details, **({"event": kind} if kind else {}))
    return record


def test_warnings_and_errors_are_shown_and_everyday_messages_are_not(capsys) -> None:
    handler = LogHandler(OutputSettings(nocolor=True), None)
    handler.emit(event(LogEvent.RUN_INFO, stats={"total": 2}))
    handler.emit(event(LogEvent.JOB_INFO, jobid=7, rule_name="a", rule_msg="Do a"))
    handler.emit(event(None, "Select jobs to execute..."))
    handler.emit(event(None, "Your settings differ from the record."))
    failed = {
        "jobid": 7, "rule_name": "a", "rule_msg": "Do a", "input": [], "output": ["x"],
        "log": ["a.log"], "conda_env": None, "shellcmd": "false", "aux": {},
    }  # fmt: skip
    handler.emit(event(LogEvent.JOB_ERROR, "it failed", **failed))
    handler.emit(event(LogEvent.JOB_INFO, jobid=8, rule_name="b", rule_msg=None))
    handler.emit(event(LogEvent.JOB_FINISHED, job_id=8))
    handler.close()
    printed = capsys.readouterr().err
    assert "Select" not in printed
    assert "Your settings differ" in printed
    assert "Error in rule a" in printed
    assert "a.log" in printed
    assert printed.splitlines()[-1] == "1 of 2  b"


def test_a_terminal_has_the_progress_at_the_bottom(run: Checkout) -> None:
    shutil.rmtree(run.folder / "reports/tensorboard")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    command = [python(), "-m", "snakemake", "--cores", "2", "--configfile", SMOKE,
               "--logger", "mispair"]  # fmt: skip
    process = subprocess.Popen(command, cwd=run.folder, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # the other end is closed
        pass
    assert process.wait(60) == 0
    text = shown.decode()
    assert re.search(r"\d+ %  \d\d:\d\d, about .* left", text)
    assert address(run) in text
