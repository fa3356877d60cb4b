"""The four metrics against hand-made cases and scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.metrics import silhouette_score

from mispair.simulation.metrics import (
    HISTOGRAM_BINS,
    alignments,
    cosine_silhouette,
    histogram,
    projections,
    purified,
    purified_as_written,
    top_two,
    zero_shot_accuracy,
)


def test_purified_takes_the_lowest_threshold_with_most_features() -> None:
    cosines = np.array(
        [
            [0.90, 0.22, 0.00, 0.00],  # mixed at 0.20, alone from 0.25
            [0.00, 0.55, 0.10, 0.10],
            [0.31, 0.00, 0.60, 0.00],  # mixed until 0.30, alone from 0.35
            [0.00, 0.00, 0.00, 0.19],  # never above a threshold
            [0.70, 0.00, 0.00, 0.00],  # a second neuron of feature 0
        ]
    )
    result = purified(cosines, 0.2, 1.0, 0.05)
    assert result.features == 3
    assert result.threshold == 0.35
    # All four neurons count in the sum, three features in the divisor.
    assert result.magnitude == pytest.approx((0.9 + 0.55 + 0.6 + 0.7) / 3)
    assert result.magnitude != pytest.approx((0.9 + 0.55 + 0.6) / 3)


def test_purified_needs_exactly_one_feature_above_and_strictly_so() -> None:
    assert purified(np.array([[0.5, 0.5]]), 0.2, 1.0, 0.05).features == 0
    assert purified(np.array([[0.2, 0.0]]), 0.2, 1.0, 0.05).features == 0
    assert purified(np.array([[0.2001, 0.2]]), 0.2, 1.0, 0.05).features == 1
    assert purified(np.array([[0.97, 0.96]]), 0.2, 1.0, 0.05).features == 0
    assert purified(np.array([[0.97, 0.94]]), 0.2, 1.0, 0.05).threshold == 0.95


def test_alignments_are_absolute_and_of_normalised_rows() -> None:
    rows = torch.eye(4)[:2]
    weights = torch.tensor([[-3.0, 0.0, 4.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0] * 4])
    np.testing.assert_allclose(alignments(weights, rows), [[0.6, 0.0], [0.0, 1.0], [0.0, 0.0]])


def test_projections_keep_sign_and_length() -> None:
    weights = torch.tensor([[-3.0, 0.0, 4.0], [0.5, 2.0, 0.0]])
    np.testing.assert_array_equal(projections(weights, torch.eye(2, 3)), [[-3, 0], [0.5, 2]])


def test_top_two_are_the_largest_cosines_in_order() -> None:
    cosines = np.random.default_rng(4).random((6, 5))
    naive = [sorted(row, reverse=True)[:2] for row in cosines.tolist()]
    np.testing.assert_array_equal(top_two(cosines), naive)


def naively_purified_as_written(cosines: np.ndarray, threshold: float) -> tuple[int, float]:
    best: list[tuple[int, float]] = []
    for row in cosines.tolist():
        j = row.index(max(row))
        if row[j] > threshold:
            best.append((j, row[j]))
    magnitudes = [cosine for _, cosine in best]
    return len({j for j, _ in best}), sum(magnitudes) / max(len(best), 1)


@pytest.mark.parametrize("threshold", [0.2, 0.5, 0.9, 0.999])
def test_purified_as_written_equals_a_loop(threshold: float) -> None:
    cosines = np.random.default_rng(8).random((40, 6)) ** 2
    result = purified_as_written(cosines, threshold)
    expected = naively_purified_as_written(cosines, threshold)
    assert (result.features, result.magnitude) == (expected[0], pytest.approx(expected[1]))
    assert result.threshold == threshold


def test_purified_as_written_is_strict_and_may_find_none() -> None:
    assert purified_as_written(np.array([[0.5, 0.1]])).features == 0
    assert purified_as_written(np.array([[0.5, 0.1]])).magnitude == 0.0


@pytest.mark.parametrize("case", ["random", "lopsided", "zeros", "single"])
def test_silhouette_equals_scikit_learn(case: str) -> None:
    generator = np.random.default_rng(5)
    features = generator.normal(size=(60, 7)).clip(min=0)
    labels = generator.integers(0, 4, 60)
    if case == "lopsided":
        labels = (generator.random(60) < 0.1).astype(int)
    if case == "zeros":
        features[:5] = 0
    if case == "single":
        labels[labels == 3] = 0
        labels[17] = 3
    ours = cosine_silhouette(torch.from_numpy(features), torch.from_numpy(labels))
    if case == "zeros":
        # scikit-learn gives a zero vector the distance 0 to itself only, as we do.
        assert np.isfinite(ours)
    assert ours == pytest.approx(silhouette_score(features, labels, metric="cosine"), abs=1e-9)


def test_silhouette_of_one_class_is_undefined() -> None:
    assert np.isnan(cosine_silhouette(torch.rand(5, 3), torch.zeros(5, dtype=torch.int64)))


FEATURES = torch.tensor([[1.0, 0.2], [0.2, 1.0], [1.0, 0.9]])
PROMPTS = torch.tensor([[1.0, 0.0], [10.0, 10.0]])


def test_accuracy_uses_cosines_not_products() -> None:
    # By inner products everything would be class 1.
    assert zero_shot_accuracy(FEATURES, PROMPTS, torch.tensor([0, 1, 1])) == pytest.approx(1)
    assert zero_shot_accuracy(FEATURES, PROMPTS, torch.tensor([0, 0, 1])) == pytest.approx(2 / 3)


def test_accuracy_by_inner_product_favours_long_prompts() -> None:
    labels = torch.tensor([0, 1, 1])
    assert zero_shot_accuracy(FEATURES, PROMPTS, labels, "inner") == pytest.approx(2 / 3)
    unit = torch.nn.functional.normalize(PROMPTS, dim=1)
    assert zero_shot_accuracy(100 * FEATURES, unit, labels, "inner") == 1.0


def test_histogram_counts_every_cosine_once() -> None:
    counts = histogram(np.array([[0.0, 0.019], [0.021, 1.0], [1.0 + 1e-9, 0.5]]))
    assert counts.shape == (HISTOGRAM_BINS,)
    assert counts.sum() == 6
    assert (counts[0], counts[1], counts[-1]) == (2, 1, 2)
