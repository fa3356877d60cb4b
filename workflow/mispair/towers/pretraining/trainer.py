"""open_clip's own trainer, which resumes exactly where it ended, in one process or in several.

``python -m mispair.towers.pretraining.trainer JOB.json`` is what torchrun starts in each process.
"""

from __future__ import annotations

import ctypes
import logging
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mispair.core import files
from mispair.core.progress import Progress

NAME = "towers"
"""open_clip's ``--name``: the folder below ``--logs`` in which it keeps its log and states."""
END_WITH_PARENT = 1
"""Linux's ``PR_SET_PDEATHSIG``."""


def train(arguments: list[str], logs: Path, *, seed: int) -> None:
    """Run open_clip's trainer in this process, from its last finished epoch on.

    `arguments` is the command line of ``open_clip_train.main`` and `logs` its ``--logs``, which
    also holds the random states of every process. `seed` is that of the order of samples.
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
        from mispair.towers.pretraining.random_states import ResumableLoader

        data = load(args, *rest, epoch=epoch, **kwargs)
        path = random_states(logs, epoch, args.rank) if epoch else None
        loader = ResumableLoader(data["train"].dataloader, args.workers, shuffle, path)
        if args.rank == 0:
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
        rank = next(one.rank for one in rest if hasattr(one, "world_size"))
        data["train"].dataloader.save(random_states(logs, epoch + 1, rank))
        if torch.distributed.is_initialized():
            # open_clip writes the checkpoint next, which is of use only with all random states.
            torch.distributed.barrier()
        random_states(logs, epoch - 1, rank).unlink(missing_ok=True)

    with ExitStack() as stack:
        for owner, name, value in (
            (webdataset, "shuffle", partial(webdataset.shuffle, rng=shuffle)),
            (trainer, "create_model_and_transforms", create_in_channels_last),
            (trainer, "get_data", get_resumable_data),
            (trainer, "get_tokenizer", get_bounded_tokenizer),
            (trainer, "train_one_epoch", train_epoch_and_save),
            (torch.nn.parallel, "DistributedDataParallel", _replica),
        ):
            stack.enter_context(_replaced(owner, name, value))
        stack.enter_context(_untouched_logging())
        stack.enter_context(_as_many_processes_as_were_started())
        trainer.main(arguments)


def random_states(logs: Path, epoch: int, rank: int) -> Path:
    """Return the file of the random states of a process after a number of epochs."""
    return logs / NAME / "random" / f"{epoch}-{rank}.pt"


def finished_epochs(logs: Path, processes: int) -> int:
    """Return the number of epochs after which a training can resume; remove broken states."""
    import torch

    latest = latest_checkpoint(logs)
    if not latest.exists():
        return 0
    try:
        # A pickle is a program; with `weights_only` none of it runs.
        epoch = int(torch.load(latest, map_location="cpu", weights_only=True, mmap=True)["epoch"])
        for rank in range(processes):
            torch.load(random_states(logs, epoch, rank), weights_only=True)
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


def _replica(model: Any, device_ids: list[Any], **kwargs: Any) -> Any:
    """Make a process's replica of a model; open_clip names devices, an error on CPUs."""
    from torch.nn.parallel.distributed import DistributedDataParallel

    on_cpu = device_ids[0].type == "cpu"
    return DistributedDataParallel(model, device_ids=None if on_cpu else device_ids, **kwargs)


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    former = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, former)


@contextmanager
def _as_many_processes_as_were_started() -> Iterator[None]:
    """Keep open_clip from taking SLURM's tasks for processes of its own, and waiting for them."""
    started = "WORLD_SIZE" in os.environ
    os.environ.setdefault("WORLD_SIZE", "1")
    try:
        yield
    finally:
        if not started:
            del os.environ["WORLD_SIZE"]


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


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Let Linux end this process when its parent ends, even by ``kill -9``.

    Otherwise the processes of a killed training would run next to those of its restart.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(END_WITH_PARENT, number)


def main(job: Path) -> None:
    """Run the job that `mispair.towers.pretraining.launching` wrote."""
    end_with_parent()
    import torch

    content = files.read_json(job)
    torch.set_num_threads(content["threads"])
    train(content["arguments"], Path(content["logs"]), seed=content["seed"])
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
