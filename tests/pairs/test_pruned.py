"""The search by words that skips blocks, against the exact search."""

from functools import partial

import numpy as np
import pytest

from mispair.core.files import UserError
from mispair.pairs.neighbours import pruned
from mispair.pairs.neighbours.similar_captions import RECALL
from mispair.pairs.neighbours.tfidf import nearest_texts, tfidf
from tests.pairs.test_similarity import Kept, without_nobody
from tests.pairs.test_tfidf import captions

pytest.importorskip("seismic", reason="Seismic is not installed")


@pytest.mark.parametrize(("n", "words"), [(3_000, 40), (3_000, 2_000)])
@pytest.mark.parametrize("k", [1, 10])
def test_the_recall_is_what_it_says(n: int, words: int, k: int) -> None:
    vectors = tfidf(captions(n, words))
    found = pruned.nearest_by_pruning(vectors, k)
    assert found.recall >= RECALL
    assert found.queries == pruned.QUERIES
    ours, scores = without_nobody(found.portions)
    others, exact = without_nobody(nearest_texts(vectors, k))
    assert all(number not in one for number, one in enumerate(ours))
    # Of equal ones, any is right: what counts is how similar they are.
    shares = [
        sum(score >= other[-1] - 1e-6 for score in one) / len(other)
        for one, other in zip(scores, exact, strict=True)
        if other
    ]
    assert np.mean(shares) == pytest.approx(found.recall, abs=0.01)
    where_same = [
        np.allclose(one, other, rtol=1e-6)
        for mine, theirs, one, other in zip(ours, others, scores, exact, strict=True)
        if mine == theirs
    ]
    assert len(where_same) > 100
    assert all(where_same)


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["dog"],
        ["the", "of"],
        ["dog", "the"],
        ["red dog", "dog"],
        ["red dog"] * 30,
        ["w" * 5000 + " dog", "dog", "cat"],
        captions(12, 5),
    ],
    ids=lambda texts: str(len(texts)),
)
def test_few_texts_have_all_their_neighbours(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruned, "EFFORTS", pruned.EFFORTS[-1:])
    vectors = tfidf(texts)
    found = pruned.nearest_by_pruning(vectors, 10)
    others, scores = without_nobody(found.portions)
    exact = without_nobody(nearest_texts(vectors, 10))
    assert scores == exact[1]
    assert [len(one) for one in others] == [len(one) for one in exact[0]]


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = tfidf(captions(800, 60))
    whole = without_nobody(pruned.nearest_by_pruning(vectors, 5).portions)
    monkeypatch.setattr(pruned, "_BLOCK", 77)
    monkeypatch.setattr(pruned, "_ASKED", 3)
    assert without_nobody(pruned.nearest_by_pruning(vectors, 5).portions) == whole


def test_the_effort_rises_until_it_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = tfidf(captions(3_000, 400))
    monkeypatch.setattr(pruned, "EFFORTS", ((1, 1.0), (2, 1.0), (64, 0.3)))
    assert pruned.nearest_by_pruning(vectors, 10).effort == 64
    monkeypatch.setattr(pruned, "EFFORTS", ((1, 1.0),))
    with pytest.raises(UserError, match="search to exact"):
        pruned.nearest_by_pruning(vectors, 10)


@pytest.mark.parametrize("stop", [1, 4])
def test_a_search_goes_on_at_the_block(stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruned, "_BLOCK", 100)
    search = partial(pruned.nearest_by_pruning, tfidf(captions(600, 60)), 5)
    expected = without_nobody(search().portions)
    kept = Kept(stop)
    with pytest.raises(InterruptedError):
        search(keeper=kept)
    found = search(keeper=kept)
    assert kept.blocks == 6, "a block was compared twice, or left out"
    assert without_nobody(found.portions) == expected
