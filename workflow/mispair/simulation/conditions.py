"""The conditions of the study: the preset, the other one, and those between and around them.

No step of the study imports this module: an edit of it reruns the report, and only those jobs
whose settings it changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from mispair.core.files import UserError
from mispair.simulation.study import PRESETS, Study

if TYPE_CHECKING:
    from mispair.simulation.steps.simulate import Settings


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
    >>> from mispair.simulation.steps.simulate import Settings
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


# Settings of a study as functions of the number of features d.
#
# The theorems of section 4 are asymptotic: probabilities of order 1/d, o(1) and 1 - Θ(1). One d
# cannot contradict them; the slope of a measure over d can. Conditions of a sweep over d therefore
# follow these rules, each stated by the paper or implied by it. A base study fixes the constants,
# and r = d / d_base, l = log d / log d_base.
#
# ===================================  ========  =============================================
# settings                             times     source
# ===================================  ========  =============================================
# d1, m                                r         d1 = poly(d), m = d^1.01 (theorem 4.1), with
#                                                the exponents rounded to 1
# latent_density, test_density         1 / r     C_z / d (assumption 3.1d), Θ(1) / d (Eq. 8)
# noises, as variance per coordinate   1 / r     1 / d (section 5.1), the bound of lemma C.4
# start_std                            1 / r     variance Θ(1 / (d1 poly(d))) (theorem 4.1)
# high_quality_pairs                   r²        Θ(d²) (section 3.2)
# low_quality_pairs                    r² l      poly(d), of higher order than d² (section 3.2),
#                                                so every d makes as many passes over the pairs
# batch_size                           r         Ω(d) (theorem 4.1)
# temperature                          1         2 p_z B, which gives alignments of length 1
# lr of the loss summed over a batch   1 / r     η = O(1) for a batch's mean (theorem 4.1)
# epochs of S1 and S4, phase2_steps    r l       Θ(d log d / η), as phases I and II take
#                                                (appendices D and E)
# decoder_lr of the sum over S_h       1 / r     the step in each feature is the same at every d
# decoder_steps                        l         with that, Θ(d log d) steps of size O(1)
#                                                (theorem 4.3)
# ===================================  ========  =============================================
#
# Theorem 4.1 allows Θ(d² log d) iterations in all. Phase III takes fewer here: with batches of
# Θ(d), that many would cost d⁵ log d operations in place of d⁴ log d.


SHRINKING = (
    "latent_density", "test_density", "image_noise", "text_noise", "high_quality_noise",
    "test_image_noise", "prompt_noise", "start_std", "lr", "decoder_lr",
)  # fmt: skip
"""Settings proportional to 1 / d."""

GROWING = ("d1", "m", "batch_size")
"""Settings proportional to d."""

LENGTHENED = (
    "epochs", "retrain_epochs", "retrain_epochs_filtered_only", "phase2_steps",
)  # fmt: skip
"""Settings proportional to d log d."""

RULED = {
    "noise_unit": "variance", "optimiser": "sgd", "loss_reduction": "sum",
    "decoder_optimiser": "sgd", "decoder_loss_reduction": "sum", "data": "fixed",
    "decoder_data": "high-quality", "encoder": "symmetric-relu",
}  # fmt: skip
"""Settings that the rules presuppose: those of the preset as-written."""


def scaled(base: Study, d: int) -> dict[str, Any]:
    """Return the settings that differ from the base study's at `d` features, at least 2.

    Raises
    ------
    ValueError
        Naming a setting of the base study for which no rule is stated.

    Examples
    --------
    >>> base = Study(preset="as-written", dictionaries="axes")
    >>> changes = scaled(base, 100)
    >>> changes["d1"], changes["high_quality_pairs"], changes["latent_density"]
    (5000, 4000, 0.05)
    """
    for name, value in RULED.items():
        if getattr(base, name) != value:
            raise ValueError(
                f"scaling_dimensions: the rules of scaling need {name}: {value}, not "
                f"{getattr(base, name)}"
            )
    ratio, logs = d / base.d, math.log(d) / math.log(base.d)
    return {
        "d": d,
        **{name: round(getattr(base, name) * ratio) for name in GROWING},
        **{name: getattr(base, name) / ratio for name in SHRINKING},
        **{name: round(getattr(base, name) * ratio * logs) for name in LENGTHENED},
        "high_quality_pairs": round(base.high_quality_pairs * ratio**2),
        "low_quality_pairs": round(base.low_quality_pairs * ratio**2 * logs),
        "decoder_steps": round(base.decoder_steps * logs),
    }
