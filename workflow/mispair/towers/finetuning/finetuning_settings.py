"""Settings of a fine-tuning: its arms, its pairs and its seeds."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from pydantic import Field, model_validator

from mispair.core import settings
from mispair.towers.arms import PRETRAINED, REPAIR, STARTS, WEIGHTED, StartName

# How projections are fine-tuned: presets, and the control arms that change one setting.
#
# ``as-run`` is what the authors' public code does (repository sun-messi/feature-purity-clip, on
# the trainer of LaCLIP). ``as-written`` is the text of the paper, section 5.2 and appendix A.2,
# which states little. Where the text is silent, ``as-written`` takes the value of ``as-run``.
#
# The authors' trainer takes 256 pairs in each process and gathers the embeddings of all. Their
# README starts four processes, so a batch has 1,024 pairs, which also sets the steps of the
# schedule. ``as-run-one-process`` is the same code in one process, with batches of 256: for
# corpora of tens of thousands of pairs, which leave few steps of 1,024.
#
# The large batches are not the authors'. For k times the batch, learning rate and weight decay are
# multiplied by sqrt(k), the square-root scaling for Adam (Malladi et al. 2022). Their product is k
# times as large, so an epoch of fewer steps decays the weights as much as before.

Preset = Literal["as-run", "as-run-one-process", "as-written", "large-batch", "large-batch-32k"]

DEFAULT_PRESET: Preset = "as-run-one-process"

FIRST_NEWTON_STEPS = 6
"""Newton steps of a solved log scale before the first epoch; after each epoch one follows."""

MEASURED_PAIRS = 2**16
"""Largest number of pairs of a seed in the means of the cosine gap and of the scale's slopes."""


@dataclass(frozen=True)
class FinetuningLength:
    """How projections are fine-tuned; learning rates and decay are AdamW's, lengths in epochs."""

    epochs: int = 10
    batch_size: int = 1024
    lr: float = 1e-3
    final_lr: float = 1e-5
    warmup_epochs: int = 1
    warmup_lr: float = 1e-6
    weight_decay: float = 0.5
    logit_scale: Literal["frozen", "free", "solved"] = "frozen"
    logit_scale_lr: float = 0.05


AS_RUN = FinetuningLength()


def _with_batch(size: int) -> FinetuningLength:
    factor = (size / AS_RUN.batch_size) ** 0.5
    scaled = {
        key: round(factor * getattr(AS_RUN, key), 6) for key in ("lr", "final_lr", "weight_decay")
    }
    return replace(AS_RUN, batch_size=size, **scaled)


PRESETS: dict[Preset, FinetuningLength] = {
    "as-run": AS_RUN,
    "as-run-one-process": replace(AS_RUN, batch_size=256),
    "as-written": AS_RUN,
    "large-batch": _with_batch(4096),
    "large-batch-32k": _with_batch(32768),
}


def _or_preset(key: str, description: str) -> str:
    """Add to a description what null means: the value of each preset."""
    named: dict[str, list[str]] = {}
    for preset, training in PRESETS.items():
        named.setdefault(str(getattr(training, key)), []).append(preset)
    if len(named) == 1:
        return f"{description} Null takes the presets' {next(iter(named))}."
    values = "; ".join(f"{value} ({', '.join(presets)})" for value, presets in named.items())
    return f"{description} Null takes the preset's: {values}."


class FineTuning(settings.Settings):
    """Settings of the fine-tuning itself: a preset, and values that override it."""

    preset: Preset = Field(
        DEFAULT_PRESET,
        description="Source of the values that are null below. as-run is what the authors' public "
        "code does in four processes; as-run-one-process is the same with a quarter of the batch, "
        "for corpora that leave few steps of 1,024. as-written is the paper's text, and as-run "
        "where the text is silent, which is nearly everywhere. large-batch and large-batch-32k, "
        "for GPUs and millions of pairs, scale lr, final_lr and weight_decay by the square root of "
        "the batch (large-batch-32k takes 13 GB of memory a seed).",
    )
    epochs: int | None = Field(None, ge=1, description=_or_preset("epochs", "Passes over pairs."))
    batch_size: int | None = Field(
        None,
        ge=2,
        description=_or_preset("batch_size", "Pairs in a step.")
        + f" If the pairs make no batch of {DEFAULT_PRESET}, it takes a half of them.",
    )
    lr: float | None = Field(
        None, gt=0, description=_or_preset("lr", "Learning rate of AdamW after the warm-up.")
    )
    final_lr: float | None = Field(
        None, ge=0, description=_or_preset("final_lr", "Learning rate at the end of the cosine.")
    )
    warmup_epochs: int | None = Field(
        None,
        ge=0,
        description=_or_preset("warmup_epochs", "Epochs of linear warm-up, of all epochs."),
    )
    warmup_lr: float | None = Field(
        None, ge=0, description=_or_preset("warmup_lr", "Learning rate of the first warm-up step.")
    )
    weight_decay: float | None = Field(
        None, ge=0, description=_or_preset("weight_decay", "AdamW's decay, on matrices only.")
    )
    logit_scale: Literal["frozen", "free", "solved"] | None = Field(
        None,
        description=_or_preset(
            "logit_scale",
            "The factor on the cosines: frozen stays as it is, free is trained by gradients, "
            "solved is set to the minimum of the loss before the first epoch and after each one.",
        ),
    )
    logit_scale_lr: float | None = Field(
        None,
        gt=0,
        description=_or_preset(
            "logit_scale_lr",
            "Learning rate of the log of a free logit scale, at the peak of the same schedule. At "
            "the rate of the projections a scalar does not reach its optimum.",
        ),
    )


def resolve(chosen: FineTuning, pairs: int | None = None) -> FinetuningLength:
    """Return the complete training: the values that are set, and the preset's for the others.

    Parameters
    ----------
    chosen : FineTuning
        What is set.
    pairs : int, optional
        Pairs to train on, if their number is known. If they make no batch of the default preset,
        which nobody chose for its batch, it is a half of them.

    Examples
    --------
    >>> training = resolve(FineTuning(preset="large-batch", epochs=3))
    >>> training.epochs, training.batch_size, training.lr
    (3, 4096, 0.002)
    >>> resolve(FineTuning(), 60).batch_size, resolve(FineTuning(), 300).batch_size
    (30, 256)
    """
    values = {field.name: getattr(chosen, field.name) for field in fields(FinetuningLength)}
    training = replace(
        PRESETS[chosen.preset], **{key: value for key, value in values.items() if value is not None}
    )
    return _shrunk(chosen, training, pairs, 2)


def for_kept(chosen: FineTuning, training: FinetuningLength, pairs: int) -> FinetuningLength:
    """Return the training of an arm of which a repair kept fewer pairs than a batch."""
    return _shrunk(chosen, training, pairs, 1)


def _shrunk(
    chosen: FineTuning, training: FinetuningLength, pairs: int | None, batches: int
) -> FinetuningLength:
    is_free = chosen.batch_size is None and chosen.preset == DEFAULT_PRESET
    if not is_free or pairs is None or pairs >= training.batch_size:
        return training
    return replace(training, batch_size=max(2, pairs // batches))


@dataclass(frozen=True)
class TrainedArm:
    """How an arm starts and how it is trained.

    Attributes
    ----------
    training : FinetuningLength
        Complete.
    random_norm : float or None
        None starts from the model's projections; otherwise the norm of random ones, as
        `mispair.towers.finetuning.projection.starting_point` takes it.
    fixed_scale : float or None
        Logit scale at the start (the factor, not its log), or None for the model's.
    """

    training: FinetuningLength
    random_norm: float | None = None
    fixed_scale: float | None = None


def arm(start: str, training: FinetuningLength) -> TrainedArm:
    """Return which projections and logit scale an arm starts from, and how it is trained.

    `STARTS` declares them. ``audit-weighted`` differs from ``pretrained`` by the weights of its
    pairs, and the arms of the study repair by their captions, which are data.

    Raises
    ------
    ValueError
        If there is no such arm.
    """
    own = start == WEIGHTED or start.startswith(REPAIR)
    declared = STARTS.get(PRETRAINED if own else start)
    if declared is None:
        raise ValueError(f"start {start!r} is none of {', '.join(STARTS)}")
    changed = replace(training, **declared.training)
    return TrainedArm(changed, declared.random_norm, declared.fixed_scale)


def refuse(training: FinetuningLength, pairs: int | None) -> None:
    """Refuse a training that is impossible or would train nothing.

    Parameters
    ----------
    training : FinetuningLength
        Complete.
    pairs : int or None
        Pairs to train on, if their number is known.

    Raises
    ------
    ValueError
        Naming every fault.
    """
    last = f"lr ({training.lr:g})"
    faults = {
        f"{pairs} pairs make no whole batch of batch_size {training.batch_size}, so that an epoch "
        "has no step": pairs is not None and pairs < training.batch_size,
        f"warmup_epochs: {training.warmup_epochs} must be fewer than epochs ({training.epochs}), "
        "or the warm-up leaves no step of training": training.warmup_epochs >= training.epochs,
        f"warmup_lr: {training.warmup_lr:g} is above {last}": training.warmup_lr > training.lr,
        f"final_lr: {training.final_lr:g} is above {last}": training.final_lr > training.lr,
    }
    if reasons := [fault for fault, holds in faults.items() if holds]:
        raise ValueError("; ".join(reasons))


class Settings(FineTuning):
    """Settings of `finetune_projection`."""

    starts: list[StartName] = settings.sweep(
        [name for name, start in STARTS.items() if start.by_default],
        min_length=1,
        description=f"Arms, each at every rate: {PRETRAINED} {STARTS[PRETRAINED].effect}; controls "
        "differ from it in one thing: "
        + ", ".join(
            f"{name} {start.effect}" for name, start in STARTS.items() if name != PRETRAINED
        )
        + ". Controls are trained on the first scheme only.",
    )
    control_rates: int | None = settings.sweep(
        2, ge=2,
        description="Number of rates at which controls other than scale-converged are trained: the "
        "lowest, the largest and others evenly between them; null takes all.",
    )  # fmt: skip
    weights: Literal["none", "audit"] = settings.sweep(
        "none",
        description="audit adds the arm audit-weighted: as pretrained, but the loss of each pair "
        "is weighted by the probability that its caption is right. The untouched model estimates "
        "it for the pairs that are trained on (weigh_pairs).",
    )
    draw_captions: Literal["once", "each-step"] = Field(
        "once",
        description="When the caption of a pair that has several is drawn: once, before the "
        "training and for all seeds alike; or at each step that the pair is in, uniformly, as "
        "LaCLIP does. A swapped pair draws among the captions of the pair that its caption came "
        "from. A caption that a scheme or a repair wrote stays. Weights of the audit are those of "
        "the caption drawn once. Without several captions (index_shards.table_captions: augment) "
        "it has no effect. each-step needs the features of all captions of the pairs, "
        "and 16 bytes for each pair and seed.",
    )
    seeds: int = Field(
        5, ge=1,
        description="Independent runs: each has its own draw of swaps, its own subset of pairs and "
        "its own order of batches.",
    )  # fmt: skip
    pairs: int | None = Field(
        10_000, ge=2, description="Pairs trained on: a subset of all for each seed; null takes all."
    )
    seed: int = Field(0, ge=0, description="Seed of the subsets, the batch orders and new weights.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where to compute: auto takes a GPU where there is one."
    )

    @model_validator(mode="after")
    def _leaves_steps_to_train(self) -> Settings:
        refuse(resolve(self, self.pairs), self.pairs)
        return self
