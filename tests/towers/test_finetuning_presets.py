"""Presets of fine-tuning against the settings that the authors' README and the text name."""

from dataclasses import asdict, fields

import numpy as np
import pytest
from pydantic import ValidationError

from mispair.core import settings
from mispair.towers.arms import STARTS
from mispair.towers.finetuning.finetuning_settings import (
    PRESETS,
    FinetuningLength,
    arm,
    for_kept,
    refuse,
    resolve,
)
from mispair.towers.steps.finetune_projection import Settings

AS_RUN = {
    "epochs": 10, "batch_size": 1024, "lr": 1e-3, "final_lr": 1e-5, "warmup_epochs": 1,
    "warmup_lr": 1e-6, "weight_decay": 0.5, "logit_scale": "frozen",
}  # fmt: skip


def test_as_run_is_what_the_public_code_does():
    training = asdict(resolve(Settings(preset="as-run")))
    assert {**training, **AS_RUN} == training
    assert training.keys() - AS_RUN.keys() == {"logit_scale_lr"}
    one_process = asdict(resolve(Settings()))
    assert one_process == {**training, "batch_size": 1024 // 4}


def test_as_written_takes_what_the_text_leaves_open_from_the_code():
    written = asdict(resolve(Settings(preset="as-written")))
    assert {**written, **AS_RUN} == written


@pytest.mark.parametrize(("preset", "times"), [("large-batch", 4), ("large-batch-32k", 32)])
def test_large_batches_decay_as_much_in_an_epoch(preset, times):
    large, small = PRESETS[preset], PRESETS["as-run"]
    assert large.batch_size == times * small.batch_size
    assert large.lr == pytest.approx(times**0.5 * small.lr, rel=1e-4)
    for rate in ("lr", "final_lr"):
        # AdamW multiplies weights by 1 - lr * decay in each of so many steps of an epoch.
        shrunk = [
            (1 - getattr(training, rate) * training.weight_decay) ** (2**20 / training.batch_size)
            for training in (large, small)
        ]
        assert np.log(shrunk[0]) == pytest.approx(np.log(shrunk[1]), rel=0.05)
    same = asdict(large) | {key: getattr(small, key) for key in ("lr", "final_lr", "weight_decay")}
    assert same | {"batch_size": 1024} == asdict(small)


@pytest.mark.parametrize("preset", list(PRESETS))
@pytest.mark.parametrize("field", [field.name for field in fields(FinetuningLength)])
def test_every_number_can_be_set_alone(preset, field):
    default = getattr(PRESETS[preset], field)
    changed = {"logit_scale": "free", "warmup_epochs": 0}.get(field)
    if changed is None:
        changed = default / 2 if field in ("final_lr", "warmup_lr") else 2 * default
    chosen = Settings(preset=preset, pairs=None, **{field: changed})
    assert asdict(resolve(chosen)) == {**asdict(PRESETS[preset]), field: changed}
    assert changed != default


def test_a_job_is_told_the_preset_and_not_its_numbers():
    # So an edit of the configuration that changes no number of a preset passes the same flags.
    flags = settings.command_line(Settings(preset="large-batch", epochs=3))
    assert "--preset large-batch" in flags
    assert "--epochs 3" in flags
    for key in ("batch-size", "lr", "logit-scale", "weight-decay"):
        assert f"--{key} none" in flags
    assert "starts" not in flags


def test_a_fixed_scale_stays_fixed_where_training_frees_it():
    """What each start changes is in `test_step_finetune`."""
    assert arm("scale-5", FinetuningLength(logit_scale="free")).training == FinetuningLength()
    assert arm("reinitialised-small", FinetuningLength()).random_norm == 0.1
    # The shipped towers have a scale of 35.5, so one frozen at 35 repeats the arm `pretrained`.
    assert {*STARTS} - {*Settings().starts} == {"scale-5", "scale-20", "scale-35"}


@pytest.mark.parametrize(("values", "message"), [
    ({"epochs": 3, "warmup_epochs": 3}, r"warmup_epochs: 3 must be fewer than epochs \(3\)"),
    ({"epochs": 1}, r"warmup_epochs: 1 must be fewer than epochs \(1\)"),
    ({"warmup_epochs": 12}, r"warmup_epochs: 12 must be fewer than epochs \(10\)"),
    ({"pairs": 100, "batch_size": 256}, "100 pairs make no whole batch of batch_size 256"),
    ({"pairs": 100, "preset": "as-run"}, "100 pairs make no whole batch of batch_size 1024"),
    ({"preset": "large-batch-32k"}, "10000 pairs make no whole batch of batch_size 32768"),
    ({"lr": 1e-6, "warmup_lr": 0}, r"final_lr: 1e-05 is above lr \(1e-06\)"),
    ({"warmup_lr": 0.1}, r"warmup_lr: 0.1 is above lr \(0.001\)"),
    ({"starts": ["untouched"]}, "starts.0"),
    ({"preset": "as_run"}, "preset"),
    ({"lr": 0}, "lr"),
])  # fmt: skip
def test_settings_refuse_trainings_that_cannot_be(values, message):
    with pytest.raises(ValidationError, match=message):
        Settings(**values)


@pytest.mark.parametrize(
    ("pairs", "batch"), [(2, 2), (20, 10), (255, 127), (256, 256), (None, 256)]
)
def test_a_batch_that_nobody_chose_suits_few_pairs(pairs, batch):
    chosen = Settings(pairs=pairs)
    training = resolve(chosen, pairs)
    assert training.batch_size == batch
    refuse(training, pairs)
    kept = for_kept(chosen, training, 3)
    assert kept.batch_size == min(batch, 3)
    assert for_kept(Settings(batch_size=64), training, 3) == training


def test_all_faults_are_named_at_once():
    with pytest.raises(ValueError, match="5 pairs make no .*; warmup_epochs.*; final_lr"):
        refuse(FinetuningLength(epochs=1, final_lr=1.0), 5)
    refuse(FinetuningLength(epochs=2, final_lr=1e-3), 1024)
    refuse(FinetuningLength(), None)
