"""A folder with the states of a job's trainings, so that one that is killed goes on from there."""

from __future__ import annotations

import logging
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from mispair.files import UserError, read_tensors, write_tensors

log = logging.getLogger(__name__)


class Checkpoints:
    """States of trainings by name, of one job only.

    Parameters
    ----------
    folder : Path
        Where they are kept; made when the first is saved.
    job : str
        Fingerprint of everything that the states depend on: code, settings, trials. States of
        another job, or broken files, are not used.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self.folder, self.job = folder, job

    def keeper(self, name: str) -> FileKeeper:
        """Return what keeps the state of the training called `name`."""
        return FileKeeper(self.folder / f"{name}.safetensors", self.job)

    def remove(self) -> None:
        """Delete the folder: the job is done."""
        shutil.rmtree(self.folder, ignore_errors=True)


class FileKeeper:
    """Keeps the state of one training in a file (`mispair.simulation.training.Keeper`)."""

    def __init__(self, path: Path, job: str) -> None:
        self.path, self.job = path, job

    def load(self) -> dict[str, Tensor] | None:
        """Return the state, if there is one of this very job."""
        if not self.path.exists():
            return None
        try:
            arrays, about = read_tensors(self.path)
        except UserError as error:
            log.warning("%s It is not used.", error)
            return None
        if about.get("job") != self.job:
            log.warning("%s is of other settings or code; it is not used.", self.path)
            return None
        log.info("going on from %s", self.path)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def save(self, state: dict[str, Tensor]) -> None:
        """Write a state in place of the last."""
        arrays = {name: values.cpu().numpy() for name, values in state.items()}
        write_tensors(self.path, arrays, {"job": self.job})


class Interrupted(Exception):  # noqa: N818 (it is no error of anyone's)
    """A training ended before its last step, as it was asked to; its state is kept."""


@contextmanager
def asked_to_end() -> Iterator[Callable[[], bool]]:
    """Yield what tells whether SIGTERM or SIGINT came, neither of which ends the process meanwhile.

    A scheduler sends SIGTERM some seconds before it kills: enough to finish a step and to save.
    Only the main thread may use this.
    """
    came: list[int] = []
    former = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
