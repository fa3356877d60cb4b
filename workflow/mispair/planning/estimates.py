"""Estimates of the time, memory and disk of a job.

The estimate of a job that has run here is its benchmark. That of another job comes from the rates
of mispair. They are scaled by the ratio of jobs of its step that have run here to these rates, or
else by the speed of a core of this machine. A job without any record has no estimate.
"""

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mispair.command import parsed
from mispair.core.commands import commands
from mispair.core.cost import FETCHED, Benchmark, Quantities, Sizes, Work
from mispair.core.files import read_json
from mispair.core.provenance import step_module_name
from mispair.planning.jobs import Job

# Cost of a unit of work: measured on recorded jobs, stored in ``rates.json``, and applied.
#
# A rate is a line through recorded jobs: seconds = start + rate x units; also for memory and
# output. No coefficient is negative. Errors are relative to the measured value, so a job of a
# second has the same weight as a job of an hour.

RATES = Path(__file__).with_name("rates.json")
START = "start"
ASPECTS = ("seconds", "megabytes", "disk_megabytes")
FETCH_RATE = 20.0
"""MB a second of a job that fetches, until jobs of its rule have run here: no network is known."""
ASSUMED = {FETCHED: 1 / FETCH_RATE}


@dataclass(frozen=True)
class Record:
    """A job that has run: its work, wall time, largest memory (None: not recorded), and output."""

    step: str
    work: Work
    seconds: float
    megabytes: float | None
    disk_megabytes: float


@dataclass(frozen=True)
class StepRate:
    """Cost of a step.

    Attributes
    ----------
    seconds, megabytes, disk_megabytes : dict of str to float
        The cost of a job without work (``start``) and of each unit.
    jobs : int
        Number of jobs that it was measured on.
    largest : dict of str to float
        The largest amount of work among them, by unit.
    """

    seconds: Quantities
    megabytes: Quantities
    disk_megabytes: Quantities
    jobs: int
    largest: Quantities

    def cost(self, aspect: str, work: Work) -> float:
        """Return the cost of a job by an aspect: seconds, megabytes or disk_megabytes."""
        rates: Quantities = getattr(self, aspect)
        amounts: Quantities = {START: 1.0, **getattr(work, aspect)}
        return sum(
            rates.get(unit, ASSUMED.get(unit, 0.0)) * amount for unit, amount in amounts.items()
        )

    def beyond(self, work: Work) -> float:
        """Return the largest ratio of a job's work to the largest recorded work, over its units.

        The ratio is infinite for work in a unit without a record: its rate is unknown.
        """
        ratios = [
            amount / self.largest[unit] if self.largest.get(unit) else math.inf
            for unit, amount in work.seconds.items()
            if amount > 0 and (unit in self.largest or unit not in ASSUMED)
        ]
        return max(ratios, default=1.0)


@dataclass(frozen=True)
class Measured:
    """Rates of all steps on one machine.

    Attributes
    ----------
    machine : dict
        ``processor``, ``cores``, ``device`` (cpu, or the name of a GPU), and the seconds of
        `calibrate`.
    steps : dict of str to StepRate
        By step, or by ``step:variant``.
    """

    machine: dict[str, Any]
    steps: dict[str, StepRate] = field(default_factory=dict)


def name_of(step: str, work: Work) -> str:
    """Return the name of the rates of a job."""
    return f"{step}:{work.variant}" if work.variant else step


def fit(records: Sequence[Record]) -> dict[str, StepRate]:
    """Fit a rate to the records of each step and variant."""
    by_name: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_name[name_of(record.step, record.work)].append(record)
    rates = {}
    for name, same in sorted(by_name.items()):
        lines = {
            aspect: line_through(
                [(getattr(one.work, aspect), getattr(one, aspect)) for one in same]
            )
            for aspect in ASPECTS
        }
        units = dict.fromkeys(unit for record in same for unit in record.work.seconds)
        largest = {unit: max(one.work.seconds.get(unit, 0.0) for one in same) for unit in units}
        rates[name] = StepRate(**lines, jobs=len(same), largest=largest)
    return rates


def line_through(measured: Sequence[tuple[Quantities, float | None]]) -> Quantities:
    """Fit value = start + sum of rate x amount, with no coefficient below zero.

    A unit whose amount never varies has no rate: its cost is part of ``start``. Values that are
    missing or 0 are left out.

    Examples
    --------
    >>> line = line_through([({"pairs": 10}, 7.0), ({"pairs": 20}, 12.0)])
    >>> round(line["start"], 6), round(line["pairs"], 6)
    (2.0, 0.5)
    """
    import numpy as np
    from scipy.optimize import nnls

    recorded = [(amounts, value) for amounts, value in measured if value]
    if not recorded:
        return {}
    units = sorted({unit for amounts, _ in recorded for unit in amounts})
    values = np.array([value for _, value in recorded])
    columns = {START: np.ones(len(values))}
    for unit in units:
        column = np.array([amounts.get(unit, 0.0) for amounts, _ in recorded])
        if np.ptp(column) > 0:
            columns[unit] = column
    table = np.column_stack([*columns.values()])
    scale = table.max(axis=0)
    coefficients, _ = nnls(table / scale / values[:, None], np.ones(len(values)))
    return {
        name: float(f"{value:.4g}")
        for name, value in zip(columns, coefficients / scale, strict=True)
        if value > 0
    }


def calibrate(repetitions: int = 30) -> float:
    """Return the seconds that a core of this machine takes for a fixed piece of work.

    It is the least processor time of several repetitions, so other programs have no influence.
    """
    least = math.inf
    for _ in range(repetitions):
        started = time.thread_time()
        texts = [str(number * number % 7919) for number in range(50_000)]
        counts: dict[str, int] = {}
        for word in sorted(texts):
            counts[word] = counts.get(word, 0) + 1
        least = min(least, time.thread_time() - started)
    return least


def read_rates(path: Path = RATES) -> list[Measured]:
    """Read the rates of every machine on which they were measured."""
    return [
        Measured(one["machine"], {name: StepRate(**rate) for name, rate in one["steps"].items()})
        for one in read_json(path)
    ]


HERE, LIKE_HERE, REFERENCE, NONE = "this job", "its rule here", "reference", "no record"
"""Source of an estimate: the same job, other jobs of its rule, the rates of mispair, or none."""

OF_A_FORK = 0.3
"""Share of the start of a job that is left if it is a fork: what it does but import, and the first
imports of a run. Measured on the small configuration `smoke`."""

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
    """Estimates jobs from rates of some machines and from records of jobs that have run here.

    Rates are those of jobs that start alone. With `forks` they start as forks of a process that has
    imported their libraries (`mispair.forkserver`).
    """

    def __init__(
        self, measured: Sequence[Measured], records: Sequence[Record] = (), forks: bool = False
    ) -> None:
        self.forks = forks
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
        on_gpu = rate_of(name, self.gpu) if job.gpus else None
        rate = on_gpu or rate_of(name, self.cpu) or self.rates_here.get(name)
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
            # A faster core makes the network no faster.
            fetching = work.seconds.get(FETCHED, 0.0) * ASSUMED[FETCHED]
            slowness = 1.0 if on_gpu else self.slowness
            saved = (1 - OF_A_FORK) * rate.seconds.get(START, 0.0) * self.forks
            costs[0] = fetching + slowness * (costs[0] - fetching - saved)
            source, ratios = REFERENCE, [1.0, 1.0, 1.0]
        seconds, megabytes, disk = (r * cost for r, cost in zip(ratios, costs, strict=True))
        beyond = rate.beyond(work)
        return Estimate(source, seconds, megabytes, disk, is_bound and beyond <= FAR, beyond)


def rate_of(name: str, rates: Mapping[str, StepRate]) -> StepRate | None:
    """Return the rate of a step, or of several that run one after the other in one process.

    These start once and share the memory of the largest. Without rates of all of them there is
    none.
    """
    steps = [rates.get(step) for step in name.split("+")]
    step_rates = [rate for rate in steps if rate is not None]
    if name in rates or len(step_rates) < len(steps):
        return rates.get(name)

    def combined(aspect: str, by: Callable[[list[float]], float]) -> Quantities:
        each: list[Quantities] = [getattr(rate, aspect) for rate in step_rates]
        units = dict.fromkeys(unit for one in each for unit in one)
        return {
            unit: (max if unit == START else by)([one.get(unit, 0.0) for one in each])
            for unit in units
        }

    return StepRate(
        combined("seconds", sum),
        combined("megabytes", max),
        combined("disk_megabytes", sum),
        min(rate.jobs for rate in step_rates),
        combined("largest", max),
    )


def ratio_to(rate: StepRate, records: Sequence[Record], aspect: str) -> float:
    """Return the median ratio of the measured cost of recorded jobs to that by a rate."""
    ratios = [
        value / expected
        for record in records
        if (value := getattr(record, aspect)) is not None
        and (expected := rate.cost(aspect, record.work)) > 0
    ]
    return statistics.median(ratios) if ratios else 1.0


# The work of a job, from its command.


def work_of(command: tuple[str, ...], sizes: Sizes, fetched: float = 0.0) -> Work:
    """Return the work of a job from its command, and note the sizes of its outputs.

    The work of a job that runs several steps is the sum over these. `fetched` is the MB that it
    reads from remote shards, which its command does not have.
    """
    first, *others = (_work_of_step(words, sizes) for words in commands(command))
    return sum(others, first) + Work({FETCHED: fetched} if fetched else {})


def _work_of_step(command: tuple[str, ...], sizes: Sizes) -> Work:
    step = command[0].replace("-", "_")
    package = ".".join(step_module_name(step).split(".")[:2])
    try:
        function = getattr(import_module(f"{package}.cost"), step, None)
    except ModuleNotFoundError as error:
        if error.name != f"{package}.cost":
            raise
        function = None
    if function is None:
        return Work()
    settings, files_and_wildcards = parsed(step, command[1:])
    work: Work = function(settings, SimpleNamespace(**files_and_wildcards), sizes)
    return work
