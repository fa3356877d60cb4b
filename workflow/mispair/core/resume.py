"""Resume states of a long job: a job that was killed continues from them.

They are in a folder that one copy of the job uses at a time. A state is saved every minute and
when the job is asked to end; all are removed once the results are written.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from mispair.core.files import UserError, explained, read_tensors, write_tensors

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)

SAVE_SECONDS = 60.0
"""Time between two states: a job that is killed without warning loses this much work."""

WAIT_SECONDS = 30.0
"""Seconds to wait for another copy of the same job to exit."""

LOCK = ".lock"


Values = TypeVar("Values")


class Keeper(Protocol[Values]):
    """Keeps the state of a computation: arrays or tensors by name."""

    def load(self) -> dict[str, Values] | None:
        """Return the last state that was saved, if any was."""

    def due(self) -> bool:
        """Return whether a state should be saved now."""

    def save(self, state: Mapping[str, Values]) -> None:
        """Save a state in place of the last."""


class Interrupted(UserError):  # noqa: N818 (it is not an error)
    """The job was asked to end; its state is saved."""


@contextmanager
def checkpoints(folder: Path, job: str) -> Iterator[Checkpoints]:
    """Yield the states of a job, for the main thread; they are removed if the block succeeds.

    Raises
    ------
    UserError
        If another copy of the job is running, or the folder cannot be written.
    """
    with only_copy(folder), asked_to_end() as ending:
        states = Checkpoints(folder, job, ending)
        yield states
        states.remove()


class Checkpoints:
    """States of one job by name.

    Parameters
    ----------
    folder : Path
        Folder of the states.
    job : str
        Fingerprint of everything that the states depend on: code, settings, data. States of
        another job and broken files are not used.
    ending : callable, optional
        Returns whether the job is asked to end.
    """

    def __init__(self, folder: Path, job: str, ending: Callable[[], bool] = lambda: False) -> None:
        self.folder, self.job, self.ending = folder, job, ending

    def keeper(self, name: str) -> FileKeeper:
        """Return the keeper of a state of tensors."""
        return FileKeeper(self.array_keeper(name))

    def array_keeper(self, name: str) -> ArrayKeeper:
        """Return the keeper of a state of arrays."""
        return ArrayKeeper(self.folder / f"{name}.safetensors", self.job, self.ending)

    def remove(self) -> None:
        """Delete all states: the job is done."""
        for path in self.folder.iterdir():
            if path.name != LOCK:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


class ArrayKeeper:
    """Keeps a state of arrays in a file."""

    def __init__(self, path: Path, job: str, ending: Callable[[], bool]) -> None:
        self.path, self.job, self.ending = path, job, ending
        self.saved = time.monotonic()

    def load(self) -> dict[str, np.ndarray] | None:
        """Return the state, or None if there is none of this job."""
        self.saved = time.monotonic()
        if not self.path.exists():
            return None
        try:
            arrays, metadata = read_tensors(self.path)
        except UserError as error:
            log.warning("%s It is not used.", error)
            return None
        if metadata.get("job") != self.job:
            log.warning("%s is of other settings or code; it is not used.", self.path)
            return None
        log.info("going on from %s", self.path)
        return arrays

    def due(self) -> bool:
        """Return whether to save: the last state is old, or the job is asked to end."""
        return self.ending() or time.monotonic() - self.saved > SAVE_SECONDS

    def save(self, state: Mapping[str, np.ndarray]) -> None:
        """Write a state in place of the last.

        Raises
        ------
        Interrupted
            Once the state is written, if the job is asked to end.
        """
        write_tensors(self.path, dict(state), {"job": self.job})
        self.saved = time.monotonic()
        if self.ending():
            raise Interrupted(
                "ended early, as it was asked to; the same command goes on from there, as "
                f"{self.path.parent} holds the state."
            )


class FileKeeper:
    """Keeps a state of tensors in a file."""

    def __init__(self, keeper: ArrayKeeper) -> None:
        self._keeper = keeper
        self.due = keeper.due

    def load(self) -> dict[str, Tensor] | None:
        """Return the state, or None if there is none of this job."""
        import torch

        arrays = self._keeper.load()
        if arrays is None:
            return None
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def save(self, state: Mapping[str, Tensor]) -> None:
        """Write a state in place of the last; see `ArrayKeeper.save`."""
        self._keeper.save({name: values.cpu().numpy() for name, values in state.items()})


@contextmanager
def asked_to_end() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether a signal to end came; the signals end no process.

    A scheduler sends SIGTERM some seconds before it kills, or SIGUSR1 before a time limit: enough
    to finish a step and to save. For the main thread only.
    """
    came: list[int] = []
    former = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
    }
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def only_copy(folder: Path) -> Iterator[None]:
    """Keep other copies of a job out of a folder until the block or this process ends.

    A requeued job may start while its first copy still runs. The folder is created, and removed at
    the end if it is empty.

    Raises
    ------
    UserError
        If another copy stays in the block, or the folder cannot be written.
    """
    path, until = folder / LOCK, time.monotonic() + WAIT_SECONDS
    with explained(folder):
        while (lock := _locked(path)) is None:
            if time.monotonic() > until:
                raise UserError(
                    f"{folder}: another copy of this job is running"
                    f"{_holder(path)}, so this one ends. Wait until the other is done, or end "
                    "it, and run the same command again if results are missing then."
                )
            time.sleep(0.2)
    try:
        yield
    finally:
        # Before the lock is released: a waiter then finds a different inode.
        path.unlink(missing_ok=True)
        lock.close()
        with suppress(OSError):
            folder.rmdir()  # fails if states or another copy are in it


def _locked(path: Path) -> IO[str] | None:
    """Open and lock a file until the process ends; return None if another process has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = path.open("a", encoding="utf-8")
    except FileNotFoundError:
        return None  # the other copy has just ended and removed the folder
    try:
        # Decoding processes, which may outlive this one by seconds, do not inherit the lock, as
        # they would with flock.
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        lock.close()
        return None
    except OSError as error:
        log.warning(
            "%s: this file system has no locks (%s): nothing keeps a second copy of this job out.",
            path.parent, error.strerror,
        )  # fmt: skip
        return lock
    try:
        if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}")
            lock.flush()
            return lock
    except FileNotFoundError:
        pass
    lock.close()
    return None


def _holder(path: Path) -> str:
    try:
        return f" ({path.read_text(encoding='utf-8')})"
    except OSError:
        return ""
