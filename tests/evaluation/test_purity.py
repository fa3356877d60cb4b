"""Purity and its spectrum against a double loop, closed forms, and what must not change them."""

import numpy as np
import pytest
from scipy import special

from mispair import cli
from mispair.core import metrics
from mispair.core.seeds import generator
from mispair.evaluation import purity
from mispair.evaluation.purity import neuron_overlap, random_rotation, unit_columns
from tests.evaluation.encoded import write_projection


def _participation_ratio(matrix):
    """Return the participation ratio of the spectrum of the columns at length one."""
    energy = np.linalg.svd(purity.unit_columns(matrix), compute_uv=False) ** 2
    return energy.sum() ** 2 / (energy**2).sum()


def _matrix(d=30, e=12, seed=0):
    return np.random.default_rng(seed).standard_normal((d, e)).astype(np.float32)


def test_overlap_is_the_mean_over_the_other_neurons():
    matrix = _matrix()
    expected = []
    for j in range(12):
        cosines = []
        for i in range(12):
            if i != j:
                a, b = matrix[:, j].astype(np.float64), matrix[:, i].astype(np.float64)
                cosines.append(abs(a @ b) / np.sqrt((a @ a) * (b @ b)))
        expected.append(np.mean(cosines))
    np.testing.assert_allclose(purity.neuron_overlap(matrix), expected, rtol=1e-12)


def test_random_reference_is_that_of_random_vectors():
    assert purity.random_overlap(1) == pytest.approx(1)
    assert purity.random_overlap(2) == pytest.approx(2 / np.pi)  # the mean of |cos| of an angle
    assert purity.random_overlap(3) == pytest.approx(0.5)  # Archimedes: t is uniform on [-1, 1]
    for d in (7, 128, 512, 768):
        density = 2 / (d - 1) / special.beta(0.5, (d - 1) / 2)
        assert purity.random_overlap(d) == pytest.approx(density, rel=1e-9)
        limit = np.sqrt(2 / (np.pi * d))
        assert purity.random_overlap(d) / limit - 1 == pytest.approx(1 / (4 * d), rel=0.05)
    matrix = np.random.default_rng(0).standard_normal((8, 3000))
    measured = purity.neuron_overlap(matrix).mean()
    assert measured == pytest.approx(purity.random_overlap(8), rel=0.005)
    assert measured != pytest.approx(np.sqrt(2 / (np.pi * 8)), rel=0.02)


def test_the_definition_quotes_the_reference_of_the_usual_widths():
    for d in (512, 768):
        assert f"{purity.random_overlap(d):.4f} for {d}" in purity.DEFINITION


def test_a_neuron_without_direction_is_named():
    matrix = _matrix()
    matrix[:, 7] = 0
    for measure in (purity.neuron_overlap, lambda matrix: purity.spectral_rows(matrix, [])):
        with pytest.raises(ValueError, match="neuron 7 has no direction"):
            measure(matrix)
    matrix[0, 3] = np.nan
    with pytest.raises(ValueError, match="neuron 3 has no direction"):
        purity.neuron_overlap(matrix)


def test_random_rotation_is_orthogonal_and_uniform():
    draw = np.random.default_rng(0)
    rotations = np.stack([purity.random_rotation(3, draw) for _ in range(4000)])
    np.testing.assert_allclose(
        rotations @ rotations.transpose(0, 2, 1),
        np.broadcast_to(np.eye(3), (4000, 3, 3)),
        atol=1e-12,
    )
    # QR without its signs fixed has a diagonal that is negative on average.
    np.testing.assert_allclose(rotations.mean(0), 0, atol=0.05)
    np.testing.assert_allclose((rotations**2).mean(0), 1 / 3, atol=0.02)


def test_step_writes_every_measure_of_both_towers(tmp_path):
    image, text = (np.stack([_matrix(d), _matrix(d, seed=seed)]) for d, seed in ((30, 1), (20, 2)))
    path, out = tmp_path / "projection.safetensors", tmp_path / "purity.json"
    write_projection(path, image, text, start="pretrained", rate="0.1", seeds="[0, 1]")
    arguments = ["measure-purity", "--projection", path, "--purity", out, "--rotations", 2]
    assert cli.main([str(argument) for argument in arguments]) == 0
    rows, provenance = metrics.read_metrics(out)
    assert provenance["projection"]["rate"] == "0.1"

    def values(metric, tower="text", seed=1):
        wanted = {"metric": metric, "tower": tower, "seed": seed}
        return [row["value"] for row in rows if wanted.items() <= row.items()]

    expected = purity.neuron_overlap(text[1])
    assert values("mean_abs_cosine") == [pytest.approx(expected.mean())]
    assert values("neuron_purity") == pytest.approx(expected.tolist())
    assert values("random_reference") == [pytest.approx(2 / 19 / special.beta(0.5, 9.5))]
    assert values("participation_ratio") == [pytest.approx(_participation_ratio(text[1]))]
    rotated = next(row for row in rows if row["metric"] == "mean_abs_cosine_rotated")
    assert rotated["rotations"] == 2
    assert rotated["low"] <= rotated["value"] <= rotated["high"]
    # For both seeds the logit scale, too.
    assert len(rows) == 4 * (2 + 3 + 4 + 12) + 2
    assert values("mean_abs_cosine", "image", 0) != values("mean_abs_cosine", "image", 1)


def test_step_names_the_file_and_seed_of_a_dead_neuron(tmp_path, capsys):
    image, text = _matrix()[None], _matrix(20)[None].copy()
    text[0, :, 4] = 0
    path = tmp_path / "projection.safetensors"
    write_projection(path, image, text)
    out = tmp_path / "purity.json"
    assert cli.main(["measure-purity", "--projection", str(path), "--purity", str(out)]) == 2
    message = capsys.readouterr().err
    assert "text tower, seed 0: neuron 4 has no direction" in message
    assert not out.exists()


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
    rows = purity.spectral_rows(projection, _rotations(rotations))
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
    assert purity.spectral_measures(orthonormal.T @ orthonormal)[
        "participation_ratio"
    ] == pytest.approx(8)
    parallel = np.outer(np.arange(1, 6), [1.0, -2.0, 3.0])
    measured = purity.spectral_measures(parallel.T @ parallel)
    assert measured["participation_ratio"] == pytest.approx(1)
    assert measured["mean_abs_cosine"] == pytest.approx(1)


def test_groups_of_equal_neurons_have_a_small_shape_ratio() -> None:
    """Two groups at right angles have the spectrum of two flat directions in a privileged basis."""
    projection = np.kron(np.eye(2), np.ones((30, N // 2)))
    rows = _by_metric(projection, 30)
    assert rows["participation_ratio"]["value"] == pytest.approx(2)
    # Half of the cosines, less the diagonal, are one and the others zero.
    pairs = (N / 2 - 1) / (N - 1)
    expected = pairs / np.sqrt(pairs) / purity.GAUSSIAN
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
    assert [null["low"], null["high"]] == pytest.approx(np.quantile(rotated, purity.NULL))
    assert null["below"] == np.mean(rotated < neuron_overlap(projection).mean())
    assert null["rotations"] == 20
    # Rotation renormalises columns, so the overlap is not invariant.
    assert np.ptp(rotated) > 1e-4


def test_published_overlaps_as_directions() -> None:
    published = (0.0562, 0.0762, 0.0875, 0.1013, 0.1270)
    directions = [round(purity.directions_of_overlap(value, 512)) for value in published]
    assert directions == [145, 90, 72, 55, 37]
