"""All settings of one condition of the simulation study, with units and choices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

from pydantic import Field, model_validator

from mispair.core import settings

Preset = Literal["as-run", "as-written"]
ARMS = (
    "raw", "filtered", "replace-all", "high-quality-only", "generated-only", "random-decoder",
)  # fmt: skip
"""Arms by their training data, in the order in which a job names them; the oracle is raw at 0."""

Misalignment = Literal["caption", "partner", "groups", "random-sets", "independent"]
BiasSchedule = Literal["practical", "zero", "theory"]

HIGHEST_SPURIOUS_PROBABILITY = {
    "caption": "below 1: a caption is redrawn with this probability",
    "groups": "(K - 1)/K for groups of K features: beyond, a wrong feature is the likelier one",
    "partner": "1/2: beyond, the partner is the likelier feature (Eq. 22)",
    "random-sets": "1/2 (assumption 3.3)",
    "independent": "1/2 (assumption 3.3)",
}
"""Upper limit of C_s in each model of misalignment, and its reason."""


AT_LEAST = 0.5
"""A neuron pair mixes two features if its second |α| is at least this share of its first."""
AS_WRITTEN: dict[str, Any] = {
    "latent_values": "signed",
    "misalignment": "groups",
    "noise_unit": "variance",
    "image_noise": 1 / 50,
    "text_noise": 1 / 50,
    "high_quality_noise": 1 / 50,
    "data": "fixed",
    "pretrain_on_high_quality": True,
    "encoder": "symmetric-relu",
    "unit_rows": False,
    "start_std": 1e-5,
    "loss": "spectral",
    "loss_reduction": "sum",
    "temperature": 100.0,
    "weight_penalty": 0.0,
    "optimiser": "sgd",
    "lr": 1e-3,
    "lr_decay": 1.0,
    "epochs": 63,
    "steps_per_epoch": 12,
    "decoder": "symmetric-relu",
    "decoder_start": "encoders",
    "decoder_data": "high-quality",
    "decoder_optimiser": "sgd",
    "decoder_loss_reduction": "sum",
    "decoder_steps": 150,
    "purified_share_needed": 0.0,
    "filter_factor": 1.0,
    "retrain_weights": "initial",
    "retrain_with_raw": False,
    "retrain_epochs": 63,
    "retrain_epochs_filtered_only": 63,
    "figure1_definition": "as-written",
    "test_density": 0.2,
    "test_margin": 1,
    "test_image_noise": 1 / 50,
    "prompt_noise": 1 / 50,
    "test_shift": 0.1,
}
"""Settings of preset as-written, the paper's text repaired so that it trains, that differ from the
defaults, which are those of as-run.

Section 5.1 gives the sizes, noise, optimiser and test, Eq. 1 the loss, Eqs. 2 and 3 the encoders,
Eq. 7 the decoder's loss, section 2.1 the stages. What the text leaves open, states twice, or states
so that training fails (`mispair.simulation.report.pages.UNSTATED`) is chosen here, or is as-run's.
"""


class Study(settings.Settings):
    """One condition of the study, from the dictionaries to the test set.

    Defaults are those of preset as-run: what the authors' public code of February 2025 does
    (repository sun-messi/VLM, ``synthetic_experiment.py``). Its noise scale is s = 8/d = 0.16:
    training captions have noise 1.5 s, high-quality captions s / 10, and test images and prompts s.
    Preset as-written replaces the defaults by `AS_WRITTEN`.

    Letters are the paper's. Images x = M z_x + noise and captions y = H z_y + noise have ``d1``
    dimensions, latent codes z have ``d``, and each of the two encoders has ``m`` neurons. S_h are
    the high-quality pairs, S_w the low-quality ones.
    """

    preset: Preset = Field(
        "as-run",
        description="Source of all settings that are not given: as-run is the authors' public "
        "code, as-written the paper's text, repaired so that it trains. They differ in nearly "
        "every setting.",
    )
    seed: int = Field(0, ge=0, description="Seed of all draws; a trial adds its own number.")
    precision: Literal["float32", "float64"] = Field(
        "float32", description="Floating-point type of data, weights and gradients."
    )

    # The data model -------------------------------------------------------------------------
    d1: int = Field(2500, ge=1, description="Dimensions of images and captions.")
    d: int = Field(50, ge=1, description="Features: dimensions of the latent codes.")
    m: int = Field(80, ge=1, description="Neurons of each encoder, at least d.")
    classes: int = Field(5, ge=2, description="Classes of the test; each has d / classes features.")
    dictionaries: Literal["qr", "axes"] = Field(
        "qr",
        description="M and H: QR factors of Gaussian matrices, or the first d axes. Axes are a "
        "little faster; results have the same distribution for SGD, but not for Adam.",
    )
    latent_values: Literal["binary", "signed"] = Field(
        "binary",
        description="Values of an active feature in training: 1 (binary), or 1 and -1 with equal "
        "probability (signed). In the test it is 1.",
    )
    latent_density: float = Field(
        0.1, gt=0, lt=1, description="Probability that a feature is active."
    )
    misalignment: Misalignment = Field(
        "caption",
        description="Event with the probability C_s. caption: the whole caption is redrawn. "
        "partner: an active feature becomes its one partner (Eqs. 21-23). groups: it becomes "
        "another of its group of K. random-sets: it becomes one of K - 1 random others, unequally "
        "likely. independent: it is missing, and its partner is added, independently (Eq. 5).",
    )
    spurious_group_size: int = Field(
        5,
        ge=2,
        description="K: features of a group; in random-sets a feature has K - 1 spurious ones.",
    )
    noise_unit: Literal["std", "variance"] = Field(
        "std",
        description="How every noise setting is read: standard deviation or variance per "
        "coordinate.",
    )
    image_noise: float = Field(0.0, ge=0, description="Noise of training images, in noise_unit.")
    text_noise: float = Field(0.24, ge=0, description="Noise of training captions, in noise_unit.")
    high_quality_noise: float = Field(
        0.016, ge=0, description="Noise of the captions of S_h, in noise_unit."
    )
    data: Literal["fresh", "fixed"] = Field(
        "fresh",
        description="Whether the pairs of S_w are drawn afresh at every access, or are a fixed "
        "sample that is used repeatedly.",
    )
    low_quality_pairs: int = Field(
        5000,
        ge=1,
        description="|S_w|: pairs of the fixed sample; with fresh data, pairs that S3 filters.",
    )
    high_quality_pairs: int = Field(1000, ge=1, description="|S_h|: a fixed sample.")
    pretrain_on_high_quality: bool = Field(
        False, description="Whether S1 and S4 train on S_h besides S_w."
    )

    # Encoders and their training (S1, S4) ---------------------------------------------------
    encoder: Literal["symmetric-relu", "relu"] = Field(
        "relu",
        description="symmetric-relu: thresholds set by bias_schedule (Eqs. 2, 3). relu: learned "
        "biases.",
    )
    unit_rows: bool = Field(
        True,
        description="Whether neurons are rescaled to unit weight norm before every forward pass.",
    )
    start_std: float = Field(
        0.001, gt=0, description="Standard deviation of starting weights and biases."
    )
    bias_schedule: BiasSchedule = Field(
        "practical",
        description="Thresholds b_i of symmetric-relu. theory: zero until all |w_i|^2 + |v_i|^2 "
        "doubled, then Eq. 79 and growth by Eq. 80 until Eq. 81, then held. practical: zero until "
        "|W|^2 + |V|^2 doubled, then Eq. 79 at every step of phase II, then held. zero: none, "
        "so that the encoder is linear.",
    )
    bias_scale: float = Field(
        1.2,
        ge=0,
        description="Factor of sqrt(log(d)/d (|w_i|^2 + |v_i|^2)/2) in Eq. 79: its constant "
        "sqrt(1 + c_0 - 2 gamma c_0).",
    )
    phase2_steps: int = Field(
        500,
        ge=0,
        description="Steps of phase II of the practical schedule; phase III takes what is left.",
    )
    phase2_growth: float = Field(
        1.0,
        gt=0,
        description="The theory's phase II ends when every |w_i|^2 has grown by a factor of this "
        "times d (Eq. 81).",
    )
    loss: Literal["infonce", "spectral"] = Field(
        "infonce", description="infonce over the features of both modalities, or spectral (Eq. 1)."
    )
    loss_reduction: Literal["mean", "sum"] = Field(
        "mean", description="Whether the loss of a batch is the mean or the sum over its pairs."
    )
    temperature: float = Field(0.1, gt=0, description="Temperature of the loss (tau in Eq. 1).")
    weight_penalty: float = Field(
        0.001,
        ge=0,
        description="Factor of the squared Frobenius norm of all parameters in the loss.",
    )
    optimiser: Literal["adam", "sgd"] = Field("adam", description="Optimiser of S1 and S4.")
    lr: float = Field(0.003, gt=0, description="Step size at the start.")
    lr_decay: float = Field(0.1, gt=0, le=1, description="Factor on the step size at each decay.")
    lr_decay_every: int = Field(10, ge=1, description="Epochs between two decays of the step size.")
    batch_size: int = Field(500, ge=2, description="Pairs in a training step.")
    epochs: int = Field(30, ge=1, description="Epochs of pre-training (S1).")
    steps_per_epoch: int = Field(20, ge=1, description="Training steps in an epoch of S1.")

    # Captioning and filtering (S2, S3) ------------------------------------------------------
    decoder: Literal["relu", "symmetric-relu"] = Field(
        "relu",
        description="Hidden layer of the caption decoder: relu with learned biases (and a bias of "
        "the output), or symmetric-relu with the thresholds that S1 ended with (appendix G).",
    )
    decoder_start: Literal["encoders", "encoders-if-purified"] = Field(
        "encoders-if-purified",
        description="Starting weights of the decoder: those of the encoders, or the same only if "
        "more than purified_share_needed of the features are purified, else random ones.",
    )
    decoder_data: Literal["one-hot", "high-quality"] = Field(
        "one-hot",
        description="Pairs that the decoder is fitted to: the d pairs with one active feature, "
        "without image noise and with fresh caption noise at every step, or the fixed sample S_h.",
    )
    decoder_optimiser: Literal["adam", "sgd"] = Field(
        "adam", description="Optimiser of S2; every step sees all pairs."
    )
    decoder_loss_reduction: Literal["mean", "sum"] = Field(
        "mean",
        description="Mean squared error over pairs and coordinates, or half its sum (Eq. 7).",
    )
    decoder_lr: float = Field(0.001, gt=0, description="Step size in S2.")
    decoder_steps: int = Field(30, ge=0, description="Steps of S2.")
    purified_share_needed: float = Field(
        0.5,
        ge=0,
        le=1,
        description="With decoder_start encoders-if-purified: the decoder starts from the "
        "encoders' weights, and S4 may mix filtered with raw pairs, only if more than this share "
        "of the d features is purified after S1.",
    )
    filter_factor: float = Field(
        1.2,
        ge=0,
        description="S3 replaces a caption if the generated one's cosine with the image is at "
        "least this factor times the original's.",
    )
    retrain_weights: Literal["fresh", "initial"] = Field(
        "fresh",
        description="S4 starts from weights of its own draw (fresh), or from those that S1 started "
        "from (initial).",
    )
    retrain_with_raw: bool = Field(
        True, description="Whether S4 trains on raw pairs of S_w besides the filtered ones."
    )
    retrain_epochs: int = Field(30, ge=1, description="Epochs of S4.")
    retrain_epochs_filtered_only: int = Field(
        60,
        ge=1,
        description="Epochs of S4 on filtered pairs only, if too few features are purified.",
    )
    # The test -------------------------------------------------------------------------------
    figure1_definition: Preset = Field(
        "as-run",
        description="Whose definitions of figure 1's four measures are the main ones: the public "
        "code's or the text's. Both are always measured.",
    )
    test_images: int = Field(1000, ge=2, description="Images of the test.")
    test_density: float = Field(
        0.1, gt=0, lt=1, description="Probability that a feature is active in a test image."
    )
    test_margin: int = Field(
        2,
        ge=1,
        description="Test images are kept if the best class leads by this many active features.",
    )
    test_image_noise: float = Field(0.16, ge=0, description="Noise of test images, in noise_unit.")
    prompt_noise: float = Field(
        0.16, ge=0, description="Noise of the classes' prompts, in noise_unit."
    )
    test_shift: float = Field(
        0.0,
        ge=0,
        description="Test images are M P_1 z + noise; entries of P_1 - I are uniform within "
        "± this / sqrt(d) (Eq. 8).",
    )

    def std(self, name: str) -> float:
        """Return a noise setting as standard deviation per coordinate.

        Examples
        --------
        >>> study = Study(noise_unit="variance", text_noise=0.04)
        >>> study.std("text_noise")
        0.2
        """
        value = float(getattr(self, name))
        return value if self.noise_unit == "std" else float(value**0.5)

    def noise_to_signal(self, name: str) -> float:
        """Return the ratio of energies E|noise|^2 / E|M z|^2 in training for a noise setting."""
        return self.d1 * self.std(name) ** 2 / (self.d * self.latent_density)

    def refuse_spurious_probability(self, value: float) -> str:
        """Return why `value` is not a valid C_s of this model of misalignment; empty if it is."""
        limits = {"caption": 1.0, "groups": 1 - 1 / self.spurious_group_size}
        highest = limits.get(self.misalignment, 0.5)
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
        return {**(AS_WRITTEN if values.get("preset") == "as-written" else {}), **values}

    @model_validator(mode="after")
    def _refuse_the_impossible(self) -> Study:
        for problem in self._problems():
            raise ValueError(problem)
        return self

    def _problems(self) -> Iterator[str]:
        """Yield each contradiction between settings, after the name of a setting to change."""
        d, size, group = self.d, self.d // self.classes, self.spurious_group_size
        if self.m < d:
            yield f"m: {self.m} neurons cannot represent d = {d} features; m must be at least d"
        if d > self.d1:
            yield f"d: {d} orthonormal features need d1 of at least {d}, not {self.d1}"
        descends = self.optimiser == self.decoder_optimiser == "sgd"
        if self.dictionaries == "axes" and not descends:
            yield (
                "dictionaries: axes give the same as qr only if all stages use SGD: Adam sees the "
                "coordinates; choose qr"
            )
        if d % self.classes:
            yield (
                f"classes: d = {d} features cannot be shared out equally among {self.classes} "
                "classes; choose a divisor of d"
            )
        if self.test_margin > size:
            yield (
                f"test_margin: a class has {size} features, so no image can lead by "
                f"{self.test_margin}"
            )
        if self.misalignment in ("groups", "random-sets") and group > d:
            yield f"spurious_group_size: {group} features are more than d = {d}"
        if self.misalignment == "groups" and d % group:
            yield (
                f"spurious_group_size: d = {d} features cannot be divided into groups of {group}; "
                "choose a divisor of d"
            )
        if self.misalignment in ("partner", "independent") and d % 2:
            yield f"misalignment: {self.misalignment} pairs the features up, and d = {d} is odd"
        in_s1 = self.low_quality_pairs + self.high_quality_pairs * self.pretrain_on_high_quality
        if in_s1 < self.batch_size:
            yield f"low_quality_pairs: {in_s1} pairs do not fill one batch of {self.batch_size}"


PRESETS: dict[str, dict[str, Any]] = {
    name: Study(preset=name).model_dump() for name in get_args(Preset)
}
"""All settings of each preset."""
