"""The steps of the study of towers trained from scratch, by hand on a small corpus."""

import json
from collections.abc import Sequence
from functools import cache
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
from mispair.pairs.steps import corrupt_captions, gather_index, make_evaluation_set, make_scenes
from mispair.pretraining.data import WordTokenizer, pictures_of
from mispair.pretraining.measure import true_features
from mispair.pretraining.settings import BASES, IDENTIFIED, PROMPTS, TOWERS
from mispair.pretraining.steps import (
    decode_pictures,
    encode_small_towers,
    measure_mixing,
    train_small_towers,
)
from mispair.pretraining.towers import features_of_pictures, read_towers
from mispair.repair.captioners.vocabulary import tokenized, vocabulary_of
from mispair.repair.evidence import cosines
from mispair.towers.features import gather, parts_of_towers
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

    def train(self, towers: Path, scheme: str = "random", rate: float = 0, draw: int = 0) -> Path:
        return self.train_on(towers, *self.pairing(scheme, rate, draw), scheme, rate, draw)

    @cache  # noqa: B019 (one corpus)
    def trained(self, scheme: str = "random", rate: float = 0, draw: int = 0) -> Path:
        """Return towers that several tests look at."""
        folder = self.folder / f"trained~{scheme}~{rate:g}~{draw}"
        return self.train(folder / "towers.safetensors", scheme, rate, draw)

    def train_on(self, towers: Path, pairing: Path, written: Path, scheme: str = "random",
                 rate: float = 0.5, draw: int = 0) -> Path:  # fmt: skip
        train_small_towers.run(
            train_small_towers.Settings(**TINY), scheme=scheme, rate=rate, draw=draw,
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


def test_clean_towers_learn_from_the_pairs_own_captions(corpus: Corpus) -> None:
    towers = corpus.trained()
    _, held_out, about = read_towers(towers)
    table, _ = files.read_parquet(corpus.corpus)
    kept = np.setdiff1d(np.arange(PAIRS), held_out)
    assert len(held_out) == 100
    ids = identities_of(table["caption_id"].iloc[kept].tolist())
    texts = read_texts(corpus.index, ids)
    words = {word for text in texts.values() for word in text.lower().replace(":", "").split()}
    assert {word.strip(",.") for word in words} == set(json.loads(about["words"]))
    assert {row["scheme"] for row in read_metrics(mixing(corpus, towers))[0]} == {"clean"}
    with pytest.raises(UserError, match="principal components"):
        mixing(corpus, towers, components=9)


def identities_of(values: list[str]) -> np.ndarray:
    import pyarrow as pa

    return identities(pa.chunked_array([pa.array(values, pa.large_string())]))


def test_runs_of_one_seed_share_what_does_not_depend_on_captions(corpus: Corpus) -> None:
    paths = corpus.trained(), corpus.trained("spurious", 0.4), corpus.trained("spurious", 0.4, 1)
    arrays = [files.read_tensors(path)[0] for path in paths]
    assert np.array_equal(arrays[0]["held_out"], arrays[1]["held_out"])
    assert not np.array_equal(arrays[0]["held_out"], arrays[2]["held_out"])
    assert not np.array_equal(arrays[0]["losses"], arrays[1]["losses"])
    partners = [
        spurious_partners(int(files.read_tensors(path)[1]["corruption_seed"])) for path in paths
    ]
    assert partners[0] == partners[1] != partners[2]


def test_a_training_that_is_ended_goes_on_bit_for_bit(corpus, tmp_path, monkeypatch) -> None:
    whole = corpus.trained("spurious", 0.4)
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


def mixing(corpus: Corpus, towers: Path, sets: Sequence[Path] = (), components: int = 4) -> Path:
    found = towers.with_name("mixing.json")
    measure_mixing.run(
        measure_mixing.Settings(components=components), towers=towers, pictures=corpus.pictures,
        corpus=corpus.corpus, index=corpus.index, truth=corpus.truth, evaluation_sets=[*sets],
        mixing=found,
    )  # fmt: skip
    return found


def test_every_measure_of_a_training(corpus: Corpus, tmp_path: Path) -> None:
    towers = corpus.trained("spurious", 0.4, 1)
    folder = tmp_path / "scenes-shape-heldout"
    settings = make_evaluation_set.Settings(images=16)
    make_evaluation_set.run(settings, name=folder.name, evaluation_set=folder)
    sets = [folder / name for name in files_of_generated(folder.name)]
    rows, about = read_metrics(mixing(corpus, towers, sets))
    assert about["trained"]["corruption_seed"] == "1"
    assert {(row["scheme"], row["rate"], row["seed"]) for row in rows} == {("spurious", 0.4, 1)}
    scores = {(row["tower"], row["basis"]) for row in rows if row["metric"] == "mixing"}
    assert scores == {(t, b) for t in TOWERS for b in BASES} - {("text", PROMPTS)}
    assert {row["tower"] for row in rows if row["metric"] == "mean_abs_cosine"} == {*TOWERS}
    (accuracy,) = [row for row in rows if row["metric"] == "acc1"]
    assert accuracy["n"] == 16
    assert accuracy["chance"] == 1 / 8
    recovered = {row["basis"] for row in rows if row["metric"] == "recovery"}
    assert recovered == {IDENTIFIED, "linear"}


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


# Trainings on a part of the pairs, and small towers as cached features.


def test_dropped_pairs_are_not_trained_on_and_updates_stay_as_many(corpus: Corpus, tmp_path: Path):
    pairing, written = corpus.pairing("random", 0.5)
    table, origin = files.read_parquet(pairing)
    whole = corpus.trained(rate=0.5)
    arrays, metadata = files.read_tensors(whole)
    assert "repair" not in metadata
    trained = np.setdiff1d(np.arange(PAIRS), arrays["held_out"])
    dropped = trained[::2]
    kept = np.ones(PAIRS, bool)
    kept[dropped] = False
    paths = {}
    for name, ids in {
        "as they are": table["caption_id"],
        "exchanged": table["caption_id"].mask(~kept, table["caption_id"].iloc[trained[1]]),
    }.items():
        part = tmp_path / f"{name}.parquet"
        files.write_parquet(
            part, table.assign(caption_id=ids, kept=kept), {**origin, "repair": "drop"}
        )
        paths[name] = corpus.train_on(tmp_path / f"{name}.safetensors", part, written)
    one, other = (files.read_tensors(path) for path in paths.values())
    assert one[1]["repair"] == "drop"
    for name, values in one[0].items():
        assert np.array_equal(values, other[0][name]), name
    assert len(one[0]["losses"]) == len(arrays["losses"])
    assert not np.array_equal(one[0]["losses"], arrays["losses"])
    assert np.array_equal(one[0]["held_out"], arrays["held_out"])


def test_keeping_every_pair_is_keeping_them_all_and_too_few_are_refused(corpus, tmp_path) -> None:
    pairing, written = corpus.pairing("random", 0.5)
    table, origin = files.read_parquet(pairing)
    every, few = tmp_path / "every.parquet", tmp_path / "few.parquet"
    files.write_parquet(every, table.assign(kept=True), origin)
    files.write_parquet(few, table.assign(kept=np.arange(PAIRS) < 5), origin)
    kept = corpus.train_on(tmp_path / "towers.safetensors", every, written)
    assert kept.read_bytes() == corpus.trained(rate=0.5).read_bytes()
    with pytest.raises(UserError, match="fewer than a batch needs"):
        corpus.train_on(tmp_path / "none.safetensors", few, written)


def test_features_and_projections_are_those_of_the_towers(corpus: Corpus, tmp_path: Path) -> None:
    pairing, written = corpus.pairing("random", 0.5)
    towers = corpus.trained(rate=0.5)
    names = ("0000", "captions")
    features = [tmp_path / f"{name}.safetensors" for name in names]
    rows = [tmp_path / f"{name}.parquet" for name in names]
    projection = tmp_path / "projection.safetensors"
    encode_small_towers.run(
        encode_small_towers.Settings(), towers=towers, pictures=[corpus.pictures],
        corpus=[corpus.corpus], captions=[corpus.folder / "captions-0.parquet", written],
        image_features=features[:1], image_rows=rows[:1], text_features=features[1],
        text_rows=rows[1], projection=[projection],
    )  # fmt: skip
    table, _ = files.read_parquet(pairing)
    shuffled = table.sample(frac=1, random_state=0).reset_index(drop=True)
    tensors, about = files.read_tensors(projection)
    gathered = gather(parts_of_towers(features, rows, about["towers"]), shuffled)
    measured = cosines(gathered, tensors["image_projection"][0], tensors["text_projection"][0], 0)
    # The same cosines, by the towers themselves and pair by pair.
    model, _, metadata = read_towers(towers)
    images = features_of_pictures(model, pictures_of(corpus.pictures, metadata["pairs"]))
    place = {key: number for number, key in enumerate(table["key"])}
    assert np.allclose(gathered.image_features, images[[place[key] for key in shuffled["key"]]])
    products = (
        (gathered.image_features @ model.image_projection.numpy()),
        (gathered.text_features[gathered.text_rows[0]] @ model.text_projection.numpy()),
    )
    first, second = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in products)
    assert np.allclose(measured, (first * second).sum(axis=1), atol=1e-5)


def test_captions_alone_are_encoded_as_with_pictures(corpus: Corpus, tmp_path: Path) -> None:
    towers = corpus.trained(rate=0.5)
    captions = corpus.folder / "captions-0.parquet"
    encode_small_towers.run(
        encode_small_towers.Settings(), towers=towers, pictures=[], corpus=[],
        captions=[captions, captions], image_features=[], image_rows=[],
        text_features=tmp_path / "texts.safetensors", text_rows=tmp_path / "texts.parquet",
        projection=[],
    )  # fmt: skip
    table, _ = files.read_parquet(tmp_path / "texts.parquet")
    ids = files.read_parquet(captions)[0]["caption_id"]
    assert sorted(table["id"]) == sorted(set(ids))
    arrays, metadata = files.read_tensors(tmp_path / "texts.safetensors")
    assert arrays["text_features"].shape == (len(table), TINY["width"])
    assert metadata["precision"] == "fp32"


def test_words_are_tokens_from_which_a_captioner_spells_captions() -> None:
    texts = ["A red star, on the left.", "the blue 7", "a red plus sign"]
    tokenizer = WordTokenizer(
        ["7", "a", "blue", "left", "on", "plus", "red", "sign", "star", "the"]
    )
    tokens = tokenized(tokenizer, texts, 8)
    assert tokens.lengths.tolist() == [6, 3, 4]
    vocabulary, counted = vocabulary_of(tokenizer, tokens)
    spelled = vocabulary.texts(np.where(counted < vocabulary.start, counted, 0), tokens.lengths)
    assert spelled == ["a red star on the left", "the blue 7", "a red plus sign"]
    assert tokenized(tokenizer, ["red unknown star"], 8).lengths.tolist() == [2]
    assert tokenized(tokenizer, texts, 4).is_cut.tolist() == [True, False, True]
