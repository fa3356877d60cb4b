"""The steps of the study of towers trained from scratch, by hand on a small corpus."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mispair.core import files
from mispair.core import resume as checkpoints
from mispair.core.files import UserError
from mispair.core.metrics import read_metrics
from mispair.pairs.captions.caption_texts import read_texts
from mispair.pairs.index.identities import identities
from mispair.pairs.scenes.evaluation_sets import files_of_generated
from mispair.pairs.scenes.scene_captions import FEATURES, spurious_partners
from mispair.pairs.steps import (
    corrupt_captions,
    gather_index,
    make_evaluation_set,
    make_scenes,
)
from mispair.pretraining.measure import true_features
from mispair.pretraining.settings import BASES, IDENTIFIED, PROMPTS, TOWERS
from mispair.pretraining.steps import decode_pictures, measure_mixing, train_small_towers
from mispair.pretraining.towers import read_towers
from tests.pairs.indexing import list_and_index

TINY = {"held_out": 100, "epochs": 2, "batch_size": 20, "channels": 3, "width": 16, "embedding": 8}
PAIRS = 160


class Corpus:
    """A generated corpus up to its pairings and pictures."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        settings = make_scenes.Settings(shards=2, pairs_per_shard=PAIRS // 2, processes=1)
        make_scenes.run(settings, corpus=folder / "shards")
        self.shards = sorted((folder / "shards").glob("*.tar"))
        self.truth = [path.with_suffix(".parquet") for path in self.shards]
        index, rejected = list_and_index(self.shards, folder)
        self.index = [index]
        self.corpus = folder / "corpus.parquet"
        gather_index.run(
            gather_index.Settings(), index=self.index, rejected=[rejected],
            caption_table=[],
            corpus=self.corpus, captions=[folder / "captions-0.parquet"],
            excluded=folder / "excluded.parquet", statistics=folder / "statistics.json",
        )  # fmt: skip
        self.pictures = folder / "pictures.safetensors"
        decode_pictures.run(
            decode_pictures.Settings(side=28), corpus=self.corpus, index=self.index,
            shards=self.shards, pictures=self.pictures,
        )  # fmt: skip

    def pairing(self, scheme: str, rate: float, seed: int = 0) -> tuple[Path, Path]:
        folder = self.folder / f"{scheme}~{rate:g}~{seed}"
        pairing, written = folder / "pairing.parquet", folder / "captions.parquet"
        corrupt_captions.run(
            corrupt_captions.Settings(seed=seed), scheme=scheme, rate=rate, draws=1,
            corpus=self.corpus, index=self.index, similar=[],
            truth=self.truth if rate else [], pairing=pairing, captions=written,
        )  # fmt: skip
        return pairing, written

    def train(self, towers: Path, scheme: str = "random", rate: float = 0, draw: int = 0,
              **more: int) -> Path:  # fmt: skip
        pairing, written = self.pairing(scheme, rate, draw)
        train_small_towers.run(
            train_small_towers.Settings(**{**TINY, **more}), scheme=scheme, rate=rate, draw=draw,
            pictures=self.pictures, index=self.index, pairing=pairing, captions=[written],
            checkpoint=towers.with_name(f"{towers.stem}.checkpoint"), towers=towers,
        )  # fmt: skip
        return towers


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("corpus"))


def test_pictures_are_in_the_order_of_the_corpus(corpus: Corpus) -> None:
    arrays, _ = files.read_tensors(corpus.pictures)
    table, _ = files.read_parquet(corpus.corpus)
    assert arrays["pictures"].shape == (PAIRS, 28, 28, 3)
    # The ground of a picture tells its true background: black is dark, white is light.
    codes = true_features(table["key"].tolist(), corpus.truth)
    corner = arrays["pictures"][:, 0, 0].mean(axis=1)
    plain = {name: codes[:, FEATURES.index(f"background:{name}")] for name in ("black", "white")}
    bare = ~codes[:, [FEATURES.index("frame:framed"), FEATURES.index("shadow:shadowed")]].any(
        axis=1
    )
    assert corner[plain["black"] & bare].max() < corner[plain["white"] & bare].min()


def test_clean_towers_learn_from_the_pairs_own_captions(corpus: Corpus, tmp_path: Path) -> None:
    _, held_out, about = read_towers(corpus.train(tmp_path / "towers.safetensors"))
    table, _ = files.read_parquet(corpus.corpus)
    kept = np.setdiff1d(np.arange(PAIRS), held_out)
    assert len(held_out) == 100
    ids = identities_of(table["caption_id"].iloc[kept].tolist())
    texts = read_texts(corpus.index, ids)
    words = {word for text in texts.values() for word in text.lower().replace(":", "").split()}
    assert {word.strip(",.") for word in words} == set(json.loads(about["words"]))


def identities_of(values: list[str]) -> np.ndarray:
    import pyarrow as pa

    return identities(pa.chunked_array([pa.array(values, pa.large_string())]))


def test_runs_of_one_seed_share_what_does_not_depend_on_captions(
    corpus: Corpus, tmp_path: Path
) -> None:
    first = corpus.train(tmp_path / "a.safetensors")
    second = corpus.train(tmp_path / "b.safetensors", "missing", 0.4)
    third = corpus.train(tmp_path / "c.safetensors", draw=1)
    arrays = [files.read_tensors(path)[0] for path in (first, second, third)]
    assert np.array_equal(arrays[0]["held_out"], arrays[1]["held_out"])
    assert not np.array_equal(arrays[0]["held_out"], arrays[2]["held_out"])
    assert not np.array_equal(arrays[0]["losses"], arrays[1]["losses"])
    partners = [
        spurious_partners(int(files.read_tensors(path)[1]["corruption_seed"]))
        for path in (first, second, third)
    ]
    assert partners[0] == partners[1] != partners[2]


def test_a_training_that_is_ended_goes_on_bit_for_bit(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = corpus.train(tmp_path / "whole.safetensors", "spurious", 0.4)
    asked: list[int] = []

    def due(self: checkpoints.ArrayKeeper) -> bool:
        asked.append(1)
        self.ending = lambda: len(asked) == 3
        return self.ending()

    path = tmp_path / "resumed.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.ArrayKeeper, "due", due)
        with pytest.raises(checkpoints.Interrupted, match="goes on from there"):
            corpus.train(path, "spurious", 0.4)
    assert not path.exists()
    assert list((tmp_path / "resumed.checkpoint").glob("*.safetensors"))
    corpus.train(path, "spurious", 0.4)
    assert path.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "resumed.checkpoint").exists()


def test_every_measure_of_a_training(corpus: Corpus, tmp_path: Path) -> None:
    towers = corpus.train(tmp_path / "towers.safetensors", "spurious", 0.4, 1)
    folder = tmp_path / "scenes-shape-heldout"
    settings = make_evaluation_set.Settings(images=16)
    make_evaluation_set.run(settings, name=folder.name, evaluation_set=folder)
    found = tmp_path / "mixing.json"
    measure_mixing.run(
        measure_mixing.Settings(components=4, rotations=2), towers=towers,
        pictures=corpus.pictures, corpus=corpus.corpus, index=corpus.index, truth=corpus.truth,
        evaluation_sets=[folder / name for name in files_of_generated(folder.name)], mixing=found,
    )  # fmt: skip
    rows, about = read_metrics(found)
    assert about["trained"]["corruption_seed"] == "1"
    assert {(row["scheme"], row["rate"], row["seed"]) for row in rows} == {("spurious", 0.4, 1)}
    scores = {(row["tower"], row["basis"]) for row in rows if row["metric"] == "mixing"}
    assert scores == {(t, b) for t in TOWERS for b in BASES} - {("text", PROMPTS)}
    assert {row["tower"] for row in rows if row["metric"] == "mean_abs_cosine"} == {*TOWERS}
    (accuracy,) = [row for row in rows if row["metric"] == "acc1"]
    assert accuracy["n"] == 16
    assert accuracy["chance"] == 1 / 8
    assert {row["basis"] for row in rows if row["metric"] == "recovery"} == {
        IDENTIFIED, f"{IDENTIFIED}-null", "linear"
    }  # fmt: skip


def test_towers_on_captions_as_they_are_are_called_clean(corpus: Corpus, tmp_path: Path) -> None:
    towers, found = corpus.train(tmp_path / "towers.safetensors"), tmp_path / "mixing.json"
    measure_mixing.run(
        measure_mixing.Settings(components=4, rotations=1), towers=towers,
        pictures=corpus.pictures, corpus=corpus.corpus, index=corpus.index, truth=corpus.truth,
        evaluation_sets=[], mixing=found,
    )  # fmt: skip
    assert {row["scheme"] for row in read_metrics(found)[0]} == {"clean"}


def test_pictures_of_other_pairs_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    arrays, about = files.read_tensors(corpus.pictures)
    other = tmp_path / "pictures.safetensors"
    files.write_tensors(other, arrays, about | {"pairs": "0" * 16})
    pairing, written = corpus.pairing("random", 0)
    with pytest.raises(UserError, match="other pairs"):
        train_small_towers.run(
            train_small_towers.Settings(**TINY), scheme="random", rate=0, draw=0, pictures=other,
            index=corpus.index, pairing=pairing, captions=[written],
            checkpoint=tmp_path / "state", towers=tmp_path / "towers.safetensors",
        )  # fmt: skip


def test_more_components_than_neurons_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    towers = corpus.train(tmp_path / "towers.safetensors")
    with pytest.raises(UserError, match="principal components"):
        measure_mixing.run(
            measure_mixing.Settings(components=9, rotations=1), towers=towers,
            pictures=corpus.pictures, corpus=corpus.corpus, index=corpus.index,
            truth=corpus.truth, evaluation_sets=[], mixing=tmp_path / "mixing.json",
        )  # fmt: skip
