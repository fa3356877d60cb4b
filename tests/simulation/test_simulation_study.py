"""The settings of the study: presets, units of noise, ranges of C_s, and what is refused."""

import pytest
from pydantic import ValidationError

from mispair.simulation.report.pages import UNSTATED
from mispair.simulation.steps import simulate
from mispair.simulation.study import AS_WRITTEN, PRESETS, Study


def test_as_run_numbers_are_those_of_the_public_code() -> None:
    study = Study()
    assert (study.d1, study.d, study.m, study.classes) == (2500, 50, 80, 5)
    assert (study.batch_size, study.epochs, study.steps_per_epoch) == (500, 30, 20)
    assert study.std("text_noise") == pytest.approx(1.5 * 8 / 50)
    assert study.std("test_image_noise") == pytest.approx(8 / 50)
    assert study.std("high_quality_noise") == pytest.approx(8 / 50 / 10)
    assert study.std("image_noise") == 0
    assert (study.lr, study.lr_decay, study.lr_decay_every) == (3e-3, 0.1, 10)
    assert (study.temperature, study.weight_penalty, study.filter_factor) == (0.1, 1e-3, 1.2)


def test_as_written_numbers_are_those_of_section_5_1() -> None:
    study = Study(preset="as-written")
    assert (study.d1, study.d, study.m, study.classes) == (2500, 50, 80, 5)
    assert (study.high_quality_pairs, study.low_quality_pairs) == (1000, 5000)
    assert (study.batch_size, study.lr, study.optimiser, study.loss) == (
        500, 1e-3, "sgd", "spectral",
    )  # fmt: skip
    assert study.std("text_noise") ** 2 == pytest.approx(1 / 50)
    assert study.std("image_noise") ** 2 == pytest.approx(1 / 50)
    assert (study.latent_density, study.test_density) == (0.1, 0.2)
    assert (study.latent_values, study.encoder) == ("signed", "symmetric-relu")
    assert study.filter_factor == 1
    # An epoch is one pass over S_h and S_w.
    assert study.steps_per_epoch * study.batch_size == 6000


def test_a_preset_fills_only_what_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AS_WRITTEN, "m", 70)
    monkeypatch.setitem(AS_WRITTEN, "lr", 0.5)
    study = Study(preset="as-written", lr=0.25)
    assert (study.m, study.lr) == (70, 0.25)
    assert Study().m == 80


def test_presets_name_the_same_settings_and_what_the_text_leaves_open() -> None:
    assert all(PRESETS["as-run"][name] != value for name, value in AS_WRITTEN.items())
    assert set(UNSTATED) <= set(PRESETS["as-written"])
    assert all(Study.model_fields[name].description for name in Study.model_fields)


def test_noise_is_the_same_in_all_units() -> None:
    std = Study(noise_unit="std", text_noise=0.1)
    variance = Study(noise_unit="variance", text_noise=0.01)
    assert std.std("text_noise") == pytest.approx(0.1)
    assert variance.std("text_noise") == pytest.approx(0.1)
    # 2500 coordinates of variance 0.01 against five active features of energy 1.
    assert variance.noise_to_signal("text_noise") == pytest.approx(5)


@pytest.mark.parametrize(
    ("misalignment", "within", "beyond"),
    [("caption", 0.99, 1.0), ("partner", 0.5, 0.51), ("groups", 0.8, 0.81),
     ("random-sets", 0.5, 0.51), ("independent", 0.5, 0.51)],
)  # fmt: skip
def test_each_model_of_misalignment_has_its_range(misalignment, within, beyond) -> None:
    study = Study(misalignment=misalignment, spurious_group_size=5)
    assert study.refuse_spurious_probability(within) == ""
    assert study.refuse_spurious_probability(0.0) == ""
    assert misalignment in study.refuse_spurious_probability(beyond)
    assert study.refuse_spurious_probability(-0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"m": 40}, "40 neurons cannot represent d = 50"), ({"classes": 7}, "divisor of d"),
     ({"d1": 40}, "need d1 of at least 50"),
     ({"test_margin": 11}, "no image can lead by 11"),
     ({"low_quality_pairs": 400}, "do not fill one batch"),
     ({"misalignment": "groups", "spurious_group_size": 51}, "more than d = 50"),
     ({"misalignment": "random-sets", "spurious_group_size": 51}, "more than d = 50"),
     ({"misalignment": "groups", "spurious_group_size": 7}, "divisor of d"),
     ({"misalignment": "partner", "d": 25, "m": 30}, "d = 25 is odd"),
     ({"dictionaries": "axes"}, "Adam sees the coordinates"),
     ({"spurious_probabilities": [0.1, 0.1]}, "listed twice")],
)  # fmt: skip
def test_impossible_settings_are_refused(change: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        simulate.Settings(**change)
