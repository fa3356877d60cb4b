"""Lines through recorded jobs, and which record an estimate is made from."""

import dataclasses

import numpy as np
import pytest

from bench.rates import write_rates
from mispair.core.commands import step_names
from mispair.core.cost import FETCHED, Benchmark, Work
from mispair.planning import estimates
from mispair.planning.estimates import (
    FETCH_RATE,
    HERE,
    LIKE_HERE,
    NONE,
    RATES,
    REFERENCE,
    Estimator,
    Measured,
    Record,
    StepRate,
    fit,
    line_through,
    name_of,
    read_rates,
)
from mispair.planning.jobs import Job


def record(seconds, pairs, *, step="index_shards", variant="", megabytes=100.0):
    work = Work({"pairs": pairs}, {"pairs": pairs}, {"pairs": pairs}, variant)
    return Record(step, work, seconds, megabytes, 2.0 * pairs)


def test_a_line_is_found_again():
    line = line_through([({"a": x, "b": y}, 3 + 0.5 * x + 7 * y) for x, y in
                         ((1, 2), (10, 3), (100, 1), (5, 9))])  # fmt: skip
    assert line == {"start": pytest.approx(3), "a": pytest.approx(0.5), "b": pytest.approx(7)}


def test_no_rate_is_negative_and_errors_are_relative():
    falling = line_through([({"a": 1}, 5.0), ({"a": 2}, 4.0)])
    assert set(falling) == {"start"}
    # The constant with the least squared relative error, written out.
    values = np.array([1.0, 1.0, 1.0, 1000.0])
    constant = line_through([({}, value) for value in values])["start"]
    assert constant == pytest.approx((1 / values).sum() / (1 / values**2).sum(), rel=1e-3)


def test_work_that_never_varied_is_all_start():
    assert line_through([({"a": 10}, 4.0), ({"a": 10}, 6.0)]).keys() == {"start"}
    assert line_through([]) == {}


def test_steps_and_variants_have_rates_of_their_own():
    found = fit([record(1, 10), record(2, 20), record(9, 10, variant="features")])
    assert set(found) == {"index_shards", "index_shards:features"}
    rate = found["index_shards"]
    assert (rate.jobs, rate.largest) == (2, {"pairs": 20})
    assert rate.cost("seconds", Work({"pairs": 50})) == pytest.approx(5.0)
    assert rate.cost("disk_megabytes", Work({}, {}, {"pairs": 3})) == pytest.approx(6.0)
    assert rate.beyond(Work({"pairs": 200})) == pytest.approx(10)
    assert rate.beyond(Work({"pairs": 2, "never recorded": 0})) == pytest.approx(0.1)
    assert rate.beyond(Work({"pairs": 2, "never recorded": 1})) == float("inf")
    assert name_of("index_shards", Work()) == "index_shards"


def test_rates_are_read_as_they_were_written(tmp_path):
    machines = [Measured({"device": "cpu", "processor": "é"}, fit([record(1, 10), record(2, 30)]))]
    write_rates(machines, tmp_path / "rates.json")
    assert read_rates(tmp_path / "rates.json") == machines


def test_the_shipped_rates_are_of_steps_that_there_are():
    for machine in read_rates(RATES):
        assert machine.machine["calibration_seconds"] > 0
        steps = {step for name in machine.steps for step in name.partition(":")[0].split("+")}
        assert steps <= set(step_names())
        for rate in machine.steps.values():
            assert rate.seconds
            assert rate.jobs > 0


def test_calibration_is_a_time():
    assert 0 < estimates.calibrate(1) < 60


@pytest.fixture
def same_speed(monkeypatch):
    """Make this machine as fast as the one of the rates."""
    monkeypatch.setattr(estimates, "calibrate", lambda: 1.0)


LINE = StepRate({"start": 1.0, "pairs": 0.1}, {"start": 50.0}, {"pairs": 2.0}, 2, {"pairs": 100.0})
CPU = Measured({"device": "cpu", "calibration_seconds": 1.0}, {"index_shards": LINE})
JOB = Job("index_shards", ("index-shards",))
WORK_OF_JOB = Work({"pairs": 90}, {}, {"pairs": 90})


@pytest.mark.usefixtures("same_speed")
class TestSources:
    def test_the_job_itself_comes_first(self):
        estimator = Estimator([CPU], [record(99, 10)])
        found = estimator.estimate(JOB, WORK_OF_JOB, Benchmark(3.0, 7.0))
        assert (found.source, found.seconds, found.megabytes) == (HERE, 3.0, 7.0)
        assert found.disk_megabytes == 180
        assert estimator.estimate(JOB, WORK_OF_JOB, Benchmark(3.0)).megabytes == 50

    def test_then_its_rule_in_this_folder_scaled_by_work(self):
        # Three records are thrice, twice and 30 times what the rate says.
        known = [record(6.0, 10), record(4.0, 10), record(60.0, 10)]
        found = Estimator([CPU], known).estimate(JOB, WORK_OF_JOB, None)
        assert (found.source, found.seconds) == (LIKE_HERE, pytest.approx(3 * 10))
        assert found.megabytes == 100

    def test_also_without_a_reference(self):
        known = [record(6.0, 10), record(12.0, 20)]
        found = Estimator([], known).estimate(JOB, WORK_OF_JOB, None)
        assert (found.source, found.seconds) == (LIKE_HERE, pytest.approx(54))

    def test_then_the_reference(self):
        found = Estimator([CPU]).estimate(JOB, WORK_OF_JOB, None)
        assert (found.source, found.seconds, found.disk_megabytes) == (REFERENCE, 10, 180)

    def test_steps_of_one_process_start_once_and_share_memory(self):
        listing_rate = StepRate(
            {"start": 3.0, "images": 0.2}, {"start": 80.0}, {}, 5, {"images": 9.0}
        )
        both = dataclasses.replace(CPU, steps={**CPU.steps, "list_images": listing_rate})
        job = Job("read_shards", ("index-shards", "+", "list-images"))
        work = Work({"pairs": 90, "images": 10}, {}, {"pairs": 90})
        estimate = Estimator([both]).estimate(job, work, None)
        assert (estimate.source, estimate.seconds) == (REFERENCE, pytest.approx(3 + 9 + 2))
        assert (estimate.megabytes, estimate.disk_megabytes) == (80, 180)
        assert Estimator([CPU]).estimate(job, work, None).source == NONE

    def test_fetching_is_assumed_until_jobs_of_the_rule_have_run(self, monkeypatch):
        monkeypatch.setattr(estimates, "calibrate", lambda: 3.0)  # a core of a third of the speed
        work = WORK_OF_JOB + Work({FETCHED: 100 * FETCH_RATE})
        found = Estimator([CPU]).estimate(JOB, work, None)
        assert (found.source, found.seconds) == (REFERENCE, pytest.approx(3 * 10 + 100))
        assert found.beyond == pytest.approx(0.9)
        known = [Record("index_shards", work, 2 * (10 + 100), 100.0, 180.0)]
        found = Estimator([CPU], known).estimate(JOB, work + work, None)
        assert (found.source, found.seconds) == (LIKE_HERE, pytest.approx(2 * (19 + 200)))

    def test_then_nothing_and_that_is_said(self):
        found = Estimator([CPU]).estimate(JOB, Work(variant="other"), None)
        assert (found.source, found.seconds) == (NONE, 0)

    def test_a_gpu_job_measured_on_a_cpu_is_a_bound(self):
        job = Job("index_shards", ("index-shards",), gpus=1)
        assert Estimator([CPU]).estimate(job, WORK_OF_JOB, None).is_bound
        # Far beyond what was measured the line itself is a guess, and bounds nothing.
        assert not Estimator([CPU]).estimate(job, Work({"pairs": 1e6}), None).is_bound
        gpu = Measured({"device": "A100"}, {"index_shards": StepRate({"start": 2}, {}, {}, 1, {})})
        found = Estimator([CPU, gpu]).estimate(job, WORK_OF_JOB, None)
        assert (found.is_bound, found.seconds) == (False, 2)
        assert Estimator([CPU, gpu]).estimate(JOB, WORK_OF_JOB, None).seconds == 10


def test_a_slower_machine_takes_longer(monkeypatch):
    monkeypatch.setattr(estimates, "calibrate", lambda: 3.0)
    found = Estimator([CPU]).estimate(JOB, WORK_OF_JOB, None)
    assert (found.seconds, found.disk_megabytes) == (30, 180)
    # What was measured here already says how fast this machine is.
    assert Estimator([CPU], [record(2.0, 10)]).estimate(JOB, WORK_OF_JOB, None).seconds == 10
