"""Estimates of the time, memory and disk of a job.

The estimate of a job that has run here is its benchmark. That of another job comes from the rates
of mispair. They are scaled by the ratio of jobs of its step that have run here to these rates, or
else by the speed of a core of this machine. A job without any record has no estimate.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mispair.core.benchmarks import Benchmark
from mispair.core.work import Work
from mispair.planning.jobs import Job
from mispair.planning.rates import ASPECTS, Measured, Rate, Record, calibrate, fit, name_of

HERE, LIKE_HERE, REFERENCE, NONE = "this job", "its rule here", "reference", "no record"
"""Source of an estimate: the same job, other jobs of its rule, the rates of mispair, or none."""

FAR = 100
"""Ratio to the largest measured work beyond which an estimate is marked as far."""


@dataclass(frozen=True)
class Estimate:
    """Expected time, memory and disk of a job.

    Attributes
    ----------
    source : str
        `HERE`, `LIKE_HERE`, `REFERENCE` or `NONE`.
    seconds, megabytes, disk_megabytes : float
        Zero without a record.
    is_bound : bool
        Whether a job that requests a GPU is estimated from a record on a CPU: an upper bound,
        unless its work is far beyond what was measured.
    beyond : float
        Ratio of its work to the largest work that the rate was measured on.
    """

    source: str = NONE
    seconds: float = 0.0
    megabytes: float = 0.0
    disk_megabytes: float = 0.0
    is_bound: bool = False
    beyond: float = 1.0


class Estimator:
    """Estimates jobs from rates of some machines and from records of jobs that have run here."""

    def __init__(self, measured: Sequence[Measured], records: Sequence[Record] = ()) -> None:
        of_cpu = [one for one in measured if one.machine["device"] == "cpu"]
        of_gpu = [one for one in measured if one.machine["device"] != "cpu"]
        self.cpu = of_cpu[0].steps if of_cpu else {}
        self.gpu = of_gpu[0].steps if of_gpu else {}
        self.rates_here = fit(records)
        self.records: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            self.records[name_of(record.step, record.work)].append(record)
        reference = of_cpu[0].machine["calibration_seconds"] if of_cpu else None
        self.slowness = calibrate() / reference if reference else 1.0

    def estimate(self, job: Job, work: Work, benchmark: Benchmark | None) -> Estimate:
        """Return the estimate of a job from its work, and its benchmark if it has run here."""
        if not job.command:
            return Estimate(HERE)
        name = name_of(job.step, work)
        on_gpu = self.gpu.get(name) if job.gpus else None
        rate = on_gpu or self.cpu.get(name) or self.rates_here.get(name)
        costs = [rate.cost(aspect, work) if rate else 0.0 for aspect in ASPECTS]
        if benchmark is not None:
            memory = costs[1] if benchmark.megabytes is None else benchmark.megabytes
            return Estimate(HERE, benchmark.seconds, memory, costs[2])
        if rate is None:
            return Estimate()
        is_bound = job.gpus > 0 and on_gpu is None
        if records := self.records.get(name):
            # They ran on the device that this job will run on, so no CPU bounds a GPU.
            source, is_bound = LIKE_HERE, False
            ratios = [ratio_to(rate, records, aspect) for aspect in ASPECTS]
        else:
            source, ratios = REFERENCE, [1.0 if on_gpu else self.slowness, 1.0, 1.0]
        seconds, megabytes, disk = (r * cost for r, cost in zip(ratios, costs, strict=True))
        beyond = rate.beyond(work)
        return Estimate(source, seconds, megabytes, disk, is_bound and beyond <= FAR, beyond)


def ratio_to(rate: Rate, records: Sequence[Record], aspect: str) -> float:
    """Return the median ratio of the measured cost of recorded jobs to that by a rate."""
    ratios = [
        value / expected
        for record in records
        if (value := getattr(record, aspect)) is not None
        and (expected := rate.cost(aspect, record.work)) > 0
    ]
    return statistics.median(ratios) if ratios else 1.0
