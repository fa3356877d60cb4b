"""Captions that are drawn at each step, against one list and one draw for each pair."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mispair.core import files, seeds
from mispair.towers.features import CaptionChoices, PairedFeatures, gather, read_choices
from mispair.towers.finetuning import projection
from mispair.towers.finetuning.arm_inputs import fingerprints
from mispair.towers.finetuning.batches import PairRows, batch_order
from tests.towers.test_features import PAIRS, corpus, loaders
from tests.towers.test_projection import QUICK, _features, _model

LISTS = [["c1"], ["c0", "c2", "c8"], ["c2", "c0"], ["c8", "c1", "c8"], ["c0"]]
"""Captions of each pair of `PAIRS`, the first ones first."""
SOURCES = [[0, -1, 1, 3, 2], [4, 1, 1, -1, 0]]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    table = PAIRS[["key"]].assign(
        caption_id=[one[0] for one in LISTS], more_caption_ids=[one[1:] for one in LISTS]
    )
    files.write_parquet(tmp_path / "corpus.parquet", table)
    return tmp_path / "corpus.parquet"


@pytest.fixture
def drawn_twice() -> pd.DataFrame:
    return PAIRS.assign(
        caption_id_1=PAIRS["caption_id"], text_changed_1=False,
        caption_source=SOURCES[0], caption_source_1=SOURCES[1],
    )  # fmt: skip


def test_a_pair_may_have_the_captions_of_the_pair_that_its_caption_came_from(written, drawn_twice):
    chosen = [np.array([0, 1, 2, 4]), np.array([1, 2, 3, 4])]
    choices = read_choices(written, drawn_twice, chosen)
    assert choices is not None
    parts = corpus()
    found = gather(loaders(parts), drawn_twice, chosen, choices)
    alone = gather(loaders(parts), drawn_twice, chosen)
    np.testing.assert_array_equal(found.image_features, alone.image_features)
    np.testing.assert_array_equal(found.text_rows, alone.text_rows)
    rows = found.choices
    assert rows is not None
    features = {}
    for name in sorted(parts, reverse=True):
        texts = parts[name].rows.query("kind == 'text'")
        features |= {r.id: parts[name].text_features[r.row] for r in texts.itertuples()}
    for draw, pairs in enumerate(chosen):
        for number, pair in enumerate(pairs):
            source = SOURCES[draw][pair]
            expected = LISTS[source] if source >= 0 and len(LISTS[source]) > 1 else []
            start, count = choices.starts[draw, number], choices.counts[draw, number]
            assert choices.captions[start : start + count].tolist() == expected
            held = found.text_features[rows.captions[start : start + count]]
            assert np.array_equal(held, [features[one] for one in expected] or held)


def test_one_caption_each_is_no_choice(written: Path, drawn_twice: pd.DataFrame) -> None:
    every = [np.arange(5)]
    wrote = drawn_twice.assign(caption_source=-1)
    assert read_choices(written, wrote, every) is None
    table, _ = files.read_parquet(written)
    files.write_parquet(written, table.assign(more_caption_ids=[[] for _ in LISTS]))
    assert read_choices(written, drawn_twice, every) is None
    assert read_choices(written, PAIRS, every) is None


def test_a_pairing_of_other_pairs_is_refused(written: Path, drawn_twice: pd.DataFrame) -> None:
    for wrong in (drawn_twice.iloc[1:], drawn_twice.assign(key=[*"abcde"]), PAIRS):
        with pytest.raises(ValueError, match=r"does not have the pairs of .*corpus.parquet"):
            read_choices(written, wrong, [np.arange(4)])


# Draws -----------------------------------------------------------------------------------------


def _with_choices(
    features: PairedFeatures, draws: int
) -> tuple[PairedFeatures, list[list[np.ndarray]]]:
    """Give pairs up to five captions to choose from, another set in each draw; return the lists."""
    generator = np.random.default_rng(6)
    texts, n = len(features.text_features), features.pairs
    counts = generator.integers(0, 6, (draws, n))
    captions = generator.integers(0, texts, counts.sum())
    starts = np.where(counts > 0, np.cumsum(counts).reshape(counts.shape) - counts, 0)
    rows = np.stack([generator.permutation(features.text_rows[0]) for _ in range(draws)])
    lists = [
        [captions[s : s + c] if c else rows[d, [i]]
         for i, (s, c) in enumerate(zip(starts[d], counts[d], strict=True))]
        for d in range(draws)
    ]  # fmt: skip
    choices = CaptionChoices(captions, starts, counts)
    return replace(features, text_rows=rows, choices=choices), lists


def _drawn(lists: list[np.ndarray], seed: int, steps: int, batch: int):
    """Return the captions of a step, by one draw for each pair of it."""

    def captions(epoch: int, number: int, pairs: np.ndarray) -> np.ndarray:
        uniforms = seeds.generator(seed, "caption-draws", epoch).random((steps, batch))[number]
        drawn = [
            lists[pair][int(np.floor(uniform * len(lists[pair])))]
            for pair, uniform in zip(pairs, uniforms, strict=True)
        ]
        return np.array(drawn)

    return captions


def test_draws_are_uniform_over_the_captions_of_a_pair() -> None:
    captions = np.arange(12)
    starts, counts = np.array([[0, 2, 5, 0]]), np.array([[2, 3, 7, 0]])
    features = PairedFeatures(
        np.zeros((4, 2)), np.zeros((13, 2)), np.array([[0, 2, 5, 12]]),
        choices=CaptionChoices(captions, starts, counts),
    )  # fmt: skip
    rows, seen = PairRows(features, 2, "cpu"), np.zeros((2, 4, 13), int)
    last = np.full((2, 4), -1)
    stays = np.zeros((2, 4), int)
    for epoch in range(3000):
        for pairs, _, drawn in rows.batches(2, 2, [5, 8], epoch, slice(2)):
            for place, (pair, row) in enumerate(zip(pairs.tolist(), drawn.tolist(), strict=True)):
                seed = place // 2
                seen[seed, pair, row] += 1
                stays[seed, pair] += last[seed, pair] == row
                last[seed, pair] = row
    for seed in range(2):
        for pair, (start, count) in enumerate([(0, 2), (2, 3), (5, 7)]):
            of_pair = seen[seed, pair, start : start + count]
            assert of_pair.sum() == 3000
            assert stats.chisquare(of_pair).pvalue > 0.01
            # Each draw is independent of the one before.
            assert stats.binomtest(int(stays[seed, pair]), 2999, 1 / count).pvalue > 0.01
        assert seen[seed, 3, 12] == 3000
    assert (seen[0] != seen[1]).any()


@pytest.mark.parametrize("logit_scale", ["frozen", "solved"])
def test_one_epoch_is_that_of_a_pairing_with_the_captions_drawn(logit_scale: str) -> None:
    features, lists = _with_choices(_features(320), 2)
    keeps = np.random.default_rng(2).random((2, 320)) < 0.5
    features = replace(features, keeps_caption=keeps)
    rows = np.empty((2, 320), np.int64)
    for number, seed in enumerate([11, 5]):
        captions = _drawn(lists[number], seed, 10, 32)
        for step, pairs in enumerate(batch_order(320, 10, 32, [seed], 0)):
            rows[number, pairs] = captions(0, step, pairs)
    fixed = replace(features, text_rows=rows, choices=None)
    training = projection.FinetuningLength(
        **{**QUICK, "epochs": 1, "warmup_epochs": 0}, logit_scale=logit_scale
    )
    initial = projection.starting_point(_model(), [11, 5])
    one, other = (
        projection.finetune(each, initial, training, [11, 5]).tensors()
        for each in (features, fixed)
    )
    assert (rows != features.text_rows).mean() > 0.5
    for name in one:  # the cosine gap and the scale too
        np.testing.assert_array_equal(one[name], other[name])


def test_seeds_draw_alike_alone_and_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    features, _ = _with_choices(_features(), 3)
    training, names = projection.FinetuningLength(**QUICK, logit_scale="solved"), [3, 8, 1]
    initial = projection.starting_point(_model(), names)
    stacked = projection.finetune_in_portions(features, initial, training, names)
    monkeypatch.setattr(projection, "bytes_of_seed", lambda *sizes: 10**18)
    portions: list[str] = []
    alone = projection.finetune_in_portions(
        features, initial, training, names, keepers=portions.append
    )
    assert len(portions) == 3
    for name, values in stacked.tensors().items():
        np.testing.assert_allclose(alone.tensors()[name], values, rtol=1e-8, atol=1e-10)


def test_a_state_is_of_one_set_of_choices() -> None:
    features, _ = _with_choices(_features(), 2)
    initial, training = (
        projection.starting_point(_model(), [1, 2]),
        projection.FinetuningLength(**QUICK),
    )
    assert features.choices is not None
    choices = features.choices
    fewer, turned = np.minimum(choices.counts, 3), choices.captions[::-1]
    others = [
        replace(features, choices=other)
        for other in (None, replace(choices, counts=fewer), replace(choices, captions=turned))
    ]
    prints = {
        one for each in (features, *others) for one in fingerprints(each, initial, training, [1, 2])
    }
    assert len(prints) == 8
