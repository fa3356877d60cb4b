"""Settings, whole trials at small size, and the step that writes them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from mispair.files import UserError
from mispair.metrics import read_metrics
from mispair.simulation.presets import PRESETS
from mispair.simulation.study import Study
from mispair.simulation.trial import rows, run_trial
from mispair.steps import simulate

TINY = {
    "d1": 100, "d": 10, "m": 16, "classes": 5, "batch_size": 60, "epochs": 12,
    "steps_per_epoch": 10, "filtered_pairs": 300, "retrain_epochs": 12,
    "retrain_epochs_filtered_only": 24, "lr": 0.02, "lr_decay_every": 5, "latent_density": 0.2,
    "test_images": 200, "test_density": 0.2, "test_margin": 1,
}  # fmt: skip


def test_as_run_numbers_are_those_of_the_public_code() -> None:
    study = Study()
    assert (study.d1, study.d, study.m, study.classes) == (2500, 50, 80, 5)
    assert (study.batch_size, study.epochs, study.steps_per_epoch) == (500, 30, 20)
    assert study.text_noise == pytest.approx(1.5 * 8 / 50)
    assert study.test_image_noise == pytest.approx(8 / 50)
    assert study.decoder_text_noise == pytest.approx(8 / 50 / 10)
    assert (study.lr, study.lr_decay, study.lr_decay_every) == (3e-3, 0.1, 10)
    assert (study.temperature, study.weight_penalty, study.filter_factor) == (0.1, 1e-3, 1.2)


def test_a_preset_fills_only_what_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "as-run", {**PRESETS["as-run"], "m": 70, "lr": 0.5})
    study = Study(lr=0.25)
    assert (study.m, study.lr) == (70, 0.25)
    assert set(PRESETS["as-run"]) <= set(Study.model_fields)
    assert all(Study.model_fields[name].description for name in Study.model_fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 40}, "40 neurons cannot represent d = 50"),
        ({"classes": 7}, "divisor of d"),
        ({"d1": 40}, "need d1 of at least 50"),
        ({"test_margin": 11}, "no image can lead by 11"),
        ({"filtered_pairs": 400}, "do not fill one batch"),
        ({"filtered_pairs": 20000}, "do not fit into an epoch"),
        ({"threshold_low": 0.9, "threshold_high": 0.5}, "above threshold_high"),
        ({"spurious_probabilities": [0.1, 1.0]}, "less than 1"),
        ({"spurious_probabilities": [-0.1]}, "greater than or equal to 0"),
        ({"spurious_probabilities": [0.1, 0.1]}, "listed twice"),
        ({"preset": "as-guessed"}, "as-run"),
        ({"temperature": 0}, "greater than 0"),
        ({"trials": 0}, "greater than or equal to 1"),
    ],
)
def test_impossible_settings_are_refused(change: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        simulate.Settings(**change)


def test_a_trial_learns_and_gives_the_same_numbers_twice() -> None:
    study = Study(**TINY, text_noise=0.1)
    arms = run_trial(study, 0.2, 0)
    assert set(arms) == {"raw", "filtered"}
    for arm in arms.values():
        assert arm.losses[-1].mean() < 0.9 * arm.losses[0].mean()
        assert arm.values["accuracy"] > 0.5  # chance is 0.2
        assert arm.values["purified_features"] >= 5
        assert -1 <= arm.values["silhouette"] <= 1
        assert sum(arm.histograms["image"]) == sum(arm.histograms["text"]) == 160
    assert arms["filtered"].values["replaced_share_bad"] > 0.5
    again = run_trial(study, 0.2, 0)
    assert rows(arms) == rows(again)
    other = run_trial(study, 0.2, 1)
    assert rows(arms) != rows(other)


def test_too_few_purified_features_change_the_decoder_and_the_retraining() -> None:
    study = Study(**{**TINY, "purified_share_needed": 1.0})
    arm = run_trial(study, 0.2, 0)["filtered"]
    assert arm.values["decoder_from_encoders"] == 0
    # 300 filtered pairs in batches of 60, and twice the epochs.
    assert arm.losses.shape == (24, 5)
    enough = run_trial(Study(**{**TINY, "purified_share_needed": 0.0}), 0.2, 0)["filtered"]
    assert enough.values["decoder_from_encoders"] == 1
    assert enough.losses.shape == (12, 10)


def test_initial_weights_can_be_shared() -> None:
    """Both arms then start at the same loss but for the data of their first step."""
    fresh = run_trial(Study(**TINY), 0.0, 0)
    shared = run_trial(Study(**TINY, retrain_weights="initial"), 0.0, 0)
    assert rows({"raw": fresh["raw"]}) == rows({"raw": shared["raw"]})
    assert fresh["filtered"].losses[0, 0] != shared["filtered"].losses[0, 0]


@pytest.fixture
def settings() -> simulate.Settings:
    short = {"epochs": 2, "retrain_epochs": 2, "retrain_epochs_filtered_only": 2}
    return simulate.Settings(**{**TINY, **short, "device": "cpu"})


def test_step_writes_the_same_bytes_and_trials_do_not_see_each_other(
    tmp_path: Path, settings: simulate.Settings
) -> None:
    def write(name: str, trials: list[int]) -> Path:
        path = tmp_path / name
        simulate.run(settings, spurious_probability=0.3, trials=trials, simulation=path)
        return path

    both, alone = write("both.json", [0, 1]), write("alone.json", [1])
    assert write("again.json", [0, 1]).read_bytes() == both.read_bytes()
    found, provenance = read_metrics(both)
    assert [row for row in found if row["trial"] == 1] == read_metrics(alone)[0]
    assert provenance["settings"]["d1"] == 100
    assert "spurious_probabilities" not in provenance["settings"]
    metrics = {(row["metric"], row["trained_on"]) for row in found}
    for arm in ("raw", "filtered"):
        for metric in ("purified_features", "purified_magnitude", "accuracy", "silhouette", "loss"):
            assert (metric, arm) in metrics
    assert ("replaced_share_bad", "filtered") in metrics
    assert {(row["spurious_probability"], row["seed"]) for row in found} == {(0.3, 0)}
    bins = [row for row in found if row["metric"] == "cosine_histogram"]
    assert sum(row["value"] for row in bins) == 2 * 2 * 2 * 160  # trials, arms, towers


def test_divergence_is_recorded_and_spares_other_trials(
    tmp_path: Path, settings: simulate.Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mispair.simulation import data, trial

    original = data.draw_fresh_batch

    def poisoned(
        draws: data.Draws, arm: str, step: int, *rest: object, **more: object
    ) -> data.Batch:
        batch = original(draws, arm, step, *rest, **more)
        if (draws.trial, step) == (0, 13):
            batch.image_codes[0, 0] = math.nan
        return batch

    monkeypatch.setattr(trial, "draw_fresh_batch", poisoned)
    path = tmp_path / "simulation.json"
    simulate.run(settings, spurious_probability=0.3, trials=[0, 1], simulation=path)
    found, _ = read_metrics(path)
    first = [row for row in found if row["trial"] == 0]
    assert [(row["metric"], row["trained_on"], row["value"]) for row in first] == [
        ("diverged_at_step", "raw", 13)
    ]
    assert {row["trained_on"] for row in found if row["trial"] == 1} == {"raw", "filtered"}
    assert "NaN" not in path.read_text()
    json.loads(path.read_text())


@pytest.mark.parametrize(
    ("rate", "trials", "message"),
    [(1.0, [0], "outside"), (-0.1, [0], "outside"), (0.1, [], "at least one"),
     (0.1, [1, 1], "distinct"), (0.1, [-1], "from 0 up")],
)  # fmt: skip
def test_step_refuses_impossible_jobs(
    tmp_path: Path, settings: simulate.Settings, rate: float, trials: list[int], message: str
) -> None:
    path = tmp_path / "simulation.json"
    with pytest.raises(UserError, match=message):
        simulate.run(settings, spurious_probability=rate, trials=trials, simulation=path)
    assert not path.exists()


def test_cuda_without_cuda_is_a_clear_error(
    tmp_path: Path, settings: simulate.Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    wanted = settings.model_copy(update={"device": "cuda"})
    with pytest.raises(UserError, match="Set device to auto or cpu"):
        simulate.run(wanted, spurious_probability=0.1, trials=[0], simulation=tmp_path / "x.json")
