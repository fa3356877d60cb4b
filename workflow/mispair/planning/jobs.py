"""The jobs that Snakemake would run, from the log events of a dry run, and their schedule."""

from __future__ import annotations

import heapq
import logging
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from mispair.core.commands import TOOK, commands
from mispair.core.files import UserError

# List scheduling of jobs that wait for one another and share cores and GPUs.
#
# Each job starts as soon as its inputs are done and there is room for it, in the order of
# Snakemake's list. Both this and Snakemake's scheduler end within twice the best time possible.

FIRST_CHECK, LATER, LAST = 40.0, 10.0, 180.0
"""Seconds until the SLURM plugin first checks its jobs, unless a profile sets another time; the
increase of each wait without a change; and the longest wait."""


@dataclass(frozen=True)
class Task:
    """A job, or the jobs that are submitted together.

    Attributes
    ----------
    seconds, megabytes : float
        Wall time, and largest memory.
    threads, gpus : int
        Its share of the machine.
    needs : frozenset of int
        Positions of the tasks that must be done first.
    is_remote : bool
        Whether it is submitted to a cluster.
    """

    seconds: float
    megabytes: float = 0.0
    threads: int = 1
    gpus: int = 0
    needs: frozenset[int] = field(default_factory=frozenset)
    is_remote: bool = False


@dataclass(frozen=True)
class Schedule:
    """Start and end of each task, in seconds, and the largest memory at any time."""

    starts: list[float]
    ends: list[float]
    peak_megabytes: float

    @property
    def wall(self) -> float:
        """End of the last task, in seconds."""
        return max(self.ends, default=0.0)


def schedule(
    tasks: Sequence[Task], cores: int, gpus: int | None = None, jobs: int | None = None
) -> Schedule:
    """Return the start and end of each task.

    Parameters
    ----------
    tasks : sequence of Task
        In order of preference.
    cores : int
        Cores that tasks on this machine share; a task that requests more gets all of them.
    gpus : int, optional
        GPUs that all tasks share; None for no limit.
    jobs : int, optional
        Largest number of remote tasks at a time; None for no limit.

    Raises
    ------
    ValueError
        If tasks wait for one another in a cycle.
    """
    room = {"cores": float(cores), "gpus": _limit(gpus), "jobs": _limit(jobs)}
    shares = [_share(task, room) for task in tasks]
    order = _sorter(tasks)
    order.prepare()
    starts, ends = [0.0] * len(tasks), [0.0] * len(tasks)
    running: list[tuple[float, int]] = []
    ready: list[int] = []
    now = megabytes = peak = 0.0
    while order.is_active():
        waiting = []
        for number in sorted([*ready, *order.get_ready()]):
            share = shares[number]
            if any(amount > room[resource] for resource, amount in share.items()):
                waiting.append(number)
                continue
            for resource, amount in share.items():
                room[resource] -= amount
            starts[number], ends[number] = now, now + tasks[number].seconds
            heapq.heappush(running, (ends[number], number))
            megabytes += tasks[number].megabytes
        ready = waiting
        peak = max(peak, megabytes)
        now = running[0][0]
        while running and running[0][0] <= now:
            _, done = heapq.heappop(running)
            megabytes -= tasks[done].megabytes
            for resource, amount in shares[done].items():
                room[resource] += amount
            order.done(done)
    return Schedule(starts, ends, peak)


def _sorter(tasks: Sequence[Task]) -> TopologicalSorter[int]:
    return TopologicalSorter({number: task.needs for number, task in enumerate(tasks)})


def _limit(number: int | None) -> float:
    return float("inf") if number is None else float(number)


def _share(task: Task, room: dict[str, float]) -> dict[str, float]:
    """Return the amount of each resource that a task takes, at most all of it."""
    requested = {"gpus": task.gpus, **({"jobs": 1} if task.is_remote else {"cores": task.threads})}
    return {resource: min(float(amount), room[resource]) for resource, amount in requested.items()}


def levels(tasks: Sequence[Task]) -> int:
    """Return the number of remote tasks on the longest chain of tasks that wait for one another."""
    depth: dict[int, int] = {}
    for number in _sorter(tasks).static_order():
        task = tasks[number]
        depth[number] = task.is_remote + max((depth[needed] for needed in task.needs), default=0)
    return max(depth.values(), default=0)


def noticed(seconds: float, first_check: float = FIRST_CHECK) -> float:
    """Return the time in seconds when Snakemake notices the end of a SLURM job that runs alone.

    Examples
    --------
    >>> noticed(10), noticed(41), noticed(91)
    (40.0, 90.0, 150.0)
    >>> noticed(4, first_check=5), noticed(6, first_check=5)
    (5, 20.0)
    """
    wait = clock = first_check
    while clock < seconds:
        wait = min(wait + LATER, LAST)
        clock += wait
    return clock


OTHER_WORK = ("Params have changed", "Set of input files has changed")
"""Reasons to run a job again with other work than that of its old benchmark."""


@dataclass(frozen=True)
class Job:
    """A job that would run.

    Attributes
    ----------
    rule : str
        Its rule.
    command : tuple of str
        Words after ``python -m mispair``; empty for a target that runs nothing.
    inputs, outputs : tuple of str
        Its files, relative to the folder of the run.
    log, benchmark : str, optional
        Files of its log and of what it took.
    threads, gpus : int
        Share of a machine.
    fetched : float
        MB that it reads from remote shards.
    group : str, optional
        The group that is submitted to a cluster together.
    is_other_work : bool
        Whether its settings or inputs have changed since it ran last.
    """

    rule: str
    command: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    log: str | None = None
    benchmark: str | None = None
    threads: int = 1
    gpus: int = 0
    fetched: float = 0.0
    group: str | None = None
    is_other_work: bool = False

    @classmethod
    def of(cls, rule: str, job: Any, **facts: Any) -> Job:
        """Return the job for one of Snakemake, or for an event with the same attributes."""
        resources, logs = dict(job.resources.items()), [*map(str, job.log)]
        return cls(
            rule,
            command=command_words(job.shellcmd or ""),
            inputs=tuple(map(str, job.input)),
            outputs=tuple(map(str, job.output)),
            log=logs[0] if logs else None,
            benchmark=logs[1] if logs[1:] else None,
            threads=job.threads,
            gpus=int(resources.get("gpu") or 0),
            fetched=float(resources.get("fetched_mb") or 0),
            **facts,
        )

    @property
    def step(self) -> str:
        """Its step, or all of its steps (``a+b``): the name of their folder of benchmarks."""
        if not self.command:
            return ""
        names = {words[0].replace("-", "_") for words in commands(self.command)}
        return "+".join(sorted(names))


@dataclass(frozen=True)
class Machine:
    """The machine or cluster of the jobs, by Snakemake's options and profiles.

    Attributes
    ----------
    folder : Path
        Folder of the run.
    cores : int
        Cores that jobs share on one machine.
    gpus : int, optional
        GPUs that jobs share; None for no limit.
    executor : str
        ``local``, or the executor of a cluster.
    jobs : int, optional
        Largest number of jobs on a cluster at a time; None on one machine.
    first_check : float
        Seconds until Snakemake checks the jobs of a cluster for the first time.
    """

    folder: Path
    cores: int
    gpus: int | None = None
    executor: str = "local"
    jobs: int | None = None
    first_check: float = FIRST_CHECK


def planned_jobs(arguments: Sequence[str]) -> tuple[list[Job], Machine]:
    """Return the jobs that Snakemake would run, in order of dependency, and the machine.

    Parameters
    ----------
    arguments : sequence of str
        As for ``snakemake``: targets, ``--cores``, ``--configfile``, a profile.

    Raises
    ------
    UserError
        If its configuration cannot be read, or Snakemake refuses; it has printed the reason.
    """
    from snakemake.cli import args_to_api, parse_args
    from snakemake.logging import logger

    from snakemake_logger_plugin_mispair.arguments import fault_of

    if fault := fault_of(arguments):
        raise UserError(fault)
    events: list[Any] = []

    def keep(record: logging.LogRecord) -> bool:
        if getattr(record, "event", None) is not None:
            events.append(record)
        if record.levelno >= logging.WARNING:
            # Snakemake's dry run prints warnings to standard output, which is for the plan.
            print(record.getMessage(), file=sys.stderr)
        return False

    options = [*arguments, "--dry-run"]
    logger.addFilter(keep)
    try:
        parser, args = parse_args(options)
        is_local = args.executor in (None, "local", "dryrun")
        cores = args.cores or args.jobs
        if args.cores is None:
            # A dry run limits threads to the cores of this machine; a cluster does not.
            enough = "all" if args.jobs is None else str(args.jobs if is_local else sys.maxsize)
            parser, args = parse_args([*options, "--cores", enough])
        done = args_to_api(args, parser)
    except SystemExit:  # of the rules, at a mistake of the configuration
        done = False
    finally:
        logger.removeFilter(keep)
    if not done:
        raise UserError("Snakemake would not run this; the reason is printed above.")
    limit = (args.resources or {}).get("gpu")
    first_check = getattr(args, "slurm_init_seconds_before_status_checks", None)
    machine = Machine(
        folder=Path(args.directory or "."),
        cores=cores or args.cores,
        gpus=None if limit is None or limit.value is None else int(limit.value),
        executor=args.executor or "local",
        jobs=None if is_local else args.jobs,
        first_check=first_check if isinstance(first_check, int) else FIRST_CHECK,
    )
    return _jobs(events), machine


def _jobs(events: list[Any]) -> list[Job]:
    jobs: list[Job] = []
    group = None
    for number, event in enumerate(events):
        match str(getattr(event.event, "value", event.event)):
            case "group_info":
                # Groups with the same name are submitted separately.
                group = f"{event.group_id} {number}"
            case "job_info":
                is_other = any(reason in event.reason for reason in OTHER_WORK)
                group_of_job = group if event.indent else None
                jobs.append(
                    Job.of(event.rule_name, event, group=group_of_job, is_other_work=is_other)
                )
    return jobs


def command_words(command: str) -> tuple[str, ...]:
    """Return the words after ``mispair`` in the command of a rule.

    Examples
    --------
    >>> command_words("python -m mispair index-shards --workers $((3 - 1)) > log 2>&1")
    ('index-shards', '--workers', '2')
    >>> command_words("python -m mispair laclip --text a.txt --took a.tsv 2> log")
    ('laclip', '--text', 'a.txt')
    """
    _, separator, rest = command.partition("-m mispair ")
    if not separator:
        return ()
    rest = re.sub(r"\$\(\((\d+) - (\d+)\)\)", lambda m: str(int(m[1]) - int(m[2])), rest)
    rest = re.sub(r" 2?> \S+( 2>&1)?$", "", rest)
    # shlex takes a second for the commands of a large corpus, which need no unquoting.
    words = shlex.split(rest) if re.search(r"['\"\\]", rest) else rest.split()
    return tuple(words[:-2] if words[-2:-1] == [TOOK] else words)
