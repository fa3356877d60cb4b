"""Settings of pre-training image and text towers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mispair.core import settings


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
