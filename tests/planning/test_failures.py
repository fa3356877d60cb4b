"""What is kept of failed jobs, and how it is told."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake.jobs import GroupJob, Job
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_logger_plugins.common import LogEvent

from mispair import cli
from mispair.core import failures
from mispair.dag import Dag as GraphOfFiles
from mispair.planning import failed_run
from mispair.planning.failed_run import Recorder
from mispair.report import studies

RULES = Path(__file__).parents[2] / "workflow/rules"


class Dag:
    """As much of Snakemake's graph as is asked for; the walk is another one than its own."""

    def __init__(self) -> None:
        self.depending: defaultdict[Any, dict[Any, set[str]]] = defaultdict(dict)
        self.all: list[FakeJob] = []
        self.done: set[FakeJob] = set()
        self.workflow = SimpleNamespace(
            deployment_settings=SimpleNamespace(deployment_method=set())
        )

    def jobid(self, job: FakeJob) -> int:
        return self.all.index(job)

    def needrun_jobs(self, exclude_finished: bool = True) -> list[FakeJob]:
        return [job for job in self.all if not (exclude_finished and job in self.done)]

    def bfs(self, direction: Any, job: FakeJob) -> Iterator[FakeJob]:
        waiting, seen = deque([job]), set()
        while waiting:
            if (job := waiting.pop()) not in seen:
                seen.add(job)
                waiting += direction[job]
                yield job


class FakeJob:
    """A job that says of itself what Snakemake's own code makes of it."""

    get_log_error_info = Job.get_log_error_info
    log_error = Job.log_error
    container_img, shellcmd, message, attempt = None, "false", "Work", 1

    def __init__(self, dag: Dag, rule: str, after: tuple[FakeJob, ...] = (), **wildcards: str):
        self.dag, self.rule, self.wildcards_dict = dag, SimpleNamespace(name=rule), wildcards
        name = "-".join([rule, *wildcards.values()])
        self.input: list[str] = []
        self.output, self.log = [f"results/{name}"], [f"logs/{name}.log"]
        dag.all.append(self)
        for job in after:
            dag.depending[job][self] = {"a file"}

    def begin(self) -> None:
        logging.getLogger("snakemake.logging").info(
            "", extra={"event": LogEvent.JOB_INFO, "jobid": self.dag.jobid(self),
                       "log": self.log, "wildcards": self.wildcards_dict},
        )  # fmt: skip

    def finish(self) -> None:
        self.dag.done.add(self)
        number = self.dag.jobid(self)
        logging.getLogger("snakemake.logging").info(
            "", extra={"event": LogEvent.JOB_FINISHED, "job_id": number}
        )

    def write(self, text: str | bytes) -> None:
        path = Path(self.log[0])
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)


def begun(rule: str = "measure", log: str = "", **wildcards: str) -> FakeJob:
    """Return the only job of a graph, which has begun and written a log."""
    job = FakeJob(Dag(), rule, **wildcards)
    job.begin()
    if log:
        job.write(log)
    return job


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(failed_run, "LATE", 0)
    logger = logging.getLogger("snakemake.logging")
    before, handler = logger.level, signal.getsignal(signal.SIGINT)
    logger.setLevel(logging.INFO)
    recorder = failed_run.watch(logger)
    yield recorder
    signal.signal(signal.SIGINT, handler)
    logger.removeFilter(recorder.passes)
    logger.removeHandler(recorder)
    logger.setLevel(before)


def on_slurm(job: Any, number: str, **about: Any) -> None:
    """Report an error as Snakemake's executors of clusters do."""
    info = SubmittedJobInfo(job, external_jobid=number)
    # One that can report, and nothing else.
    executor = RemoteExecutor.__new__(type("Slurm", (RemoteExecutor,), {
        name: None for name in RemoteExecutor.__abstractmethods__}))  # fmt: skip
    executor.print_job_error(info, **about)


def test_a_failure_is_told_with_rule_wildcards_and_last_lines(recorder: Recorder) -> None:
    log = "".join(f"line {number}\n" for number in range(50))
    job = begun("measure_purity", log, arm="pretrained_random~0.5", corpus="scenes")
    job.log_error()
    told = failures.described(recorder.end(job.dag, {job}))
    assert "1 of 1 job failed." in told
    assert "1. measure_purity (arm=pretrained_random~0.5, corpus=scenes)" in told
    assert "logs/measure_purity-pretrained_random~0.5-scenes.log, last 20 lines:" in told
    lines = [line.strip() for line in told.splitlines() if line.strip().startswith("|")]
    assert lines == [f"| line {number}" for number in range(30, 50)]
    assert "SLURM" not in told
    assert "tried" not in told
    assert "not run because" not in told


def test_slurm_says_which_job_it_was_and_what_became_of_it(recorder: Recorder) -> None:
    job = begun("simulate", condition="as-run")
    Path("slurm.log").write_text("slurmstepd: error: *** JOB 12 CANCELLED DUE TO TIME LIMIT ***\n")
    on_slurm(job, "11", msg="SLURM-job '11' failed, SLURM status is: 'NODE_FAIL'. ")
    job.begin()
    on_slurm(job, "12", msg="SLURM-job '12' failed, SLURM status is: 'TIMEOUT'. ",
             aux_logs=["slurm.log"])  # fmt: skip
    record = recorder.end(job.dag, {job})
    (failure,) = record["failed"]
    assert failure["slurm_jobs"] == ["11", "12"]
    assert failure["attempts"] == 2
    assert failure["message"] == "SLURM-job '12' failed, SLURM status is: 'TIMEOUT'."
    # The job never wrote a log of its own: what SLURM caught is told instead.
    assert failure["log"] == "slurm.log"
    assert "TIME LIMIT" in failure["lines"][0]
    told = failures.described(record)
    assert "SLURM job 11, 12; tried 2 times" in told
    assert "'TIMEOUT'" in told
    assert failures.why(failure).startswith("SLURM-job '12' failed")


def test_of_a_group_only_what_failed_is_named(recorder: Recorder) -> None:
    dag = Dag()
    made = FakeJob(dag, "encode_prompts", protocol="a")
    guilty = FakeJob(dag, "measure_purity", arm="b")
    never = FakeJob(dag, "draw", after=(guilty,))
    later = FakeJob(dag, "gather_metrics", after=(made, guilty))
    group = SimpleNamespace(groupid="g", jobs=[made, guilty, never])
    group.log_error = lambda msg=None, **about: GroupJob.log_error(group, msg, **about)
    never.begin()
    for job in (made, guilty):
        job.begin()
        job.write(f"of {job.rule.name}\n")
    Path("results").mkdir()
    Path(made.output[0]).touch()
    Path("slurm.log").write_text("of the whole group\n")
    on_slurm(group, "77", aux_logs=["slurm.log"])
    Path(made.output[0]).unlink()  # as Snakemake does with all outputs of a group that failed
    record = recorder.end(dag, [group])
    (failure,) = record["failed"]
    assert failure["rule"] == "measure_purity"
    assert failure["slurm_jobs"] == ["77"]
    assert failure["lines"] == ["of measure_purity"]
    assert failure["blocked"] == 2
    lost = {job["rule"]: job["because"] for job in record["not_run"]}
    assert lost == {"encode_prompts": 0, "gather_metrics": 0, "draw": 0}
    assert later.output[0] in failed_run.lost(record)


def test_what_was_not_run_is_counted_once_and_has_its_cause(recorder: Recorder) -> None:
    dag = Dag()
    first, second, fine = (FakeJob(dag, "finetune", arm=arm) for arm in "abc")
    only = FakeJob(dag, "measure", (first,), arm="a")
    both = FakeJob(dag, "compare", (first, second, only, fine))
    free = FakeJob(dag, "simulate")
    target = FakeJob(dag, "all", (both,))
    target.output = []
    for job in (first, second):
        job.begin()
        job.write("no")
        job.log_error()
    fine.finish()
    record = recorder.end(dag, {second, first})
    assert [failure["wildcards"]["arm"] for failure in record["failed"]] == ["a", "b"]
    assert [failure["blocked"] for failure in record["failed"]] == [2, 1]
    assert {job["rule"]: job["because"] for job in record["not_run"]} == {
        "measure": 0, "compare": 0, "simulate": None,
    }  # fmt: skip
    assert failures.heading(record) == (
        "2 of 6 jobs failed; 2 more could not be run without what failed; 1 were not run because "
        "the run stopped (--keep-going runs them)."
    )
    assert failed_run.lost(record) == {
        path for job in (first, second, only, both, free) for path in job.output
    }


def test_what_watches_a_run_does_not_end_it(recorder, monkeypatch):
    dag = Dag()
    job = FakeJob(dag, "measure")
    failures.RECORD.parent.write_text("no folder can be made here")
    job.begin()
    job.log_error()  # cannot be written down
    assert recorder.end(dag, {job})["failed"][0]["rule"] == "measure"
    monkeypatch.setattr(logging, "raiseExceptions", False)
    logging.getLogger("snakemake.logging").info("", extra={"event": LogEvent.JOB_INFO})


def test_a_job_that_succeeds_later_is_no_failure(recorder: Recorder) -> None:
    job = begun()
    job.log_error()
    assert json.loads(failures.RECORD.read_text())["failed"][0]["rule"] == "measure"
    job.begin()
    job.finish()
    assert recorder.failed == {}


def test_an_output_that_never_came_is_a_failure(recorder: Recorder) -> None:
    job = begun(log="all is well\n")
    (failure,) = recorder.end(job.dag, {job})["failed"]
    assert "output is missing" in failure["message"]
    assert failure["lines"] == ["all is well"]


def test_the_log_of_an_earlier_run_explains_nothing(recorder: Recorder) -> None:
    dag = Dag()
    job = FakeJob(dag, "measure")
    job.write("the failure of last week\n")
    job.begin()
    job.log_error()
    (failure,) = recorder.end(dag, {job})["failed"]
    assert failure["lines"] == []
    assert failure["no_lines"] == "it wrote no log"
    assert "logs/measure.log, it wrote no log" in failures.described({**recorder.end(dag, {job})})


@pytest.mark.parametrize(("make", "words"), [
    (lambda job: None, "it wrote no log"),
    (lambda job: job.write(""), "its log is empty"),
    (lambda job: Path(job.log[0]).mkdir(parents=True), "cannot be read (Is a directory)"),
    (lambda job: job.log.clear(), "it has no log"),
])  # fmt: skip
def test_a_missing_log_is_said(recorder: Recorder, make: Any, words: str) -> None:
    job = begun()
    make(job)
    job.log_error()
    record = recorder.end(job.dag, {job})
    assert words in failures.described(record)
    assert words in failures.why(record["failed"][0])


def test_nothing_in_a_log_reaches_the_terminal_but_text(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(
        b"\x1b[31mred\x1b[0m \x1b]0;title\x07after\n"
        b"\xff\xfe not UTF-8\n"
        b" 10 %\r 99 %\r\n"
        b"bell \x07 null \x00 tab\tend\n"
        + "right to left \u202e, one C1 \u009b2J, a line \u2028 end\n".encode()
        + b"<script>alert(1)</script>\n" + b"x" * 5000 + b"\n\n\n"
    )  # fmt: skip
    lines = failures.tail(log)
    assert lines[:4] == [
        "red after", "�� not UTF-8", " 99 %", "bell � null � tab   end",
    ]  # fmt: skip
    assert lines[4] == "right to left �, one C1 �2J, a line � end"
    assert lines[5] == "<script>alert(1)</script>"
    assert lines[6] == "x" * failures.WIDTH + "…"
    assert len(lines) == 7
    assert all(character.isprintable() for line in lines for character in line)


def test_of_a_huge_log_the_end_alone_is_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as opened:
        os.truncate(log, 1 << 36)  # a hole of 64 GB, which no memory would take
        opened.seek(0, 2)
        opened.write(b"\nlast but one\nlast\n")
    assert failures.tail(log)[-2:] == ["last but one", "last"]


def test_many_failures_are_told_in_short_at_the_end_and_in_full_later(recorder, capsys):
    dag = Dag()
    jobs = [FakeJob(dag, "simulate", trial=str(number)) for number in range(100)]
    for job in jobs:
        job.begin()
        job.log_error()
    record = recorder.end(dag, {*jobs})
    told = failures.described(record, failures.SHOWN)
    assert "10. simulate (trial=9)" in told
    assert "11. " not in told
    assert "and 90 more: 90 × simulate." in told
    failures.write(record)
    assert cli.main(["failures"]) == 0
    printed = capsys.readouterr().out
    assert "100 of 100 jobs failed." in printed
    assert "100. simulate (trial=99)" in printed
    failed_run.forget()
    assert cli.main(["failures"]) == 0
    assert "No failed job is on record" in capsys.readouterr().out


def test_a_run_that_goes_on_says_what_has_failed_so_far(recorder, capsys):
    job = begun("simulate", "out of memory\n", condition="as-run")
    on_slurm(job, "5")
    assert cli.main(["failures"]) == 0
    printed = capsys.readouterr().out
    assert "1 job failed so far" in printed
    assert "SLURM job 5" in printed
    assert "| out of memory" in printed


def test_a_broken_record_is_one_message(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    failures.RECORD.parent.mkdir()
    failures.RECORD.write_text("{")
    assert cli.main(["failures"]) == 2
    assert "logs/failures.json: cannot be read as JSON" in capsys.readouterr().err


def test_commands_of_an_incomplete_report_touch_nothing_of_the_complete_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("reports/incomplete/figures").mkdir(parents=True)
    Path("reports/incomplete/figures/a.svg").touch()
    command = (
        "python -m mispair write-report --tables reports/figures/a.svg reports/figures/b.svg"
        " 'with space' stale fresh --neurons reports/figures/c.html --benchmarks benchmarks"
        " --page reports/index.html --pages reports/pages --title 'of reports/x'"
        " > logs/write_report.log 2>&1"
    )
    inputs = {"reports/figures/a.svg", "reports/figures/b.svg", "reports/figures/c.html",
              "with space", "stale", "fresh"}  # fmt: skip
    Path("stale").touch()  # of an earlier run: it is there, and must not be taken
    assert failed_run.incomplete_command(command, inputs, {"stale", "reports/index.html"})[3:] == [
        "write-report", "--tables", "reports/incomplete/figures/a.svg", "with space", "fresh",
        "--neurons", "--benchmarks", "benchmarks", "--page", "reports/incomplete/index.html",
        "--pages", "reports/incomplete/pages", "--title", "of reports/x",
    ]  # fmt: skip


def test_what_ends_after_an_interruption_is_no_failure(recorder, caplog):
    dag = Dag()
    first, stopped = FakeJob(dag, "first"), FakeJob(dag, "stopped")
    FakeJob(dag, "never_began")
    first.begin()
    stopped.begin()
    first.log_error()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    stopped.log_error()
    record = recorder.end(dag, [first, stopped])
    assert [job["rule"] for job in record["failed"]] == ["first"]
    assert [job["rule"] for job in record["not_run"]] == ["stopped", "never_began"]
    assert "Error in rule stopped" not in caplog.text


def test_a_job_that_ends_before_the_interruption_is_no_failure(recorder, monkeypatch, caplog):
    monkeypatch.setattr(failed_run, "LATE", 30)
    stopped = begun("stopped")
    with ThreadPoolExecutor(1) as executor:
        told = executor.submit(stopped.log_error)
        time.sleep(0.2)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        told.result(10)
    assert recorder.end(stopped.dag, [stopped])["failed"] == []
    assert "Error in rule stopped" not in caplog.text


def test_an_interruption_waits_for_the_end_of_a_coroutine(recorder: Recorder) -> None:
    """Within one it would end that alone, and print a traceback."""
    ended = []

    async def coroutine() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(0.01)
        ended.append(recorder.is_interrupted)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(coroutine())
        time.sleep(10)
    assert ended == [True]


def test_an_interruption_does_not_wait_for_ever(recorder, monkeypatch):
    monkeypatch.setattr(failed_run, "LONGEST_WAIT", 0.1)

    async def coroutine() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(10)

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(coroutine())
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("study", studies.NAMES)
def test_what_each_study_has_measured_is_reported(study, recorder, monkeypatch):
    model = {"name": "a", "model": "ViT-B-32", "pretrained": "openai"}
    chosen = {"studies": [study], "models": [model] if study == "laclip" else []}
    dag = GraphOfFiles(chosen, "x")
    inputs = dag.results()
    write_report = SimpleNamespace(
        rule=SimpleNamespace(name="write_report"), input=[], output=["reports/index.html"]
    )
    jobs = [
        SimpleNamespace(rule=SimpleNamespace(name="gather_metrics"), input=inputs, output=[]),
        write_report,
    ]

    def run(*_: Any) -> bool:
        page = Path(failed_run.INCOMPLETE, "index.html")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
        return True

    monkeypatch.setattr(failed_run, "_run", run)
    measurements = {*filter(studies.is_measurement, inputs)}
    lost = {*inputs, *write_report.output} - {min(measurements)}
    assert "Incomplete report" in failed_run.report(jobs, lost)
    shutil.rmtree("reports")
    failed_run.report(jobs, {*measurements, *write_report.output})
    assert not Path("reports").exists()
