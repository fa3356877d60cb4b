"""Run trials of the sparse-coding study at spurious probabilities, on raw and filtered data."""

import logging
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field

from mispair.core import settings
from mispair.core.provenance import fingerprint
from mispair.simulation.study import ARMS, BiasSchedule, Misalignment, Study

log = logging.getLogger(__name__)

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


def run(
    settings: Settings,
    *,
    condition: str,
    spurious_probability: float,
    trials: list[int],
    arms: list[str],
    checkpoint: Path,
    simulation: Path,
) -> None:
    """Train and measure all arms of each trial, and write metrics rows to `simulation`.

    Parameters
    ----------
    settings : Settings
        Complete for the condition, whose name the rows carry.
    spurious_probability : float
        C_s.
    trials : list of int
        Distinct numbers from 0 up; each trial depends on its own number only.
    arms : list of str
        Training data; see `mispair.simulation.trial.run_trials`.
    checkpoint : Path
        Folder of resume states, from which a killed job continues; removed at the end.
    """
    import torch

    from mispair.core.files import UserError
    from mispair.core.metrics import write_metrics
    from mispair.core.provenance import code_version
    from mispair.core.resume import checkpoints
    from mispair.simulation.examiner import NoSuchImages
    from mispair.simulation.trial import run_trials

    if reason := settings.refuse_spurious_probability(spurious_probability):
        raise UserError(f"--spurious-probability: {reason}.")
    if not trials or min(trials) < 0 or len(set(trials)) < len(trials):
        raise UserError(f"--trials: {trials} must be distinct numbers from 0 up, at least one.")
    if unknown := [arm for arm in arms if arm not in ARMS]:
        raise UserError(f"--arms: there is no arm {', '.join(unknown)}.")
    torch.set_num_threads(1)  # sums in one order on every machine
    study = settings.study()
    for name in ("image_noise", "text_noise"):
        ratio = study.noise_to_signal(name)
        log.info("%s: %g times the energy of the signal", name, round(ratio, 4))
    job = [study.model_dump_json(), *code_version("simulate")]
    log.info("%s, C_s %g, trials %s", condition, spurious_probability, trials)
    with checkpoints(checkpoint, fingerprint(job)) as states:
        try:
            results = run_trials(study, spurious_probability, trials, arms, states.keeper)
        except NoSuchImages as error:
            raise UserError(f"simulate.{error}.") from error
        rows = [
            {
                **row, "trained_on": arm, "spurious_probability": spurious_probability,
                "trial": trial, "condition": condition, "seed": settings.seed,
            }
            for trial, by_arm in results.items()
            for arm, measured in by_arm.items()
            for row in measured
        ]  # fmt: skip
        provenance = {"settings": study.model_dump(), "condition": condition}
        write_metrics(simulation, rows, provenance)
