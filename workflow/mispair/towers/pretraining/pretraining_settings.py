"""Settings of pre-training, and the least size of a corpus for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from mispair.core import settings
from mispair.core.files import UserError


class Settings(settings.Settings):
    """Settings of pre-training; the towers that come with mispair were made with the defaults."""

    definition: Annotated[str, settings.Located(r"[^/]*(?<!\.json)")] = Field(
        "scenes-small",
        description="Model: a definition of mispair, an architecture of open_clip such as "
        "ViT-B-32, or a path to a .json. Not used with `start`.",
    )
    start: Annotated[str | None, settings.Located("[^/]+")] = settings.sweep(
        None,
        description="Towers whose weights are all trained further: `shipped`, the folder of a "
        "local open_clip model, or the name of a model under `models`; null trains from scratch.",
    )
    epochs: int = Field(12, ge=1, description="Passes over the corpus, or over samples drawn.")
    train_num_samples: int | None = Field(
        None,
        ge=1,
        description="Pairs of an epoch, from shards drawn with replacement, for corpora whose "
        "passes take hours: a killed training resumes after its last epoch. null takes all pairs "
        "of the corpus.",
    )
    batch_size: int = Field(128, ge=2, description="Pairs per step.")
    lr: float = Field(2e-3, ge=0, description="Peak learning rate of AdamW.")
    warmup: int = Field(100, ge=0, description="Steps of linear warm-up before the cosine decay.")
    wd: float = Field(0.1, ge=0, description="Weight decay.")
    crop_scale: float = Field(
        0.9, gt=0, le=1, description="Least share of the area that a random crop keeps."
    )
    grad_checkpointing: bool = Field(
        False, description="Compute activations twice rather than keep them: for larger batches."
    )
    precision: Literal["fp32", "amp", "amp_bf16"] = Field(
        "fp32", description="Number format of the products, by open_clip's names."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "cpu", description="Where towers are trained; auto takes a GPU when there is one."
    )
    seed: int = Field(0, ge=0, description="Seed of the weights, crops and order of samples.")
    threads: int = Field(2, ge=1, description="Threads of the training.")
    workers: int = Field(1, ge=0, description="Processes that read and decode pictures.")


# Checks that a corpus is large enough for its reading processes and for the schedule.


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
