"""Every number of the simulation study, with its unit and what may be chosen."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from mispair import settings
from mispair.simulation.presets import PRESETS

_AS_RUN = PRESETS["as-run"]


class Study(settings.Settings):
    """One condition of the study, from the dictionaries to the test set.

    What is not set is taken from the preset. Letters are the paper's: images x = M z_x and
    captions y = H z_y + noise live in ``d1`` dimensions, latent codes z in ``d``, and each of the
    two encoders has ``m`` neurons.
    """

    preset: Literal["as-run"] = Field(
        "as-run",
        description="Where numbers that are not set come from: as-run is what the authors' public "
        "code does, which differs from the paper's text in nearly every setting.",
    )
    seed: int = Field(0, ge=0, description="Seed of all draws; a trial adds its own number.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where to compute: auto is cuda if there is one, else cpu."
    )
    precision: Literal["float32", "float64"] = Field(
        "float32", description="Floating-point type of data, weights and gradients."
    )
    noise_draws: Literal["projected", "full"] = Field(
        "projected",
        description="How a step draws fresh caption noise: projected draws only what the step can "
        "see of it (the same distribution, about half the time); full draws all d1 coordinates.",
    )

    d1: int = Field(_AS_RUN["d1"], ge=1, description="Dimensions of images and captions.")
    d: int = Field(_AS_RUN["d"], ge=1, description="Features: dimensions of the latent codes.")
    m: int = Field(_AS_RUN["m"], ge=1, description="Neurons of each encoder, at least d.")
    classes: int = Field(
        _AS_RUN["classes"], ge=2, description="Classes of the test; they share out the d features."
    )
    latent_density: float = Field(
        _AS_RUN["latent_density"], gt=0, lt=1, description="Probability that a feature is active."
    )
    text_noise: float = Field(
        _AS_RUN["text_noise"],
        ge=0,
        description="Noise of training captions: standard deviation per coordinate.",
    )

    start_std: float = Field(
        _AS_RUN["start_std"], gt=0, description="Standard deviation of starting weights and biases."
    )
    batch_size: int = Field(_AS_RUN["batch_size"], ge=2, description="Pairs in a training step.")
    epochs: int = Field(_AS_RUN["epochs"], ge=1, description="Epochs of pre-training (S1).")
    steps_per_epoch: int = Field(
        _AS_RUN["steps_per_epoch"], ge=1, description="Training steps in an epoch."
    )
    lr: float = Field(_AS_RUN["lr"], gt=0, description="Adam's step size at the start.")
    lr_decay: float = Field(
        _AS_RUN["lr_decay"], gt=0, le=1, description="Factor on the step size at each decay."
    )
    lr_decay_every: int = Field(
        _AS_RUN["lr_decay_every"], ge=1, description="Epochs between two decays of the step size."
    )
    temperature: float = Field(_AS_RUN["temperature"], gt=0, description="Temperature of InfoNCE.")
    weight_penalty: float = Field(
        _AS_RUN["weight_penalty"],
        ge=0,
        description="Factor of the squared Frobenius norm of all parameters in the loss.",
    )

    decoder_epochs: int = Field(
        _AS_RUN["decoder_epochs"], ge=0, description="Full-batch steps of the caption decoder (S2)."
    )
    decoder_lr: float = Field(_AS_RUN["decoder_lr"], gt=0, description="Adam's step size in S2.")
    decoder_text_noise: float = Field(
        _AS_RUN["decoder_text_noise"],
        ge=0,
        description="Noise of the high-quality captions of S2: standard deviation per coordinate.",
    )
    purified_share_needed: float = Field(
        _AS_RUN["purified_share_needed"],
        ge=0,
        le=1,
        description="The decoder starts from the encoders' weights, and S4 mixes filtered with raw "
        "pairs, only if more than this share of the d features is purified after S1.",
    )
    filter_factor: float = Field(
        _AS_RUN["filter_factor"],
        ge=0,
        description="S3 replaces a caption if the generated one's cosine with the image is at "
        "least this factor times the original's.",
    )
    filtered_pairs: int = Field(
        _AS_RUN["filtered_pairs"], ge=1, description="Pairs that S3 filters: a fixed sample."
    )
    retrain_weights: Literal["fresh", "initial"] = Field(
        _AS_RUN["retrain_weights"],
        description="S4 starts from weights of its own draw (fresh) or from those S1 started from "
        "(initial), which pairs the two arms more closely.",
    )
    retrain_epochs: int = Field(
        _AS_RUN["retrain_epochs"], ge=1, description="Epochs of S4 on filtered and raw pairs."
    )
    retrain_epochs_filtered_only: int = Field(
        _AS_RUN["retrain_epochs_filtered_only"],
        ge=1,
        description="Epochs of S4 on filtered pairs only, after too few purified features.",
    )

    test_images: int = Field(_AS_RUN["test_images"], ge=2, description="Images of the test.")
    test_density: float = Field(
        _AS_RUN["test_density"],
        gt=0,
        lt=1,
        description="Probability that a feature is active in a test image.",
    )
    test_margin: int = Field(
        _AS_RUN["test_margin"],
        ge=1,
        description="Test images are kept if the best class leads by this many active features.",
    )
    test_image_noise: float = Field(
        _AS_RUN["test_image_noise"],
        ge=0,
        description="Noise of test images: standard deviation per coordinate.",
    )
    prompt_noise: float = Field(
        _AS_RUN["prompt_noise"],
        ge=0,
        description="Noise of the classes' prompts: standard deviation per coordinate.",
    )
    threshold_low: float = Field(
        _AS_RUN["threshold_low"], gt=0, lt=1, description="Lowest cosine that counts as purified."
    )
    threshold_high: float = Field(
        _AS_RUN["threshold_high"], gt=0, le=1, description="Highest cosine that is tried."
    )
    threshold_step: float = Field(
        _AS_RUN["threshold_step"], gt=0, le=1, description="Step between thresholds."
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        preset = values.get("preset", "as-run")
        known = PRESETS.get(preset, {}) if isinstance(preset, str) else {}
        return {**known, **values}

    @model_validator(mode="after")
    def _refuse_the_impossible(self) -> Study:
        if self.m < self.d:
            raise ValueError(
                f"m: {self.m} neurons cannot represent d = {self.d} features; m must be at least d"
            )
        if self.d > self.d1:
            raise ValueError(
                f"d: {self.d} orthonormal features need d1 of at least {self.d}, not {self.d1}"
            )
        if self.d % self.classes:
            raise ValueError(
                f"classes: d = {self.d} features cannot be shared out equally among "
                f"{self.classes} classes; choose a divisor of d"
            )
        if self.test_margin > self.d // self.classes:
            raise ValueError(
                f"test_margin: a class has {self.d // self.classes} features, so no image can "
                f"lead by {self.test_margin}"
            )
        if self.filtered_pairs < self.batch_size:
            raise ValueError(
                f"filtered_pairs: {self.filtered_pairs} pairs do not fill one batch of "
                f"{self.batch_size}"
            )
        if self.filtered_pairs > self.steps_per_epoch * self.batch_size:
            raise ValueError(
                f"filtered_pairs: {self.filtered_pairs} pairs do not fit into an epoch of "
                f"{self.steps_per_epoch} steps of {self.batch_size}"
            )
        if self.threshold_low > self.threshold_high:
            raise ValueError(
                f"threshold_low: {self.threshold_low} lies above threshold_high "
                f"{self.threshold_high}"
            )
        return self
