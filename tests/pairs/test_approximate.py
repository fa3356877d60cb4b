"""The search by visits to cells, against the exact search."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mispair.core.files import UserError
from mispair.pairs.neighbours import approximate
from mispair.pairs.neighbours.approximate import RECALL, nearest_by_cells
from mispair.pairs.neighbours.similarity import nearest_rows, unit_rows
from tests.pairs.test_similarity import Kept, without_nobody


def clustered(n: int, spread: float = 0.7, d: int = 32) -> np.ndarray:
    """Draw rows around directions of three levels, as captions have topics and scenes."""
    draw = np.random.default_rng(0)
    topics = draw.standard_normal((max(2, n // 200), d))
    scenes = topics[draw.integers(len(topics), size=max(2, n // 20))]
    scenes = scenes + 0.8 * draw.standard_normal(scenes.shape)
    return unit_rows(
        scenes[draw.integers(len(scenes), size=n)] + spread * draw.standard_normal((n, d))
    )


@pytest.mark.parametrize("k", [1, 10])
def test_the_recall_is_what_it_says(k: int) -> None:
    rows = clustered(6_000)
    found = nearest_by_cells(rows, k)
    assert found.recall >= RECALL
    assert 1 <= found.effort < 20
    ours, _ = without_nobody(found.portions)
    exact, _ = without_nobody(nearest_rows(rows, k))
    shared = [len({*one} & {*other}) / k for one, other in zip(ours, exact, strict=True)]
    assert np.mean(shared) == pytest.approx(found.recall, abs=0.01)
    assert {len(one) for one in ours} == {k}


@pytest.mark.parametrize("n", [0, 1, 2, 3, 12])
def test_few_rows_have_all_their_neighbours(n: int) -> None:
    rows = clustered(n) if n else np.empty((0, 4), np.float32)
    found = nearest_by_cells(rows, 10)
    assert (found.recall, found.queries) == (1.0, n)
    assert without_nobody(found.portions) == without_nobody(nearest_rows(rows, 10))


def test_equal_rows_and_rows_of_zeros() -> None:
    rows = np.repeat(clustered(2), 40, axis=0)
    rows[::5] = 0
    found = nearest_by_cells(rows, 3)
    assert found.recall == 1.0
    others, scores = without_nobody(found.portions)
    assert all(not one for one in others[::5])
    assert all(
        len({*one}) == 3 and number not in one and all(other % 5 for other in one)
        for number, one in enumerate(others)
        if number % 5
    )
    assert np.allclose([score for one in scores for score in one], 1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_all_equal_rows_have_as_many_neighbours_as_fit(dtype: type) -> None:
    rows = np.repeat(clustered(1), 50, axis=0).astype(dtype)
    found = nearest_by_cells(rows, 3)
    assert (found.recall, found.effort) == (1.0, 1)
    others, _ = without_nobody(found.portions)
    assert all(len({*one}) == 3 and number not in one for number, one in enumerate(others))


def test_rows_in_half_precision_are_read_as_they_are(tmp_path: Path) -> None:
    half = clustered(600).astype(np.float16)
    np.save(tmp_path / "rows.npy", half)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    exact = without_nobody(nearest_by_cells(half.astype(np.float32), 5).portions)
    assert without_nobody(nearest_by_cells(mapped, 5).portions) == exact


def test_nothing_but_zeros_has_no_neighbours() -> None:
    found = nearest_by_cells(np.zeros((5, 4), np.float32), 3)
    assert without_nobody(found.portions)[0] == [[]] * 5


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = clustered(800)
    whole = without_nobody(nearest_by_cells(rows, 5).portions)
    assert without_nobody(nearest_by_cells(rows, 5).portions) == whole  # the same each time
    monkeypatch.setattr(approximate, "_SIDE", 7)
    assert without_nobody(nearest_by_cells(rows, 5, memory=1000).portions) == whole


def test_features_without_near_groups_are_refused_or_searched_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = unit_rows(np.random.default_rng(0).standard_normal((900, 64)))
    assert nearest_by_cells(rows, 10).effort > 20
    monkeypatch.setattr(approximate, "MOST_VISITS", 3)
    with pytest.raises(UserError, match=r"search to exact"):
        nearest_by_cells(rows, 10)


@pytest.mark.parametrize("stop", [1, 60, 130])
def test_a_search_goes_on_at_the_cell(stop: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approximate, "RECALL", 0.9999)
    rows = clustered(900, spread=1.2)
    search = partial(nearest_by_cells, rows, 5)
    whole = search()
    expected = without_nobody(whole.portions)
    kept = Kept(stop)
    with pytest.raises(InterruptedError):
        search(keeper=kept)
    found = search(keeper=kept)
    assert kept.blocks == whole.effort * 60, "a cell was compared twice, or left out"
    assert (found.recall, found.effort) == (whole.recall, whole.effort)
    assert without_nobody(found.portions) == expected
