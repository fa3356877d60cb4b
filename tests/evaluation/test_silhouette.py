"""The silhouette from cluster means is scikit-learn's, to rounding."""

import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import silhouette_samples as reference

from mispair.evaluation import classification
from mispair.evaluation.classification import CosineSilhouette, silhouette_samples


def _clusters(n, k, d, seed=0, spread=1.0):
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, k, n)
    return draw.standard_normal((k, d))[labels] + spread * draw.standard_normal((n, d)), labels


@pytest.mark.parametrize(("n", "k", "d"), [(300, 7, 20), (50, 2, 3), (400, 90, 16), (30, 25, 4)])
def test_equals_scikit_learn(n, k, d):
    features, labels = _clusters(n, k, d)
    ours = silhouette_samples(features, labels)
    np.testing.assert_allclose(ours, reference(features, labels, metric="cosine"), atol=1e-12)


def test_singletons_score_zero_as_in_scikit_learn():
    features, labels = _clusters(60, 4, 8)
    labels[[5, 17]] = [10, 11]
    ours = silhouette_samples(features, labels)
    assert ours[5] == ours[17] == 0
    np.testing.assert_allclose(ours, reference(features, labels, metric="cosine"), atol=1e-12)


def test_empty_classes_and_negative_or_sparse_labels_play_no_part():
    features, labels = _clusters(80, 3, 8)
    sparse = np.array([-3, 7, 1000])[labels]
    np.testing.assert_array_equal(
        silhouette_samples(features, sparse), silhouette_samples(features, labels)
    )


def test_duplicates_within_and_across_clusters():
    # One-hot rows: all products are exact, so scikit-learn is as well.
    features = np.eye(4)[[0, 0, 1, 1, 2, 2, 0, 0]]
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    np.testing.assert_allclose(
        silhouette_samples(features, labels), reference(features, labels, metric="cosine")
    )
    # Every sample the same: all distances are 0, and so is the score, rounding or not.
    same = np.repeat(np.random.default_rng(0).standard_normal((1, 50)), 6, axis=0)
    np.testing.assert_array_equal(silhouette_samples(same, np.array([0, 0, 0, 1, 1, 1])), 0)


def test_tight_clusters_score_one_and_swapped_labels_minus_one():
    features = np.repeat(np.eye(2), 3, axis=0)
    np.testing.assert_array_equal(silhouette_samples(features, np.array([0, 0, 0, 1, 1, 1])), 1)
    swapped = silhouette_samples(np.eye(2)[[0, 1, 0, 1]], np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(swapped, -0.5)  # a = 1, b = 1/2


def test_rows_of_zeros_have_distance_one_as_in_scikit_learn():
    features, labels = _clusters(40, 3, 5)
    features[[2, 30]] = 0
    ours = silhouette_samples(features, labels)
    np.testing.assert_allclose(ours, reference(features, labels, metric="cosine"), atol=1e-12)


def test_length_of_rows_and_order_of_samples_do_not_matter():
    features, labels = _clusters(100, 5, 8)
    draw = np.random.default_rng(1)
    scores = silhouette_samples(features, labels)
    longer = features * draw.uniform(0.1, 10, (100, 1))
    np.testing.assert_allclose(silhouette_samples(longer, labels), scores, atol=1e-12)
    order = draw.permutation(100)
    mixed = silhouette_samples(features[order], labels[order])
    np.testing.assert_allclose(mixed, scores[order], atol=1e-12)


def test_blocks_do_not_matter(monkeypatch):
    features, labels = _clusters(200, 6, 10)
    whole = silhouette_samples(features, labels)
    monkeypatch.setattr(classification, "SILHOUETTE_ENTRIES", 6 * 7)
    np.testing.assert_allclose(silhouette_samples(features, labels), whole, atol=1e-13)


def test_one_object_serves_many_representations():
    features, labels = _clusters(120, 4, 12)
    scorer = CosineSilhouette(labels)
    for k in (3, 7, 12):
        expected = reference(features[:, :k], labels, metric="cosine")
        np.testing.assert_allclose(scorer.samples(features[:, :k]), expected, atol=1e-12)


@pytest.mark.parametrize("labels", [np.zeros(5, int), np.arange(5)])
def test_one_class_or_one_image_a_class_is_refused(labels):
    with pytest.raises(ValueError, match="2 to n - 1 classes"):
        CosineSilhouette(labels)


def test_single_precision_is_widened_before_anything_is_computed():
    features, labels = _clusters(200, 6, 40)
    single = features.astype(np.float32)
    np.testing.assert_array_equal(
        silhouette_samples(single, labels), silhouette_samples(single.astype(np.float64), labels)
    )


def test_squared_lengths_may_be_given():
    features, labels = _clusters(100, 5, 8)
    squares = (features**2).sum(1)
    scores = CosineSilhouette(labels).samples(features, squares)
    np.testing.assert_allclose(scores, silhouette_samples(features, labels), atol=1e-14)


def test_memory_is_that_of_the_means_and_not_of_all_pairs():
    # All pairs of 60,000 would be 28.8 GB.
    n, k, d = 60_000, 1_000, 16
    features, labels = _clusters(n, k, d)
    tracemalloc.start()
    scores = silhouette_samples(features, labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < features.nbytes + 16 * 2**20
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    for row in range(0, n, n // 20):
        distances = 1 - unit @ unit[row]
        sums = np.bincount(labels, distances, minlength=k)
        counts = np.bincount(labels, minlength=k)
        own = labels[row]
        inside = sums[own] / (counts[own] - 1)
        outside = np.delete(sums / counts, own).min()
        expected = (outside - inside) / max(inside, outside)
        assert scores[row] == pytest.approx(expected, abs=1e-10)
