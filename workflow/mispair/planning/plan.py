"""``mispair plan``: estimates of a run by rule and in total, before it starts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mispair.core.benchmarks import Benchmark, read_benchmark
from mispair.core.cost import Work
from mispair.core.sizes import Sizes
from mispair.planning.cost import work_of
from mispair.planning.estimates import FAR, NONE, RATES, Estimate, Estimator, Record, read_rates
from mispair.planning.jobs import Job, Machine, Task, levels, noticed, planned_jobs, schedule

Estimated = Sequence[tuple[Job, Estimate]]


@dataclass(frozen=True)
class RuleTotals:
    """The sums over the jobs of a rule; memory is that of the largest job."""

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
        Jobs; submissions to a cluster, with a group as one; and the length of the longest chain of
        submissions that wait for one another.
    core_hours, gpu_hours, wall_hours : float
        The wall time includes the delay until Snakemake notices that a job is done, but not waiting
        in the queue of a cluster.
    largest_job_megabytes, side_by_side_megabytes, disk_megabytes : float
        Memory of the largest job, and of the simultaneous jobs on one machine; new files.
    jobs_without_record : int
        Jobs without an estimate.
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
    """Expected time, memory and disk of a run."""

    rules: list[RuleTotals]
    totals: Totals
    machine: dict[str, Any]
    rates: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)


def plan(arguments: Sequence[str], rates: Path = RATES) -> Plan:
    """Plan the run of ``snakemake`` with the same arguments.

    Raises
    ------
    UserError
        If Snakemake would not run it, or the file of rates cannot be read.
    """
    jobs, machine = planned_jobs(arguments)
    sizes, notes, measured = Sizes(machine.folder), list[str](), read_rates(rates)
    works = [work_of(job.command, sizes) if job.command else Work() for job in jobs]
    benchmarks = [
        None if job.is_other_work else recorded_benchmark(job, machine.folder, notes)
        for job in jobs
    ]
    unrecorded_steps = {
        job.step
        for job, benchmark in zip(jobs, benchmarks, strict=True)
        if job.command and benchmark is None and _has_benchmarks(job.step, machine.folder)
    }
    # Snakemake lists only jobs that would run. The recorded jobs of these steps are not among them.
    changed = {job.benchmark for job in jobs if job.is_other_work}
    records = records_of(arguments, unrecorded_steps, changed) if unrecorded_steps else []
    estimator = Estimator(measured, records)
    estimated = [
        (job, estimator.estimate(job, work, benchmark))
        for job, work, benchmark in zip(jobs, works, benchmarks, strict=True)
    ]
    return Plan(
        rules=_rule_totals(estimated),
        totals=_totals(estimated, machine),
        machine={**asdict(machine), "folder": str(machine.folder)},
        rates=[one.machine for one in measured],
        notes=[*dict.fromkeys(notes), *sorted(sizes.notes)],
    )


def recorded_benchmark(job: Job, folder: Path, notes: list[str] | None = None) -> Benchmark | None:
    """Return the benchmark of a job that ran here; `notes` gets files that cannot be read."""
    log = folder / job.log if job.log else None
    benchmark = read_benchmark(folder / job.benchmark, log) if job.benchmark else None
    if isinstance(benchmark, str):
        if notes is not None:
            notes.append(benchmark)
        return None
    return benchmark


def _has_benchmarks(step: str, folder: Path) -> bool:
    """Return whether any job of a step has run here."""
    below = folder / "benchmarks" / step
    return below.with_suffix(".tsv").is_file() or any(below.rglob("*.tsv"))


def _wall_time(job: Job, benchmark: Benchmark) -> float:
    return benchmark.seconds


def records_of(
    arguments: Sequence[str],
    steps: Set[str] | None = None,
    changed: Set[str | None] = frozenset(),
    seconds: Callable[[Job, Benchmark], float] = _wall_time,
) -> list[Record]:
    """Return the records of jobs that have run.

    Parameters
    ----------
    arguments : sequence of str
        Arguments of the run.
    steps : set of str, optional
        Only these steps.
    changed : set of str
        Benchmarks to leave out, because their jobs would do other work now.
    seconds : callable
        Returns the time of a job; by default its wall time.
    """
    jobs, machine = planned_jobs([*arguments, "--forceall"])
    sizes, records = Sizes(machine.folder, is_finished=True), []
    for job in jobs:
        if not job.command:
            continue
        work = work_of(job.command, sizes)  # also for other steps: it notes the sizes of outputs
        benchmark = recorded_benchmark(job, machine.folder)
        if benchmark is None or job.benchmark in changed or job.step not in (steps or {job.step}):
            continue
        written = sizes.bytes(job.outputs) / 1e6
        records.append(
            Record(job.step, work, seconds(job, benchmark), benchmark.megabytes, written)
        )
    return records


def _core_hours(estimated: Estimated) -> float:
    return sum(one.seconds * job.threads for job, one in estimated) / 3600


def _gpu_hours(estimated: Estimated) -> float:
    return sum(one.seconds * job.gpus for job, one in estimated) / 3600


def _rule_totals(estimated: Estimated) -> list[RuleTotals]:
    """Add up the jobs of each rule, the longest first."""
    by_rule: dict[str, list[tuple[Job, Estimate]]] = defaultdict(list)
    for job, estimate in estimated:
        if job.command:
            by_rule[job.rule].append((job, estimate))
    rows = [
        RuleTotals(
            rule=rule,
            jobs=len(both),
            threads=max(job.threads for job, _ in both),
            gpus=max(job.gpus for job, _ in both),
            core_hours=_core_hours(both),
            gpu_hours=_gpu_hours(both),
            megabytes=max(one.megabytes for _, one in both),
            disk_megabytes=sum(one.disk_megabytes for _, one in both),
            sources=sorted({one.source for _, one in both}),
            is_bound=any(one.is_bound for _, one in both),
            is_far=any(one.beyond > FAR for _, one in both),
        )
        for rule, both in by_rule.items()
    ]
    return sorted(rows, key=lambda one: (-one.core_hours, one.rule))


def _totals(estimated: Estimated, machine: Machine) -> Totals:
    """Add up all jobs, and schedule them."""
    tasks = _tasks(estimated, machine)
    scheduled = schedule(tasks, machine.cores, machine.gpus, machine.jobs)
    real = [(job, one) for job, one in estimated if job.command]
    return Totals(
        jobs=len(real),
        submissions=sum(task.is_remote for task in tasks),
        levels=levels(tasks),
        core_hours=_core_hours(real),
        gpu_hours=_gpu_hours(real),
        wall_hours=scheduled.wall / 3600,
        largest_job_megabytes=max((one.megabytes for _, one in real), default=0.0),
        side_by_side_megabytes=scheduled.peak_megabytes,
        disk_megabytes=sum(one.disk_megabytes for _, one in real),
        jobs_without_record=sum(one.source == NONE for _, one in real),
    )


def _tasks(estimated: Estimated, machine: Machine) -> list[Task]:
    """Return jobs, or groups that are submitted together; jobs of a group run one by one."""
    groups: dict[str, list[tuple[Job, Estimate]]] = defaultdict(list)
    for number, (job, estimate) in enumerate(estimated):
        groups[job.group or f"job {number}"].append((job, estimate))
    writer = {
        file: position
        for position, members in enumerate(groups.values())
        for job, _ in members
        for file in job.outputs
    }
    tasks = []
    for position, members in enumerate(groups.values()):
        inputs = (file for job, _ in members for file in job.inputs)
        is_remote = machine.jobs is not None and any(job.command for job, _ in members)
        seconds = sum(one.seconds for _, one in members)
        if is_remote and machine.executor == "slurm":
            seconds = noticed(seconds, machine.first_check)
        tasks.append(
            Task(
                seconds=seconds,
                megabytes=max(one.megabytes for _, one in members),
                threads=max(job.threads for job, _ in members),
                gpus=max(job.gpus for job, _ in members),
                needs=frozenset(writer[file] for file in inputs if file in writer) - {position},
                is_remote=is_remote,
            )
        )
    return tasks
