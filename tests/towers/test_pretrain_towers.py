"""Tests of pre-training with open_clip's trainer, and of the towers that come with mispair."""

from __future__ import annotations

import gzip
import json
import logging
import random
import shutil
from pathlib import Path

import open_clip
import pytest
import torch
import torch.nn.functional as F

from mispair.core import files
from mispair.pairs.scenes.evaluation_sets import EVALUATION_SETS, labelled_pictures
from mispair.pairs.steps import make_scenes
from mispair.towers import loading
from mispair.towers.dag import SHIPPED
from mispair.towers.pretraining import pretraining, trainer
from mispair.towers.steps import pretrain_towers


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("corpus") / "shards"
    settings = make_scenes.Settings(shards=2, pairs_per_shard=32, processes=1)
    make_scenes.run(settings, corpus=folder)
    return sorted(folder.glob("*.tar"))


# webdataset leaves its tar streams to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_training_writes_towers_that_plain_open_clip_loads(
    shards: list[Path], tmp_path: Path
) -> None:
    settings = pretrain_towers.Settings(
        epochs=1, batch_size=32, warmup=1, threads=1, workers=0, lr=1e-3
    )
    handlers = list(logging.getLogger().handlers)
    weights = []
    for name in ("one", "two"):
        pretrain_towers.run(settings, shards=shards[::-1], start=[], towers=tmp_path / name)
        weights.append((tmp_path / name / loading.WEIGHTS_NAME).read_bytes())
    assert weights[0] == weights[1]
    assert logging.getLogger().handlers == handlers

    folder = tmp_path / "one"
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


def test_the_corpus_fingerprint_follows_names_and_contents(
    shards: list[Path], tmp_path: Path
) -> None:
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


def test_what_a_user_can_get_wrong_is_named(shards: list[Path], tmp_path: Path) -> None:
    run, settings = pretrain_towers.run, pretrain_towers.Settings
    with pytest.raises(files.UserError, match=r"no 'scenes-tiny'.*scenes-small"):
        run(
            settings(definition="scenes-tiny", warmup=0),
            shards=shards,
            start=[],
            towers=tmp_path / "t",
        )
    with pytest.raises(files.UserError, match=r"warmup: 100 steps, but training has 2"):
        chosen = settings(epochs=2, batch_size=64, warmup=100)
        run(chosen, shards=shards, start=[], towers=tmp_path / "t")
    broken = tmp_path / "broken.tar"
    broken.write_bytes(b"no tar")
    with pytest.raises(files.UserError, match=r"broken\.tar: cannot be read as a tar"):
        run(settings(), shards=[broken], start=[], towers=tmp_path / "t")
    assert not (tmp_path / "t").exists()


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


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("scenes-shape", 0.75),
        ("scenes-colour", 0.92),
        ("scenes-digit", 0.93),
        ("handwritten-digits", 0.55),
    ],
)
@pytest.mark.parametrize("towers", SHIPPED)
def test_the_towers_that_come_with_mispair_know_the_scenes(
    towers: str, name: str, least: float
) -> None:
    assert accuracy(loading.load_towers(SHIPPED[towers]), name, images=200) >= least


@pytest.mark.parametrize(("towers", "seed"), [("shipped", 0), ("shipped-1", 1)])
def test_the_recipe_beside_the_towers_is_that_of_the_default_step(
    towers: str, seed: int, tmp_path: Path
) -> None:
    shipped = SHIPPED[towers]
    recipe = json.loads((shipped / "training.json").read_text())
    # Settings that came later have defaults that change nothing; two that are gone were 1.
    default = pretrain_towers.Settings(seed=seed).model_dump() | {"processes": 1, "nodes": 1}
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


def test_the_trainer_s_tokenizer_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from open_clip_train import main as open_clip_trainer

    given: list[str] = []

    def tokenizer(texts: list[str], context_length: int | None = None) -> None:
        given.extend(texts)

    tokenizer.context_length = 77  # type: ignore[attr-defined]
    monkeypatch.setattr(open_clip_trainer, "get_tokenizer", lambda name: tokenizer)
    monkeypatch.setattr(
        open_clip_trainer, "main", lambda _: open_clip_trainer.get_tokenizer("any")("a" * 40_000)
    )
    trainer.train([], tmp_path, seed=0)
    assert [len(text) < 3_000 for text in given] == [True]
