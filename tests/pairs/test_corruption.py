"""Swaps of captions: exact shares, no fixed points, no equal texts, no dependence on order."""

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mispair.pairs.corruption.corruption import choose_pairs, draw_neighbours, shuffle_captions
from mispair.pairs.corruption.draws import streams, uniforms


def _keys(n):
    return np.array([f"{number:06d}" for number in range(n)], dtype=object)


def _draw(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 0.5, 0.8, 1.0, 0.123])
def test_shuffle_permutes_exactly_the_nominal_share_without_fixed_points(rate):
    n = 1001
    source = shuffle_captions(_keys(n), rate, _draw())
    moved = source != np.arange(n)
    assert moved.sum() == round(rate * n)
    # A permutation: every caption is used once, and those left alone keep theirs.
    assert sorted(source) == list(range(n))
    assert sorted(source[moved]) == list(np.flatnonzero(moved))


def test_pairs_chosen_are_those_that_a_shuffle_swaps():
    chosen = choose_pairs(_keys(400), 0.3, _draw())
    source = shuffle_captions(_keys(400), 0.3, _draw())
    assert sorted(chosen) == np.flatnonzero(source != np.arange(400)).tolist()
    assert len(choose_pairs(_keys(10), 0.1, _draw())) == 1


def test_every_derangement_is_equally_likely():
    # Four items have nine derangements, of which six are 4-cycles: rotating a random order, say,
    # would never give the other three.
    draw = _draw(1)
    seen = pd.Series([tuple(shuffle_captions(_keys(4), 1.0, draw)) for _ in range(4500)])
    counts = seen.value_counts()
    assert len(counts) == 9
    assert ((counts - 500).abs() < 5 * np.sqrt(500)).all()


def test_a_single_caption_cannot_be_swapped():
    with pytest.raises(ValueError, match=r"rate 0\.1 of 10 pairs is one pair.*at least 0\.2"):
        shuffle_captions(_keys(10), 0.1, _draw())


def test_a_repeated_key_is_refused():
    with pytest.raises(ValueError, match="'b' occurs twice"):
        shuffle_captions(np.array(["b", "a", "b"], dtype=object), 0.0, _draw())


def _shuffled(texts, rate, seed=0):
    texts = np.asarray(texts)
    source = shuffle_captions(_keys(len(texts)), rate, _draw(seed), texts)
    moved = source != np.arange(len(texts))
    # Whatever is exchanged: still the same pairs, still a permutation, still no fixed point.
    assert moved.sum() == round(rate * len(texts))
    assert sorted(source[moved]) == list(np.flatnonzero(moved))
    return texts[source] != texts, moved


def _one_caption_shared(n):
    return np.where(np.arange(n) < n // 5, 0, np.arange(n))


def _twins(n):
    return np.where(np.arange(n) < n // 5, np.arange(n) % (n // 10), np.arange(n))


def _hundred_captions_shared(n):
    return np.where(np.arange(n) < n // 5, np.arange(n) % 100, np.arange(n))


@pytest.mark.parametrize("form", [_one_caption_shared, _twins, _hundred_captions_shared])
@pytest.mark.parametrize("rate", [0.002, 0.1, 0.3, 0.8, 1.0])
def test_with_a_fifth_of_duplicates_the_text_changes_at_the_nominal_share(form, rate):
    texts = _draw(7).permutation(form(5000))
    changed, moved = _shuffled(texts, rate)
    assert changed.sum() == moved.sum() == round(rate * 5000)


@pytest.mark.parametrize("copies", [2, 3, 50, 500])
def test_texts_change_even_when_every_caption_is_a_duplicate(copies):
    changed, moved = _shuffled(np.arange(1000) // copies, 1.0)
    assert changed.all()
    assert moved.all()


def test_when_most_captions_are_equal_as_many_texts_change_as_can():
    for majority in (51, 70, 99, 100):
        changed, _ = _shuffled(np.where(np.arange(100) < majority, 0, np.arange(100)), 1.0)
        # Each other text can go to one of the majority, and their places take one of theirs.
        assert changed.sum() == 2 * (100 - majority)


@pytest.mark.parametrize("texts", ["aab", "aabb", "aabbc", "abab", "aaab", "aabbcc", "aaabbc"])
def test_small_sets_reach_the_best_that_any_derangement_can(texts):
    n = len(texts)
    texts = np.array(list(texts))
    best = max(
        sum(texts[list(order)] != texts)
        for order in itertools.permutations(range(n))
        if all(place != source for place, source in enumerate(order))
    )
    for seed in range(50):
        assert _shuffled(texts, 1.0, seed)[0].sum() == best


def test_exchanges_leave_everyone_else_as_the_uniform_draw_had_them():
    n = 3000
    texts = _draw(7).permutation(_one_caption_shared(n))
    plain = shuffle_captions(_keys(n), 0.5, _draw())
    repaired = shuffle_captions(_keys(n), 0.5, _draw(), texts)
    assert ((plain != np.arange(n)) == (repaired != np.arange(n))).all()
    equal = ((texts[plain] == texts) & (plain != np.arange(n))).sum()
    assert 0 < equal <= (plain != repaired).sum() <= 2 * equal


def test_exchanges_do_not_depend_on_the_order_of_the_keys():
    keys, texts = _keys(500), _draw(7).permutation(np.arange(500) // 25)
    order = _draw(3).permutation(500)
    straight = shuffle_captions(keys, 0.6, _draw(), texts)
    mixed = shuffle_captions(keys[order], 0.6, _draw(), texts[order])
    expected = {keys[i]: keys[straight[i]] for i in range(500)}
    assert {keys[order][i]: keys[order][mixed[i]] for i in range(500)} == expected


def _similar(lists, batches=1):
    """Write a table of neighbours from {text: [(neighbour, similarity), ...]}."""
    found = [[*zip(*pairs, strict=True)] or [(), ()] for pairs in lists.values()]
    others = [[f"{other:016x}" for other in names] for names, _ in found]
    columns = {"caption_id": [f"{text:016x}" for text in lists],
               "neighbour_ids": pa.array(others, pa.list_(pa.string())),
               "similarities": pa.array([s for _, s in found], pa.list_(pa.float32()))}  # fmt: skip
    return pa.table(columns).to_batches(max_chunksize=-(-len(lists) // batches))


@pytest.mark.parametrize("batches", [1, 3, 7])
def test_neighbours_are_drawn_as_a_loop_over_pairs_would(batches):
    draw = _draw(2)
    lists = {
        text: [(1000 + 10 * text + i, (10 - i) / 10) for i in range(draw.integers(0, 11))]
        for text in range(40)
    }
    own = draw.integers(0, 45, 300).astype(np.uint64)  # some texts have no row at all
    alternatives = np.stack([own, 1000 + 10 * own, 1003 + 10 * own], axis=1)
    starts = draw.integers(0, 2**63, 300).astype(np.uint64)
    given, similarity = draw_neighbours(_similar(lists, batches), own, alternatives, starts)
    for pair, text in enumerate(own.tolist()):
        possible = [item for item in lists.get(text, []) if item[0] not in alternatives[pair]]
        if possible:
            nth = int(uniforms(starts[pair : pair + 1], 0)[0] * len(possible))
            assert given[pair] == possible[nth][0]
            assert similarity[pair] == pytest.approx(possible[nth][1])
        else:
            assert given[pair] == text
            assert np.isnan(similarity[pair])


def test_each_of_ten_neighbours_is_equally_likely():
    own = np.zeros(10_000, np.uint64)
    starts = streams(map(str, range(10_000)), "test")
    lists = {0: [(i, 1 / i) for i in range(1, 11)]}
    given, _ = draw_neighbours(_similar(lists), own, own[:, None], starts)
    counts = np.bincount(given.astype(int), minlength=11)
    assert counts[0] == 0
    assert (np.abs(counts[1:] - 1000) < 5 * np.sqrt(1000)).all()
