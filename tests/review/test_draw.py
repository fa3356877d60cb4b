"""The sample: strata, how many of each, growth, order, and unbiased estimates."""

from itertools import pairwise

import numpy as np
import pytest

from mispair.review import draw
from mispair.review.measure import interval

KEYS = [f"{number:05d}" for number in range(3000)]
PROBABILITY = np.random.default_rng(0).beta(0.3, 2, len(KEYS))


def test_a_larger_sample_keeps_the_smaller_one_in_its_order() -> None:
    samples = [draw.draw(KEYS, PROBABILITY, size, 1)[0] for size in (40, 100, 101, 300, 3000)]
    for small, large in pairwise(samples):
        for stratum, of in small.groupby("stratum"):
            grown = large.loc[large["stratum"] == stratum, "key"]
            assert grown.tolist()[: len(of)] == of["key"].tolist()
    assert [len(sample) for sample in samples] == [40, 100, 101, 300, 3000]
    assert set(samples[-1]["key"]) == set(KEYS)
    assert (samples[-1]["share"] == 1).all()


def test_probabilities_of_the_draw_are_those_that_it_states() -> None:
    """Over seeds, each pair is drawn as often as `share` states, whatever its stratum."""
    times = np.zeros(len(KEYS))
    for seed in range(60):
        sample, counts = draw.draw(KEYS, PROBABILITY, 200, seed)
        times[sample["row"]] += 1
    of = draw.strata(PROBABILITY)
    stated = np.array([one["drawn"] / one["pairs"] for one in counts])
    assert np.bincount(of, times) / np.bincount(of) / 60 == pytest.approx(stated)
    expected = 60 * stated[of]
    spread = (times - expected) / np.sqrt(expected * (1 - stated[of]))
    assert spread.std() == pytest.approx(1, abs=0.08)
    assert sum(one["drawn"] for one in counts) == 200
    assert min(one["drawn"] for one in counts) >= draw.FLOOR
    assert sample["share"].to_numpy() == pytest.approx(stated[sample["stratum"]])


def test_no_label_is_biased_by_growing_or_stopping_early() -> None:
    """The mean estimate over seeds is the share, with 100 of 200 pairs labelled as with all."""
    wrong = np.random.default_rng(3).random(len(KEYS)) < 0.5 * PROBABILITY + 0.05
    found = []
    for seed in range(80):
        sample, counts = draw.draw(KEYS, PROBABILITY, 300, seed)
        pairs = [one["pairs"] for one in counts]
        for number in (100, 300):
            of = sample.iloc[:number]
            n = np.bincount(of["stratum"], minlength=len(pairs))
            y = np.bincount(of["stratum"], wrong[of["row"]], len(pairs))
            found.append(interval(pairs, n, y).estimate)
    means = np.reshape(found, (-1, 2))
    error = 3 * means.std(axis=0) / np.sqrt(len(means))
    assert (abs(means.mean(axis=0) - wrong.mean()) < error).all()


def test_without_a_model_the_draw_is_uniform() -> None:
    sample, counts = draw.draw(KEYS, np.full(len(KEYS), np.nan), 200, 0)
    assert counts == [{"pairs": 3000, "drawn": 200}]
    assert sample["probability"].isna().all()
    assert sample["order"].tolist() == [*range(200)]


def test_each_stratum_is_shown_early_and_in_no_order_of_probability() -> None:
    sample, counts = draw.draw(KEYS, PROBABILITY, 200, 0)
    number = len(counts)
    assert set(sample["stratum"][:number]) == set(range(number))
    assert abs(np.corrcoef(sample["order"], sample["probability"])[0, 1]) < 0.2
    half = sample.iloc[:100].groupby("stratum").size() / sample.groupby("stratum").size()
    assert half.between(0.3, 0.8).all()


def test_strata_cut_where_the_model_is_unsure() -> None:
    of = draw.strata(PROBABILITY)
    assert len(np.unique(of)) == draw.STRATA
    assert (np.diff(of[np.argsort(PROBABILITY)]) >= 0).all()
    same = draw.strata(np.zeros(50))
    assert np.bincount(same).max() <= 5


@pytest.mark.parametrize("size", [1, 9, 40, 200, 10_000])
def test_places_are_all_given_and_none_beyond_a_stratum(size: int) -> None:
    pairs = np.array([5000, 3, 40, 400])
    drawn = draw.allocation(pairs, np.array([0.02, 0.5, 0.4, 0.1]), size)
    assert drawn.sum() == min(size, pairs.sum())
    assert (drawn <= pairs).all()
    if size >= 40:
        assert (drawn >= np.minimum(pairs, draw.FLOOR)).all()
