"""List scheduling of jobs that wait for one another and share cores and GPUs.

Each job starts as soon as its inputs are done and there is room for it, in the order of Snakemake's
list. Both this and Snakemake's scheduler end within twice the best time possible.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

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
