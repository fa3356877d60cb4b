"""Settings of the small towers and of their training."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from mispair.core import settings
from mispair.pairs.steps.corrupt_captions import SchemeName

# Names of the study of towers trained from scratch: captions, towers and bases.

CLEAN = "clean"
"""Towers that are trained on the captions as they are."""

IDENTIFIED, LINEAR, NEURONS, PROMPTS = "identified", "linear", "neurons", "prompts"
"""Bases in which mixing is measured: components that varimax finds without the true features;
directions fitted to each true feature; columns of the projection; embeddings of a feature's words
in the text tower (for the image tower alone)."""

BASES = (IDENTIFIED, LINEAR, NEURONS, PROMPTS)
TOWERS = ("image", "text")

TOWERS_FILE = "towers.safetensors"
"""Name of the file of small towers in the folder of a training."""


class TowerSettings(settings.Settings):
    """Settings of `train_small_towers`."""

    schemes: list[SchemeName] = settings.sweep(
        ["random", "spurious", "missing"],
        min_length=1,
        description="Schemes of corruption whose captions towers are trained on, each at every "
        "rate; towers on clean captions are always trained. See corrupt_captions.schemes.",
    )
    rates: list[Annotated[float, Field(gt=0, le=1)]] = settings.sweep(
        [0.4],
        min_length=1,
        description="Rates of corruption: see corrupt_captions.rates.",
    )
    seeds: int = settings.sweep(
        3,
        ge=1,
        description="Independent runs. A seed draws the weights, the batches, the held-out pairs, "
        "what is corrupted and which features are linked; all schemes of a seed share the first "
        "three and the links.",
    )
    held_out: int = Field(
        4000, ge=4, description="Pairs that are not trained on; mixing is measured on them."
    )
    epochs: int = Field(8, ge=1, description="Passes over the other pairs.")
    batch_size: int = Field(256, ge=2, description="Pairs of a batch.")
    lr: float = Field(2e-3, gt=0, description="First step size of AdamW; it falls along a cosine.")
    last_lr_share: float = Field(
        0.01, ge=0, le=1, description="Last step size, as a share of the first."
    )
    weight_decay: float = Field(0.05, ge=0, description="Decay of all weights.")
    clip: float = Field(1.0, gt=0, description="Largest norm of a gradient.")
    crop: int = Field(
        24, ge=8, multiple_of=4, description="Side of the random crops, in pixels of the pictures "
        "that decode_pictures writes.",
    )  # fmt: skip
    channels: int = Field(
        32, ge=1, description="Channels of the first convolution; the second has twice as many."
    )
    width: int = Field(128, ge=2, description="Features before each projection.")
    embedding: int = Field(64, ge=2, description="Neurons of each projection.")
    seed: int = Field(0, ge=0, description="Seed from which the seeds of all runs are derived.")

    @model_validator(mode="after")
    def _no_more_neurons_than_features(self) -> Self:
        if self.embedding > self.width:
            raise ValueError(
                f"embedding: {self.embedding} neurons of {self.width} features (width)"
            )
        return self
