"""Small towers as cached features, trainings on a part of the pairs, and words as tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mispair.core import files
from mispair.core.files import UserError
from mispair.pretraining.data import WordTokenizer, pictures_of
from mispair.pretraining.steps import encode_small_towers, train_small_towers
from mispair.pretraining.towers import features_of_pictures, read_towers
from mispair.repair.captioners.vocabulary import tokenized, vocabulary_of
from mispair.repair.evidence import cosines
from mispair.towers.features import gather, parts_of_towers
from tests.pretraining.test_steps_pretraining import PAIRS, TINY, Corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("corpus"))


def train(corpus: Corpus, pairing: Path, written: Path, towers: Path) -> Path:
    train_small_towers.run(
        train_small_towers.Settings(**TINY), scheme="random", rate=0.5, draw=0,
        pictures=corpus.pictures, index=corpus.index, pairing=pairing, captions=[written],
        checkpoint=towers.with_suffix(".checkpoint"), towers=towers,
    )  # fmt: skip
    return towers


def test_dropped_pairs_are_not_trained_on_and_updates_stay_as_many(
    corpus: Corpus, tmp_path: Path
) -> None:
    pairing, written = corpus.pairing("random", 0.5)
    table, origin = files.read_parquet(pairing)
    whole = train(corpus, pairing, written, tmp_path / "whole.safetensors")
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
        paths[name] = train(corpus, part, written, tmp_path / f"{name}.safetensors")
    one, other = (files.read_tensors(path) for path in paths.values())
    assert one[1]["repair"] == "drop"
    for name, values in one[0].items():
        assert np.array_equal(values, other[0][name]), name
    assert len(one[0]["losses"]) == len(arrays["losses"])
    assert not np.array_equal(one[0]["losses"], arrays["losses"])
    assert np.array_equal(one[0]["held_out"], arrays["held_out"])


def test_keeping_every_pair_is_keeping_them_all(corpus: Corpus, tmp_path: Path) -> None:
    pairing, written = corpus.pairing("random", 0.5)
    table, origin = files.read_parquet(pairing)
    every = tmp_path / "every.parquet"
    files.write_parquet(every, table.assign(kept=True), origin)
    paths = [train(corpus, path, written, tmp_path / f"{number}.safetensors")
             for number, path in enumerate((pairing, every))]  # fmt: skip
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_too_few_kept_pairs_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    pairing, written = corpus.pairing("random", 0.5)
    table, origin = files.read_parquet(pairing)
    few = tmp_path / "few.parquet"
    files.write_parquet(few, table.assign(kept=np.arange(PAIRS) < 5), origin)
    with pytest.raises(UserError, match="fewer than a batch needs"):
        train(corpus, few, written, tmp_path / "towers.safetensors")


def test_features_and_projections_are_those_of_the_towers(corpus: Corpus, tmp_path: Path) -> None:
    pairing, written = corpus.pairing("random", 0.5)
    towers = train(corpus, pairing, written, tmp_path / "towers.safetensors")
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
    pairing, written = corpus.pairing("random", 0.5)
    towers = train(corpus, pairing, written, tmp_path / "towers.safetensors")
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
