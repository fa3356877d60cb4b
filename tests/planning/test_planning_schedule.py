"""Running jobs on paper, against closed forms and against a clock that ticks second by second."""

import itertools
import random

import pytest

from mispair.planning.jobs import Task, levels, noticed, schedule


def ticking(tasks: list[Task], cores: int, gpus: int, jobs: int) -> tuple[int, float]:
    """Return wall time and peak memory, looking at every task in every second."""
    left = [int(task.seconds) for task in tasks]
    started = [False] * len(tasks)
    peak = 0.0
    for clock in itertools.count():
        busy = [place for place in range(len(tasks)) if started[place] and left[place] > 0]
        if all(started) and not busy:
            return clock, peak
        for place, task in enumerate(tasks):
            waits = any(not started[needed] or left[needed] > 0 for needed in task.needs)
            if started[place] or waits:
                continue
            local = [tasks[other] for other in busy if not tasks[other].is_remote]
            used = sum(min(other.threads, cores) for other in local)
            used_gpus = sum(min(tasks[other].gpus, gpus) for other in busy)
            remote = sum(tasks[other].is_remote for other in busy)
            fits = used_gpus + min(task.gpus, gpus) <= gpus and (
                remote < jobs if task.is_remote else used + min(task.threads, cores) <= cores
            )
            if fits:
                started[place] = True
                busy.append(place)
        peak = max(peak, sum(tasks[place].megabytes for place in busy))
        for place in busy:
            left[place] -= 1
    raise AssertionError


def random_tasks(draw: random.Random) -> list[Task]:
    return [
        Task(
            draw.randint(1, 6),
            megabytes=draw.randint(0, 9),
            threads=draw.randint(1, 4),
            gpus=draw.choice([0, 0, 1, 2]),
            needs=frozenset(n for n in range(place) if draw.random() < 0.3),
            is_remote=draw.random() < 0.3,
        )
        for place in range(draw.randint(1, 9))
    ]


def test_as_a_clock_that_ticks():
    for seed in range(200):
        draw = random.Random(seed)
        tasks = random_tasks(draw)
        cores, gpus, jobs = draw.randint(1, 4), draw.randint(1, 2), draw.randint(1, 3)
        found = schedule(tasks, cores, gpus, jobs)
        ticked = ticking(tasks, cores, gpus, jobs)
        assert (found.wall, found.peak_megabytes) == ticked, seed
        for place, task in enumerate(tasks):
            assert all(found.ends[needed] <= found.starts[place] for needed in task.needs), seed


def test_what_has_no_limit():
    assert schedule([], cores=1).wall == 0
    assert schedule([Task(5, gpus=1)] * 4, cores=8).wall == 5
    assert schedule([Task(5, threads=64, is_remote=True)] * 6, cores=1).wall == 5


def test_a_circle_is_refused():
    with pytest.raises(ValueError, match="cycle"):
        schedule([Task(1, needs=frozenset({1})), Task(1, needs=frozenset({0}))], cores=1)


def test_levels_are_those_of_the_longest_of_all_chains():
    def chains(tasks: list[Task], place: int) -> list[list[int]]:
        needed = tasks[place].needs
        before = [chain for one in needed for chain in chains(tasks, one)] or [[]]
        return [[*chain, place] for chain in before]

    for seed in range(50):
        tasks = random_tasks(random.Random(seed))
        every = [chain for place in range(len(tasks)) for chain in chains(tasks, place)]
        longest = max(sum(tasks[one].is_remote for one in chain) for chain in every)
        assert levels(tasks) == longest, seed


def test_tasks_may_stand_in_any_order():
    tasks = [Task(1, needs=frozenset({2})), Task(1, needs=frozenset({0})), Task(1)]
    assert schedule(tasks, cores=3).wall == 3


@pytest.mark.parametrize("seconds", [0, 39, 40, 41, 90, 150, 151, 2000, 100_000])
def test_the_end_of_a_cluster_job_is_noticed_at_a_check(seconds):
    checks = itertools.accumulate(min(40 + 10 * number, 180) for number in itertools.count())
    assert noticed(seconds) == next(check for check in checks if check >= seconds)
