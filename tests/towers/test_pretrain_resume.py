"""Tests of trainings of towers that go on after a kill, of a start, and of refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import open_clip
import pytest
import torch
from safetensors.torch import load_file

from mispair.core.files import UserError
from mispair.core.provenance import PACKAGE
from mispair.dag import Dag
from mispair.pairs.steps import make_scenes
from mispair.towers import loading
from mispair.towers.pretraining import pretraining, trainer
from mispair.towers.steps import pretrain_towers

TINY = {
    "model_cfg": {
        "embed_dim": 16,
        "vision_cfg": {
            "image_size": 32, "layers": 1, "width": 32, "head_width": 16, "patch_size": 16,
        },
        "text_cfg": {
            "context_length": 16, "vocab_size": 8514, "width": 32, "heads": 2, "layers": 1,
            "tokenizer_kwargs": {"bpe_path": "bpe.txt.gz"},
        },
    },
    "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.25] * 3, "interpolation": "bicubic"},
}  # fmt: skip
PAIRS = 32
AS_A_JOB = """
import sys, pathlib
from mispair.towers.steps import pretrain_towers as step
settings, towers, *shards = sys.argv[1:]
step.run(step.Settings.model_validate_json(settings), shards=[*map(pathlib.Path, shards)],
         start=[], towers=pathlib.Path(towers))
"""

pytestmark = [
    # webdataset leaves its tar streams to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("corpus") / "shards"
    settings = make_scenes.Settings(shards=2, pairs_per_shard=PAIRS, processes=1)
    make_scenes.run(settings, corpus=folder)
    return sorted(folder.glob("*.tar"))


@pytest.fixture(scope="module")
def definition(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("definition") / "tiny.json"
    path.write_text(json.dumps(TINY))
    return str(path)


@pytest.fixture(scope="module")
def tiny(definition: str) -> Callable[..., pretrain_towers.Settings]:
    """Settings of trainings of two steps an epoch."""

    def settings(**others: Any) -> pretrain_towers.Settings:
        some = {"epochs": 8, "batch_size": PAIRS, "warmup": 2, "crop_scale": 1.0, "threads": 1}
        return pretrain_towers.Settings(definition=definition, **some | others)

    return settings


def train(settings: Any, shards: list[Path], towers: Path, start: tuple[Path, ...] = ()) -> bytes:
    """Run the step; return the bytes of the weights."""
    pretrain_towers.run(settings, shards=shards, start=[*start], towers=towers)
    return (towers / loading.WEIGHTS_NAME).read_bytes()


def parts_of(towers: Path) -> Path:
    return towers.with_name(f"{towers.name}.parts")


def saved_epochs(towers: Path) -> int:
    """Return after how many epochs a training surely goes on: its last may be half saved."""
    found = [*parts_of(towers).glob("*/towers/random/*.pt")]
    return max((int(path.stem) for path in found), default=1) - 1


def wait_until(true: Callable[[], bool], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_training_that_is_killed_gives_the_same_bytes(
    tiny: Any, shards: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = tiny(workers=2, train_num_samples=24, batch_size=8, epochs=8, crop_scale=0.3)
    undisturbed = train(settings, shards, tmp_path / "undisturbed")
    towers = tmp_path / "towers"
    # Of its own, and not forked from this one: reading processes do not bear that.
    job = subprocess.Popen(
        [sys.executable, "-c", AS_A_JOB, settings.model_dump_json(), towers, *shards],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: saved_epochs(towers) > 0)
    job.kill()
    assert job.wait() == -signal.SIGKILL
    assert not towers.exists()
    with caplog.at_level("INFO"):
        assert train(settings, shards, towers) == undisturbed
    assert "going on after epoch" in caplog.text
    record = (tmp_path / "undisturbed" / "training.json").read_text()
    assert (towers / "training.json").read_text() == record
    assert sorted(tmp_path.iterdir()) == [towers, tmp_path / "undisturbed"]
    assert "--dataset-resampled" in json.loads(record)["trainer"]


def test_states_of_another_job_or_broken_ones_are_not_used(
    tiny: Any, shards: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = tiny(epochs=2, warmup=0, workers=0)
    expected = train(settings, shards, tmp_path / "expected")
    towers = tmp_path / "towers"
    with pytest.MonkeyPatch.context() as patch:
        # As if it was killed after the last epoch.
        patch.setattr(pretraining, "trained_weights", lambda *_: 1 / 0)
        for lr in (1e-4, settings.lr):
            with pytest.raises(ZeroDivisionError):
                train(settings.model_copy(update={"lr": lr}), shards, towers)
            assert len([*parts_of(towers).iterdir()]) == 1
    assert "is of other settings" in caplog.text
    (logs,) = parts_of(towers).iterdir()
    assert trainer.finished_epochs(logs) == 2
    latest = trainer.latest_checkpoint(logs)
    latest.write_bytes(b"half of a file")
    assert trainer.finished_epochs(logs) == 0
    assert not latest.exists()
    assert train(settings, shards, towers) == expected


def test_all_weights_are_trained_from_a_start(
    tiny: Any, shards: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "start"
    folder.mkdir()
    pretraining.write_definition(folder, TINY)
    torch.manual_seed(1)
    weights = open_clip.create_model(f"local-dir:{folder}").state_dict()
    pretraining.write_weights(folder / loading.WEIGHTS_NAME, weights, torch.float32)
    files = (folder / loading.CONFIG_NAME, folder / loading.WEIGHTS_NAME)

    settings = tiny(epochs=1, warmup=0, lr=0, workers=0)
    train(settings, shards, tmp_path / "still", files)
    found = load_file(tmp_path / "still" / loading.WEIGHTS_NAME)
    assert found.keys() == weights.keys()
    for name, value in found.items():
        assert value.dtype == weights[name].dtype
        assert torch.equal(value, weights[name]), name
    assert loading.fingerprint(tmp_path / "still") == loading.fingerprint(folder)
    recipe = json.loads((tmp_path / "still" / "training.json").read_text())
    assert recipe["start"] == loading.fingerprint(folder)
    assert str(tmp_path) not in json.dumps(recipe)

    train(settings.model_copy(update={"lr": 1e-3}), shards, tmp_path / "moved", files)
    moved = load_file(tmp_path / "moved" / loading.WEIGHTS_NAME)
    assert [name for name in found if torch.equal(found[name], moved[name])] == []
    loading.load_towers(tmp_path / "moved")


def test_what_cannot_train_is_said_before(
    tiny: Any, shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(words: str, **settings: Any) -> None:
        with pytest.raises(UserError, match=words):
            train(tiny(**settings), shards, tmp_path / "towers")
        assert not [*tmp_path.iterdir()]

    refused(r"workers: 8 processes are to read 2 shards", workers=8)
    refused(r"batch_size: 33, but 64 pairs in 2 shards leave one of 2 readers 32", workers=2,
            batch_size=33)  # fmt: skip
    refused(r"batch_size: 65, .* leave one of 1 readers 64", batch_size=65)
    refused(r"warmup: 100 steps, but training has 16", warmup=100, batch_size=32)
    refused(r"workers: 0, but with train_num_samples", workers=0, train_num_samples=9)
    refused(r"warmup: 9 steps, but training has 8", train_num_samples=8, warmup=9)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(r"cuda is not available", device="cuda")


def test_the_corpus_and_a_start_come_from_the_configuration(
    shards: list[Path], tmp_path: Path
) -> None:
    content = {
        "studies": ["image_text"],
        "towers": "train",
        "corpus": "mine",
        "shards": str(shards[0].parent),
    }
    training = {"warmup": 1}
    dag = Dag(content | {"pretrain_towers": training}, "x")
    assert [Path(path) for path in dag.training_shards] == shards
    assert Path(*dag.tower_definition).name == "scenes-small.json"
    assert dag.models.start == []
    assert dag.training_cores == 2
    dag = Dag(content | {"pretrain_towers": training | {"start": "shipped"}}, "x")
    assert Path(dag.models.start[0]).name == loading.CONFIG_NAME
    assert dag.tower_definition == []
    assert "start" not in dag.flags("pretrain_towers")
    weights = tmp_path / "weights.pt"
    weights.touch()
    models = [{"name": "a", "recipe": "laclip-cc", "checkpoint": str(weights)}]
    dag = Dag(content | {"models": models, "pretrain_towers": training | {"start": "a"}}, "x")
    assert dag.models.start[0] == "results/checkpoints/a/open_clip_config.json"
    assert dag.models.checkpoint(SimpleNamespace(model="a")) == [str(weights)]
    definition = {"definition": "ViT-B-32"}
    assert Dag(content | {"pretrain_towers": definition}, "x").tower_definition == []
    for settings, words in (
        ({"start": "b"}, "pretrain_towers.start: 'b' is neither one of .* nor the name of one of"),
        ({"workers": 3}, "3 processes are to read 2 shards"),
    ):
        with pytest.raises(UserError, match=words):
            Dag(content | {"pretrain_towers": settings}, "x")
    with pytest.raises(UserError, match="learns from the shards' own captions"):
        Dag(content | {"captions": str(weights)}, "x")
    with pytest.raises(UserError, match=r"warmup: 100 steps, but training has 12"):
        Dag(
            {
                "studies": ["image_text"],
                "towers": "train",
                "make_scenes": {"shards": 1, "pairs_per_shard": 128},
            },
            "x",
        )


def test_an_architecture_of_open_clip_is_a_definition() -> None:
    found = pretraining.read_definition("ViT-B-32")
    assert found["model_cfg"] == open_clip.get_model_config("ViT-B-32")
    assert found["preprocess_cfg"]["interpolation"] == "bicubic"
