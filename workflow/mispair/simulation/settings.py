"""Settings of the step `simulate`, and their choices."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from mispair.core import settings
from mispair.simulation.study import BiasSchedule, Misalignment, Study

Probability = Annotated[float, Field(ge=0, lt=1)]
Switch = Literal[
    "latents", "misalignment", "noise", "data", "pretraining", "encoder", "loss", "optimiser",
    "decoder", "filter", "retraining", "test",
]  # fmt: skip


class Settings(Study):
    """Settings of the simulation study: those of the base condition, and what else is run."""

    spurious_probabilities: list[Probability] = settings.sweep(
        [0.1, 0.3, 0.5],
        min_length=1,
        description="Spurious probabilities C_s: how often a caption, or a feature of it, is not "
        "the image's. Their upper limit depends on misalignment.",
    )
    trials: int = settings.sweep(12, ge=1, description="Trials at each spurious probability.")
    trials_per_job: int = settings.sweep(6, ge=1, description="Trials that one job runs.")
    probabilities_per_job: int = settings.sweep(
        1,
        ge=1,
        description="C_s that one job runs: 1 for CPU cores; on a GPU all trials of all C_s of a "
        "job are trained side by side.",
    )
    compare_presets: bool = settings.sweep(
        False,
        description="Whether the other preset is run too, at the same C_s and trials. It keeps "
        "this section's sizes and lengths of training, and has its own values elsewhere.",
    )
    arms_trials: int = settings.sweep(
        0,
        ge=0,
        description="First trials in which every arm of training data is run; the arms that do "
        "not depend on C_s are run once, at C_s = 0.",
    )
    arms_probabilities: list[Probability] = settings.sweep(
        [0.3], min_length=1, description="C_s at which every arm is run."
    )
    bridge_trials: int = settings.sweep(
        0,
        ge=0,
        description="First trials of the bridge between the presets: the other preset, and this "
        "preset with one group of settings at a time (a switch) from the other.",
    )
    bridge_probabilities: list[Probability] = settings.sweep(
        [0.3], min_length=1, description="C_s of the bridge."
    )
    bridge_switches: list[Switch] | None = settings.sweep(
        None,
        min_length=1,
        description="Switches that the bridge throws, one at a time; null for all. A switch that "
        "would change nothing is left out.",
    )
    grid_trials: int = settings.sweep(
        0,
        ge=0,
        description="First trials of the grid: every noise with every model of misalignment and "
        "every bias schedule, with symmetric-relu encoders.",
    )
    grid_probability: Probability = settings.sweep(0.3, description="C_s of the grid.")
    grid_noises: list[Annotated[float, Field(ge=0)]] = settings.sweep(
        [0.02, 0.005, 0.0004],
        min_length=1,
        description="Noises of the grid: variance per coordinate of all images, captions and "
        "prompts.",
    )
    grid_misalignments: list[Misalignment] = settings.sweep(
        list(get_args(Misalignment)),
        min_length=1,
        description="Models of misalignment of the grid.",
    )
    grid_bias_schedules: list[BiasSchedule] = settings.sweep(
        list(get_args(BiasSchedule)), min_length=1, description="Bias schedules of the grid."
    )
    scaling_trials: int = settings.sweep(
        0,
        ge=0,
        description="Trials of the sweep over the number of features d, at each d. Other settings "
        "follow d by rules (mispair.simulation.conditions), from the constants of this section.",
    )
    scaling_dimensions: list[Annotated[int, Field(ge=2)]] = settings.sweep(
        [20, 30, 50, 80, 120], min_length=2, description="d of the sweep over d."
    )
    scaling_wide_dimensions: list[Annotated[int, Field(ge=2)]] = settings.sweep(
        [],
        description="d of a second sweep over d, with scaling_wide_neurons × d neurons: with few, "
        "random starts leave features without a neuron.",
    )
    scaling_wide_neurons: float = settings.sweep(
        4, ge=1, description="Neurons of the second sweep for each feature, m / d."
    )
    scaling_probability: Probability = settings.sweep(0.4, description="C_s of the sweep over d.")

    def study(self) -> Study:
        """Return the settings of the base condition."""
        return Study.model_validate(self.model_dump(include=set(Study.model_fields)))
