"""Settings of a fine-tuning: its arms, its pairs and its seeds."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from mispair.core import settings
from mispair.towers.arms import PRETRAINED, STARTS, StartName
from mispair.towers.finetuning.finetuning_presets import FineTuning, refuse, resolve


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
        "it has no effect. each-step holds the features of all captions of the pairs in memory, "
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
        refuse(resolve(self), self.pairs)
        return self
