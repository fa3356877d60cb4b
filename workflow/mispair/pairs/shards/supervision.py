"""Run a task over items in child processes that may stall, crash or be killed."""

import logging
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any, Generic, TypeVar

from mispair.core.devices import count_workers
from mispair.core.files import UserError
from mispair.core.forks import context_of_workers
from mispair.core.resume import Interrupted

Item = TypeVar("Item")
Result = TypeVar("Result")

ATTEMPTS = 2
"""How often an item is given to a worker before it is given up."""

FAILED_STARTS = 3
START_SECONDS = 120.0
POLL_SECONDS = 0.2

_READY, _ALIVE, _DONE, _FAILED, _FAULT = "ready", "alive", "done", "failed", "fault"


@dataclass(frozen=True)
class Lost:
    """Placeholder for a result that no worker could give; `detail` is the reason."""

    detail: str


def supervise(
    task: Callable[[Item, Callable[[], None]], Result],
    items: Sequence[Item],
    *,
    workers: int,
    stall_seconds: float,
    ending: Callable[[], bool] = lambda: False,
) -> Generator[tuple[Item, Result | Lost], None, None]:
    """Yield each item with its result, once, as they are finished.

    An item whose worker stalls, dies or raises is tried once more by another worker, and is then
    `Lost`. Other items are not affected.

    Parameters
    ----------
    task : callable
        ``task(item, alive)`` runs in a child process, so it and its result can be pickled. It calls
        ``alive()`` as a sign of life, any number of times.
    items, workers
        The items, and the number of child processes; a process handles many items. With 0 this
        process handles all, which saves a start and supervises nothing.
    stall_seconds : float
        A worker that gives no sign of life for this time is killed.
    ending : callable, optional
        Called several times a second; once it returns True, workers and their tasks are ended.

    Raises
    ------
    UserError
        If the task raises one: it concerns more than one item, such as a full disk.
    Interrupted
        If it was ended.
    RuntimeError
        If workers end before they begin: nothing was read, so no item is at fault.
    """
    if not workers:
        for item in items:
            _refuse_to_go_on(ending)
            yield item, task(item, lambda: None)
        return
    waiting = deque(_Work(item) for item in items)
    crew: list[_Worker] = []
    failed_starts = 0
    last = time.monotonic()
    try:
        while busy := sum(worker.work is not None for worker in crew) + len(waiting):
            _refuse_to_go_on(ending)
            while len(crew) < min(workers, busy):
                crew.append(_Worker(task, stall_seconds))
            for worker in crew:
                if waiting and worker.ready and worker.work is None:
                    worker.begin(waiting.popleft())
            heard = set(connection.wait([worker.pipe for worker in crew], POLL_SECONDS))
            now = time.monotonic()
            # Time in which this process was suspended does not count as a worker's silence.
            tick, last = min(now - last, 2 * POLL_SECONDS), now
            for worker in list(crew):
                kind, content = worker.hear(worker.pipe in heard, tick, stall_seconds)
                if kind == _READY:
                    failed_starts = 0
                elif kind == _FAULT:
                    raise UserError(content)
                elif kind == _DONE:
                    yield worker.finish().item, content
                elif kind == _FAILED:
                    if not worker.ready:
                        failed_starts += 1
                        if failed_starts == FAILED_STARTS:
                            raise RuntimeError(f"no worker could be started: the last {content}")
                    work = worker.finish() if worker.work else None
                    if not worker.lives:
                        worker.end()
                        crew.remove(worker)
                    if work and work.attempt < ATTEMPTS:
                        logging.getLogger(__name__).warning(
                            "%s: its worker %s; trying once more", work.item, content
                        )
                        waiting.append(_Work(work.item, work.attempt + 1))
                    elif work:
                        yield work.item, Lost(f"its worker {content}, {ATTEMPTS} times")
    finally:
        count_workers()
        for worker in crew:
            worker.end()


def _refuse_to_go_on(ending: Callable[[], bool]) -> None:
    if ending():
        raise Interrupted(
            "ended early, as it was asked to; the same command goes on from there, as what is "
            "finished stays finished."
        )


@dataclass(frozen=True)
class _Work(Generic[Item]):
    item: Item
    attempt: int = 1


class _Worker:
    """A child process, seen from its parent."""

    def __init__(self, task: Any, stall_seconds: float) -> None:
        context: Any = context_of_workers()
        self.pipe, worker_end = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(task, worker_end, min(1.0, stall_seconds / 4)), daemon=True
        )
        self.process.start()
        worker_end.close()
        self.work: _Work[Any] | None = None
        self.ready = False
        self.lives = True
        self.silent = 0.0

    def begin(self, work: _Work[Any]) -> None:
        """Hand over an item."""
        self.work, self.silent = work, 0.0
        try:
            self.pipe.send(work.item)
        except OSError:
            self.process.kill()  # it died idle; the end of its pipe is noticed next

    def finish(self) -> _Work[Any]:
        """Return what it worked on, and make it free for the next item."""
        work, self.work = self.work, None
        assert work is not None
        return work

    def hear(self, spoke: bool, tick: float, stall_seconds: float) -> tuple[str, Any]:
        """Return the kind and the content of its next message; a stall and a death are failures."""
        if spoke:
            self.silent = 0.0
            try:
                kind, content = self.pipe.recv()
            except Exception:  # the pipe ended, or the message is incomplete
                self.lives = False
                return _FAILED, self._cause_of_death()
            self.ready = self.ready or kind == _READY
            return kind, content
        self.silent += tick
        allowed = stall_seconds if self.ready else max(stall_seconds, START_SECONDS)
        if self.silent > allowed and (self.work or not self.ready):
            self.lives = False
            return _FAILED, f"gave no sign of life for {allowed:g} seconds"
        return _ALIVE, None

    def _cause_of_death(self) -> str:
        self.process.join(timeout=5)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def end(self) -> None:
        """Kill the process and release its resources."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.pipe.close()


def _serve(task: Any, pipe: Any, beat_seconds: float) -> None:
    """Work on items until the parent is done; the main function of a child process."""
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)  # a fork has the parent's way to end
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all: the parent ends its workers
    end_with_the_parent()
    beaten = time.monotonic()

    def alive() -> None:
        nonlocal beaten
        now = time.monotonic()
        if now - beaten >= beat_seconds:
            beaten = now
            pipe.send((_ALIVE, None))

    pipe.send((_READY, None))
    while True:
        try:
            item = pipe.recv()
        except EOFError:
            return
        try:
            answer = (_DONE, task(item, alive))
        except UserError as error:
            answer = (_FAULT, str(error))
        except Exception as error:
            traceback.print_exc()
            answer = (_FAILED, f"raised {type(error).__name__}: {error}")
        pipe.send(answer)


def end_with_the_parent() -> None:
    """Let this child process end when its parent is killed."""
    threading.Thread(target=_wait_for_the_parents_end, daemon=True).start()


def _wait_for_the_parents_end() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
