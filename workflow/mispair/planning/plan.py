"""``mispair plan``: what a run will take, rule by rule and in all, before it is paid for.

A job that has run here takes what its benchmark says. Another takes what the rates say that come
with mispair, corrected by how the jobs of its step that have run here compare with these rates, or
else by how fast this machine's cores are. What has no record at all is said to have none.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mispair.core.sizes import Sizes
from mispair.core.work import Work
from mispair.planning.benchmarks import Benchmark, read_benchmark
from mispair.planning.jobs import Job, Machine, planned_jobs
from mispair.planning.rates import (
    ASPECTS,
    RATES,
    Measured,
    Rate,
    Record,
    calibrate,
    fit,
    name_of,
    read_rates,
)
from mispair.planning.schedule import Task, levels, noticed, schedule
from mispair.planning.work import work_of

HERE, LIKE_HERE, REFERENCE, NONE = "this job", "its rule here", "reference", "no record"
"""Where an estimate comes from: from this job when it ran, from its rule, from mispair's rates."""

FAR = 100
"""Times the largest work that was measured, beyond which an estimate is said to be far off it."""


@dataclass(frozen=True)
class Estimate:
    """What a job is expected to take.

    Attributes
    ----------
    source : str
        `HERE`, `LIKE_HERE`, `REFERENCE` or `NONE`.
    seconds, megabytes, disk_megabytes : float
        Zero without a record.
    is_bound : bool
        Whether a job that wants a GPU is estimated from a record on a CPU: an upper bound, unless
        its work is far beyond what was measured.
    beyond : float
        Times the largest work that the rate was measured on.
    """

    source: str = NONE
    seconds: float = 0.0
    megabytes: float = 0.0
    disk_megabytes: float = 0.0
    is_bound: bool = False
    beyond: float = 1.0


@dataclass(frozen=True)
class RuleTotals:
    """The jobs of a rule together; memory is that of the largest job."""

    rule: str
    jobs: int
    threads: int
    gpus: int
    core_hours: float
    gpu_hours: float
    megabytes: float
    disk_megabytes: float
    sources: list[str]
    is_bound: bool
    is_far: bool


@dataclass(frozen=True)
class Totals:
    """The whole run.

    Attributes
    ----------
    jobs, submissions, levels : int
        Jobs; those that are submitted to a cluster, a group as one; and how many of these wait
        for one another on the longest chain.
    core_hours, gpu_hours, wall_hours : float
        Waiting in a cluster's queue is not in the wall time; waiting until Snakemake has noticed
        that a job is done is.
    largest_job_megabytes, side_by_side_megabytes, disk_megabytes : float
        Memory of the largest job, and of the jobs that run at a time on one machine; new files.
    jobs_without_record : int
        Jobs that are in none of these numbers.
    """

    jobs: int
    submissions: int
    levels: int
    core_hours: float
    gpu_hours: float
    wall_hours: float
    largest_job_megabytes: float
    side_by_side_megabytes: float
    disk_megabytes: float
    jobs_without_record: int


@dataclass(frozen=True)
class Plan:
    """What a run will take."""

    rules: list[RuleTotals]
    totals: Totals
    machine: dict[str, Any]
    rates: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return everything as what JSON knows."""
        return asdict(self)


def plan(arguments: Sequence[str], rates: Path = RATES) -> Plan:
    """Plan what ``snakemake`` with the same arguments would run.

    Raises
    ------
    UserError
        If Snakemake would not run it, or the file of rates cannot be read.
    """
    jobs, machine = planned_jobs(arguments)
    sizes, notes = Sizes(machine.folder), list[str]()
    measured = read_rates(rates)
    works = [work_of(job.command, sizes) if job.command else Work() for job in jobs]
    benchmarks = [
        None if job.is_other_work else recorded_benchmark(job, machine.folder, notes)
        for job in jobs
    ]
    lacking = {
        job.step
        for job, benchmark in zip(jobs, benchmarks, strict=True)
        if job.command and benchmark is None and has_benchmarks(job.step, machine.folder)
    }
    # Snakemake names only jobs that would run; jobs of these steps that have run are others.
    changed = {job.benchmark for job in jobs if job.is_other_work}
    records = records_of(arguments, lacking, changed) if lacking else []
    estimator = Estimator(measured, records)
    estimates = [
        estimator.estimate(job, work, benchmark)
        for job, work, benchmark in zip(jobs, works, benchmarks, strict=True)
    ]
    return Plan(
        rules=rule_totals(jobs, estimates),
        totals=totals(jobs, estimates, machine),
        machine={**asdict(machine), "folder": str(machine.folder)},
        rates=[one.machine for one in measured],
        notes=[*dict.fromkeys(notes), *sorted(sizes.notes)],
    )


def recorded_benchmark(job: Job, folder: Path, notes: list[str]) -> Benchmark | None:
    """Return what a job took when it ran here; a file that cannot be read is noted."""
    log = folder / job.log if job.log else None
    benchmark = read_benchmark(folder / job.benchmark, log) if job.benchmark else None
    if isinstance(benchmark, str):
        notes.append(benchmark)
        return None
    return benchmark


def has_benchmarks(step: str, folder: Path) -> bool:
    """Tell whether any job of a step has run here."""
    where = folder / "benchmarks" / step
    return where.with_suffix(".tsv").is_file() or any(where.rglob("*.tsv"))


def records_of(
    arguments: Sequence[str],
    steps: Set[str] | None = None,
    changed: Set[str | None] = frozenset(),
    by_processor: bool = False,
) -> list[Record]:
    """Return the records of jobs that have run.

    Parameters
    ----------
    arguments : sequence of str
        Of the run.
    steps : set of str, optional
        Only these steps.
    changed : set of str
        Benchmarks that are left out: of jobs that would do other work now.
    by_processor : bool
        Whether processor time stands for wall time: on a machine that was busy with other things.
    """
    jobs, machine = planned_jobs([*arguments, "--forceall"])
    sizes, records = Sizes(machine.folder, is_finished=True), []
    for job in jobs:
        if not job.command:
            continue
        work = work_of(job.command, sizes)
        benchmark = recorded_benchmark(job, machine.folder, [])
        if benchmark is None or job.benchmark in changed or job.step not in (steps or {job.step}):
            continue
        seconds = benchmark.seconds
        if by_processor and benchmark.processor_seconds is not None:
            seconds = min(seconds, benchmark.processor_seconds / job.threads)
        written = sizes.bytes(job.outputs) / 1e6
        records.append(Record(job.step, work, seconds, benchmark.megabytes, written))
    return records


class Estimator:
    """Says what jobs take, from rates and from what has run here.

    Parameters
    ----------
    measured : sequence of Measured
        Rates of one or more machines.
    known : sequence of Record
        Jobs that have run here.
    """

    def __init__(self, measured: Sequence[Measured], records: Sequence[Record] = ()) -> None:
        self.cpu = next((one for one in measured if one.machine["device"] == "cpu"), None)
        self.gpu = next((one for one in measured if one.machine["device"] != "cpu"), None)
        self.own_rates = fit(records) if records else {}
        self.known: dict[str, list[Record]] = defaultdict(list)
        for record in records:
            self.known[name_of(record.step, record.work)].append(record)
        self.slowness = 1.0
        if self.cpu is not None:
            self.slowness = calibrate() / self.cpu.machine["calibration_seconds"]

    def estimate(self, job: Job, work: Work, benchmark: Benchmark | None) -> Estimate:
        """Return what a job is expected to take."""
        if not job.command:
            return Estimate(HERE)
        name = name_of(job.step, work)
        on_gpu = job.gpus > 0
        rate = self.gpu.steps.get(name) if on_gpu and self.gpu is not None else None
        is_bound = on_gpu and rate is None
        slowness = 1.0
        if rate is None:
            rate, slowness = self.cpu.steps.get(name) if self.cpu else None, self.slowness
        if benchmark is not None:
            memory = benchmark.megabytes
            if memory is None:
                memory = rate.cost("megabytes", work) if rate else 0.0
            disk = rate or self.own_rates.get(name)
            return Estimate(
                HERE, benchmark.seconds, memory, disk.cost("disk_megabytes", work) if disk else 0.0
            )
        if records := self.known.get(name):
            # Jobs here ran on what they will run on: a GPU is no CPU's upper bound any more.
            ratios = {
                aspect: ratio_to(rate or self.own_rates[name], records, aspect)
                for aspect in ASPECTS
            }
            return self._from(rate or self.own_rates[name], work, LIKE_HERE, ratios)
        if rate is None:
            return Estimate()
        return self._from(rate, work, REFERENCE, {"seconds": slowness}, is_bound)

    @staticmethod
    def _from(
        rate: Rate, work: Work, source: str, ratios: dict[str, float], is_bound: bool = False
    ) -> Estimate:
        seconds, megabytes, disk = (
            ratios.get(aspect, 1.0) * rate.cost(aspect, work) for aspect in ASPECTS
        )
        beyond = rate.beyond(work)
        return Estimate(source, seconds, megabytes, disk, is_bound and beyond <= FAR, beyond)


def ratio_to(rate: Rate, records: Sequence[Record], aspect: str) -> float:
    """Return how many times what a rate says recorded jobs have taken, as a median."""
    ratios = [
        value / expected
        for record in records
        if (value := getattr(record, aspect)) is not None
        and (expected := rate.cost(aspect, record.work)) > 0
    ]
    return statistics.median(ratios) if ratios else 1.0


def rule_totals(jobs: Sequence[Job], estimates: Sequence[Estimate]) -> list[RuleTotals]:
    """Add up the jobs of each rule, the longest first."""
    by_rule: dict[str, list[tuple[Job, Estimate]]] = defaultdict(list)
    for job, estimate in zip(jobs, estimates, strict=True):
        if job.command:
            by_rule[job.rule].append((job, estimate))
    rows = [
        RuleTotals(
            rule=rule,
            jobs=len(both),
            threads=max(job.threads for job, _ in both),
            gpus=max(job.gpus for job, _ in both),
            core_hours=sum(one.seconds * job.threads for job, one in both) / 3600,
            gpu_hours=sum(one.seconds * job.gpus for job, one in both) / 3600,
            megabytes=max(one.megabytes for _, one in both),
            disk_megabytes=sum(one.disk_megabytes for _, one in both),
            sources=sorted({one.source for _, one in both}),
            is_bound=any(one.is_bound for _, one in both),
            is_far=any(one.beyond > FAR for _, one in both),
        )
        for rule, both in by_rule.items()
    ]
    return sorted(rows, key=lambda one: (-one.core_hours, one.rule))


def totals(jobs: Sequence[Job], estimates: Sequence[Estimate], machine: Machine) -> Totals:
    """Add up all jobs, and run them on paper."""
    tasks = tasks_of(jobs, estimates, machine)
    scheduled = schedule(tasks, machine.cores, machine.gpus, machine.jobs)
    real = [(job, one) for job, one in zip(jobs, estimates, strict=True) if job.command]
    return Totals(
        jobs=len(real),
        submissions=sum(task.is_remote for task in tasks),
        levels=levels(tasks),
        core_hours=sum(one.seconds * job.threads for job, one in real) / 3600,
        gpu_hours=sum(one.seconds * job.gpus for job, one in real) / 3600,
        wall_hours=scheduled.wall / 3600,
        largest_job_megabytes=max((one.megabytes for _, one in real), default=0.0),
        side_by_side_megabytes=scheduled.peak_megabytes,
        disk_megabytes=sum(one.disk_megabytes for _, one in real),
        jobs_without_record=sum(one.source == NONE for _, one in real),
    )


def tasks_of(jobs: Sequence[Job], estimates: Sequence[Estimate], machine: Machine) -> list[Task]:
    """Return jobs, or groups of jobs that are submitted together, with what they wait for.

    The jobs of a group run one after another.
    """
    is_cluster = machine.jobs is not None
    number_of_group: dict[str, int] = {}
    members: list[list[int]] = []
    for number, job in enumerate(jobs):
        group_number = number_of_group.setdefault(job.group or f"job {number}", len(members))
        if group_number == len(members):
            members.append([])
        members[group_number].append(number)
    place_of = {
        number: group_number for group_number, group in enumerate(members) for number in group
    }
    writer = {file: number for number, job in enumerate(jobs) for file in job.outputs}
    tasks = []
    for group_number, group in enumerate(members):
        needs = {
            place_of[writer[file]]
            for number in group
            for file in jobs[number].inputs
            if file in writer
        }
        is_remote = is_cluster and any(jobs[number].command for number in group)
        seconds = sum(estimates[number].seconds for number in group)
        if is_remote and machine.executor == "slurm":
            seconds = noticed(seconds, machine.first_check)
        tasks.append(
            Task(
                seconds=seconds,
                megabytes=max(estimates[number].megabytes for number in group),
                threads=max(jobs[number].threads for number in group),
                gpus=max(jobs[number].gpus for number in group),
                needs=frozenset(needs - {group_number}),
                is_remote=is_remote,
            )
        )
    return tasks
