"""Correlations of activations against NumPy, and the step that measures covariances."""

import json

import numpy as np
import pytest

from mispair import cli
from mispair.core import files, metrics
from mispair.evaluation.purity import neuron_overlap
from mispair.towers.projection_measures import Covariance, mean_abs_correlation, temperature_rows


def _features(rows=900, width=7, seed=0):
    draw = np.random.default_rng(seed)
    return draw.standard_normal((rows, width)) @ draw.standard_normal((width, width)) + 5


def test_the_metric_of_the_covariance_gives_the_correlations_of_activations():
    features = _features()
    projection = np.random.default_rng(1).standard_normal((7, 4))
    sample = Covariance(7)
    for start in (0, 100, 630):  # blocks of any size
        sample.add(features[start : {0: 100, 100: 630, 630: 900}[start]])
    np.testing.assert_allclose(sample.matrix(), np.cov(features.T, bias=True), rtol=1e-10)
    correlations = np.abs(np.corrcoef((features @ projection).T))
    expected = correlations[~np.eye(4, dtype=bool)].mean()
    assert mean_abs_correlation(projection, sample.matrix()) == pytest.approx(expected, rel=1e-10)


def test_directions_without_variance_change_the_cosine_and_not_the_correlation():
    draw = np.random.default_rng(2)
    covariance = np.diag([1.0] * 6 + [0.0] * 60)
    projection = draw.standard_normal((66, 5))
    noise = projection.copy()
    noise[6:] *= 100
    same = [mean_abs_correlation(each, covariance) for each in (projection, noise)]
    assert same[0] == pytest.approx(same[1], rel=1e-9)
    assert same[0] == pytest.approx(neuron_overlap(projection[:6]).mean(), rel=1e-9)
    assert neuron_overlap(noise).mean() < 0.5 * same[0]
    with pytest.raises(ValueError, match="neuron 0 does not vary"):
        mean_abs_correlation(np.eye(66)[:, 6:8], covariance)
    with pytest.raises(ValueError, match="is of 66 features, the projection has 7"):
        mean_abs_correlation(np.ones((7, 2)), covariance)
    with pytest.raises(ValueError, match="0 vectors have no covariance"):
        Covariance(3).matrix()


def test_rows_of_the_logit_scale():
    tensors = {
        "logit_scale": np.log([10.0, 20.0]),
        "cosine_gap": np.array([0.25, np.nan]),
        "logit_scale_drift": np.array([1e-4, 1e-4]),
        "logit_scale_newton_step": np.array([1e-4, 0.2]),
    }
    rows = {(row["metric"], row["seed"]): row["value"] for row in temperature_rows(tensors, [0, 1])}
    assert rows["logit_scale", 1] == pytest.approx(20)
    assert rows["gap_times_scale", 0] == pytest.approx(2.5)
    assert ("cosine_gap", 1) not in rows
    assert (rows["logit_scale_converged", 0], rows["logit_scale_converged", 1]) == (1.0, 0.0)
    untouched = temperature_rows({"logit_scale": np.zeros(1)}, [0])
    assert untouched == [{"metric": "logit_scale", "seed": 0, "value": 1.0}]


def test_steps_measure_covariance_and_then_correlations(tmp_path, capsys):
    image, text = _features(5000), _features(30, 5, seed=3)
    about = {"towers": "T"}
    parts = [tmp_path / f"{number}.safetensors" for number in range(3)]
    files.write_tensors(parts[0], {"image_features": image[:4500].astype(np.float32)}, about)
    files.write_tensors(parts[1], {"image_features": image[4500:].astype(np.float32)}, about)
    files.write_tensors(parts[2], {"text_features": text.astype(np.float32)}, about)
    out, purity = tmp_path / "covariance", tmp_path / "purity.json"
    command = ["measure-covariance", "--covariance", str(out), "--features"]
    assert cli.main([*command, *map(str, parts)]) == 0
    first = out.read_bytes()
    assert cli.main([*command, *map(str, parts[::-1])]) == 0
    assert out.read_bytes() == first
    tensors, metadata = files.read_tensors(out)
    assert metadata.items() >= {"towers": "T", "image_rows": "5000", "text_rows": "30"}.items()
    np.testing.assert_allclose(tensors["image_covariance"], np.cov(image.T, bias=True), rtol=1e-4)

    draw = np.random.default_rng(4)
    stack = {
        "image_projection": draw.standard_normal((2, 7, 4)),
        "text_projection": draw.standard_normal((2, 5, 4)),
        "logit_scale": np.zeros(2),
    }
    projection = tmp_path / "projection"
    files.write_tensors(projection, stack, {**about, "seeds": json.dumps([0, 1])})
    measure = ["measure-purity", "--projection", str(projection), "--purity", str(purity)]
    measure += ["--rotations", "2"]
    with_covariance = [*measure, "--covariance", str(out)]
    assert cli.main(with_covariance) == 0
    rows, _ = metrics.read_metrics(purity)
    found = {(row["tower"], row["seed"]): row["value"]
             for row in rows if row["metric"] == "mean_abs_correlation"}  # fmt: skip
    for tower, features in (("image", image), ("text", text)):
        for seed in (0, 1):
            activations = features @ stack[f"{tower}_projection"][seed]
            expected = np.abs(np.corrcoef(activations.T))[~np.eye(4, dtype=bool)].mean()
            assert found[tower, seed] == pytest.approx(expected, rel=1e-5)
    assert cli.main(measure) == 0  # without a corpus there is no covariance
    assert not [r for r in metrics.read_metrics(purity)[0] if r["metric"] == "mean_abs_correlation"]
    files.write_tensors(projection, stack, {"towers": "other"})
    assert cli.main(with_covariance) == 2
    assert "is of other towers than the projections" in capsys.readouterr().err
