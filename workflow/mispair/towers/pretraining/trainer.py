"""open_clip's own trainer in this process, which resumes exactly where it ended."""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import get_worker_info

from mispair.core.files import replacing
from mispair.core.progress import Progress

# States of the random generators of a training, so that it resumes as if it had never ended.
#
# The processes that read pictures draw crops and the order of samples from generators of their
# own, which run on from epoch to epoch. So each sends their states with every batch.

State = dict[str, Any]


def random_state(shuffle: random.Random) -> State:
    """Return the state of every generator of this process, as tensors and plain containers."""
    numpy: Any = np.random.get_state(legacy=False)
    state: State = {
        "shuffle": shuffle.getstate(),
        "python": random.getstate(),
        "numpy": torch.from_numpy(numpy["state"]["key"].astype(np.int64)),
        "numpy_rest": (numpy["state"]["pos"], numpy["has_gauss"], numpy["gauss"]),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore(state: State, shuffle: random.Random) -> None:
    """Restore every generator of this process to a result of `random_state`."""
    shuffle.setstate(_tuples(state["shuffle"]))
    random.setstate(_tuples(state["python"]))
    position, has_gauss, gauss = state["numpy_rest"]
    key = state["numpy"].numpy().astype(np.uint32)
    np.random.set_state(("MT19937", key, position, has_gauss, gauss))
    torch.set_rng_state(state["torch"])
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])


def _tuples(state: Any) -> Any:
    """Return a state of `random.Random` as it was: torch's loader makes lists of its tuples."""
    version, numbers, gauss = state
    return version, tuple(numbers), gauss


@dataclass
class Reading:
    """Last stage of open_clip's data pipeline: adds reader and state of the reader to a batch."""

    shuffle: random.Random
    resumed: dict[int, State] = field(default_factory=dict)

    def __call__(self, batches: Any) -> Iterator[tuple[Any, Any, int, State]]:
        """Yield pictures, texts, the number of the reader and its state after the batch."""
        info = get_worker_info()
        reader = 0 if info is None else info.id
        # Restored here, because this runs in the process that reads.
        if (state := self.resumed.pop(reader, None)) is not None:
            restore(state, self.shuffle)
        for images, texts in batches:
            yield images, texts, reader, random_state(self.shuffle)


class ResumableLoader:
    """open_clip's loader of training data, which can be saved between epochs.

    Parameters
    ----------
    loader : webdataset.WebLoader
        As open_clip makes it, with its number of reading `workers`; with 0 the main process reads.
    shuffle : random.Random
        Generator of the order of samples, which the pipeline holds.
    path : Path, optional
        File of `save` to resume from.
    """

    def __init__(
        self, loader: Any, workers: int, shuffle: random.Random, path: Path | None = None
    ) -> None:
        self.loader, self.workers, self.shuffle = loader, workers, shuffle
        self.num_batches, self.num_samples = loader.num_batches, loader.num_samples
        self.readers: dict[int, State] = {}
        self.seen: Callable[[], None] = lambda: None
        self.main: State | None = None
        stage = Reading(shuffle)
        if path is not None:
            saved = torch.load(path, map_location="cpu", weights_only=True)
            stage.resumed, self.main = saved["readers"], saved["main"]
        loader.pipeline[0].dataset.append(stage)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Yield the batches of an epoch."""
        if not self.workers:
            self._go_on()
        for images, texts, reader, state in self.loader:
            # Only now: starting the readers drew their seeds from this process's generator.
            self._go_on()
            self.readers[reader] = state
            yield images, texts
            self.seen()

    def _go_on(self) -> None:
        if self.main is not None:
            restore(self.main, self.shuffle)
            self.main = None

    def save(self, path: Path) -> None:
        """Write the states after an epoch."""
        # Without workers the reader is this process, and has gone on since the last batch.
        readers = self.readers if self.workers else {}
        with replacing(path) as temporary:
            torch.save({"main": random_state(self.shuffle), "readers": readers}, temporary)


NAME = "towers"
"""open_clip's ``--name``: the folder below ``--logs`` in which it keeps its log and states."""


def train(arguments: list[str], logs: Path, *, seed: int) -> None:
    """Run open_clip's trainer in this process, from its last finished epoch on.

    `arguments` is the command line of ``open_clip_train.main`` and `logs` its ``--logs``, which
    also holds the random states. `seed` is that of the order of samples.
    """
    import torch
    import webdataset
    from open_clip_train import main as trainer

    from mispair.towers.loading import bounded

    # By default webdataset seeds the order of samples with the clock and the process number.
    shuffle = random.Random(seed)
    create, load = trainer.create_model_and_transforms, trainer.get_data
    get_tokenizer = trainer.get_tokenizer

    def get_bounded_tokenizer(*args: Any, **kwargs: Any) -> Any:
        return bounded(get_tokenizer(*args, **kwargs))

    train_epoch = trainer.train_one_epoch

    def create_in_channels_last(*args: Any, **kwargs: Any) -> Any:
        # The memory order in which convolutions are twice as fast on CPUs.
        model, *transforms = create(*args, **kwargs)
        return model.to(memory_format=torch.channels_last), *transforms

    def get_resumable_data(args: Any, *rest: Any, epoch: int, **kwargs: Any) -> Any:
        data = load(args, *rest, epoch=epoch, **kwargs)
        path = random_states(logs, epoch) if epoch else None
        loader = ResumableLoader(data["train"].dataloader, args.workers, shuffle, path)
        batches = loader.num_batches
        progress = Progress("training the towers", args.epochs * batches, "batches")
        progress.reach(epoch * batches)
        loader.seen = progress.advance
        stack.callback(progress.close)
        data["train"].dataloader = loader
        return data

    def train_epoch_and_save(
        model: Any, data: Any, loss: Any, epoch: int, *rest: Any, **kwargs: Any
    ) -> None:
        train_epoch(model, data, loss, epoch, *rest, **kwargs)
        data["train"].dataloader.save(random_states(logs, epoch + 1))
        # open_clip writes the checkpoint next, which is of use only with the random states.
        random_states(logs, epoch - 1).unlink(missing_ok=True)

    with ExitStack() as stack:
        for owner, name, value in (
            (webdataset, "shuffle", partial(webdataset.shuffle, rng=shuffle)),
            (trainer, "create_model_and_transforms", create_in_channels_last),
            (trainer, "get_data", get_resumable_data),
            (trainer, "get_tokenizer", get_bounded_tokenizer),
            (trainer, "train_one_epoch", train_epoch_and_save),
        ):
            stack.enter_context(_replaced(owner, name, value))
        stack.enter_context(_untouched_logging())
        stack.enter_context(_one_process())
        trainer.main(arguments)


def random_states(logs: Path, epoch: int) -> Path:
    """Return the file of the random states after a number of epochs."""
    return logs / NAME / "random" / f"{epoch}.pt"


def finished_epochs(logs: Path) -> int:
    """Return the number of epochs after which a training can resume; remove broken states."""
    import torch

    latest = latest_checkpoint(logs)
    if not latest.exists():
        return 0
    try:
        # A pickle is a program; with `weights_only` none of it runs.
        epoch = int(torch.load(latest, map_location="cpu", weights_only=True, mmap=True)["epoch"])
        torch.load(random_states(logs, epoch), weights_only=True)
    except Exception as error:  # of any kind: of the disk, the archive or the pickle
        logging.getLogger(__name__).warning("%s: is not used (%s).", latest, error)
        latest.unlink()
        return 0
    return epoch


def remove_other_jobs(parts: Path, logs: Path) -> None:
    """Remove what trainings with other settings, code or shards left next to a folder of logs."""
    for folder in parts.glob("*"):
        if folder.is_dir() and folder != logs:
            logging.getLogger(__name__).warning(
                "%s is of other settings, code or shards; it is removed.", folder
            )
            shutil.rmtree(folder)


def latest_checkpoint(logs: Path) -> Path:
    """Return open_clip's checkpoint of the last finished epoch."""
    return logs / NAME / "checkpoints" / "epoch_latest.pt"


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    former = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, former)


@contextmanager
def _one_process() -> Iterator[None]:
    """Keep open_clip from taking SLURM's tasks for processes of its own, and waiting for them."""
    former = os.environ.get("WORLD_SIZE")
    os.environ["WORLD_SIZE"] = "1"
    try:
        yield
    finally:
        if former is None:
            del os.environ["WORLD_SIZE"]
        else:
            os.environ["WORLD_SIZE"] = former


@contextmanager
def _untouched_logging() -> Iterator[None]:
    """Undo the trainer's changes to logging: handlers of the root logger, and all levels."""
    root = logging.getLogger()
    handlers = list(root.handlers)
    loggers = [root, *(logging.getLogger(name) for name in root.manager.loggerDict)]
    levels = [logger.level for logger in loggers]
    try:
        yield
    finally:
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
            handler.close()
        for handler in [handler for handler in handlers if handler not in root.handlers]:
            root.addHandler(handler)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
