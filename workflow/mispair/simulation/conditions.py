"""The conditions of the study: the preset, the other one, and those between and around them.

No step of the study imports this module: an edit of it reruns the report, and only those jobs
whose settings it changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from mispair.core.files import UserError
from mispair.simulation.scaling import scaled
from mispair.simulation.study import PRESETS, Study

if TYPE_CHECKING:
    from mispair.simulation.settings import Settings


SWITCHES: dict[str, tuple[str, ...]] = {
    "latents": ("latent_values",),
    "misalignment": ("misalignment",),
    # One unit holds for all noises, those of the test too.
    "noise": (
        "noise_unit", "image_noise", "text_noise", "high_quality_noise", "test_image_noise",
        "prompt_noise",
    ),
    "data": ("data",),
    "pretraining": ("pretrain_on_high_quality",),
    "encoder": ("encoder", "unit_rows", "start_std"),
    "loss": ("loss", "loss_reduction", "temperature", "weight_penalty"),
    "optimiser": ("optimiser", "lr", "lr_decay", "epochs", "steps_per_epoch"),
    "decoder": (
        "decoder", "decoder_start", "decoder_data", "decoder_optimiser", "decoder_loss_reduction",
        "decoder_steps", "purified_share_needed",
    ),
    "filter": ("filter_factor",),
    "retraining": (
        "retrain_weights", "retrain_with_raw", "retrain_epochs", "retrain_epochs_filtered_only",
    ),
    "test": ("figure1_definition", "test_density", "test_margin", "test_shift"),
}  # fmt: skip
"""Groups of settings that the bridge changes together; each that differs is in one group."""

LENGTHS = (
    "epochs", "steps_per_epoch", "decoder_steps", "retrain_epochs", "retrain_epochs_filtered_only",
)  # fmt: skip
"""Lengths of training: the presets differ in them, and a small configuration shortens both."""

NOISES = ("image_noise", "text_noise", "high_quality_noise", "test_image_noise", "prompt_noise")

Kind = Literal["base", "preset", "bridge", "grid", "scaling"]


@dataclass(frozen=True)
class Condition:
    """One complete set of settings, with which trials are run.

    The name is safe as a file name. The study leaves no setting to a preset. The kind is
    the purpose: the configuration itself, the other preset, the bridge, the grid, or the sweep
    over the number of features d. A condition of the bridge throws one switch.
    """

    name: str
    study: Study
    kind: Kind
    switch: str | None = None


def conditions(settings: Settings) -> dict[str, Condition]:
    """Return the conditions of a configuration by name; the base condition is first.

    Raises
    ------
    UserError
        Naming every combination of settings that cannot be run.

    Examples
    --------
    >>> from mispair.simulation.settings import Settings
    >>> list(conditions(Settings(preset="as-written", compare_presets=True)))
    ['as-written', 'as-run']
    """
    base = settings.study()
    planned = [Condition(base.preset, base, "base")]
    problems: dict[str, list[str]] = {}

    def add(name: str, kind: Kind, changes: dict[str, Any], switch: str | None = None) -> None:
        try:
            study = Study.model_validate({**base.model_dump(), **changes})
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            problems.setdefault(f"simulate.{reason}", []).append(name)
        else:
            planned.append(Condition(name, study, kind, switch))

    far = other_preset(base)
    if settings.compare_presets or settings.bridge_trials:
        add(far["preset"], "preset", far)
    if settings.bridge_trials:
        for switch in settings.bridge_switches or SWITCHES:
            thrown = {key: far[key] for key in SWITCHES[switch]}
            if thrown != base.model_dump(include=set(thrown)):
                add(f"bridge~{switch}", "bridge", thrown, switch)
    if settings.grid_trials:
        grid = product(
            settings.grid_noises, settings.grid_misalignments, settings.grid_bias_schedules
        )
        for noise, misalignment, bias_schedule in grid:
            changes = {
                "noise_unit": "variance",
                **dict.fromkeys(NOISES, noise),
                "misalignment": misalignment,
                "encoder": "symmetric-relu",
                # Thresholds follow the growth of the weights, which rescaling would undo.
                "unit_rows": False,
                "bias_schedule": bias_schedule,
            }
            add(f"grid~{noise:g}~{misalignment}~{bias_schedule}", "grid", changes)
    wide = settings.scaling_wide_neurons
    sweeps = [(d, f"scaling~{d}", base.m / base.d) for d in settings.scaling_dimensions]
    sweeps += [(d, f"scaling~{d}~{wide:g}", wide) for d in settings.scaling_wide_dimensions]
    for d, name, neurons in sweeps if settings.scaling_trials else ():
        try:
            changes = scaled(base, d)
        except ValueError as error:
            problems.setdefault(f"simulate.{error}", []).append(name)
        else:
            add(name, "scaling", {**changes, "m": round(neurons * d)})
    refuse(problems)
    return {condition.name: condition for condition in planned}


def other_preset(base: Study) -> dict[str, Any]:
    """Return the settings of the other preset, at the sizes and lengths of training of `base`.

    Settings in which the presets agree are those of `base`. So are `LENGTHS` that `base` has
    changed from its own preset.
    """
    settings = PRESETS[base.preset]
    (alternative,) = set(PRESETS) - {base.preset}
    differing = {
        key: value for key, value in PRESETS[alternative].items() if value != settings[key]
    }
    lengths = {key: value for key in LENGTHS if (value := getattr(base, key)) != settings[key]}
    return {**base.model_dump(), **differing, **lengths, "preset": alternative}


def refuse(problems: dict[str, list[str]]) -> None:
    """Raise one `UserError` that lists every problem with its conditions, if there are any."""
    lines = []
    for problem, names in problems.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        lines.append(problem + (f" (condition {names[0]}{more})" if names else ""))
    if lines:
        raise UserError("\n  ".join(["simulate has settings that cannot be run:", *lines]))
