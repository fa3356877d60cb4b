"""The most similar others of vectors, against all cosines sorted one row at a time."""

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import pytest
import torch

from mispair.pairs.neighbours import similarity
from mispair.pairs.neighbours.similar_captions import NOBODY, Nearest, Neighbours, best_first
from mispair.pairs.neighbours.similarity import nearest_rows, unit_rows
from mispair.pairs.neighbours.tfidf import nearest_texts, tfidf


def naive(rows: np.ndarray, k: int) -> tuple[list[list[int]], list[list[float]]]:
    """Sort all others of each row by descending cosine, then by index."""
    exact = rows.astype(np.float64)
    cosines = np.einsum("id,jd->ij", exact, exact).astype(np.float32)
    alive = rows.any(axis=1)
    others, scores = [], []
    for i in range(len(rows)):
        candidates = np.flatnonzero(alive & alive[i] & (np.arange(len(rows)) != i))
        order = np.argsort(-cosines[i, candidates], kind="stable")[:k]
        others.append(candidates[order].tolist())
        scores.append(cosines[i, candidates[order]].tolist())
    return others, scores


def found(rows: np.ndarray, k: int, **how) -> tuple[list[list[int]], list[list[float]]]:
    """Return the neighbours as lists without the empty places."""
    return without_nobody(nearest_rows(rows, k, **how))


def without_nobody(portions: Iterable[Neighbours]) -> tuple[list[list[int]], list[list[float]]]:
    """Return neighbours as lists; empty places stand at their ends."""
    others, scores = [], []
    for portion, cosines in portions:
        for row, values in zip(portion.tolist(), cosines.tolist(), strict=True):
            there = [j != NOBODY for j in row]
            assert there == sorted(there, reverse=True), "somebody stands behind nobody"
            others.append([j for j in row if j != NOBODY])
            scores.append([v for v, real in zip(values, there, strict=True) if real])
    return others, scores


def vectors(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def small_blocks(monkeypatch: pytest.MonkeyPatch, side: int) -> None:
    monkeypatch.setattr(similarity, "_LARGEST_SIDE", {"cpu": side, "cuda": side})


@pytest.mark.parametrize("n", [1, 2, 3, 10, 11, 12, 300])
@pytest.mark.parametrize("k", [1, 10])
def test_neighbours_are_those_of_a_full_sort(n, k):
    rows = unit_rows(vectors(n, 7, n))
    others, scores = found(rows, k)
    assert others == naive(rows, k)[0]
    np.testing.assert_allclose(np.concatenate(scores), np.concatenate(naive(rows, k)[1]), rtol=1e-6)
    assert {len(row) for row in others} == {min(k, n - 1)}


def test_no_rows_have_no_neighbours():
    assert found(np.empty((0, 4), np.float32), 3) == ([], [])


@pytest.mark.parametrize("side", [32, 100, 1000])
def test_equal_cosines_go_by_index_whatever_the_blocks(side, monkeypatch):
    small_blocks(monkeypatch, side)
    # Few directions with exact products: nearly every cosine is shared by very many.
    signs = np.random.default_rng(3).integers(0, 2, (400, 4)) * 2 - 1
    rows = (signs / 2).astype(np.float32)
    others, scores = found(rows, 5)
    assert (others, scores) == naive(rows, 5)
    first = others[0]
    assert first == sorted(first)
    assert scores[0] == [1.0] * 5


def test_equal_vectors_have_equal_similarities(monkeypatch):
    small_blocks(monkeypatch, 64)
    base = vectors(40, 33)
    rows = unit_rows(np.concatenate([base] * 8))
    others, scores = found(rows, 10)
    for i in range(len(rows)):
        copies = [j for j in range(i % 40, 320, 40) if j != i]
        assert others[i][:7] == copies
        assert len(set(scores[i][:7])) == 1
        assert scores[i][0] == pytest.approx(1, abs=2e-7)
        # Then three of the copies of the next best.
        assert len({j % 40 for j in others[i][7:]}) == 1
        assert others[i][7:] == sorted(others[i][7:])


def test_the_order_of_rows_changes_nothing_but_their_names():
    rows = unit_rows(vectors(400, 16))
    order = np.random.default_rng(1).permutation(400)
    straight, scores = found(rows, 10)
    shuffled, other_scores = found(rows[order], 10)
    for new, old in enumerate(order.tolist()):
        assert [int(order[j]) for j in shuffled[new]] == straight[old]
        assert other_scores[new] == scores[old]


def test_zero_vectors_are_near_nobody(monkeypatch):
    small_blocks(monkeypatch, 64)
    rows = vectors(300, 5)
    rows[::3] = 0
    rows[:64] = 0  # a whole block
    rows = -np.abs(rows)  # no cosine is negative but those with zeros would be 0, too
    rows[100] = -rows[100]  # all of whose cosines are negative: 0 would be larger
    rows = unit_rows(rows)
    others, scores = found(rows, 10)
    assert (others, [len(row) for row in scores]) == (
        naive(rows, 10)[0],
        [len(row) for row in others],
    )
    assert others[0] == []
    assert len(others[100]) == 10
    assert max(scores[100]) < 0


def test_more_memory_is_not_taken_than_allowed(monkeypatch):
    sides = []
    load = similarity._load

    def spy(rows: np.ndarray, start: int, side: int, device: str) -> torch.Tensor:
        sides.append(side)
        return load(rows, start, side, device)

    monkeypatch.setattr(similarity, "_load", spy)
    rows = unit_rows(vectors(500, 8))
    small = found(rows, 3, memory=100_000)
    assert max(sides) ** 2 * 4 < 100_000
    assert small == found(rows, 3)
    assert max(sides) == 2048


def test_a_memory_map_will_do(tmp_path):
    rows = unit_rows(vectors(200, 8))
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert found(mapped, 4, memory=50_000) == found(rows, 4)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_lengths_do_not_matter_nor_overflow(dtype):
    raw = vectors(20, 6).astype(dtype)
    large = raw * dtype(9000)  # their squares are beyond float16
    rows = unit_rows(large)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(rows, unit_rows(raw), atol=2e-3)
    assert not unit_rows(np.zeros((2, 3), dtype)).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad):
    raw = vectors(5, 3)
    raw[2, 1] = bad
    with pytest.raises(ValueError, match="row 2 is not finite"):
        unit_rows(raw)


def test_progress_ends_at_one(monkeypatch):
    small_blocks(monkeypatch, 32)
    shares: list[float] = []
    found(unit_rows(vectors(100, 4)), 3, progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) == 4
    assert shares[-1] == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_gpu_finds_the_same():
    rows = unit_rows(vectors(5000, 64))
    assert found(rows, 10, device="cuda") == found(rows, 10)


def test_the_best_are_kept_whatever_the_order_of_offers():
    draw = np.random.default_rng(5)
    scores = draw.integers(-3, 4, (6, 500)).astype(np.float32)
    scores[scores == 0] *= draw.choice([-1, 1], (scores == 0).sum())  # both zeros are one
    row, other = (part.ravel() for part in np.indices(scores.shape))
    best = Nearest(6, 4)
    order = draw.permutation(scores.size)
    for part in np.array_split(order, 7):
        best.offer(row[part], other[part], scores.ravel()[part])
    others, kept = (
        np.concatenate(parts)
        for parts in zip(*(best.best(slice(i, i + 4)) for i in (0, 4)), strict=True)
    )
    for i in range(6):
        expected = sorted(range(500), key=lambda j, i=i: (-scores[i, j], j))[:4]
        assert others[i].tolist() == expected
        assert kept[i].tolist() == scores[i, expected].tolist()
        assert best.floor[i] == kept[i, -1]
    again = best_first(np.broadcast_to(np.arange(500), scores.shape), scores, 4)
    np.testing.assert_array_equal(again[0], others)


def test_places_that_nobody_took_are_marked():
    best = Nearest(2, 3)
    best.offer(np.array([1]), np.array([NOBODY - 1]), np.array([-2.5]))
    ((others, scores),) = best.portions()
    assert others.tolist() == [[NOBODY] * 3, [NOBODY - 1, NOBODY, NOBODY]]
    assert scores.tolist() == [[-np.inf] * 3, [-2.5, -np.inf, -np.inf]]


class Kept:
    """Keeps a state after every block, and ends the search at one of them."""

    def __init__(self, stop: int) -> None:
        self.state: dict[str, np.ndarray] | None = None
        self.blocks, self.stop = 0, stop

    def load(self) -> dict[str, np.ndarray] | None:
        return self.state

    def due(self) -> bool:
        return True

    def save(self, state: Mapping[str, np.ndarray]) -> None:
        self.blocks += 1
        self.state = {name: array.copy() for name, array in state.items()}
        if self.blocks == self.stop:
            raise InterruptedError


@pytest.mark.parametrize("stop", [1, 4, 6])
@pytest.mark.parametrize("measure", ["features", "words"])
def test_a_search_goes_on_at_the_block(measure, stop, monkeypatch):
    draw = np.random.default_rng(0)
    if measure == "features":
        monkeypatch.setattr("mispair.pairs.neighbours.similarity._side", lambda *_: 32)
        rows = unit_rows(draw.standard_normal((90, 8)))
        search = partial(nearest_rows, rows, 5)
    else:
        monkeypatch.setattr("mispair.pairs.neighbours.tfidf._SIDE", 32)
        texts = [" ".join(draw.choice(list("abcdefgh"), 4) + "x") for _ in range(90)]
        search = partial(nearest_texts, tfidf(texts), 5)
    expected = list(search())
    kept = Kept(stop)
    with pytest.raises(InterruptedError):
        list(search(keeper=kept))
    found = list(search(keeper=kept))
    assert kept.blocks == 6, "a block was compared twice"
    for one, other in zip(found, expected, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
