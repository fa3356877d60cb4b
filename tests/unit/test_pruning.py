"""Pruning in one pass against a naive twin written after the authors' description."""

import json

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.metrics import silhouette_score

from mispair import cli, files, metrics
from mispair.evaluation import pruning
from mispair.evaluation.purity import random_rotation
from mispair.steps.prune_neurons import Settings

E = 24


def _data(n=150, k=6, seed=0):
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, k, n)
    images = draw.standard_normal((n, 20)).astype(np.float32)
    images[:, :k] += 2 * np.eye(k, dtype=np.float32)[labels]
    prompts = draw.standard_normal((k, 2, 10)).astype(np.float32)
    return pruning.EvaluationSet(images, labels, prompts)


def _projections(seed=1):
    draw = np.random.default_rng(seed)
    image = draw.standard_normal((20, E)) * np.linspace(0.3, 3, 20)[:, None]
    text = draw.standard_normal((10, E)) * np.linspace(0.3, 3, 10)[:, None]
    return image.astype(np.float32), text.astype(np.float32)


def _naive(data, image, text, kept):
    """Evaluate with all but the kept neurons set to zero, from the features, with loops."""
    classes = []
    for prompts in data.prompt_features.astype(np.float64):
        units = [p @ text / np.linalg.norm(p @ text) for p in prompts]
        mean = np.mean(units, axis=0)
        classes.append(mean / np.linalg.norm(mean))
    masked = []
    for features in data.image_features.astype(np.float64):
        unit = features @ image / np.linalg.norm(features @ image)
        masked.append([unit[j] if j in kept else 0.0 for j in range(E)])
    masked = np.array(masked)
    right = [
        np.argmax(np.array(classes) @ x) == y for x, y in zip(masked, data.labels, strict=True)
    ]
    return np.mean(right), silhouette_score(masked, data.labels, metric="cosine")


@pytest.mark.parametrize("rotated", [False, True])
def test_one_pass_equals_the_naive_sweep(rotated):
    data, (image, text) = _data(), _projections()
    rotation = random_rotation(E, np.random.default_rng(3)) if rotated else None
    model = pruning.PrunableModel(data, image, text, rotation)
    order = np.random.default_rng(4).permutation(E)
    ks = [2, 5, 6, 17, E]
    rows = {(row["k"], row["metric"]): row["value"] for row in model.scores(order, ks[::-1])}
    if rotated:
        image, text = image @ rotation, text @ rotation
    for k in ks:
        accuracy, silhouette = _naive(data, image, text, set(order[:k]))
        assert rows[k, "acc1"] == accuracy
        assert rows[k, "silhouette"] == pytest.approx(silhouette, abs=1e-6)
    assert len({rows[k, "acc1"] for k in ks}) > 2


def test_all_neurons_score_the_same_in_every_basis():
    data, (image, text) = _data(), _projections()
    values = []
    for number in range(3):
        rotation = random_rotation(E, np.random.default_rng(number)) if number else None
        model = pruning.PrunableModel(data, image, text, rotation)
        values.append([row["value"] for row in model.scores(np.arange(E), [E])])
    np.testing.assert_allclose(values, [values[0]] * 3, atol=1e-6)


def _overlap(matrix):
    unit = matrix / np.linalg.norm(matrix, axis=0)
    return np.abs(unit.T @ unit).sum(0)


@pytest.mark.parametrize("tower", ["text", "image", "both"])
def test_rankings_by_purity(tower):
    data, (image, text) = _data(), _projections()
    value = {"text": _overlap(text), "image": _overlap(image)}
    value["both"] = value["text"] + value["image"]  # the authors' ranking
    model = pruning.PrunableModel(data, image, text)
    purest = model.ranking("high-purity", tower).order
    np.testing.assert_array_equal(purest, np.argsort(value[tower]))
    np.testing.assert_array_equal(model.ranking("low-purity", tower).order, purest[::-1])


def test_rankings_by_variance():
    data, (image, text) = _data(), _projections()
    model = pruning.PrunableModel(data, image, text)
    unit = data.image_features @ image
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    order = model.ranking("high-variance", "image").order
    np.testing.assert_array_equal(order, np.argsort(-unit.std(0)))
    np.testing.assert_array_equal(model.ranking("low-variance", "image").order, order[::-1])
    prompts = (data.prompt_features @ text).reshape(12, E)
    prompts /= np.linalg.norm(prompts, axis=1, keepdims=True)
    np.testing.assert_array_equal(
        model.ranking("high-variance", "text").order, np.argsort(-prompts.var(0))
    )
    np.testing.assert_array_equal(
        model.ranking("high-variance", "both").order, np.argsort(-prompts.var(0) - unit.var(0))
    )


def test_what_is_kept_decides():
    # Neurons 0 and 1 hold the classes and are orthogonal; the others are copies of one direction
    # without information: high purity keeps the former, low purity the latter.
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, 200)
    noise = draw.standard_normal(200)
    images = np.column_stack([labels == 0, labels == 1, noise]).astype(np.float32)
    projection = np.zeros((3, 8), np.float32)
    projection[0, 0] = projection[1, 1] = 1
    projection[2, 2:] = 1
    prompts = np.array([[[1, 0, 0]], [[0, 1, 0]]], np.float32)
    data = pruning.EvaluationSet(images, labels, prompts)
    model = pruning.PrunableModel(data, projection, projection)

    def accuracy(strategy):
        return next(model.scores(model.ranking(strategy, "both").order, [2]))["value"]

    assert accuracy("high-purity") == 1
    assert 0.3 < accuracy("low-purity") < 0.7


def test_settings_refuse_a_repeated_or_empty_k():
    with pytest.raises(ValidationError, match="16 is listed twice"):
        Settings(ks=[16, 32, 16])
    with pytest.raises(ValidationError, match="ks"):
        Settings(ks=[0])
    with pytest.raises(ValidationError, match="ks"):
        Settings(ks=[])


def _write(folder, labels=None):
    data = _data()
    image, text = _projections()
    arrays = {
        "image_features": data.image_features,
        "labels": data.labels if labels is None else labels,
        "prompt_features": data.prompt_features,
    }
    about = {"name": "one", "classnames": json.dumps(list("abcdef")), "fingerprint": "f"}
    files.write_tensors(folder / "one", arrays, about)
    tensors = {
        "image_projection": np.stack([image, image[:, ::-1]]),
        "text_projection": np.stack([text, text[:, ::-1]]),
        "logit_scale": np.zeros(2, np.float32),
    }
    files.write_tensors(folder / "projection", tensors, {"seeds": "[0, 1]"})


def _run(folder, *options):
    arguments = ["prune-neurons", "--projection", folder / "projection", "--pruning"]
    arguments += [folder / "pruning.json", "--evaluation-features", folder / "one", *options]
    return cli.main([str(argument) for argument in arguments])


def test_step_writes_every_strategy_basis_and_k(tmp_path):
    _write(tmp_path)
    options = ["--ks", "8", "16", "--draws", "3", "--rotations", "2"]
    assert _run(tmp_path, *options) == 0
    rows, _ = metrics.read_metrics(tmp_path / "pruning.json")
    assert len(rows) == 3 * (4 * 3 + 3) * 2 * 2
    keys = [
        (r["basis"], r["strategy"], r["ranked_by"], r["draw"], r["k"], r["metric"]) for r in rows
    ]
    assert len(set(keys)) == len(rows)
    assert {key[0] for key in keys} == {"original", "rotated-0", "rotated-1"}
    assert {row["seed"] for row in rows} == {0}
    draws = [r["value"] for r in rows if r["strategy"] == "random" and r["metric"] == "silhouette"]
    assert len(set(draws)) == len(draws)
    first = (tmp_path / "pruning.json").read_bytes()
    assert _run(tmp_path, *options) == 0
    assert (tmp_path / "pruning.json").read_bytes() == first
    assert _run(tmp_path, *options, "--seeds", "5") == 0
    rows, _ = metrics.read_metrics(tmp_path / "pruning.json")
    assert {row["seed"] for row in rows} == {0, 1}


def test_step_refuses_more_neurons_than_there_are(tmp_path, capsys):
    _write(tmp_path)
    assert _run(tmp_path, "--ks", "8", "25") == 2
    assert "ks: 25 is more than the 24 neurons" in capsys.readouterr().err


def test_a_set_with_one_class_has_no_silhouette(tmp_path):
    _write(tmp_path, labels=np.zeros(150, np.int64))
    assert _run(tmp_path, "--ks", "8") == 0
    rows, _ = metrics.read_metrics(tmp_path / "pruning.json")
    assert {row["value"] for row in rows if row["metric"] == "silhouette"} == {None}
