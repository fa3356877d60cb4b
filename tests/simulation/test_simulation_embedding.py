"""Maps on the plane: what must be near is near, and degenerate features do not disturb."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from mispair.simulation.metrics import tsne


def clusters() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    labels = np.repeat(np.arange(3), 20)
    return 4 * np.eye(3, 10)[labels] + 0.3 * generator.normal(size=(60, 10)), labels


def test_clusters_stay_apart_and_the_map_repeats() -> None:
    features, labels = clusters()
    found = tsne(features, seed=3)
    assert found.shape == (60, 2)
    assert silhouette_score(found, labels) > 0.7
    assert silhouette_score(found, np.roll(labels, 7)) < 0.5
    np.testing.assert_array_equal(found, tsne(features, seed=3))


@pytest.mark.parametrize("value", [0.0, 0.3])
@pytest.mark.parametrize("n", [1, 12])
def test_vectors_that_are_all_the_same_lie_at_the_origin(value: float, n: int) -> None:
    np.testing.assert_array_equal(tsne(np.full((n, 4), value), seed=0), np.zeros((n, 2)))


@pytest.mark.parametrize("case", ["two", "five", "a line", "mostly zero", "tiny"])
def test_degenerate_features_give_a_finite_map_without_warnings(case: str) -> None:
    features = {
        "two": np.eye(2),
        "five": np.random.default_rng(2).normal(size=(5, 4)),
        "a line": np.outer(np.arange(20), np.ones(3)),
        "mostly zero": np.vstack([np.zeros((29, 4)), np.ones((1, 4))]),
        "tiny": 1e-30 * clusters()[0],
    }[case]
    found = tsne(features, seed=0)
    assert found.shape == (len(features), 2)
    assert np.isfinite(found).all()
    assert found.std() > 0


def test_features_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        tsne(np.array([[1.0, np.nan], [0.0, 1.0]]), seed=0)
