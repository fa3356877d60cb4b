"""Repaired pairings: trusted pairs spared, captions replaced, and what a fine-tuning then takes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from mispair.core import files
from mispair.repair import pairings
from mispair.repair.evidence import PairsBefore, RuleFiles, cosines, wins
from mispair.repair.ledger import examples
from mispair.repair.rules import DROPPED, KEPT, REPLACED
from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning import projection
from mispair.towers.finetuning.batches import fewest_kept
from mispair.towers.finetuning.finetuning_settings import FinetuningLength


@pytest.fixture
def pairing() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "key": list("abcd"),
            "caption_id": ["A", "C", "B", "D"], "swapped": [False, True, True, False],
            "text_changed": [False, True, True, False],
            "caption_id_1": ["B", "A", "C", "D"], "swapped_1": [True, True, False, False],
            "text_changed_1": [True, True, False, False],
        }
    )  # fmt: skip


OWN = pd.Series(list("ABCD"))


def test_trusted_pairs_have_their_own_captions_in_every_draw(pairing: pd.DataFrame) -> None:
    trusted = np.array([True, True, False, False])
    first, second = (pairings.spared(pairing, OWN, trusted, draw) for draw in (0, 1))
    assert first.caption_ids.tolist() == ["A", "B", "B", "D"]
    assert second.caption_ids.tolist() == ["A", "B", "C", "D"]
    assert first.swapped.tolist() == [False, False, True, False]
    assert first.right.tolist() == [True, True, False, True]
    assert second.right.all()


def test_replaced_captions_are_no_one_elses(pairing: pd.DataFrame) -> None:
    before = pairings.spared(pairing, OWN, np.zeros(4, bool), 0)
    actions = np.array([KEPT, REPLACED, DROPPED, REPLACED])
    columns = pairings.repaired(before, actions, np.array(["x", "y", None, "z"], object))
    assert columns["caption_id"].tolist() == ["A", "y", "B", "z"]
    assert columns["swapped"].tolist() == [False, False, True, False]
    assert columns["text_changed"].tolist() == [False, True, True, True]
    assert columns["kept"].tolist() == [True, True, False, True]


def test_replaced_captions_come_from_no_pair(pairing: pd.DataFrame) -> None:
    sources = pairing.assign(caption_source=[0, 2, 1, 3], caption_source_1=[1, 0, 2, 3])
    trusted = np.array([True, False, False, True])
    befores = [pairings.spared(sources, OWN, trusted, draw) for draw in (0, 1)]
    columns = [
        pairings.repaired(before, np.array([KEPT, REPLACED, DROPPED, KEPT]), np.array([*"wxyz"]))
        for before in befores
    ]
    assert columns[0]["caption_source"].tolist() == [0, -1, 1, 3]
    assert columns[1]["caption_source"].tolist() == [0, -1, 2, 3]
    before = pairings.spared(pairing, OWN, trusted, 0)
    assert "caption_source" not in pairings.repaired(before, np.zeros(4, int), np.array([*"wxyz"]))


def test_rows_follow_the_keys_and_a_missing_one_is_named(tmp_path) -> None:
    table = pd.DataFrame({"key": ["b", "a"], "value": [2, 1]})
    ordered = pairings.aligned(table, pd.Series(["a", "b"]), tmp_path)
    assert ordered["value"].tolist() == [1, 2]
    with pytest.raises(files.UserError, match="'c'"):
        pairings.aligned(table, pd.Series(["a", "c"]), tmp_path)


def test_texts_are_looked_up_in_all_tables(tmp_path) -> None:
    paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for path, ids in zip(paths, (["A", "B"], ["B", "C"]), strict=True):
        files.write_parquet(path, pd.DataFrame({"caption_id": ids, "caption": ids}))
    assert pairings.texts_of(paths, pd.Series(["C", "A"])).tolist() == ["C", "A"]
    with pytest.raises(files.UserError, match="D"):
        pairings.texts_of(paths, pd.Series(["D"]))


def _features(n: int, crops: int = 1) -> PairedFeatures:
    draw = np.random.default_rng(0)
    rows = draw.integers(0, 40, (2, n))
    return PairedFeatures(
        draw.standard_normal((n * crops, 12)).astype(np.float32),
        draw.standard_normal((40, 10)).astype(np.float32), rows, crops,
    )  # fmt: skip


@pytest.mark.parametrize("crops", [1, 3])
def test_cosines_are_those_of_single_pairs(crops: int) -> None:
    features = _features(30, crops)
    draw = np.random.default_rng(1)
    image, text = draw.standard_normal((12, 8)), draw.standard_normal((10, 8))
    measured = cosines(features, image, text, 1)
    for pair in range(30):
        u = features.image_features[pair * crops].astype(float) @ image
        v = features.text_features[features.text_rows[1, pair]].astype(float) @ text
        assert measured[pair] == pytest.approx(u @ v / np.sqrt((u @ u) * (v @ v)), abs=1e-5)


@pytest.mark.parametrize(("noise", "least", "most"), [(0.3, 0.9, 1.0), (1e3, 0.4, 0.6)])
def test_wins_over_captions_of_other_pairs(noise: float, least: float, most: float) -> None:
    draw = np.random.default_rng(3)
    images = draw.standard_normal((400, 12)).astype(np.float32)
    texts = (images + noise * draw.standard_normal(images.shape)).astype(np.float32)
    features = PairedFeatures(images, texts, np.arange(400)[None])
    identity = np.eye(12, dtype=np.float32)
    value, error = wins(features, identity, identity, 0, np.arange(0, 400, 2), draw)
    assert least < value <= most
    assert error < 0.05
    assert np.isnan(wins(features, identity, identity, 0, np.arange(19), draw)[0])
    # One caption for all pairs wins nothing and loses nothing.
    same = replace(features, text_rows=np.zeros((1, 400), int))
    assert wins(same, identity, identity, 0, np.arange(400), draw)[0] == 0.5


@pytest.mark.parametrize(
    ("wins_of", "weak"),
    [((0.95, 0.9), []), ((0.52, 0.9), ["scorer"]), ((0.59, 0.5), ["scorer", "captioner"]),
     ((np.nan, 0.9), [])],
)  # fmt: skip
def test_the_ledger_states_which_model_is_no_better_than_chance(tmp_path, wins_of, weak) -> None:
    measured = np.array([[[value, 0.004] for value in wins_of]] * 2)
    files.write_tensors(tmp_path / "scores", {"wins": measured}, {})
    power = RuleFiles([], [tmp_path / "scores"], []).power()
    assert power["no_better_than_chance"] == weak
    assert power["scorer_wins"] == (None if np.isnan(wins_of[0]) else pytest.approx(wins_of[0]))
    assert RuleFiles([], [], []).power() == {}


def test_examples_are_a_random_dozen_the_best_and_the_worst_by_the_scorer(tmp_path) -> None:
    number = 40
    keys = pd.Series([f"k{row}" for row in range(number)])
    old, new = keys.str.replace("k", "old"), keys.str.replace("k", "new")
    drawn = pd.DataFrame({"key": keys, "caption_id": old, "swapped": False, "text_changed": False})
    pairs = PairsBefore(drawn, {}, old, np.zeros(number, bool), None)
    replaced = np.arange(number) < 30
    table = pd.DataFrame({"key": keys, "caption_id": np.where(replaced, new, old), "kept": True})
    texts, made, scores = (tmp_path / name for name in ("texts", "made", "scores"))
    words = pd.concat([old, new], ignore_index=True)
    files.write_parquet(texts, pd.DataFrame({"caption_id": words, "caption": words + "<b>"}))
    files.write_parquet(made, pd.DataFrame({"key": keys, "caption_id": new, "reason": None}))
    gain = np.random.default_rng(0).permutation(number).astype(np.float32)[None]
    gain[0, 3] = np.nan
    files.write_tensors(scores, {"old": np.ones_like(gain), "new": 1 + gain}, {})
    shown = examples(table, pairs, RuleFiles([made], [scores], []), [texts])
    of = {name: [int(one["key"][1:]) for one in shown if one["sample"] == name]
          for name in ("random", "best", "worst")}  # fmt: skip
    order = sorted((row for row in range(30) if row != 3), key=lambda row: -gain[0, row])
    assert (of["best"], of["worst"]) == (order[:6], order[:-7:-1])
    assert len(of["random"]) == len(set(of["random"])) == 12
    assert max(of["random"]) < 30
    for one in shown:
        row = one["key"][1:]
        assert (one["old"], one["new"]) == (f"old{row}<b>", f"new{row}<b>")
    without = examples(table, pairs, RuleFiles([made], [], []), [texts])
    assert without == [one for one in shown if one["sample"] == "random"]


def test_runs_keep_as_many_pairs_as_the_one_with_the_fewest() -> None:
    chosen = [np.arange(0, 80), np.arange(20, 100)]
    kept = [np.arange(100) % 2 == 0, np.arange(100) % 3 == 0]
    first, second = fewest_kept(chosen, kept, 0)
    assert len(first) == len(second) == len([row for row in range(20, 100) if row % 3 == 0])
    assert (np.diff(first) > 0).all()
    assert set(first.tolist()) <= set(range(0, 80, 2))
    assert second.tolist() == list(range(21, 100, 3))
    with pytest.raises(ValueError, match="none of the pairs"):
        fewest_kept(chosen, [kept[0], np.zeros(100, bool)], 0)


def _tuned(features: PairedFeatures, training: FinetuningLength, scheduled: int | None = None):
    draw = np.random.default_rng(2)
    initial = projection.Projections(
        np.repeat(draw.standard_normal((1, 12, 6)), 2, axis=0).astype(np.float32),
        np.repeat(draw.standard_normal((1, 10, 6)), 2, axis=0).astype(np.float32),
        np.full(2, 2.0, np.float32),
    )
    return projection.finetune_in_portions(
        features, initial, training, [0, 1], scheduled_pairs=scheduled
    )


@pytest.mark.parametrize("scale", ["frozen", "solved"])
def test_fewer_pairs_have_as_many_updates_and_the_same_schedule(scale: str) -> None:
    training = FinetuningLength(epochs=3, batch_size=16, warmup_epochs=1, logit_scale=scale)
    whole = _features(160)
    some = replace(
        whole, image_features=whole.image_features[:40], text_rows=whole.text_rows[:, :40]
    )
    tuned = _tuned(some, training, scheduled=160)
    assert tuned.loss.shape == _tuned(whole, training).loss.shape == (2, 30)
    # 40 pairs make two batches an epoch, so 30 updates are 15 epochs.
    longer = replace(training, epochs=15, warmup_epochs=5)
    rates = projection.learning_rates(longer, 2), projection.learning_rates(training, 10)
    assert np.allclose(*rates)
    assert np.array_equal(tuned.projections.image, _tuned(some, longer).projections.image)
    # A schedule that ends within an epoch.
    assert _tuned(some, replace(training, epochs=4), scheduled=63).loss.shape == (2, 12)
