"""open_clip's own trainer in this process; after a kill it ends with the same weights.

open_clip saves no state of its random generators. So these are seeded at the start of each epoch,
and the processes that read pictures, which are seeded by the one that trains, start with it.
"""

import logging
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from mispair.core import seeds
from mispair.core.progress import Progress

NAME = "towers"
"""open_clip's ``--name``: the folder below ``--logs`` in which it keeps its log and states."""


def train(arguments: list[str], *, seed: int, epochs: int) -> None:
    """Run open_clip's trainer in this process, from its last finished epoch on.

    `arguments` is the command line of ``open_clip_train.main``. `seed` is that of crops and of the
    order of samples.
    """
    import webdataset
    from open_clip_train import main as trainer

    from mispair.towers.loading import bounded

    create, train_epoch = trainer.create_model_and_transforms, trainer.train_one_epoch
    get_tokenizer, loader = trainer.get_tokenizer, webdataset.WebLoader

    def get_bounded_tokenizer(*args: Any, **kwargs: Any) -> Any:
        return bounded(get_tokenizer(*args, **kwargs))

    def create_in_channels_last(*args: Any, **kwargs: Any) -> Any:
        # The memory order in which convolutions are twice as fast on CPUs.
        model, *transforms = create(*args, **kwargs)
        return model.to(memory_format=torch.channels_last), *transforms

    def new_readers_each_epoch(*args: Any, **kwargs: Any) -> Any:
        return loader(*args, **{**kwargs, "persistent_workers": False})

    def train_seeded_epoch(
        model: Any, data: Any, loss: Any, epoch: int, *rest: Any, **kwargs: Any
    ) -> None:
        progress.reach(epoch)
        trainer.random_seed(seeds.integer(seed, "pretrain-towers", epoch) % 2**32)
        train_epoch(model, data, loss, epoch, *rest, **kwargs)
        progress.reach(epoch + 1)

    with Progress("training the towers", epochs, "epochs") as progress, ExitStack() as stack:
        for owner, name, value in (
            # By default webdataset seeds the order of samples with the clock and the process.
            (webdataset, "shuffle", partial(webdataset.shuffle, rng=random)),
            (webdataset, "WebLoader", new_readers_each_epoch),
            (trainer, "create_model_and_transforms", create_in_channels_last),
            (trainer, "get_tokenizer", get_bounded_tokenizer),
            (trainer, "train_one_epoch", train_seeded_epoch),
        ):
            stack.enter_context(_replaced(owner, name, value))
        stack.enter_context(_untouched_logging())
        stack.enter_context(_one_process())
        trainer.main(arguments)


def finished_epochs(logs: Path) -> int:
    """Return the number of epochs after which a training can resume; remove a broken state."""
    latest = latest_checkpoint(logs)
    if not latest.exists():
        return 0
    try:
        # A pickle is a program; with `weights_only` none of it runs.
        return int(torch.load(latest, map_location="cpu", weights_only=True, mmap=True)["epoch"])
    except Exception as error:  # of any kind: of the disk, the archive or the pickle
        logging.getLogger(__name__).warning("%s: is not used (%s).", latest, error)
        latest.unlink()
        return 0


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
