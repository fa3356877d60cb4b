"""Workers that sleep for ever, are killed, exit or raise cost their item and nothing else."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from mispair.core import forks
from mispair.core.files import UserError
from mispair.core.resume import Interrupted
from mispair.pairs.shards import supervision
from mispair.pairs.shards.supervision import ATTEMPTS, Lost, supervise

Alive = Callable[[], None]
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")


@pytest.fixture(autouse=True)
def method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let workers begin as forks, or in the way of `both`, whatever threads the tests have."""
    chosen = str(getattr(request, "param", "fork"))
    context = multiprocessing.get_context(chosen)
    monkeypatch.setattr(supervision, "context_of_workers", lambda: context)
    return chosen


both = pytest.mark.parametrize("method", ["fork", "spawn"], indirect=True)


def square(item: int, alive: Alive) -> int:
    alive()
    return item * item


FAULTS: dict[str, tuple[Callable[[], object], str]] = {
    "sleeps": (lambda: time.sleep(600), "no sign of life for 4 seconds"),
    "is killed": (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
    "crashes": (lambda: os.kill(os.getpid(), signal.SIGSEGV), "SIGSEGV"),
    "exits": (lambda: sys.exit(3), "exit code 3"),
    "exits hard": (lambda: os._exit(4), "exit code 4"),
    "raises": (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
    "is out of memory": (lambda: bytes(2**62), "MemoryError"),
}
"""What a worker does, and what is said of its item."""


def misbehave(item: str, alive: Alive) -> str:
    if item in FAULTS:
        FAULTS[item][0]()
    return item.upper()


def note_and_die(item: Path, alive: Alive) -> str:
    """Die at the first attempt, which is noted in a file, and succeed at the second."""
    with item.open("a") as notes:
        notes.write("x")
    if item.read_text() == "x":
        os.kill(os.getpid(), signal.SIGKILL)
    return item.read_text()


def beat_slowly(item: float, alive: Alive) -> float:
    """Work for longer than a stall is allowed to last, with signs of life."""
    ends = time.monotonic() + item
    while time.monotonic() < ends:
        time.sleep(0.05)
        alive()
    return item


def fill_the_disk(item: int, alive: Alive) -> int:
    raise UserError("x.parquet: the disk is full.")


def tell_process(item: int, alive: Alive) -> tuple[int, bool]:
    return os.getpid(), "torch" in sys.modules


def sleep_and_tell(item: Path, alive: Alive) -> None:
    item.write_text(str(os.getpid()))
    time.sleep(600)


def outcomes(task: Any, items: list[Any], workers: int, stall: float = 60) -> dict[Any, Any]:
    results = list(supervise(task, items, workers=workers, stall_seconds=stall))
    assert len({item for item, _ in results}) == len(results) == len(items)
    return dict(results)


@pytest.mark.parametrize(("workers", "items"), [(1, 7), (2, 7), (8, 1), (3, 0)])
def test_each_item_has_one_result(workers, items):
    assert outcomes(square, list(range(items)), workers) == {n: n * n for n in range(items)}


@pytest.mark.parametrize(("workers", "faults"), [(1, ["is killed", "raises"]), (3, [*FAULTS])])
def test_a_worker_that_fails_costs_its_item_only(workers, faults):
    results = outcomes(misbehave, ["a", "b", *faults, "c", "d"], workers, stall=4)
    for fault in faults:
        lost = results.pop(fault)
        assert isinstance(lost, Lost)
        assert FAULTS[fault][1] in lost.detail
    assert results == {"a": "A", "b": "B", "c": "C", "d": "D"}


@both
def test_all_items_may_be_lost():
    results = outcomes(misbehave, ["is killed", "exits", "sleeps"], 2, stall=0.5)
    assert all(isinstance(result, Lost) for result in results.values())


def test_an_item_is_tried_once_more(tmp_path):
    assert outcomes(note_and_die, [tmp_path / "notes"], 1) == {tmp_path / "notes": "x" * ATTEMPTS}


def test_signs_of_life_keep_a_slow_worker():
    assert outcomes(beat_slowly, [3.5], 1, stall=1.5) == {3.5: 3.5}


def test_time_in_which_the_job_was_suspended_is_no_stall(monkeypatch):
    calls = 0

    def after_a_night() -> float:
        nonlocal calls
        calls += 1
        return time.monotonic() + 3600 * calls

    monkeypatch.setattr(supervision, "time", SimpleNamespace(monotonic=after_a_night))
    assert outcomes(beat_slowly, [1.0], 1, stall=2) == {1.0: 1.0}
    assert calls > 4


@both
def test_what_concerns_all_items_stops_the_run():
    with pytest.raises(UserError, match="the disk is full"):
        outcomes(fill_the_disk, [1, 2, 3], 2)


@both
def test_workers_live_on_and_start_lightly(method):
    told = list(outcomes(tell_process, list(range(6)), 2).values())
    assert len({process for process, _ in told}) <= 2
    assert os.getpid() not in {process for process, _ in told}
    assert method == "fork" or not any(torch for _, torch in told)


def test_a_process_with_threads_has_no_forks():
    assert forks.context_of_workers().get_start_method() == (
        "fork" if forks.has_one_thread() else "spawn"
    )
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    assert forks.context_of_workers().get_start_method() == "spawn"
    ended.set()
    other.join()


@both
def test_no_worker_outlives_its_parent(tmp_path, method):
    told = [tmp_path / "a", tmp_path / "b"]
    code = (
        "import multiprocessing; from pathlib import Path;"
        "from mispair.pairs.shards import supervision;"
        "from tests.pairs.test_supervision import sleep_and_tell;"
        f"supervision.context_of_workers = lambda: multiprocessing.get_context({method!r});"
        f"items = [Path(name) for name in {[*map(str, told)]!r}];"
        "list(supervision.supervise(sleep_and_tell, items, workers=2, stall_seconds=600))"
    )
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root / "workflow"), str(root)])}
    with subprocess.Popen([sys.executable, "-c", code], env=environment) as parent:
        deadline = time.monotonic() + 120
        while not all(one.exists() and one.read_text() for one in told):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        workers = [psutil.Process(int(one.read_text())) for one in told]
        parent.kill()
    _, alive = psutil.wait_procs(workers, timeout=10)
    for worker in alive:
        worker.kill()
    assert not alive


@both
def test_stopping_early_ends_the_workers():
    stream = supervise(beat_slowly, [0.1, 30.0], workers=2, stall_seconds=60)
    assert next(stream) == (0.1, 0.1)
    workers = [child for child in multiprocessing.active_children() if child.daemon]
    assert workers
    stream.close()
    assert not set(workers) & set(multiprocessing.active_children())


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_asked_to_end_keeps_what_is_finished(workers):
    finished: list[tuple[int, int | Lost]] = []
    with pytest.raises(Interrupted, match="goes on from there"):
        for outcome in supervise(
            square, range(100), workers=workers, stall_seconds=60, ending=lambda: bool(finished)
        ):
            finished.append(outcome)
    assert finished[0] == (0, 0)
    assert len(finished) < 100


def test_without_workers_this_process_does_all_in_order():
    assert list(supervise(square, [3, 2], workers=0, stall_seconds=60)) == [(3, 9), (2, 4)]
