"""What Snakemake recorded: numbers, gaps, and files that are broken."""

import pytest

from bench.processor_time import processor_seconds
from mispair.core.cost import Benchmark, read_benchmark

HEAD = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"


def write(path, *rows):
    path.write_text(HEAD + "".join(row + "\n" for row in rows))
    return path


def test_a_file_as_snakemake_writes_it(tmp_path):
    path = write(tmp_path / "a.tsv", "2.4\t0:00:02\t281.5\t1\t1\t1\t0\t0\t50.0\t1.0")
    # Measured last after 2.0 of 2.4 seconds.
    assert processor_seconds(path) == pytest.approx(1.2)
    assert read_benchmark(path) == Benchmark(2.4, 281.5)


def test_of_repetitions_the_mean_time_and_the_largest_memory(tmp_path):
    rows = ("2.0\t0\t100\t1\t1\t1\t0\t0\t0\t1", "4.0\t0\t300\t1\t1\t1\t0\t0\t0\t3")
    found = read_benchmark(write(tmp_path / "a.tsv", *rows))
    assert (found.seconds, found.megabytes) == (3.0, 300.0)


def test_a_long_job_is_looked_at_every_half_minute(tmp_path):
    path = write(tmp_path / "a.tsv", "80.0\t0\t100\t1\t1\t1\t0\t0\t0\t150")
    # At 15, 45 and 75 seconds: two threads were busy all the time.
    assert processor_seconds(path) == pytest.approx(160.0)


@pytest.mark.parametrize("gap", ["NA", "-", "", "nan", "-1", "inf"])
def test_a_job_too_short_to_be_looked_at_has_no_memory(tmp_path, gap):
    path = write(tmp_path / "a.tsv", f"0.2\t0:00:00\t{gap}\tNA\tNA\tNA\tNA\tNA\tNA\tNA")
    assert read_benchmark(path) == Benchmark(0.2, None)
    assert processor_seconds(path) is None


def test_then_its_own_log_says_what_it_was(tmp_path):
    path = write(tmp_path / "a.tsv", "0.2\t0:00:00\tNA\tNA\tNA\tNA\tNA\tNA\tNA\tNA")
    log = tmp_path / "a.log"
    log.write_text("INFO purity took 0.1 s; its peak memory was 21 MB\n" * 2)
    assert read_benchmark(path, log).megabytes == pytest.approx(21e6 / 2**20)
    log.write_text("nothing of the kind\n")
    assert read_benchmark(path, log).megabytes is None


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


@pytest.mark.parametrize(
    "content",
    [
        b"",
        HEAD.encode(),
        b"\xff\xfe\x00",
        HEAD.encode() + b"NA\tNA\n",
        b"a\tb\n1\t2\n",
        b"\x00" * 9,
    ],
)
def test_a_broken_file_is_said_and_left_out(tmp_path, content):
    path = tmp_path / "a.tsv"
    path.write_bytes(content)
    found = read_benchmark(path)
    assert isinstance(found, str)
    assert str(path) in found
    assert "left out" in found
