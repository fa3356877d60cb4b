"""Every number of the simulation study, with its unit and what may be chosen."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from mispair.core import settings
from mispair.simulation.presets import PRESETS

_AS_RUN = PRESETS["as-run"]

HIGHEST_SPURIOUS_PROBABILITY = {
    "caption": "below 1: a caption is redrawn with this probability",
    "groups": "(K - 1)/K for groups of K features: beyond, a wrong feature is the likelier one",
    "partner": "1/2: beyond, the partner is the likelier feature (Eq. 22)",
    "random-sets": "1/2 (assumption 3.3)",
    "independent": "1/2 (assumption 3.3)",
}
"""Up to where C_s goes in each model of misalignment, and why."""


class Study(settings.Settings):
    """One condition of the study, from the dictionaries to the test set.

    What is not set is taken from the preset. Letters are the paper's: images x = M z_x + noise and
    captions y = H z_y + noise live in ``d1`` dimensions, latent codes z in ``d``, and each of the
    two encoders has ``m`` neurons. S_h are the high-quality pairs, S_w the low-quality ones.
    """

    preset: Literal["as-run", "as-written"] = Field(
        "as-run",
        description="Where numbers that are not set come from: as-run is what the authors' public "
        "code does, as-written the paper's text, repaired so that it trains; they differ in nearly "
        "every setting.",
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
        description="How a step draws fresh noise on a CPU: projected draws only what the step can "
        "see of it (the same distribution, about half the time); full draws all d1 coordinates, as "
        "is always done on a GPU.",
    )

    # The data model -------------------------------------------------------------------------
    d1: int = Field(_AS_RUN["d1"], ge=1, description="Dimensions of images and captions.")
    d: int = Field(_AS_RUN["d"], ge=1, description="Features: dimensions of the latent codes.")
    m: int = Field(_AS_RUN["m"], ge=1, description="Neurons of each encoder, at least d.")
    classes: int = Field(
        _AS_RUN["classes"], ge=2, description="Classes of the test; they share out the d features."
    )
    dictionaries: Literal["qr", "axes"] = Field(
        _AS_RUN["dictionaries"],
        description="M and H: QR factors of Gaussian matrices, or the first d axes, which is a "
        "little faster and the same in distribution for SGD, and not for Adam.",
    )
    latent_values: Literal["binary", "signed"] = Field(
        _AS_RUN["latent_values"],
        description="Values of an active feature in training: 1 (binary), or 1 and -1 with equal "
        "probability (signed). In the test it is 1.",
    )
    latent_density: float = Field(
        _AS_RUN["latent_density"], gt=0, lt=1, description="Probability that a feature is active."
    )
    misalignment: Literal["caption", "partner", "groups", "random-sets", "independent"] = Field(
        _AS_RUN["misalignment"],
        description="What C_s is the probability of. caption: the whole caption is redrawn. "
        "partner: an active feature becomes its one partner (Eqs. 21-23). groups: it becomes "
        "another of its group of K. random-sets: it becomes one of K - 1 random others, unequally "
        "likely. independent: it is missing, and its partner is added, independently (Eq. 5).",
    )
    spurious_group_size: int = Field(
        _AS_RUN["spurious_group_size"],
        ge=2,
        description="K: features of a group; in random-sets a feature has K - 1 spurious ones.",
    )
    noise_unit: Literal["std", "variance", "energy"] = Field(
        _AS_RUN["noise_unit"],
        description="How every noise setting is read: standard deviation per coordinate, variance "
        "per coordinate, or total energy (d1 times the variance per coordinate).",
    )
    image_noise: float = Field(
        _AS_RUN["image_noise"], ge=0, description="Noise of training images, in noise_unit."
    )
    text_noise: float = Field(
        _AS_RUN["text_noise"], ge=0, description="Noise of training captions, in noise_unit."
    )
    high_quality_noise: float = Field(
        _AS_RUN["high_quality_noise"],
        ge=0,
        description="Noise of the captions of S_h, in noise_unit.",
    )
    data: Literal["fresh", "fixed"] = Field(
        _AS_RUN["data"],
        description="Whether the pairs of S_w are drawn afresh at every access, or a fixed sample "
        "that is met again and again.",
    )
    low_quality_pairs: int = Field(
        _AS_RUN["low_quality_pairs"],
        ge=1,
        description="|S_w|: pairs of the fixed sample; with fresh data, pairs that S3 filters.",
    )
    high_quality_pairs: int = Field(
        _AS_RUN["high_quality_pairs"], ge=1, description="|S_h|: a fixed sample."
    )
    pretrain_on_high_quality: bool = Field(
        _AS_RUN["pretrain_on_high_quality"],
        description="Whether S1 and S4 train on S_h besides S_w.",
    )

    # Encoders and their training (S1, S4) ---------------------------------------------------
    encoder: Literal["symmetric-relu", "relu", "linear", "transformer"] = Field(
        _AS_RUN["encoder"],
        description="symmetric-relu: thresholds set by bias_schedule (Eqs. 2, 3). relu: learned "
        "biases. linear: neither. transformer: one block over patches of x, an extension.",
    )
    unit_rows: bool = Field(
        _AS_RUN["unit_rows"],
        description="Whether neurons are rescaled to unit weight norm before every forward pass.",
    )
    start_std: float = Field(
        _AS_RUN["start_std"], gt=0, description="Standard deviation of starting weights and biases."
    )
    bias_schedule: Literal["theory", "practical", "zero"] = Field(
        _AS_RUN["bias_schedule"],
        description="Thresholds b_i of symmetric-relu. theory: zero until all |w_i|^2 + |v_i|^2 "
        "doubled, then Eq. 79 and growth by Eq. 80 until Eq. 81, then held. practical: zero until "
        "|W|^2 + |V|^2 doubled, then Eq. 79 at every step of phase II, then held. zero: none, "
        "so that the encoder is linear.",
    )
    bias_scale: float = Field(
        _AS_RUN["bias_scale"],
        ge=0,
        description="Factor of sqrt(log(d)/d (|w_i|^2 + |v_i|^2)/2) in Eq. 79: its constant "
        "sqrt(1 + c_0 - 2 gamma c_0).",
    )
    phase2_steps: int = Field(
        _AS_RUN["phase2_steps"],
        ge=0,
        description="Steps of phase II of the practical schedule; phase III takes what is left.",
    )
    phase2_growth: float = Field(
        _AS_RUN["phase2_growth"],
        gt=0,
        description="The theory's phase II ends when every |w_i|^2 has grown this many times d "
        "(Eq. 81).",
    )
    bias_growth: Literal["mean", "lr"] = Field(
        _AS_RUN["bias_growth"],
        description="η of Eq. 80 by which the theory's thresholds grow. mean: the step size for a "
        "batch's mean, as in appendix E, which sets 1 + η/d against the growth of alignments. "
        "lr: the step size itself, also where the loss is a sum over a batch.",
    )
    loss: Literal["infonce", "spectral"] = Field(
        _AS_RUN["loss"],
        description="infonce over the features of both modalities, or spectral (Eq. 1).",
    )
    loss_reduction: Literal["mean", "sum"] = Field(
        _AS_RUN["loss_reduction"],
        description="Whether the loss of a batch is the mean or the sum over its pairs.",
    )
    temperature: float = Field(
        _AS_RUN["temperature"], gt=0, description="Temperature of the loss (tau in Eq. 1)."
    )
    weight_penalty: float = Field(
        _AS_RUN["weight_penalty"],
        ge=0,
        description="Factor of the squared Frobenius norm of all parameters in the loss.",
    )
    optimiser: Literal["adam", "sgd"] = Field(_AS_RUN["optimiser"], description="Of S1 and S4.")
    lr: float = Field(_AS_RUN["lr"], gt=0, description="Step size at the start.")
    lr_decay: float = Field(
        _AS_RUN["lr_decay"], gt=0, le=1, description="Factor on the step size at each decay."
    )
    lr_decay_every: int = Field(
        _AS_RUN["lr_decay_every"], ge=1, description="Epochs between two decays of the step size."
    )
    batch_size: int = Field(_AS_RUN["batch_size"], ge=2, description="Pairs in a training step.")
    epochs: int = Field(_AS_RUN["epochs"], ge=1, description="Epochs of pre-training (S1).")
    steps_per_epoch: int = Field(
        _AS_RUN["steps_per_epoch"], ge=1, description="Training steps in an epoch of S1."
    )

    # Captioning and filtering (S2, S3) ------------------------------------------------------
    decoder: Literal["relu", "plain-relu", "symmetric-relu"] = Field(
        _AS_RUN["decoder"],
        description="Hidden layer of the caption decoder: relu with learned biases (and a bias of "
        "the output), plain-relu without biases (Eq. 6 as printed), or symmetric-relu with the "
        "thresholds that S1 ended with (appendix G).",
    )
    decoder_start: Literal["encoders", "encoders-if-purified", "random"] = Field(
        _AS_RUN["decoder_start"],
        description="Its starting weights: the encoders', the encoders' if more than "
        "purified_share_needed of the features are purified and random ones if not, or random.",
    )
    decoder_data: Literal["one-hot", "high-quality"] = Field(
        _AS_RUN["decoder_data"],
        description="What it is fitted to: the d pairs with one active feature, without image "
        "noise and with caption noise drawn afresh at every step, or the fixed sample S_h.",
    )
    decoder_trains: Literal["both", "output"] = Field(
        _AS_RUN["decoder_trains"],
        description="Whether both of its layers are trained, or the second only.",
    )
    decoder_optimiser: Literal["adam", "sgd"] = Field(
        _AS_RUN["decoder_optimiser"], description="Of S2; every step sees all pairs."
    )
    decoder_loss_reduction: Literal["mean", "sum"] = Field(
        _AS_RUN["decoder_loss_reduction"],
        description="Mean squared error over pairs and coordinates, or half its sum (Eq. 7).",
    )
    decoder_lr: float = Field(_AS_RUN["decoder_lr"], gt=0, description="Step size in S2.")
    decoder_steps: int = Field(_AS_RUN["decoder_steps"], ge=0, description="Steps of S2.")
    purified_share_needed: float = Field(
        _AS_RUN["purified_share_needed"],
        ge=0,
        le=1,
        description="With decoder_start encoders-if-purified: the decoder starts from the "
        "encoders' weights, and S4 may mix filtered with raw pairs, only if more than this share "
        "of the d features is purified after S1.",
    )
    filter_factor: float = Field(
        _AS_RUN["filter_factor"],
        ge=0,
        description="S3 replaces a caption if the generated one's cosine with the image is at "
        "least this factor times the original's.",
    )
    retrain_weights: Literal["fresh", "initial", "continued"] = Field(
        _AS_RUN["retrain_weights"],
        description="S4 starts from weights of its own draw (fresh), from those S1 started from "
        "(initial), or from those S1 ended with (continued).",
    )
    retrain_with_raw: bool = Field(
        _AS_RUN["retrain_with_raw"],
        description="Whether S4 trains on raw pairs of S_w besides the filtered ones.",
    )
    retrain_epochs: int = Field(_AS_RUN["retrain_epochs"], ge=1, description="Epochs of S4.")
    retrain_epochs_filtered_only: int = Field(
        _AS_RUN["retrain_epochs_filtered_only"],
        ge=1,
        description="Epochs of S4 on filtered pairs only, after too few purified features.",
    )
    longer_steps: int = Field(
        1500,
        ge=0,
        description="In detailed jobs, S1 and S4 go on for this many steps after their end: the "
        "loss there is a local reference for Theorem 4.1, not the optimum; 0 leaves that out.",
    )

    # The test -------------------------------------------------------------------------------
    figure1_definition: Literal["as-run", "as-written"] = Field(
        _AS_RUN["figure1_definition"],
        description="Whose definitions of figure 1's four measures are the main ones: the public "
        "code's or the text's. Both are always measured.",
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
        _AS_RUN["test_image_noise"], ge=0, description="Noise of test images, in noise_unit."
    )
    prompt_noise: float = Field(
        _AS_RUN["prompt_noise"], ge=0, description="Noise of the classes' prompts, in noise_unit."
    )
    test_shift: float = Field(
        _AS_RUN["test_shift"],
        ge=0,
        description="Test images are M P_1 z + noise; entries of P_1 - I are uniform between plus "
        "and minus this over sqrt(d) (Eq. 8).",
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

    def std(self, name: str) -> float:
        """Return a noise setting as standard deviation per coordinate.

        Examples
        --------
        >>> study = Study(d1=2500, noise_unit="energy", text_noise=1.0)
        >>> study.std("text_noise")
        0.02
        """
        value = float(getattr(self, name))
        if self.noise_unit == "std":
            return value
        return float((value if self.noise_unit == "variance" else value / self.d1) ** 0.5)

    def noise_to_signal(self, name: str) -> float:
        """Return the ratio of energies E|noise|^2 / E|M z|^2 in training for a noise setting."""
        return self.d1 * self.std(name) ** 2 / (self.d * self.latent_density)

    @property
    def _rotates(self) -> bool:
        """Whether training is the same in every orthonormal basis."""
        descends = self.optimiser == self.decoder_optimiser == "sgd"
        return descends and self.encoder != "transformer"

    @property
    def highest_spurious_probability(self) -> float:
        """The largest C_s that the model of misalignment admits."""
        if self.misalignment == "caption":
            return 1.0
        if self.misalignment == "groups":
            return 1 - 1 / self.spurious_group_size
        return 0.5

    def refuse_spurious_probability(self, value: float) -> str:
        """Return why `value` is no C_s of this model of misalignment; empty if it is one."""
        highest = self.highest_spurious_probability
        within = value < highest if self.misalignment == "caption" else value <= highest + 1e-9
        if value >= 0 and within:
            return ""
        return (
            f"C_s = {value:g} is outside the range of misalignment: {self.misalignment}, which "
            f"goes from 0 to {HIGHEST_SPURIOUS_PROBABILITY[self.misalignment]}"
        )

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        preset = values.get("preset", "as-run")
        of_preset = PRESETS.get(preset, {}) if isinstance(preset, str) else {}
        return {**of_preset, **values}

    @model_validator(mode="after")
    def _refuse_the_impossible(self) -> Study:
        for problem in self._problems():
            if problem:
                raise ValueError(problem)
        return self

    def _problems(self) -> list[str]:
        size = self.d // self.classes
        in_s1 = self.low_quality_pairs + self.high_quality_pairs * self.pretrain_on_high_quality
        return [
            f"m: {self.m} neurons cannot represent d = {self.d} features; m must be at least d"
            if self.m < self.d
            else "",
            f"d: {self.d} orthonormal features need d1 of at least {self.d}, not {self.d1}"
            if self.d > self.d1
            else "",
            "dictionaries: axes give the same as qr only if all stages use SGD on one-layer "
            "encoders: Adam and a transformer see the coordinates; choose qr"
            if self.dictionaries == "axes" and not self._rotates
            else "",
            f"classes: d = {self.d} features cannot be shared out equally among {self.classes} "
            "classes; choose a divisor of d"
            if self.d % self.classes
            else "",
            f"test_margin: a class has {size} features, so no image can lead by {self.test_margin}"
            if self.test_margin > size
            else "",
            f"spurious_group_size: {self.spurious_group_size} features are more than the d = "
            f"{self.d} there are"
            if self.misalignment in ("groups", "random-sets") and self.spurious_group_size > self.d
            else "",
            f"spurious_group_size: d = {self.d} features cannot be divided into groups of "
            f"{self.spurious_group_size}; choose a divisor of d"
            if self.misalignment == "groups" and self.d % self.spurious_group_size
            else "",
            f"misalignment: {self.misalignment} pairs the features up, and d = {self.d} is odd"
            if self.misalignment in ("partner", "independent") and self.d % 2
            else "",
            f"low_quality_pairs: {in_s1} pairs do not fill one batch of {self.batch_size}"
            if in_s1 < self.batch_size
            else "",
            f"threshold_low: {self.threshold_low} lies above threshold_high {self.threshold_high}"
            if self.threshold_low > self.threshold_high
            else "",
        ]
