"""The linear probe against scikit-learn itself, and its step on files."""

import logging
import shutil

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import StratifiedKFold, cross_val_score

from mispair.core import distributions, files, metrics
from mispair.evaluation.classification import embed, probe
from tests.evaluation.encoded import step

K = 4


def _split(n, seed):
    draw = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(K), draw.choice(K, n - K, p=[0.4, 0.3, 0.2, 0.1])])
    features = draw.standard_normal((n, 12)).astype(np.float32)
    features[:, :K] += 1.5 * np.eye(K, dtype=np.float32)[labels]
    return features, labels


def _embeddings(n, seed):
    features, labels = _split(n, seed)
    return embed(features, np.eye(12, dtype=np.float32)), labels


def _probe(train, known, test, labels, C, max_iter, grid=(), folds=5, seed=7):
    return probe((train, known), (test, labels), C, grid, folds, seed, max_iter)


@pytest.mark.parametrize("C", [0.01, 30.0])
def test_scores_are_those_of_scikit_learn(C):
    (train, known), (test, labels) = _embeddings(200, 0), _embeddings(300, 1)
    (accuracy, recall), complaints = _probe(train, known, test, labels, C, 1000)
    answers = LogisticRegression(C=C, max_iter=1000).fit(train, known).predict(test)
    assert accuracy["metric"] == "probe_acc1"
    assert accuracy["value"] == pytest.approx(np.mean(answers == labels))
    hits = int((answers == labels).sum())
    assert (accuracy["low"], accuracy["high"]) == distributions.wilson(hits, 300)
    assert recall["metric"] == "probe_mean_per_class_recall"
    assert recall["value"] == pytest.approx(balanced_accuracy_score(labels, answers))
    assert recall["low"] < recall["value"] < recall["high"]
    assert recall["value"] != accuracy["value"]
    assert (accuracy["n"], accuracy["C"], accuracy["chance"]) == (300, C, 1 / K)
    assert complaints == []


def test_cross_validation_is_that_of_scikit_learn_and_seeded():
    (train, known), (test, labels) = _embeddings(200, 0), _embeddings(300, 1)
    grid = [1e-4, 0.1, 1.0, 1e3]
    folds = StratifiedKFold(5, shuffle=True, random_state=7)
    accuracies = {
        C: cross_val_score(LogisticRegression(C=C, max_iter=1000), train, known, cv=folds).mean()
        for C in grid
    }
    best = max(grid, key=accuracies.__getitem__)
    assert best in grid[1:3]  # neither the first nor the last one tried
    rows, complaints = _probe(train, known, test, labels, None, 1000, grid[::-1])
    assert rows == _probe(train, known, test, labels, best, 1000)[0]
    assert complaints == []


def test_classes_that_training_lacks_are_named():
    (train, known), (test, labels) = _embeddings(60, 0), _embeddings(60, 1)
    with pytest.raises(ValueError, match=r"class 2 has test images but no training image \(1 "):
        _probe(train[known != 2], known[known != 2], test, labels, 1.0, 100)
    without = labels != 2  # the other way round is no fault
    _probe(train, known, test[without], labels[without], 1.0, 1000)
    with pytest.raises(ValueError, match="all of one class"):
        _probe(train[:3], known[:1].repeat(3), test[:1], known[:1], 1.0, 100)
    with pytest.raises(ValueError, match="label -9 names none of the 4 classes"):
        _probe(train, known, test, np.full(60, -9), 1.0, 100)
    with pytest.raises(ValueError, match="class 3 has 1 training images, too few"):
        known = np.arange(60) % 3 + (np.arange(60) == 2)
        _probe(train, known, test[:1], known[:1], None, 100, [1.0, 2.0])


# The step --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A projection of two seeds, and both splits of a set."""
    projections = np.random.default_rng(5).standard_normal((2, 12, 8)).astype(np.float32)
    tensors = {"image_projection": projections, "text_projection": projections}
    files.write_tensors(tmp_path / "projection", tensors, {"seeds": "[3, 4]", "start": "untouched"})
    for name, split in (("train", _split(120, 0)), ("images", _split(80, 1))):
        _write(tmp_path / "toys" / f"{name}.safetensors", *split)
    return tmp_path


def _write(path, features, labels):
    about = {"name": "toys", "kind": "classification",
             "images_fingerprint": f"print of {path.stem}"}  # fmt: skip
    files.write_tensors(path, {"image_features": features, "labels": labels}, about)


def _run(folder, *settings):
    toys = folder / "toys"
    words = {"train": toys / "train.safetensors", "images": toys / "images.safetensors"}
    done = step("fit-linear-probe", projection=folder / "projection", **words,
                probe=folder / "probe.json", **dict(settings))  # fmt: skip
    return done, metrics.read_metrics(folder / "probe.json") if done == 0 else None


def test_step_probes_the_seeds_that_it_is_asked_for(folder):
    _, (rows, provenance) = _run(folder)
    assert {row["seed"] for row in rows} == {3}
    _, (rows, provenance) = _run(folder, ("seeds", 2))
    again = (folder / "probe.json").read_bytes()
    for kept in ("parts", "nothing"):
        if kept == "nothing":
            shutil.rmtree(folder / "reuse")
        _run(folder, ("seeds", 2))
        assert (folder / "probe.json").read_bytes() == again
    assert [row["seed"] for row in rows] == [3, 3, 4, 4]
    projection = files.read_tensors(folder / "projection")[0]["image_projection"][1]
    (train, known), (test, labels) = _split(120, 0), _split(80, 1)
    expected, _ = _probe(
        embed(train, projection), known, embed(test, projection), labels, 30.0, 1000
    )
    assert rows[2]["value"] == expected[0]["value"]
    assert rows[2].items() >= {
        ("evaluation_set", "toys"), ("protocol", "linear-probe"), ("metric", "probe_acc1"),
        ("fingerprint", "print of images"), ("C", 30.0),
    }  # fmt: skip
    assert provenance["evaluation_sets"]["toys"]["train"]["images_fingerprint"] == "print of train"


def test_step_chooses_c_where_none_is_given_and_logs_complaints(folder, caplog):
    caplog.set_level(logging.WARNING)
    _, (rows, _) = _run(folder, ("C", "none"), ("grid", [0.001, 10]), ("folds", 3))
    assert {row["C"] for row in rows} == {10}
    assert not caplog.messages
    _run(folder, ("max_iter", 1))
    assert any("toys, seed 3: scikit-learn: lbfgs failed" in line for line in caplog.messages)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("nan", "a feature is not finite"),
        ("absent", "class 1 has test images but no training image"),
        ("no test", "there are no test images of this set"),
    ],
)
def test_step_names_the_files_of_what_is_wrong(folder, fault, words, capsys):
    features, labels = _split(120, 0)
    path = folder / "toys" / "train.safetensors"
    if fault == "nan":
        features[7] = np.nan
    keep = labels != 1 if fault == "absent" else slice(None)
    _write(path, features[keep], labels[keep])
    if fault == "no test":
        path = path.rename(folder / "train.safetensors")
        done = step("fit-linear-probe", projection=folder / "projection", train=path,
                    images=folder / "toys" / "images.safetensors",
                    probe=folder / "probe.json")  # fmt: skip
    else:
        done, _ = _run(folder)
    assert done == 2
    message = capsys.readouterr().err
    assert words in message
    assert str(path) in message
    assert not (folder / "probe.json").exists()
