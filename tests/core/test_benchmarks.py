"""What jobs took: what they write themselves, numbers, gaps, and files that are broken."""

import os
import subprocess
import sys

import pytest

from bench.processor_time import processor_seconds
from mispair.core.cost import MIB, Benchmark, read_benchmark, write_benchmark
from mispair.core.provenance import PACKAGE
from mispair.report.pages.records import run_times

HEAD = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def write(path, *rows):
    path.write_text(HEAD + "".join(row + "\n" for row in rows))
    return path


GAPS = ("NA", "-", "", "nan", "-1", "inf")


@pytest.mark.parametrize(("rows", "expected", "processor"), [
    (["2.4\t0:00:02\t281.5\t1\t1\t1\t0\t0\t50.0\t1.0"], Benchmark(2.4, 281.5), 1.0),
    (["2.0\t0\t100\t1\t1\t1\t0\t0\t0\t1", "4.0\t0\t300\t1\t1\t1\t0\t0\t0\t3"],  # repeated
     Benchmark(3.0, 300.0), 2.0),
    *(([f"0.2\t0:00:00\t{gap}" + "\tNA" * 7], Benchmark(0.2, None), None) for gap in GAPS),
])  # fmt: skip
def test_a_file_as_snakemake_wrote_it_in_former_runs(tmp_path, rows, expected, processor):
    path = write(tmp_path / "a.tsv", *rows)
    assert (read_benchmark(path), processor_seconds(path)) == (expected, processor)


WORK = """
import multiprocessing, os, sys, time
from pathlib import Path
from mispair.core.cost import write_benchmark
from mispair.core.devices import count_workers

def work(seconds, ready, over):
    kept = bytearray(os.urandom(200_000_000))
    while time.process_time() < seconds:
        pass
    ready.set()
    over.wait()

if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    ready, over = spawn.Event(), spawn.Event()
    worker = spawn.Process(target=work, args=(1.0, ready, over))
    worker.start()
    ready.wait()
    count_workers()
    over.set()
    worker.join()
    write_benchmark(Path("a.tsv"), 2.5)
"""


def test_what_a_job_took_cannot_be_written(tmp_path, caplog):
    (tmp_path / "folder").touch()
    write_benchmark(tmp_path / "folder/a.tsv", 2.5)
    assert "a.tsv is not written" in caplog.text


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell of workers")
def test_a_job_writes_what_it_took_with_its_workers(tmp_path):
    (tmp_path / "work.py").write_text(WORK)
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    began = os.times()
    subprocess.run([sys.executable, "work.py"], cwd=tmp_path, env=environment, check=True)
    ended = os.times()
    took = sum(ended[2:4]) - sum(began[2:4])
    found = read_benchmark(tmp_path / "a.tsv")
    assert found.seconds == 2.5
    assert 200e6 / MIB < found.megabytes < 500
    assert 1.0 < processor_seconds(tmp_path / "a.tsv") == pytest.approx(took, abs=0.3)


@pytest.mark.parametrize(
    "line", ["2 of 3 shards were read before", "a: 1 of 2 seeds were run before"]
)
def test_a_job_that_took_former_results_is_no_measure(tmp_path, line):
    path = write(tmp_path / "a.tsv", "0.2\t0:00:00\tNA\tNA\tNA\tNA\tNA\tNA\tNA\tNA")
    log = tmp_path / "a.log"
    log.write_text(f"2026-11-28 14:00:00,000 INFO {line}\nINFO done\n")
    assert read_benchmark(path, log) is None


def test_no_file_is_no_record(tmp_path):
    assert read_benchmark(tmp_path / "none.tsv") is None


@pytest.mark.parametrize("content", [
    b"", HEAD.encode(), b"\xff\xfe\x00", HEAD.encode() + b"NA\tNA\n", b"a\tb\n1\t2\n", b"\0" * 9,
])  # fmt: skip
def test_a_broken_file_is_said_and_left_out(tmp_path, content):
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    found = read_benchmark(path)
    assert isinstance(found, str)
    assert str(path) in found
    assert "left out" in found


def test_the_page_of_the_run_sums_jobs_and_shows_memory_in_megabytes():
    table = run_times({"a/1.tsv": "s\tmax_rss\n2\t100\n", "a/2.tsv": "s\tmax_rss\n3\t50\n"})
    (step, jobs, total, _, longest, memory), _ = table.rows
    assert (step, jobs.value, total.value, longest.value) == ("a", 2, 5.0, 3.0)
    assert memory.value == pytest.approx(100 * 2**20 / 1e6)
