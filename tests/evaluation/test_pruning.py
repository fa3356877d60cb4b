"""Pruning in one pass against a naive twin written after the authors' description."""

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.metrics import silhouette_score

from mispair import cli
from mispair.core import files, metrics, settings
from mispair.evaluation import classification, pruning
from mispair.evaluation.inputs import EncodedSet
from mispair.evaluation.purity import random_rotation
from mispair.evaluation.steps.prune_neurons import Settings
from tests.evaluation.encoded import encoded_set, write_projection

E = 24


def _data(n: int = 150, k: int = 6, seed: int = 0) -> EncodedSet:
    """Return a set with a protocol of one prompt a class, and one of as many as the class's."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, k, n)
    images = draw.standard_normal((n, 20)).astype(np.float32)
    images[:, :k] += 2 * np.eye(k, dtype=np.float32)[labels]
    of_prompts = {"single": range(k), "many": np.repeat(np.arange(k), np.arange(k) + 1)}
    prompts = {
        name: (draw.standard_normal((len(classes), 10)).astype(np.float32), np.array(classes))
        for name, classes in of_prompts.items()
    }
    return encoded_set(images, labels, prompts)


def _projections(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    image = draw.standard_normal((20, E)) * np.linspace(0.3, 3, 20)[:, None]
    text = draw.standard_normal((10, E)) * np.linspace(0.3, 3, 10)[:, None]
    columns = draw.uniform(0.5, 2, (2, E))
    return (image * columns[0]).astype(np.float32), (text * columns[1]).astype(np.float32)


def _prompts(data: EncodedSet) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the features and classes of the prompts of each protocol."""
    return {
        one.metadata["protocol"]: (one.tensors["prompt_features"], one.tensors["prompt_classes"])
        for one in data.prompts
    }


def _classes(
    prompts: tuple[np.ndarray, np.ndarray], text: np.ndarray, basis: np.ndarray
) -> np.ndarray:
    """Return the mean unit embedding of each class's prompts, at length one, with loops."""
    rows, (features, of_prompts) = [], prompts
    for number in range(of_prompts.max() + 1):
        own = (features[of_prompts == number] @ text).astype(np.float64) @ basis
        mean = np.mean([p / np.linalg.norm(p) for p in own], axis=0)
        rows.append(mean / np.linalg.norm(mean))
    return np.array(rows)


def _naive(
    data: EncodedSet, image: np.ndarray, text: np.ndarray, kept: np.ndarray, basis: np.ndarray
) -> tuple[dict[tuple[str, str], np.ndarray], float]:
    """Evaluate with all but the kept neurons set to zero, from the features: answers, silhouette.

    As a tower does, the projections work in single precision; all that follows is in double.
    """
    products = (data.images.tensors["image_features"] @ image).astype(np.float64) @ basis
    mask = np.isin(np.arange(E), kept)
    masked = np.where(mask, products / np.linalg.norm(products, axis=1, keepdims=True), 0.0)
    answers = {}
    for name, prompts in _prompts(data).items():
        classes = _classes(prompts, text, basis)
        answers[name, "masked"] = np.array([np.argmax(classes @ x) for x in masked])
        short = classes[:, mask] / np.linalg.norm(classes[:, mask], axis=1, keepdims=True)
        units = masked[:, mask] / np.linalg.norm(masked[:, mask], axis=1, keepdims=True)
        answers[name, "renormalised"] = np.array([np.argmax(short @ x) for x in units])
    return answers, silhouette_score(masked, data.labels, metric="cosine")


@pytest.mark.parametrize("rotated", [False, True])
def test_one_pass_equals_the_naive_sweep(rotated: bool) -> None:
    data, (image, text) = _data(), _projections()
    model, basis = pruning.PrunableModel(data, image, text), np.eye(E)
    if rotated:
        basis = random_rotation(E, np.random.default_rng(3))
        model = model.rotated(basis)
    order = np.random.default_rng(4).permutation(E)
    ks = [2, 5, 6, 17, E]
    rows = {
        (row["k"], row["metric"], row["protocol"], row["normalised"]): row
        for row in model.scores(order, [*ks[::-1], 5])
    }
    assert len(rows) == len(ks) * (2 * 2 + 1)
    differing = 0
    for k in ks:
        answers, silhouette = _naive(data, image, text, order[:k], basis)
        for which, found in answers.items():
            row = rows[k, "acc1", *which]
            assert row["value"] == np.mean(found == data.labels)
            assert row["low"] < row["value"] < row["high"]
        differing += (answers["many", "masked"] != answers["many", "renormalised"]).any()
        row = rows[k, "silhouette", None, "masked"]
        assert row["value"] == pytest.approx(silhouette, abs=1e-9)
        assert row["low"] < row["value"] < row["high"]
    assert differing >= 3  # the two forms are not one
    assert len({rows[k, "acc1", "many", "masked"]["value"] for k in ks}) > 2


def test_every_answer_is_that_of_the_naive_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the naive answers as labels all are right, whatever the blocks."""
    data, (image, text) = _data(), _projections()
    order, ks = np.random.default_rng(4).permutation(E), list(range(1, E + 1))
    images = classification.embed(data.images.tensors["image_features"], image)[:, order]
    for entries in (1 << 17, 6 * 7):
        monkeypatch.setattr(pruning, "BLOCK_ENTRIES", entries)
        for name, prompts in _prompts(data).items():
            classes = classification.classifier(*prompts, text)[:, order]
            for k in (2, 3, 10, 23, 24):
                answers, _ = _naive(data, image, text, order[:k], np.eye(E))
                for form, normalised in enumerate(pruning.NORMALISED):
                    own = answers[name, normalised]
                    right = pruning.right_answers(images, classes, own, ks)[form]
                    assert right[k - 1] == len(images)
                    assert min(right) < len(images) / 2


def _overlap(matrix: np.ndarray) -> np.ndarray:
    unit = matrix / np.linalg.norm(matrix, axis=0)
    return np.abs(unit.T @ unit).sum(0)


@pytest.mark.parametrize("tower", ["text", "image", "both"])
@pytest.mark.parametrize("rotated", [False, True])
def test_rankings(tower: str, rotated: bool) -> None:
    data, (image, text) = _data(), _projections()
    model = pruning.PrunableModel(data, image, text)
    if rotated:
        rotation = random_rotation(E, np.random.default_rng(3))
        model, image, text = model.rotated(rotation), image @ rotation, text @ rotation
    unit = data.images.tensors["image_features"].astype(np.float64) @ image
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    prompts = np.concatenate([own for own, _ in _prompts(data).values()]).astype(float) @ text
    prompts /= np.linalg.norm(prompts, axis=1, keepdims=True)
    for name, of_image, of_text in (
        ("purity", _overlap(image), _overlap(text)),
        ("variance", unit.var(0), prompts.var(0)),
        ("norm", np.sqrt((image**2).sum(0)), np.sqrt((text**2).sum(0))),
    ):
        value = {"image": of_image, "text": of_text, "both": of_image + of_text}[tower]
        ascending = np.argsort(value)
        first, last = ("high", "low") if name == "purity" else ("low", "high")
        up, down = model.ranking(f"{first}-{name}", tower), model.ranking(f"{last}-{name}", tower)
        np.testing.assert_array_equal(up.order, ascending)
        np.testing.assert_array_equal(down.order, ascending[::-1])
        assert (up.strategy, up.ranked_by, up.draw) == (f"{first}-{name}", tower, 0)


def test_what_does_not_fit_is_refused() -> None:
    data, (image, text) = _data(), _projections()
    few = {"few": (np.ones((3, 10), np.float32), np.arange(3))}
    features, labels = data.images.tensors["image_features"], data.images.tensors["labels"]
    with pytest.raises(ValueError, match="names none of the 3 classes"):
        pruning.PrunableModel(encoded_set(features, labels, few), image, text)
    with pytest.raises(ValueError, match="do not fit a projection"):
        pruning.PrunableModel(data, image[:-1], text)


# Settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([16, 8, "8-16:8"], [8, 16]),
        (["200-204"], [200, 201, 202, 203, 204]),
        (["200-500:50"], [200, 250, 300, 350, 400, 450, 500]),
        (["5-9:3", "7", 1], [1, 5, 7, 8]),
        (["7-7"], [7]),
    ],
)
def test_numbers_kept_may_be_ranges(given: list[int | str], expected: list[int]) -> None:
    found = Settings.model_validate({"ks": given})
    assert found.ks == expected
    words = shlex.split(settings.command_line(found))
    start = words.index("--ks") + 1
    assert Settings.model_validate({"ks": words[start : start + len(expected)]}).ks == expected


@pytest.mark.parametrize(
    ("ks", "message"),
    [
        ([0], "greater than or equal to 1"),
        ([], "at least 1 item"),
        (["500-200"], "'500-200' ends before it begins"),
        (["2..5"], "'2..5' is neither a number nor a range"),
        (["2-5:0"], "'2-5:0' is neither a number nor a range"),
        ([2.5], "2.5 is neither a number nor a range"),
        ([True], "truth value"),
        ("200-500", "valid list"),
    ],
)
def test_numbers_kept_that_are_none_are_refused(ks: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Settings.model_validate({"ks": ks})


def test_the_schema_knows_ranges() -> None:
    ways = Settings.model_json_schema()["properties"]["ks"]["anyOf"]
    (items,) = (way["items"]["anyOf"] for way in ways if way["type"] == "array")
    assert {item["type"] for item in items} == {"integer", "string"}


# The step ---------------------------------------------------------------------------------------


def _write(folder: Path, data: EncodedSet, **about: str) -> None:
    """Write the files of an evaluation set, and projections of two seeds."""
    image, text = _projections()
    of_set = {"towers": "t", "name": data.name, **about}
    files.write_tensors(folder / "one" / "images.safetensors", {**data.images.tensors}, of_set)
    for path, arrays, metadata in data.prompts:
        of_protocol = {**of_set, **metadata}
        files.write_tensors(folder / "one" / f"prompts~{path}.safetensors", {**arrays}, of_protocol)
    captions = {"image_features": data.images.tensors["image_features"]}
    files.write_tensors(folder / "two" / "images.safetensors", captions, {**of_set, "name": "two"})
    arrays = {"prompt_features": _prompts(data)["single"][0], "prompt_classes": np.arange(6)}
    about = {**of_set, "name": "two", "protocol": "captions"}
    files.write_tensors(folder / "two" / "prompts~captions.safetensors", arrays, about)
    both = (np.stack([one, one[:, ::-1]]) for one in (image, text))
    write_projection(folder / "projection", *both, seeds="[0, 1]", towers="t")


def _run(folder: Path, *options: str) -> int:
    arguments = ["prune-neurons", "--projection", folder / "projection", "--pruning"]
    arguments += [folder / "pruning.json", "--images", *sorted(folder.glob("*/images.*"))]
    arguments += ["--prompts", *sorted(folder.glob("*/prompts~*")), *options]
    return cli.main([str(argument) for argument in arguments])


def test_step_writes_every_strategy_basis_protocol_and_k(tmp_path: Path) -> None:
    _write(tmp_path, _data())
    options = ["--ks", "8-16:8", "--draws", "3", "--rotations", "2"]
    assert _run(tmp_path, *options) == 0
    rows, about = metrics.read_metrics(tmp_path / "pruning.json")
    own, rotated = 6 * 3 + 3, 2 * 3 + 2  # three draws are shared by two rotated bases: two each
    assert len(rows) == (own + 2 * rotated) * 2 * (2 * 2 + 1)
    names = ("basis", "strategy", "ranked_by", "draw", "k", "metric", "protocol", "normalised")
    keys = {tuple(row[name] for name in names) for row in rows}
    assert len(keys) == len(rows)
    assert {key[0] for key in keys} == {"original", "rotated-0", "rotated-1"}
    assert {key[1] for key in keys if key[0] != "original"} == {*pruning.PURITY, "random"}
    assert {(row["evaluation_set"], row["seed"]) for row in rows} == {("one", 0)}
    for row in rows:
        assert (row["metric"] == "silhouette") == (row["protocol"] is None)
        assert (row["strategy"] == "random") == ("low" not in row)
    draws = [r["value"] for r in rows if r["strategy"] == "random" and r["metric"] == "silhouette"]
    assert len(set(draws)) == len(draws)
    assert about["evaluation_sets"].keys() == about["protocols"].keys() == {"one"}
    assert about["protocols"]["one"]["many"]["fingerprint"] == "hash of many"
    first = (tmp_path / "pruning.json").read_bytes()
    for kept in ("parts", "nothing"):
        if kept == "nothing":
            shutil.rmtree(tmp_path / "reuse")
        assert _run(tmp_path, *options) == 0
        assert (tmp_path / "pruning.json").read_bytes() == first
    assert _run(tmp_path, *options, "--seeds", "5") == 0
    rows, _ = metrics.read_metrics(tmp_path / "pruning.json")
    assert {row["seed"] for row in rows} == {0, 1}


def test_another_protocol_changes_no_silhouette_of_a_purity(tmp_path: Path) -> None:
    _write(tmp_path, _data())
    options = ["--ks", "none", "--draws", "1", "--rotations", "0"]
    assert _run(tmp_path, *options) == 0
    both, _ = metrics.read_metrics(tmp_path / "pruning.json")
    assert {row["k"] for row in both} == set(range(3, 25, 3))
    (tmp_path / "one" / "prompts~many.safetensors").unlink()
    assert _run(tmp_path, *options) == 0
    one, _ = metrics.read_metrics(tmp_path / "pruning.json")
    kept = ("high-purity", "low-norm", "random")
    assert [row for row in one if row["strategy"] in kept] == [
        row for row in both if row["strategy"] in kept and row["protocol"] != "many"
    ]


@pytest.mark.parametrize(
    ("neurons", "expected"),
    [
        (512, list(range(200, 501, 50))),  # the paper's
        (768, list(range(300, 751, 75))),
        (128, list(range(16, 129, 16))),
        (24, list(range(3, 25, 3))),
        (5, [1, 2, 3, 4, 5]),
        (1, [1]),
    ],
)
def test_numbers_kept_follow_the_width_by_default(neurons: int, expected: list[int]) -> None:
    assert Settings().kept_of(neurons) == expected
    assert Settings(ks=[2]).kept_of(neurons) == [2]


def test_step_refuses_more_neurons_than_there_are(tmp_path: Path, capsys) -> None:
    _write(tmp_path, _data())
    assert _run(tmp_path, "--ks", "8", "20-25") == 2
    assert "ks: 25 is more than the 24 neurons" in capsys.readouterr().err


@pytest.mark.parametrize("labels", [np.zeros(150, np.int64), np.arange(6)])
def test_one_class_or_one_image_a_class_has_no_silhouette(labels, tmp_path) -> None:
    data = _data()
    images = data.images.tensors["image_features"][: len(labels)]
    _write(tmp_path, encoded_set(images, labels, _prompts(data)))
    assert _run(tmp_path, "--ks", "8", "--draws", "1") == 0
    rows, _ = metrics.read_metrics(tmp_path / "pruning.json")
    assert {row["value"] for row in rows if row["metric"] == "silhouette"} == {None}
    assert all(row["value"] is not None for row in rows if row["metric"] == "acc1")
    json.loads((tmp_path / "pruning.json").read_text())
