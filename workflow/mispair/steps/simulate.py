"""Run trials of the sparse-coding study at spurious probabilities, on raw and filtered data."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field

from mispair import settings
from mispair.provenance import fingerprint
from mispair.simulation.study import Study

log = logging.getLogger(__name__)

Probability = Annotated[float, Field(ge=0, lt=1)]
Misalignment = Literal["caption", "partner", "groups", "random-sets", "independent"]
BiasSchedule = Literal["practical", "zero", "theory"]
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
        "the image's; how high they may go depends on misalignment.",
    )
    trials: int = settings.sweep(4, ge=1, description="Trials at each spurious probability.")
    trials_per_job: int = settings.sweep(1, ge=1, description="Trials that one job runs.")
    probabilities_per_job: int = settings.sweep(
        1,
        ge=1,
        description="C_s that one job runs: 1 for CPU cores; on a GPU all trials of all C_s of a "
        "job are trained side by side.",
    )
    compare_presets: bool = settings.sweep(
        False,
        description="Whether the other preset is run too, at the same C_s and trials. It keeps "
        "this section's sizes and lengths of training; all else in which the presets differ is "
        "its own.",
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
        description="First trials of the bridge between the presets: the other preset, and the "
        "preset with one group of settings at a time (a switch) as the other has them.",
    )
    bridge_probabilities: list[Probability] = settings.sweep(
        [0.3], min_length=1, description="C_s of the bridge."
    )
    bridge_switches: list[Switch] | None = settings.sweep(
        None,
        min_length=1,
        description="Switches that the bridge throws, one at a time; null for all. One whose "
        "settings this section already has as the other preset has them is left out.",
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
    literal_trials: int = settings.sweep(
        0,
        ge=0,
        description="First trials in which what the paper's text states takes the place of a "
        "choice of preset as-written, one statement at a time and all together.",
    )
    literal_probability: Probability = settings.sweep(0.3, description="C_s of these.")
    scaling_trials: int = settings.sweep(
        0,
        ge=0,
        description="Trials of the sweep over the number of features d, at each d. Other settings "
        "follow d by the rules of mispair.simulation.scaling, from the constants of this section.",
    )
    scaling_dimensions: list[Annotated[int, Field(ge=2)]] = settings.sweep(
        [20, 30, 50, 80, 120], min_length=2, description="d of the sweep over d."
    )
    scaling_wide_dimensions: list[Annotated[int, Field(ge=2)]] = settings.sweep(
        [],
        description="d of a second sweep over d, with scaling_wide_neurons d neurons: with few, "
        "random starts leave features without a neuron.",
    )
    scaling_wide_neurons: float = settings.sweep(
        4, ge=1, description="Neurons of the second sweep for each feature, m / d."
    )
    scaling_probability: Probability = settings.sweep(0.4, description="C_s of the sweep over d.")
    scaling_longer_trials: int = settings.sweep(
        0,
        ge=0,
        description="First trials of the sweep over d in which S1 and S4 go on for longer_steps, "
        "to see how low the loss gets.",
    )


def run(
    settings: Settings,
    *,
    condition: str,
    spurious_probabilities: list[float],
    trials: list[int],
    arms: list[str],
    checkpoint: Path,
    simulation: Path,
) -> None:
    """Write what was measured on all arms of each trial.

    Parameters
    ----------
    settings : Settings
        Settings of the step, complete for this condition.
    condition : str
        Name of the condition, for the rows.
    spurious_probabilities : list of float
        Every C_s of this job.
    trials : list of int
        Numbers of the trials, at least 0; each depends on its own number only.
    arms : list of str
        What to train on; see `mispair.simulation.run.run_trials`.
    checkpoint : Path
        Folder for states of trainings: a job that was killed goes on from them. Removed at the end.
    simulation : Path
        Written: metrics rows with ``condition``, ``trained_on``, ``spurious_probability``,
        ``trial`` and ``seed``.
    """
    import torch

    from mispair.checkpoints import checkpoints
    from mispair.devices import choose_device
    from mispair.files import UserError
    from mispair.metrics import write_metrics
    from mispair.provenance import code_version
    from mispair.simulation.run import is_arm, rows, run_trials
    from mispair.simulation.test_set import NoSuchImages

    for probability in spurious_probabilities:
        if reason := settings.refuse_spurious_probability(probability):
            raise UserError(f"--spurious-probabilities: {reason}.")
    if not trials or min(trials) < 0 or len(set(trials)) < len(trials):
        raise UserError(f"--trials: {trials} must be distinct numbers from 0 up, at least one.")
    if unknown := [arm for arm in arms if not is_arm(arm)]:
        raise UserError(f"--arms: there is no arm {', '.join(unknown)}.")
    device = choose_device(settings.device)
    if device == "cpu":
        torch.set_num_threads(1)  # sums in one order, whatever the machine
    study = Study.model_validate(settings.model_dump(include=set(Study.model_fields)))
    for name in ("image_noise", "text_noise"):
        ratio = study.noise_to_signal(name)
        log.info("%s: %g times the energy of the signal", name, round(ratio, 4))
    about = [study.model_dump_json(), device, *code_version("simulate")]
    log.info("%s, C_s %s, trials %s on %s", condition, spurious_probabilities, trials, device)
    with checkpoints(checkpoint, fingerprint(about)) as states:
        try:
            found = run_trials(
                study, spurious_probabilities, trials, arms, device,
                lambda which, arm: states.keeper(f"{_name(which)}-{arm}"),
            )  # fmt: skip
        except NoSuchImages as error:
            raise UserError(f"simulate.{error}.") from error
        keys = {"condition": condition, "seed": settings.seed}
        provenance = {"settings": study.model_dump(), "device": device, "condition": condition}
        write_metrics(simulation, rows(found, **keys), provenance)


def _name(which: Sequence[tuple[float, int]]) -> str:
    """Return a name for trials that are trained side by side, short whatever their number."""
    names = [f"{probability:g}-{trial}" for probability, trial in which]
    return names[0] if len(names) == 1 else f"{len(names)}-trials-{fingerprint(names)}"
