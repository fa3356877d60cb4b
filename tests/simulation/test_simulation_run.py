"""Whole trials at small size: every arm, both presets, interruptions and failures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from mispair.core.files import UserError
from mispair.core.metrics import read_metrics
from mispair.simulation.inputs import Batch
from mispair.simulation.pairs import Dictionaries, TrialDraws
from mispair.simulation.samples import FreshSource
from mispair.simulation.steps import simulate
from mispair.simulation.study import Study
from mispair.simulation.trial import Trial, run_arms, run_trials

SIZES = {
    "d1": 100, "d": 10, "m": 16, "classes": 5, "batch_size": 60, "epochs": 12,
    "steps_per_epoch": 10, "low_quality_pairs": 300, "high_quality_pairs": 120,
    "retrain_epochs": 12, "retrain_epochs_filtered_only": 24, "latent_density": 0.2,
    "test_images": 200, "test_density": 0.2, "test_margin": 1,
}  # fmt: skip
AS_RUN = Study(**SIZES, lr=0.02, lr_decay_every=5, text_noise=0.1)
AS_WRITTEN = Study(
    **SIZES, preset="as-written", lr=5e-3, temperature=25.0, image_noise=0.01, text_noise=0.01,
    high_quality_noise=0.01, test_image_noise=0.01, prompt_noise=0.01, start_std=1e-3,
    phase2_steps=60, decoder_lr=1e-3, bias_scale=0.5,
)  # fmt: skip
EVERY_ARM = (
    "raw", "filtered", "replace-all", "high-quality-only", "generated-only", "random-decoder",
)  # fmt: skip


def trial_of(study: Study) -> Trial:
    """Return the first trial at C_s = 0.3."""
    return Trial(study, 0.3, TrialDraws(0, 0, torch.float32))


def arms_of(study: Study, c_s: float, arms: Sequence[str] = ("raw", "filtered")) -> dict:
    """Return the rows of the arms of the first trial."""
    return run_trials(study, c_s, [0], arms)[0]


def value(measured: list[dict], metric: str, **keys: object) -> float:
    """Return the one value of a metric."""
    (found,) = (
        row["value"]
        for row in measured
        if row["metric"] == metric and all(row.get(key) == want for key, want in keys.items())
    )
    return float(found)


def main_value(study: Study, measured: list[dict], metric: str) -> float:
    return value(measured, metric, definition=study.figure1_definition)


@pytest.mark.parametrize("study", [AS_RUN, AS_WRITTEN], ids=["as-run", "as-written"])
def test_a_trial_learns_and_gives_the_same_numbers_twice(study: Study) -> None:
    arms = arms_of(study, 0.2)
    assert set(arms) == {"raw", "filtered"}
    for measured in arms.values():
        losses = [row["value"] for row in measured if row["metric"] == "loss"]
        assert len(losses) == 12
        assert losses[-1] < losses[0]
        assert main_value(study, measured, "accuracy") > 0.5  # chance is 0.2
        assert main_value(study, measured, "purified_features") >= 5
        for tower in ("image", "text"):
            bins = [
                row["value"]
                for row in measured
                if row["metric"] == "cosine_histogram" and row["tower"] == tower
            ]
            assert sum(bins) == 160
    assert value(arms["filtered"], "replaced_share_bad") > 0.5
    assert arms_of(study, 0.2) == arms
    assert run_trials(study, 0.2, [1])[1] != arms


SPURIOUS = {"caption_spurious", "mixed_neurons", "mixed_pairs_covered"}


@pytest.mark.parametrize(("study", "measured"), [(AS_RUN, False), (AS_WRITTEN, True)],
                         ids=["as-run", "as-written"])  # fmt: skip
def test_spurious_pairs_are_measured_where_there_are_any(study: Study, measured: bool) -> None:
    """The public code redraws whole captions: nothing is correlated, and theorem 4.2 is silent."""
    arms = arms_of(study, 0.3)
    names = {row["metric"] for rows in arms.values() for row in rows}
    assert names & SPURIOUS == (SPURIOUS if measured else set())
    assert {"caption_true", "alpha_share", "residual_share"} <= names


@pytest.mark.parametrize("study", [AS_RUN, AS_WRITTEN], ids=["as-run", "as-written"])
def test_every_arm_is_measured(study: Study) -> None:
    arms = arms_of(study, 0.3, EVERY_ARM)
    assert set(arms) == set(EVERY_ARM)
    for name, measured in arms.items():
        assert all(math.isfinite(row.get("value", 0.0)) for row in measured), name
        both = {row["definition"] for row in measured if row["metric"] == "accuracy"}
        assert both == {"as-run", "as-written"}
        assert sum(row["metric"] == "accuracy_by_protocol" for row in measured) == 8
        assert sum(row["metric"] == "neuron_alignment" for row in measured) == 32
    # What S2 and S3 made is reported where it was used, of raw and of generated captions.
    for name in ("filtered", "random-decoder"):
        sources = {row["source"] for row in arms[name] if row["metric"] == "caption_true"}
        assert sources == {"raw", "generated", "filtered", "rescaled"}
    true = {
        source: value(arms["filtered"], "caption_true", source=source)
        for source in ("raw", "generated", "filtered")
    }
    assert true["filtered"] > true["raw"]


def test_the_oracle_is_the_raw_arm_without_misalignment() -> None:
    """At C_s = 0 the model of misalignment does not matter: data and weights are the same."""
    kinds = ("groups", "partner", "random-sets", "independent")
    found = [
        arms_of(study, 0.0, ["raw"])
        for study in (AS_WRITTEN.model_copy(update={"misalignment": kind}) for kind in kinds)
    ]
    means = [main_value(AS_WRITTEN, arms["raw"], "purified_magnitude") for arms in found]
    assert len(set(means)) == 1
    losses = [[row for row in arms["raw"] if row["metric"] == "loss"] for arms in found]
    assert all(own == losses[0] for own in losses)


def test_arms_share_what_makes_them_comparable() -> None:
    trial = trial_of(AS_WRITTEN)
    start = trial.pretraining().start
    assert torch.equal(start.weights, trial.pretraining_on_high_quality().start.weights)
    run_arms(trial)
    prepared = {arm: trial.retraining(arm) for arm in ("filtered", "replace-all", "random-decoder")}
    for training in prepared.values():
        assert torch.equal(training.start.weights, start.weights)  # retrain_weights: initial
        assert training.plan == trial.pretraining().plan
    batches = {arm: training.source.batch(3) for arm, training in prepared.items()}
    images = [batch.image.dense() for batch in batches.values()]
    assert torch.equal(images[0], images[1])
    assert torch.equal(images[0], images[2])
    assert not torch.equal(batches["filtered"].text.dense(), batches["replace-all"].text.dense())


def test_what_s4_trains_on() -> None:
    """Fixed data: S_h, filtered S_w, and raw S_w if wanted; generated-only leaves kept ones out."""
    trial = trial_of(AS_WRITTEN)
    run_arms(trial)
    replaced = int(trial.captions("filtered").replaced.sum())
    assert 0 < replaced < 300

    def size(study: Study, arm: str) -> int:
        trial.study = study
        source = trial.retraining(arm).source
        return len(source._sample)

    assert size(AS_WRITTEN, "filtered") == 120 + 300
    assert size(AS_WRITTEN, "generated-only") == 120 + replaced
    assert size(AS_WRITTEN.model_copy(update={"retrain_with_raw": True}), "filtered") == 720


def test_too_few_purified_features_change_the_decoder_and_the_retraining() -> None:
    needs_all = AS_RUN.model_copy(update={"purified_share_needed": 1.0})
    found = arms_of(needs_all, 0.2, ["raw", "filtered", "random-decoder"])
    assert value(found["filtered"], "decoder_from_encoders") == 0
    # 300 filtered pairs in batches of 60, and twice the epochs.
    assert sum(row["metric"] == "loss" for row in found["filtered"]) == 24
    assert main_value(AS_RUN, found["filtered"], "accuracy") == main_value(
        AS_RUN, found["random-decoder"], "accuracy"
    )
    needs_none = AS_RUN.model_copy(update={"purified_share_needed": 0.0})
    enough = arms_of(needs_none, 0.2)["filtered"]
    assert value(enough, "decoder_from_encoders") == 1
    assert sum(row["metric"] == "loss" for row in enough) == 12


@pytest.mark.parametrize("weights", ["fresh", "initial"])
def test_s4_starts_from_the_weights_it_is_told_to(weights: str) -> None:
    study = AS_WRITTEN.model_copy(update={"retrain_weights": weights})
    trial = trial_of(study)
    run_arms(trial)
    start = trial.retraining("filtered").start.weights
    assert torch.equal(start, trial.pretraining().start.weights) == (weights == "initial")


def test_both_definitions_are_measured_and_the_main_one_is_the_studys() -> None:
    ours = arms_of(AS_WRITTEN, 0.2, ["raw"])["raw"]
    theirs = arms_of(
        AS_WRITTEN.model_copy(update={"figure1_definition": "as-run", "test_margin": 2}),
        0.2, ["raw"],
    )["raw"]  # fmt: skip
    for metric in ("purified_features", "purified_magnitude"):
        for definition in ("as-run", "as-written"):
            assert value(ours, metric, definition=definition) == value(
                theirs, metric, definition=definition
            )
    assert value(ours, "purified_threshold", definition="as-written") == 0.5


class Interruption(Exception):  # noqa: N818
    """What ends a job before its time."""


@pytest.mark.parametrize("study", [AS_RUN, AS_WRITTEN], ids=["as-run", "as-written"])
def test_a_run_that_is_interrupted_anywhere_ends_with_the_same_numbers(study: Study) -> None:
    """Every save ends the job: two trainings of 120 steps are saved at 50, 100 and the end."""
    states: dict[str, dict[str, Tensor]] = {}

    def keeper(name: str) -> SimpleNamespace:
        def save(state: dict[str, Tensor]) -> None:
            states[name] = state
            raise Interruption

        asked = itertools.count(1)
        return SimpleNamespace(
            load=lambda: states.get(name), due=lambda: next(asked) == 50, save=save
        )

    for _ in range(6):
        with pytest.raises(Interruption):
            run_trials(study, 0.3, [0], keepers=keeper)
    assert run_trials(study, 0.3, [0], keepers=keeper) == run_trials(study, 0.3, [0])


def test_dictionaries_as_axes_are_the_same_by_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn every draw of the run on axes by an orthonormal matrix: its results stay."""
    exact = AS_WRITTEN.model_copy(update={"precision": "float64"})
    on_axes = arms_of(exact.model_copy(update={"dictionaries": "axes"}), 0.2)

    generator = torch.Generator().manual_seed(5)
    turn = torch.linalg.qr(torch.randn(100, 100, generator=generator, dtype=torch.float64)).Q
    original = TrialDraws.normal

    def turned(self: TrialDraws, generator: torch.Generator, *shape: int) -> Tensor:
        found = original(self, generator, *shape)
        return found @ turn if shape[-1] == 100 else found

    def dictionaries(draws: TrialDraws, d1: int, d: int) -> Dictionaries:
        return Dictionaries(turn[:d], turn[:d])

    monkeypatch.setattr(TrialDraws, "normal", turned)
    monkeypatch.setattr("mispair.simulation.trial.draw_dictionaries", dictionaries)
    in_turned_basis = arms_of(exact, 0.2)
    for arm in ("raw", "filtered"):
        for metric in ("accuracy", "purified_features", "purified_magnitude", "silhouette"):
            assert main_value(exact, on_axes[arm], metric) == pytest.approx(
                main_value(exact, in_turned_basis[arm], metric), abs=1e-9
            )


def test_a_schedule_that_silences_every_neuron_is_named() -> None:
    loud = AS_WRITTEN.model_copy(update={"bias_scale": 50.0})
    arms = arms_of(loud, 0.2)
    (row,) = arms["raw"]
    assert row["metric"] == "silenced_at_step"
    assert 0 < row["value"] < 120
    assert "filtered" not in arms


def poisoned(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    original = FreshSource.batch

    def batch(self: FreshSource, step: int) -> Batch:
        found = original(self, step)
        if (self._population.draws.trial, step) == (0, at):
            found.image.codes[0, 0] = math.nan
        return found

    monkeypatch.setattr(FreshSource, "batch", batch)


@pytest.fixture
def settings() -> simulate.Settings:
    short = {"epochs": 2, "retrain_epochs": 2, "retrain_epochs_filtered_only": 2}
    return simulate.Settings(**{**SIZES, **short})


def job(folder: Path, name: str, trials: list[int]) -> dict:
    return {
        "condition": "as-run", "spurious_probability": 0.3, "trials": trials,
        "arms": ["raw", "filtered"], "checkpoint": folder / "checkpoint",
        "simulation": folder / name,
    }  # fmt: skip


def test_step_writes_the_same_bytes_and_trials_do_not_see_each_other(tmp_path, settings) -> None:
    def write(name: str, trials: list[int]) -> Path:
        simulate.run(settings, **job(tmp_path, name, trials))
        return tmp_path / name

    both, alone = write("both.json", [0, 1]), write("alone.json", [1])
    assert write("again.json", [0, 1]).read_bytes() == both.read_bytes()
    found, provenance = read_metrics(both)
    assert [row for row in found if row["trial"] == 1] == read_metrics(alone)[0]
    assert provenance["settings"]["d1"] == 100
    assert provenance["condition"] == "as-run"
    assert "spurious_probabilities" not in provenance["settings"]
    assert {
        (row["condition"], row["spurious_probability"], row["seed"]) for row in found
    } == {("as-run", 0.3, 0)}  # fmt: skip
    assert not (tmp_path / "checkpoint").exists()


def test_step_goes_on_from_its_checkpoint_unless_settings_changed(
    tmp_path, settings, monkeypatch, caplog
) -> None:
    caplog.set_level("INFO")
    simulate.run(settings, **job(tmp_path, "whole.json", [0]))

    def keep() -> None:
        with monkeypatch.context() as patch:
            patch.setattr("mispair.core.resume.Checkpoints.remove", lambda self: None)
            simulate.run(settings, **job(tmp_path, "kept.json", [0]))
        caplog.clear()

    keep()
    assert sorted(path.name for path in (tmp_path / "checkpoint").iterdir()) == [
        "0.3-0-filtered.safetensors", "0.3-0-raw.safetensors",
    ]  # fmt: skip
    simulate.run(settings, **job(tmp_path, "resumed.json", [0]))
    assert "going on from" in caplog.text
    assert (tmp_path / "resumed.json").read_bytes() == (tmp_path / "whole.json").read_bytes()
    keep()
    simulate.run(settings.model_copy(update={"lr": 0.05}), **job(tmp_path, "other.json", [0]))
    assert "of other settings or code" in caplog.text
    assert "going on from" not in caplog.text


def test_divergence_is_recorded_and_spares_other_trials(tmp_path, settings, monkeypatch) -> None:
    poisoned(monkeypatch, at=13)
    simulate.run(settings, **job(tmp_path, "simulation.json", [0, 1]))
    found, _ = read_metrics(tmp_path / "simulation.json")
    first = [row for row in found if row["trial"] == 0]
    assert [(row["metric"], row["trained_on"], row["value"]) for row in first] == [
        ("diverged_at_step", "raw", 13)
    ]
    assert {row["trained_on"] for row in found if row["trial"] == 1} == {"raw", "filtered"}
    assert "NaN" not in (tmp_path / "simulation.json").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [({"spurious_probability": 1.0}, "outside"), ({"spurious_probability": -0.1}, "outside"),
     ({"trials": []}, "at least one"), ({"trials": [1, 1]}, "distinct"),
     ({"trials": [-1]}, "from 0 up"),
     ({"arms": ["raw", "flitered"]}, "no arm flitered")],
)  # fmt: skip
def test_step_refuses_impossible_jobs(tmp_path: Path, settings: simulate.Settings, change, message):
    with pytest.raises(UserError, match=message):
        simulate.run(settings, **{**job(tmp_path, "simulation.json", [0]), **change})
    assert not (tmp_path / "simulation.json").exists()
