"""``mispair plan``: estimates of a run by rule and in total, before it starts."""

from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from mispair.core.cost import FETCHED, Benchmark, Sizes, Work, read_benchmark
from mispair.core.forks import is_wanted
from mispair.core.words import count, duration
from mispair.planning.estimates import (
    FAR,
    FETCH_RATE,
    LIKE_HERE,
    NONE,
    RATES,
    Estimate,
    Estimator,
    Record,
    read_rates,
    work_of,
)
from mispair.planning.jobs import Job, Machine, Task, levels, noticed, planned_jobs, schedule

Estimated = Sequence[tuple[Job, Estimate]]

MOST_HOURS = 1
"""Hours of work for GPUs that a run sends to CPUs without a warning."""


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
    works = [work_of(job.command, sizes, job.fetched) if job.command else Work() for job in jobs]
    if fetched := sum(work.seconds.get(FETCHED, 0.0) for work in works):
        notes.append(
            f"remote shards: {size(fetched)} to fetch, at {FETCH_RATE:g} MB/s a job (assumed) "
            "where no job of the rule has run in this folder"
        )
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
    forks = machine.executor == "local" and is_wanted()
    estimator = Estimator(measured, records, forks)
    estimated = [
        (job, estimator.estimate(job, work, benchmark))
        for job, work, benchmark in zip(jobs, works, benchmarks, strict=True)
    ]
    if machine.jobs is not None and (warning := gpu_work_on_cpus(estimated)):
        notes.insert(0, warning)
    return Plan(
        rules=_rule_totals(estimated),
        totals=_totals(estimated, machine),
        machine={**asdict(machine), "folder": str(machine.folder)},
        rates=[one.machine for one in measured],
        notes=[*dict.fromkeys(notes), *sorted(sizes.notes)],
    )


def gpu_work_on_cpus(estimated: Estimated) -> str:
    """Return a warning if work for GPUs takes more than `MOST_HOURS` on CPUs of a cluster."""
    hours: dict[str, float] = defaultdict(float)
    for job, one in estimated:
        # Settings write `auto` only for work that is worth a GPU (`Dag.device`).
        if not job.gpus and ("--device", "auto") in pairwise(job.command):
            hours[job.step] += one.seconds / 3600
    if (total := sum(hours.values())) <= MOST_HOURS:
        return ""
    longest = sorted(hours.items(), key=lambda step: -step[1])[:3]
    steps = ", ".join(f"{step} {some:,.0f} h" for step, some in longest)
    return (
        f"device: auto sends work for GPUs to CPUs, about {total:,.0f} hours of it ({steps}), as "
        "neither this machine nor your profile has a GPU. If your cluster has some, name their "
        "kind in your profile (default-resources: gpu_model), or say device: cuda in the sections "
        "of these steps."
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
        work = work_of(
            job.command, sizes, job.fetched
        )  # also for other steps: it notes the sizes of outputs
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


# A plan as text for a terminal.


COLUMNS = (
    "rule", "jobs", "threads", "GPUs", "core time", "GPU time", "memory of a job", "disk", "from",
)  # fmt: skip


def text_of(plan: Plan) -> str:
    """Return the table of rules, the totals and remarks."""
    from mispair.report.table import aligned

    table = aligned(COLUMNS, [*map(_row, plan.rules)], right=range(1, len(COLUMNS) - 1))
    return "\n".join([table, "", *_lines_of_totals(plan), *_remarks(plan)])


def _row(rule: RuleTotals) -> tuple[str, ...]:
    marks = " <" * rule.is_bound + " far" * rule.is_far
    numbers = (_hours(rule.core_hours), _hours(rule.gpu_hours) if rule.gpus else "",
               size(rule.megabytes), size(rule.disk_megabytes))  # fmt: skip
    if rule.sources == [NONE]:
        numbers = ("?", "?" if rule.gpus else "", "?", "?")
    head = (rule.rule, f"{rule.jobs:,}", str(rule.threads), str(rule.gpus or ""))
    return (*head, *numbers, ", ".join(rule.sources) + marks)


def _lines_of_totals(plan: Plan) -> list[str]:
    totals, machine = plan.totals, plan.machine
    where = f"on {machine['cores']} cores"
    if machine["jobs"] is not None:
        where = f"with {machine['jobs']} jobs at a time by {machine['executor']}"
    if machine["gpus"] is not None and any(rule.gpus for rule in plan.rules):
        where += f" and {machine['gpus']} GPUs"
    lines = [
        f"{totals.jobs:,} jobs: {_hours(totals.core_hours)} of cores, "
        f"{_hours(totals.gpu_hours)} of GPUs; {_hours(totals.wall_hours)} {where}",
        f"memory: {size(totals.largest_job_megabytes)} for the largest job"
        + ("" if machine["jobs"] else f", {size(totals.side_by_side_megabytes)} side by side")
        + f"; disk: {size(totals.disk_megabytes)} of new files",
    ]
    if machine["jobs"] is not None:
        lines.append(
            f"{totals.submissions:,} submissions; the longest chain of submissions that wait for "
            f"one another has {totals.levels}. The time does not include waiting in the queue."
        )
    return lines


def _remarks(plan: Plan) -> list[str]:
    devices = [f"{one['device']} ({one['processor']}, {one['cores']} cores)" for one in plan.rates]
    lines = [f"reference: measured on {'; '.join(devices) or 'nothing yet'}"]
    if any(LIKE_HERE in rule.sources for rule in plan.rules):
        lines.append(f"{LIKE_HERE}: from jobs of the rule that have run in this folder")
    if unknown := plan.totals.jobs_without_record:
        lines.append(f"{NONE}: {count(unknown, 'job')} without a record, not in any total")
    if any(rule.is_bound for rule in plan.rules):
        lines.append("<: an upper bound: the rule requests a GPU but was measured on a CPU only")
    if any(rule.is_far for rule in plan.rules):
        lines.append(
            f"far: more than {FAR} times the largest measured work, or work of an unmeasured kind: "
            "a guess, which may be far too high or too low"
        )
    return [*lines, *plan.notes]


def _hours(hours: float) -> str:
    return duration(3600 * hours)


def size(megabytes: float) -> str:
    """Format a size in MB or GB.

    Examples
    --------
    >>> size(0.25), size(720.4), size(4600)
    ('0.2 MB', '720 MB', '4.6 GB')
    """
    if megabytes >= 1000:
        return f"{megabytes / 1000:.1f} GB"
    return f"{megabytes:.0f} MB" if megabytes >= 10 else f"{megabytes:.1f} MB"
