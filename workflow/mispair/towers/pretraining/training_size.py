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
    if shards < _readers(size):
        raise UserError(
            f"pretrain_towers.workers: {size.workers} processes are to read "
            f"{_count(shards, 'shard')}, and each reads shards of its own. Lower workers, write "
            "more and smaller shards, or set train_num_samples."
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
                f"pretrain_towers.batch_size: {size.batch_size}, but {_count(sum(pairs), 'pair')} "
                f"in {_count(len(pairs), 'shard')} leave one of {_readers(size)} readers {least}. "
                "Lower batch_size or workers."
            )
    total = size.epochs * steps_per_epoch(size, size.train_num_samples or sum(pairs))
    if size.warmup > total:
        raise UserError(f"pretrain_towers.warmup: {size.warmup} steps, but training has {total}.")


def steps_per_epoch(size: Settings, samples: int) -> int:
    """Return the steps of an epoch, which open_clip rounds up to equally many for each reader."""
    batches = -(-samples // size.batch_size)
    return -(-batches // _readers(size)) * _readers(size)


def _readers(size: Settings) -> int:
    return max(1, size.workers)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
