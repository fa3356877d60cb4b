"""Checks that a corpus is large enough for its reading processes and for the schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mispair.core.files import UserError

if TYPE_CHECKING:
    from mispair.towers.pretraining.pretraining_settings import Settings


def refuse_too_few_shards(size: Settings, shards: int) -> None:
    """Raise a UserError if readers lack a shard of their own: open_clip would stop or hang."""
    if size.train_num_samples is not None:
        if size.workers == 0:
            raise UserError(
                "pretrain_towers.workers: 0, but with train_num_samples open_clip would read the "
                "same shards in every epoch. Set workers to 1 or more."
            )
        return  # each reader draws its shards from all
    readers = _readers(size)
    if shards < readers:
        raise UserError(
            f"pretrain_towers: {readers} processes are to read {_count(shards, 'shard')} "
            f"({_spread(size)}), and each reads shards of its own. Lower workers or processes, "
            "write more and smaller shards, or set train_num_samples."
        )


def refuse_too_few_pairs(size: Settings, pairs: Sequence[int]) -> None:
    """Raise a UserError if a reader cannot fill a batch, or the schedule ends within its warm-up.

    `pairs` is the number of pairs in each shard; not used where epochs are drawn from all shards.
    """
    if size.train_num_samples is None:
        # Shards are dealt again in each epoch; this is the least that a reader can get.
        least = sum(sorted(pairs)[: len(pairs) // _readers(size)])
        if least < size.batch_size:
            raise UserError(
                f"pretrain_towers.batch_size: {size.batch_size} pairs for each process, but "
                f"{_count(sum(pairs), 'pair')} in {_count(len(pairs), 'shard')} leave one reader "
                f"{least} ({_spread(size)}). Lower batch_size, workers or processes."
            )
    total = size.epochs * steps_per_epoch(size, size.train_num_samples or sum(pairs))
    if size.warmup > total:
        raise UserError(f"pretrain_towers.warmup: {size.warmup} steps, but training has {total}.")


def steps_per_epoch(size: Settings, samples: int) -> int:
    """Return the steps of an epoch, which open_clip rounds up to equally many for each reader."""
    workers = max(1, size.workers)
    batches = -(-samples // (size.batch_size * size.processes * size.nodes))
    return -(-batches // workers) * workers


def cores_of_a_process(threads: int, workers: int) -> int:
    """Return the cores for a process of the trainer and its readers.

    With a GPU the readers need most cores; on a CPU with few cores they hardly count.
    """
    return max(threads, 1 + workers)


def _readers(size: Settings) -> int:
    return size.processes * size.nodes * max(1, size.workers)


def _spread(size: Settings) -> str:
    return f"nodes {size.nodes}, processes {size.processes}, workers {size.workers}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
