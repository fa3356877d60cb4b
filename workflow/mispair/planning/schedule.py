"""When jobs run that wait for one another and share cores and GPUs: list scheduling.

Each job starts as soon as what it needs is done and there is room for it, in the order in which
Snakemake names them. Snakemake's own scheduler fills the machine as well as it can, too; neither
looks ahead, and both end within twice the best time possible.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

FIRST_CHECK, LATER, LAST = 40.0, 10.0, 180.0
"""Seconds after which the SLURM plugin looks at its jobs first unless a profile sets another time,
how much longer it waits each time that nothing has changed, and the longest wait."""


@dataclass(frozen=True)
class Task:
    """A job, or the jobs that are submitted together.

    Attributes
    ----------
    seconds, megabytes : float
        What it takes.
    threads, gpus : int
        Its share of the machine.
    needs : frozenset of int
        Places of the tasks that must be done before.
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
    """When each task starts and ends, in seconds, and the largest memory of any moment."""

    starts: list[float]
    ends: list[float]
    peak_megabytes: float

    @property
    def wall(self) -> float:
        """When everything is done."""
        return max(self.ends, default=0.0)


def schedule(
    tasks: Sequence[Task], cores: int, gpus: int | None = None, jobs: int | None = None
) -> Schedule:
    """Run the tasks on paper.

    Parameters
    ----------
    tasks : sequence of Task
        In order of preference.
    cores : int
        Cores that tasks on this machine share; one that wants more gets all of them.
    gpus : int, optional
        GPUs that all tasks share; None for no limit.
    jobs : int, optional
        Remote tasks at a time; None for no limit.
    """
    room = {"cores": float(cores), "gpus": _limit(gpus), "jobs": _limit(jobs)}
    waits = [len(task.needs) for task in tasks]
    after: list[list[int]] = [[] for _ in tasks]
    for number, task in enumerate(tasks):
        for needed in task.needs:
            after[needed].append(number)
    shares = [_share(task, room) for task in tasks]
    ready = sorted(number for number, count in enumerate(waits) if count == 0)
    starts, ends = [0.0] * len(tasks), [0.0] * len(tasks)
    running: list[tuple[float, int]] = []
    now = megabytes = peak = 0.0
    while ready or running:
        left = []
        for number in ready:
            share = shares[number]
            if any(amount > room[what] for what, amount in share.items()):
                left.append(number)
                continue
            for what, amount in share.items():
                room[what] -= amount
            starts[number], ends[number] = now, now + tasks[number].seconds
            heapq.heappush(running, (ends[number], number))
            megabytes += tasks[number].megabytes
        ready = left
        peak = max(peak, megabytes)
        if not running:
            raise ValueError("tasks wait for one another in a circle")
        now = running[0][0]
        while running and running[0][0] <= now:
            _, done = heapq.heappop(running)
            megabytes -= tasks[done].megabytes
            for what, amount in shares[done].items():
                room[what] += amount
            for number in after[done]:
                waits[number] -= 1
                if waits[number] == 0:
                    ready.append(number)
        ready.sort()
    if any(waits):
        raise ValueError("tasks wait for one another in a circle")
    return Schedule(starts, ends, peak)


def _limit(number: int | None) -> float:
    return float("inf") if number is None else float(number)


def _share(task: Task, room: dict[str, float]) -> dict[str, float]:
    """Return what a task takes; one that asks for more than there is gets what there is."""
    requested = {"gpus": task.gpus, **({"jobs": 1} if task.is_remote else {"cores": task.threads})}
    return {what: min(float(amount), room[what]) for what, amount in requested.items()}


def levels(tasks: Sequence[Task]) -> int:
    """Return the number of remote tasks on the longest chain of tasks that wait for one another."""
    depth: dict[int, int] = {}
    for number in in_order(tasks):
        task = tasks[number]
        depth[number] = task.is_remote + max((depth[needed] for needed in task.needs), default=0)
    return max(depth.values(), default=0)


def in_order(tasks: Sequence[Task]) -> list[int]:
    """Return the places of the tasks, each after those that it needs."""
    order: list[int] = []
    seen: set[int] = set()
    for first in range(len(tasks)):
        stack = [first]
        while stack:
            number = stack[-1]
            missing = [needed for needed in tasks[number].needs if needed not in seen]
            if missing and number not in seen:
                stack += missing
                continue
            stack.pop()
            if number not in seen:
                seen.add(number)
                order.append(number)
    return order


def noticed(seconds: float, first_check: float = FIRST_CHECK) -> float:
    """Return when Snakemake sees that a SLURM job of this length has ended, if it runs alone.

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
