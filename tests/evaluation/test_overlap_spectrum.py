"""The spectral identity of the overlap, and its null over random rotations."""

from __future__ import annotations

import numpy as np
import pytest

from mispair.core.seeds import generator
from mispair.evaluation import purity as spectrum
from mispair.evaluation.purity import neuron_overlap, random_rotation, unit_columns

N = 40


def _projection(decay: float, rows: int = 60) -> np.ndarray:
    """Return a Gaussian projection whose singular values fall by a factor at each direction."""
    draw = generator("projection", decay)
    left, _, right = np.linalg.svd(draw.standard_normal((rows, N)), full_matrices=False)
    return left * decay ** np.arange(N) @ right


def _rotations(count: int) -> list[np.ndarray]:
    draw = generator("rotations")
    return [random_rotation(N, draw) for _ in range(count)]


def _by_metric(projection: np.ndarray, rotations: int = 0) -> dict[str, dict[str, float]]:
    rows = spectrum.spectral_rows(projection, _rotations(rotations))
    return {row["metric"]: row for row in rows}


@pytest.mark.parametrize("decay", [1.0, 0.95, 0.7])
def test_the_mean_squared_cosine_is_a_function_of_the_eigenvalues(decay: float) -> None:
    projection = _projection(decay)
    columns = unit_columns(projection)
    gram = columns.T @ columns
    eigenvalues = np.linalg.eigvalsh(gram)
    squares = gram[~np.eye(N, dtype=bool)] ** 2
    rows = _by_metric(projection)
    expected = (np.sum(eigenvalues**2) / N - 1) / (N - 1)
    assert squares.mean() == pytest.approx(expected, abs=1e-15)
    assert rows["rms_cosine"]["value"] ** 2 == pytest.approx(expected, abs=1e-15)
    participation = eigenvalues.sum() ** 2 / np.sum(eigenvalues**2)
    assert rows["participation_ratio"]["value"] == pytest.approx(participation)
    assert spectrum.rms_of_directions(participation, N) ** 2 == pytest.approx(expected, abs=1e-14)
    if decay < 1:
        mean = neuron_overlap(projection).mean()
        ratio = mean / (np.sqrt(2 / np.pi) * np.sqrt(expected))
        assert rows["shape_ratio"]["value"] == pytest.approx(ratio)


def test_orthogonal_columns_have_no_shape() -> None:
    rows = _by_metric(np.eye(N))
    assert rows["participation_ratio"]["value"] == N
    assert rows["rms_cosine"]["value"] == 0
    assert np.isnan(rows["shape_ratio"]["value"])


def test_orthonormal_and_parallel_columns() -> None:
    orthonormal = random_rotation(N, generator("orthonormal"))[:, :8]
    assert spectrum.spectral_measures(orthonormal.T @ orthonormal)[
        "participation_ratio"
    ] == pytest.approx(8)
    parallel = np.outer(np.arange(1, 6), [1.0, -2.0, 3.0])
    measured = spectrum.spectral_measures(parallel.T @ parallel)
    assert measured["participation_ratio"] == pytest.approx(1)
    assert measured["mean_abs_cosine"] == pytest.approx(1)


def test_lengths_signs_and_order_of_neurons_do_not_matter() -> None:
    projection, draw = _projection(0.9), generator("order")
    signs = np.where(draw.random(N) < 0.5, -1, 1) * draw.uniform(0.1, 10, N)
    other = (projection * signs)[:, draw.permutation(N)]
    measured = spectrum.spectral_measures(projection.T @ projection)
    assert spectrum.spectral_measures(other.T @ other) == pytest.approx(measured)


def test_groups_of_equal_neurons_have_a_small_shape_ratio() -> None:
    """Two groups at right angles have the spectrum of two flat directions in a privileged basis."""
    projection = np.kron(np.eye(2), np.ones((30, N // 2)))
    rows = _by_metric(projection, 30)
    assert rows["participation_ratio"]["value"] == pytest.approx(2)
    # Half of the cosines, less the diagonal, are one and the others zero.
    pairs = (N / 2 - 1) / (N - 1)
    expected = pairs / np.sqrt(pairs) / spectrum.GAUSSIAN
    assert rows["shape_ratio"]["value"] == pytest.approx(expected)
    null = rows["shape_ratio_rotated"]
    assert null["below"] == 0
    assert null["low"] > rows["shape_ratio"]["value"]


def test_the_null_is_that_of_rotated_projections() -> None:
    projection = _projection(0.9)
    rows = _by_metric(projection, 20)
    rotated = [neuron_overlap(projection @ turn).mean() for turn in _rotations(20)]
    null = rows["mean_abs_cosine_rotated"]
    assert null["value"] == pytest.approx(np.mean(rotated))
    assert [null["low"], null["high"]] == pytest.approx(np.quantile(rotated, spectrum.NULL))
    assert null["below"] == np.mean(rotated < neuron_overlap(projection).mean())
    assert null["rotations"] == 20
    # Rotation renormalises columns, so the overlap is not invariant.
    assert np.ptp(rotated) > 1e-4


@pytest.mark.parametrize("decay", [0.99, 0.9, 0.75])
def test_the_raw_spectrum_predicts_the_overlap_of_rotated_bases(decay: float) -> None:
    rows = _by_metric(_projection(decay), 60)
    predicted = rows["rms_cosine_spectrum"]["value"]
    assert predicted == pytest.approx(rows["rms_cosine_rotated"]["value"], rel=0.03)


def test_expected_shares_are_those_of_random_columns() -> None:
    eigenvalues = np.array([5.0, 2.0, 1.0, 0.5, 0.0])
    squares = eigenvalues * generator("shares").standard_normal((200_000, 5)) ** 2
    simulated = (squares / squares.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(spectrum.shares_after_rotation(eigenvalues), simulated, atol=0.002)
    np.testing.assert_allclose(spectrum.shares_after_rotation(np.ones(7)), 1 / 7)


def test_published_overlaps_as_directions() -> None:
    published = (0.0562, 0.0762, 0.0875, 0.1013, 0.1270)
    directions = [round(spectrum.directions_of_overlap(value, 512)) for value in published]
    assert directions == [145, 90, 72, 55, 37]


def test_the_cost_does_not_depend_on_the_rows() -> None:
    """Only the Gram matrix is rotated: a tall projection and its square root agree."""
    projection = _projection(0.9, rows=500)
    values, vectors = np.linalg.eigh(projection.T @ projection)
    root = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    tall, square = _by_metric(projection, 5), _by_metric(root, 5)
    for metric, row in tall.items():
        numbers = [value for key, value in row.items() if key != "metric"]
        others = [value for key, value in square[metric].items() if key != "metric"]
        assert numbers == pytest.approx(others, rel=1e-6), metric


def test_a_neuron_without_direction_is_refused() -> None:
    projection = _projection(0.9)
    projection[:, 3] = 0
    with pytest.raises(ValueError, match="neuron 3 has no direction"):
        spectrum.spectral_rows(projection, [])
