"""Tests of pre-training with open_clip's trainer, and of the towers that come with mispair."""

import gzip
import json
import logging
import os
import random
import shutil
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
import torch.nn.functional as F
from safetensors.torch import load_file

from mispair.core.files import UserError
from mispair.core.provenance import PACKAGE
from mispair.dag import Dag
from mispair.input_checks import refuse_unusable
from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS, labelled_pictures
from mispair.pairs.steps import make_scenes
from mispair.towers import loading
from mispair.towers.dag import SHIPPED
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
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., pretrain_towers.Settings]:
    """Settings of trainings of two steps an epoch."""
    path = tmp_path_factory.mktemp("definition") / "tiny.json"
    path.write_text(json.dumps(TINY))
    some = {"definition": str(path), "epochs": 8, "batch_size": PAIRS, "warmup": 2,
            "crop_scale": 1.0, "threads": 1}  # fmt: skip
    return lambda **others: pretrain_towers.Settings(**some | others)


def train(settings: Any, shards: list[Path], towers: Path, start: tuple[Path, ...] = ()) -> bytes:
    """Run the step; return the bytes of the weights."""
    pretrain_towers.run(settings, shards=shards, start=[*start], towers=towers)
    return (towers / loading.WEIGHTS_NAME).read_bytes()


def test_training_writes_towers_that_plain_open_clip_loads(shards, tmp_path):
    settings = pretrain_towers.Settings(
        epochs=1, batch_size=32, warmup=1, threads=1, workers=0, lr=1e-3
    )
    handlers = list(logging.getLogger().handlers)
    folder = tmp_path / "towers"
    train(settings, shards[::-1], folder)
    assert logging.getLogger().handlers == handlers

    model, _, _preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
    assert tokenizer.tokenizer.vocab_size == model.vocab_size
    towers = loading.load_towers(folder)
    tokens = tokenizer(["a red circle"])
    assert torch.equal(tokens, towers.tokenizer(["a red circle"]))
    model.eval()
    with torch.no_grad():
        expected = model.encode_text(tokens)
    actual = towers.text_features(tokens) @ towers.text_projection
    assert torch.allclose(actual, expected, atol=1e-5)

    recipe = json.loads((folder / "training.json").read_text())
    assert recipe["corpus"]["fingerprint"] == pretraining.corpus_fingerprint(shards)
    assert recipe["corpus"]["pairs"] == 64
    assert [entry["epoch"] for entry in recipe["losses"]] == [1]
    assert str(tmp_path) not in json.dumps(recipe)
    assert recipe["settings"] == settings.model_dump()


def test_the_corpus_fingerprint_follows_names_and_contents(shards, tmp_path):
    first = pretraining.corpus_fingerprint(shards)
    assert pretraining.corpus_fingerprint(shards[::-1]) == first
    copies = [Path(shutil.copy(shard, tmp_path)) for shard in shards]
    assert pretraining.corpus_fingerprint(copies) == first
    with copies[0].open("ab") as opened:
        opened.write(b"\0")
    assert pretraining.corpus_fingerprint(copies) != first


def test_the_vocabulary_is_the_first_part_of_clips(tmp_path: Path) -> None:
    definition = pretraining.read_definition("scenes-small")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        pretraining.write_definition(tmp_path / name, definition)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    with gzip.open(open_clip.tokenizer.default_bpe(), "rt", encoding="utf-8") as opened:
        lines = opened.read().split("\n")[: 8514 - 514 + 1]
    # No newline at the end: open_clip would read an empty merge from it.
    (tmp_path / "bpe.txt.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    expected = open_clip.SimpleTokenizer(str(tmp_path / "bpe.txt.gz"), context_length=28)
    tokenizer = open_clip.get_tokenizer(f"local-dir:{tmp_path / 'a'}")
    letters = (
        "abcdefghijklmnopqrstuvwxyz" * 6
        + "     !?.,'\"-&;<>0123456789ABCDÉéß中日한😀\u200d\u00a0\t\nİıſ²_#@…"
    )
    draw = random.Random(0)
    texts = ["".join(draw.choices(letters, k=draw.randrange(80))) for _ in range(2000)]
    texts += ["", "!", "!!", "it's we'll I'D", "<PAD>", "<start_of_text>a<end_of_text>", "a " * 27]
    assert torch.equal(tokenizer(texts), expected(texts))


def parts_of(towers: Path) -> Path:
    return towers.with_name(f"{towers.name}.parts")


def wait_until(true: Callable[[], object], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_training_that_is_killed_gives_the_same_bytes(tiny, shards, tmp_path, caplog):
    settings = tiny(workers=2, batch_size=8, epochs=4, crop_scale=0.3)
    undisturbed = train(settings, shards, tmp_path / "undisturbed")
    towers = tmp_path / "towers"
    # Of its own, and not forked from this one: reading processes do not bear that.
    job = subprocess.Popen(
        [sys.executable, "-c", AS_A_JOB, settings.model_dump_json(), towers, *shards],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: [*parts_of(towers).glob("*/towers/checkpoints/epoch_latest.pt")])
    job.kill()
    assert job.wait() == -signal.SIGKILL
    assert not towers.exists()
    with caplog.at_level("INFO"):
        assert train(settings, shards, towers) == undisturbed
    assert "going on after epoch" in caplog.text
    record = (tmp_path / "undisturbed" / "training.json").read_text()
    assert (towers / "training.json").read_text() == record
    assert sorted(tmp_path.iterdir()) == [towers, tmp_path / "undisturbed"]


def test_states_of_another_job_or_broken_ones_are_not_used(tiny, shards, tmp_path, caplog):
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


def test_all_weights_are_trained_from_a_start(tiny, shards, tmp_path):
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


def test_what_cannot_train_is_said_before(tiny, shards, tmp_path, monkeypatch):
    broken = tmp_path / "broken.tar"
    broken.write_bytes(b"no tar")

    def refused(words: str, shards: list[Path] = shards, **settings: Any) -> None:
        with pytest.raises(UserError, match=words):
            train(tiny(**settings), shards, tmp_path / "towers")
        assert [*tmp_path.iterdir()] == [broken]

    refused(r"workers: 8 processes are to read 2 shards", workers=8)
    refused(r"batch_size: 33, but 64 pairs in 2 shards leave one of 2 readers 32", workers=2,
            batch_size=33)  # fmt: skip
    refused(r"batch_size: 65, .* leave one of 1 readers 64", batch_size=65)
    refused(r"warmup: 100 steps, but training has 16", warmup=100, batch_size=32)
    refused(r"no 'scenes-tiny'.*scenes-small", definition="scenes-tiny")
    refused(r"broken\.tar: cannot be read as a tar", [broken])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(r"cuda is not available", device="cuda")


def test_the_corpus_and_a_start_come_from_the_configuration(shards, tmp_path):
    content = {
        "studies": ["image_text"],
        "towers": "train",
        "corpus": "mine",
        "shards": str(shards[0].parent),
    }
    training = {"warmup": 1}
    dag = Dag(content | {"pretrain_towers": training}, "x")
    assert [Path(path) for path in dag.training.shards] == shards
    assert Path(*dag.training.definition).name == "scenes-small.json"
    assert dag.models.start == []
    assert dag.training.cores == 2
    dag = Dag(content | {"pretrain_towers": training | {"start": "shipped"}}, "x")
    assert Path(dag.models.start[0]).name == loading.CONFIG_NAME
    assert dag.training.definition == []
    assert "start" not in dag.flags("pretrain_towers")
    weights = tmp_path / "weights.pt"
    weights.touch()
    models = [{"name": "a", "recipe": "laclip-cc", "checkpoint": str(weights)}]
    dag = Dag(content | {"models": models, "pretrain_towers": training | {"start": "a"}}, "x")
    assert dag.models.start[0] == "results/checkpoints/a/open_clip_config.json"
    assert dag.models.checkpoint(SimpleNamespace(model="a")) == [str(weights)]
    definition = {"definition": "ViT-B-32"}
    assert Dag(content | {"pretrain_towers": definition}, "x").training.definition == []
    for settings, words in (
        ({"start": "b"}, "pretrain_towers.start: 'b' is neither one of .* nor the name of one of"),
        ({"workers": 3}, "3 processes are to read 2 shards"),
    ):
        with pytest.raises(UserError, match=words):
            Dag(content | {"pretrain_towers": settings}, "x")
    with pytest.raises(UserError, match="learns from the shards' own captions"):
        Dag(content | {"captions": str(weights)}, "x")
    scenes = {"make_scenes": {"shards": 1, "pairs_per_shard": 128}}
    dag = Dag({"studies": ["image_text"], "towers": "train", **scenes}, "x")
    with pytest.raises(UserError, match=r"warmup: 100 steps, but training has 12"):
        refuse_unusable(dag)


def test_an_architecture_of_open_clip_is_a_definition() -> None:
    found = pretraining.read_definition("ViT-B-32")
    assert found["model_cfg"] == open_clip.get_model_config("ViT-B-32")
    assert found["preprocess_cfg"]["interpolation"] == "bicubic"


def accuracy(towers: loading.Towers, name: str, images: int) -> float:
    """Return zero-shot accuracy with the templates of a set on freshly drawn pictures."""
    chosen = EVALUATION_SETS[name]
    classes = []
    for classname in chosen.classnames:
        prompts = [template.replace("{c}", classname) for template in chosen.templates]
        features = towers.text_features(towers.tokenizer(prompts)) @ towers.text_projection
        classes.append(F.normalize(F.normalize(features, dim=-1).mean(0), dim=-1))
    pictures, labels = zip(*labelled_pictures(name, images=images, size=64, seed=7), strict=True)
    batch = torch.stack([towers.preprocess(picture) for picture in pictures])
    embedded = towers.image_features(batch) @ towers.image_projection
    guesses = (embedded @ torch.stack(classes).T).argmax(dim=1)
    return float((guesses == torch.tensor(labels)).float().mean())


@pytest.mark.parametrize(("name", "least"), [
    ("scenes-shape", 0.75),
    ("scenes-colour", 0.92),
    ("scenes-digit", 0.93),
    ("handwritten-digits", 0.55),
])  # fmt: skip
@pytest.mark.parametrize("towers", SHIPPED)
def test_the_towers_that_come_with_mispair_know_the_scenes(towers, name, least):
    assert accuracy(loading.load_towers(SHIPPED[towers]), name, images=200) >= least


@pytest.mark.parametrize(("towers", "seed"), [("shipped", 0), ("shipped-1", 1)])
def test_the_recipe_beside_the_towers_is_that_of_the_default_step(towers, seed, tmp_path):
    shipped = SHIPPED[towers]
    recipe = json.loads((shipped / "training.json").read_text())
    # Settings that came later have defaults that change nothing, and so had those that are gone.
    gone = {"processes": 1, "nodes": 1, "train_num_samples": None, "grad_checkpointing": False}
    default = pretrain_towers.Settings(seed=seed).model_dump() | gone
    assert recipe["settings"].items() <= default.items()
    assert recipe["definition"] == pretraining.read_definition("scenes-small")
    pretraining.write_definition(tmp_path, recipe["definition"])
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (shipped / path.name).read_bytes()
    assert recipe["corpus"]["pairs"] == 20000
    assert recipe["corpus"]["fingerprint"].startswith("21ab6380")
    assert recipe["losses"][-1]["loss"] < recipe["losses"][0]["loss"]


def test_the_shipped_towers_are_different_models() -> None:
    prints = {loading.load_towers(folder).fingerprint for folder in SHIPPED.values()}
    assert len(prints) == len(SHIPPED)


def test_the_trainer_s_tokenizer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from open_clip_train import main as open_clip_trainer

    given: list[str] = []

    def tokenizer(texts: list[str], context_length: int | None = None) -> None:
        given.extend(texts)

    tokenizer.context_length = 77  # type: ignore[attr-defined]
    monkeypatch.setattr(open_clip_trainer, "get_tokenizer", lambda name: tokenizer)
    monkeypatch.setattr(
        open_clip_trainer, "main", lambda _: open_clip_trainer.get_tokenizer("any")("a" * 40_000)
    )
    trainer.train([], seed=0, epochs=1)
    assert [len(text) < 3_000 for text in given] == [True]
