"""The conditions of the simulation study, and the switches between its presets."""

import math
import re
import shlex
from collections import Counter
from typing import get_args

import pytest

from mispair.command import step_parser
from mispair.core.files import UserError
from mispair.core.provenance import code_version
from mispair.core.settings import command_line
from mispair.simulation.conditions import SWITCHES, Condition, conditions
from mispair.simulation.steps.simulate import Settings, Switch
from mispair.simulation.study import AS_WRITTEN, Study

EVERYTHING = {"compare_presets": True, "bridge_trials": 1, "grid_trials": 1}


def changed(one: Condition, other: Condition) -> set[str]:
    """Return the settings in which two conditions differ."""
    pairs = one.study.model_dump().items() ^ other.study.model_dump().items()
    return {key for key, _ in pairs}


def test_switches_share_out_what_the_presets_differ_in() -> None:
    thrown = Counter(key for keys in SWITCHES.values() for key in keys)
    assert set(thrown) == set(AS_WRITTEN)
    assert set(thrown.values()) == {1}


def test_choices_of_the_sweeps_are_those_of_the_study() -> None:
    assert set(get_args(Switch)) == set(SWITCHES)


def test_nothing_but_the_preset_is_run_unless_asked_for() -> None:
    (base,) = conditions(Settings(preset="as-written", d=20)).values()
    assert (base.name, base.kind, base.switch) == ("as-written", "base", None)
    assert base.study == Study(preset="as-written", d=20)
    assert type(base.study) is Study


@pytest.mark.parametrize(("preset", "other"), [("as-run", "as-written"), ("as-written", "as-run")])
def test_the_bridge_throws_every_switch_once_and_alone(preset: str, other: str) -> None:
    found = conditions(Settings(preset=preset, bridge_trials=1))
    assert list(found) == [preset, other, *(f"bridge~{switch}" for switch in SWITCHES)]
    assert found[other].study == Study(preset=other)
    for switch, keys in SWITCHES.items():
        condition = found[f"bridge~{switch}"]
        assert (condition.kind, condition.switch) == ("bridge", switch)
        assert changed(found[preset], condition) == set(keys)
        assert all(getattr(condition.study, k) == getattr(found[other].study, k) for k in keys)


def test_small_sizes_and_short_training_hold_for_both_presets() -> None:
    small = {"d1": 60, "d": 10, "m": 16, "batch_size": 50, "epochs": 2, "retrain_epochs": 3}
    found = conditions(Settings(preset="as-run", seed=5, temperature=0.3, **small, **EVERYTHING))
    assert found["as-written"].study == Study(preset="as-written", seed=5, **small)
    assert changed(found["as-run"], found["bridge~optimiser"]) == {
        "optimiser", "lr", "lr_decay", "steps_per_epoch",
    }  # fmt: skip


def test_a_switch_that_stands_where_the_other_preset_has_it_is_left_out() -> None:
    settings = Settings(data="fixed", bridge_trials=1, bridge_switches=["data", "loss"])
    assert list(conditions(settings)) == ["as-run", "as-written", "bridge~loss"]


def test_the_grid() -> None:
    settings = Settings(grid_trials=1, grid_noises=[0.02, 0.0], grid_misalignments=["partner"])
    base, *grid = conditions(settings).values()
    assert [condition.name for condition in grid] == [
        "grid~0.02~partner~practical", "grid~0.02~partner~zero", "grid~0.02~partner~theory",
        "grid~0~partner~practical", "grid~0~partner~zero", "grid~0~partner~theory",
    ]  # fmt: skip
    for condition in grid:
        study = condition.study
        assert (study.encoder, study.unit_rows) == ("symmetric-relu", False)
        noises = {name for name in Study.model_fields if name.endswith("_noise")}
        assert len(noises) == 5
        (deviation,) = {study.std(name) for name in noises}
        assert deviation**2 == pytest.approx(float(condition.name.split("~")[1]))
        assert changed(base, condition) <= noises | {
            "noise_unit", "misalignment", "encoder", "unit_rows", "bias_schedule",
        }  # fmt: skip


SWEEP: dict[str, object] = {
    "preset": "as-written", "d": 20, "d1": 400, "m": 32, "batch_size": 80, "latent_density": 0.1,
    "test_density": 0.2, "high_quality_pairs": 200, "low_quality_pairs": 1600, "temperature": 16,
    "lr": 0.025, "epochs": 10, "image_noise": 0.015, "scaling_trials": 2,
}  # fmt: skip


def test_settings_follow_the_number_of_features() -> None:
    found = conditions(Settings(**SWEEP, scaling_dimensions=[20, 40]))
    assert list(found) == ["as-written", "scaling~20", "scaling~40"]
    assert {condition.kind for condition in found.values()} == {"base", "scaling"}
    base, same, twice = (condition.study for condition in found.values())
    assert same == base
    assert (twice.d, twice.d1, twice.m, twice.batch_size) == (40, 800, 64, 160)
    assert (twice.latent_density, twice.test_density) == (0.05, 0.1)
    assert twice.high_quality_pairs == 800
    # What the rules keep the same at every d: active features, the share of a batch that shows a
    # feature, the step in a feature, how often a pair is met, and the length of alignments.
    for keep in (
        lambda s: s.latent_density * s.d,
        lambda s: s.batch_size * s.latent_density,
        lambda s: s.lr * s.batch_size * s.latent_density * s.epochs / math.log(s.d),
        lambda s: s.decoder_lr * s.high_quality_pairs * s.latent_density,
        lambda s: s.epochs * s.steps_per_epoch * s.batch_size / s.low_quality_pairs,
        lambda s: s.temperature / (2 * s.latent_density * s.batch_size),
        lambda s: s.std("image_noise") ** 2 * s.d,
        lambda s: s.start_std**2 * s.d1 * s.d,
    ):
        assert keep(twice) == pytest.approx(keep(base), rel=0.06)  # epochs are whole numbers


def test_a_second_sweep_has_more_neurons_and_nothing_else() -> None:
    found = conditions(Settings(**SWEEP, scaling_dimensions=[20, 40], scaling_wide_dimensions=[40]))
    assert list(found)[-1] == "scaling~40~4"
    assert changed(found["scaling~40"], found["scaling~40~4"]) == {"m"}
    assert found["scaling~40~4"].study.m == 160


def test_a_sweep_over_d_needs_settings_with_rules() -> None:
    with pytest.raises(UserError, match=r"scaling_dimensions: .* optimiser: sgd, not adam"):
        conditions(Settings(**{**SWEEP, "optimiser": "adam"}))


def test_names_are_safe_and_settings_come_back_from_the_command_line() -> None:
    for name, condition in conditions(Settings(preset="as-written", **EVERYTHING)).items():
        assert re.fullmatch(r"[a-z0-9.~-]+", name)
        job = "--condition x --spurious-probability 0 --trials 0 --arms raw --checkpoint x "
        known, _ = step_parser("simulate").parse_known_args(
            shlex.split(f"{job} --simulation x {command_line(condition.study)}")
        )
        given = {key: value for key, value in vars(known).items() if key in Study.model_fields}
        assert Study.model_validate(given) == condition.study
        assert set(given) == set(Study.model_fields)


def test_every_combination_that_cannot_be_run_is_named_at_once() -> None:
    with pytest.raises(UserError) as refusal:
        conditions(Settings(d=15, m=15, classes=3, spurious_group_size=2, **EVERYTHING))
    assert "simulate.spurious_group_size: d = 15" in str(refusal.value)
    assert "simulate.misalignment: partner pairs the features up" in str(refusal.value)
    assert "(condition grid~0.02~partner~practical and 8 more)" in str(refusal.value)


def test_no_job_depends_on_the_code_that_chooses_jobs() -> None:
    modules = " ".join(code_version("simulate"))
    assert "mispair.simulation.study" in modules
    assert "conditions" not in modules
    assert "jobs" not in modules
