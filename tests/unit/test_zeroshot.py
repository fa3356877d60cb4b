"""Zero-shot scores against scikit-learn, hand-computed cases and closed forms."""

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, silhouette_score, top_k_accuracy_score

from mispair import cli, files, metrics
from mispair.evaluation import intervals, zeroshot


def _set(n=200, k=8, t=3, seed=0):
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, k - 1, n)  # the last class has no image
    images = draw.standard_normal((n, 20)).astype(np.float32)
    images[:, :k] += 2 * np.eye(k, dtype=np.float32)[labels]
    prompts = draw.standard_normal((k, t, 10)).astype(np.float32)
    return {"image_features": images, "labels": labels, "prompt_features": prompts}


def _projections(seed=1, e=16):
    draw = np.random.default_rng(seed)
    image = draw.standard_normal((20, e)).astype(np.float32)
    text = draw.standard_normal((10, e)).astype(np.float32)
    return image, text


def test_classifier_is_that_of_open_clip():
    # build_zero_shot_classifier asks for a model and a tokenizer: here tokens are features.
    from open_clip import build_zero_shot_classifier

    prompts, (_, text) = _set()["prompt_features"], _projections()

    class Model:
        def encode_text(self, tokens, normalize):
            assert normalize
            return torch.nn.functional.normalize(tokens @ torch.tensor(text), dim=-1)

    expected = build_zero_shot_classifier(
        Model(),
        tokenizer=lambda texts: torch.stack(
            [torch.tensor(prompts[int(text.split()[0]), int(text.split()[1])]) for text in texts]
        ),
        classnames=[str(number) for number in range(8)],
        templates=[lambda name, t=t: f"{name} {t}" for t in range(3)],
        num_classes_per_batch=3,
    )
    ours = zeroshot.classifier(prompts, text)
    np.testing.assert_allclose(ours, expected.numpy().T, atol=1e-6)


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_scores_are_those_of_scikit_learn():
    data, (image, text) = _set(), _projections()
    data["labels"][:150] %= 3  # unbalanced
    embeddings = zeroshot.embed(data["image_features"], image)
    classes = zeroshot.classifier(data["prompt_features"], text)
    logits, labels = embeddings @ classes.T, data["labels"]
    found = {row["metric"]: row for row in zeroshot.scores(embeddings, classes, labels)}
    answers = logits.argmax(1)
    assert found["acc1"]["value"] == pytest.approx((answers == labels).mean())
    assert found["acc5"]["value"] == pytest.approx(
        top_k_accuracy_score(labels, logits, k=5, labels=range(8))
    )
    expected = balanced_accuracy_score(labels, answers)
    assert found["mean_per_class_recall"]["value"] == pytest.approx(expected)
    assert found["mean_per_class_recall"]["value"] != found["acc1"]["value"]
    assert found["silhouette"]["value"] == pytest.approx(
        silhouette_score(embeddings, labels, metric="cosine")
    )
    for row in found.values():
        assert row["low"] < row["value"] < row["high"]
    assert found["acc1"]["chance"] == 1 / 8
    assert found["acc5"]["chance"] == 5 / 8
    assert "chance" not in found["silhouette"]


def test_a_case_by_hand():
    classes = np.eye(3)
    images = np.array([[1, 0, 0], [0.9, 0.1, 0], [0, 1, 0], [0, 0.6, 0.8], [0, 0.8, 0.6]])
    labels = np.array([0, 0, 1, 1, 2])
    rows = zeroshot.scores(images, classes, labels)
    values = {row["metric"]: row["value"] for row in rows if row["metric"] != "class_recall"}
    assert values["acc1"] == 3 / 5
    assert values["acc5"] == 1  # three classes: the true one is always among five
    assert values["mean_per_class_recall"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    recalls = [(row["class"], row["value"], row["n"]) for row in rows if "class" in row]
    assert recalls == [(0, 1.0, 2), (1, 0.5, 2), (2, 0.0, 1)]


def test_ranks_break_ties_as_argmax_and_do_not_depend_on_blocks(monkeypatch):
    images = np.array([[1.0, 1.0, 0.0]] * 3)
    ranks = zeroshot.true_ranks(images, np.eye(3), np.array([0, 1, 2]))
    assert ranks.tolist() == [0, 1, 2]
    draw = np.random.default_rng(0)
    images, labels = draw.standard_normal((50, 7)), draw.integers(0, 9, 50)
    classes = draw.standard_normal((9, 7))
    whole = zeroshot.true_ranks(images, classes, labels)
    monkeypatch.setattr(zeroshot, "BLOCK_ENTRIES", 36)
    np.testing.assert_array_equal(zeroshot.true_ranks(images, classes, labels), whole)
    order = np.argsort(-(images @ classes.T), axis=1)
    np.testing.assert_array_equal((order == labels[:, None]).argmax(1), whole)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_without_a_class_is_named(label):
    with pytest.raises(ValueError, match=f"label {label} names none of the 3 classes"):
        zeroshot.true_ranks(np.ones((2, 3)), np.eye(3), np.array([0, label]))


def test_one_image_a_class_has_accuracy_but_no_silhouette():
    rows = {row["metric"]: row for row in zeroshot.scores(np.eye(3), np.eye(3), np.arange(3))}
    assert rows["acc1"]["value"] == 1
    assert np.isnan(rows["silhouette"]["value"])


def test_features_that_are_not_finite_or_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        zeroshot.embed(np.array([[np.nan, 1.0]]), np.eye(2))
    with pytest.raises(ValueError, match="width 3 do not fit a projection from 2"):
        zeroshot.embed(np.ones((1, 3)), np.eye(2))


def test_wilson_solves_its_equation():
    # The limits are the shares p with |p_observed - p| = z sqrt(p (1 - p) / n).
    for hits, n in [(0, 10), (3, 10), (10, 10), (517, 1000)]:
        for limit in (value.item() for value in intervals.wilson(hits, n)):
            distance = abs(hits / n - limit)
            spread = intervals.Z95 * np.sqrt(limit * (1 - limit) / n)
            assert distance == pytest.approx(spread, abs=1e-9)
    low, high = intervals.wilson(8, 10)  # Agresti and Coull 1998 give 0.490 to 0.943
    assert (round(low.item(), 3), round(high.item(), 3)) == (0.49, 0.943)
    low, high = intervals.wilson([0, 5], [0, 5])
    assert low[0] == 0
    assert high.tolist() == [1, 1]


def test_interval_of_a_mean_of_shares():
    one = intervals.mean_of_shares(np.array([8]), np.array([10]))
    assert one == pytest.approx([value.item() for value in intervals.wilson(8, 10)])
    # With many trials it is the normal interval of a mean of independent shares.
    hits, trials = np.array([60_000, 30_000]), np.array([100_000, 40_000])
    share = hits / trials
    error = np.sqrt((share * (1 - share) / trials).sum()) / 2
    low, high = intervals.mean_of_shares(hits, trials)
    assert low == pytest.approx(share.mean() - 1.96 * error, abs=2e-5)
    assert high == pytest.approx(share.mean() + 1.96 * error, abs=2e-5)
    perfect = intervals.mean_of_shares(np.array([5, 5]), np.array([5, 5]))
    assert perfect[0] < 0.9
    assert perfect[1] == 1


def test_interval_of_a_mean_covers_it():
    draw = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        low, high = intervals.mean(draw.exponential(size=80))
        covered += low < 1 < high
    assert 0.91 < covered / 400 < 0.98


def _write_set(path, name, data, classes):
    metadata = {
        "name": name,
        "classnames": json.dumps([f"class {number}" for number in range(classes)]),
        "templates": json.dumps(["{c}"]),
        "fingerprint": f"print of {name}",
    }
    files.write_tensors(path, data, metadata)


def _write_projection(path, stack=2, **metadata):
    pairs = [_projections(seed) for seed in range(stack)]
    tensors = {
        "image_projection": np.stack([image for image, _ in pairs]),
        "text_projection": np.stack([text for _, text in pairs]),
        "logit_scale": np.zeros(stack, np.float32),
    }
    files.write_tensors(path, tensors, metadata)
    return pairs


def test_step_scores_every_set_and_seed(tmp_path):
    one, two = _set(), _set(n=90, seed=3)
    _write_set(tmp_path / "one", "one", one, 8)
    _write_set(tmp_path / "two", "two", two, 8)
    pairs = _write_projection(tmp_path / "projection", seeds="[0, 1]")
    out = tmp_path / "zeroshot.json"
    arguments = ["evaluate-zeroshot", "--projection", tmp_path / "projection", "--zeroshot", out]
    arguments += ["--evaluation-features", tmp_path / "one", tmp_path / "two"]
    assert cli.main([str(argument) for argument in arguments]) == 0
    rows, provenance = metrics.read_metrics(out)
    assert set(provenance["evaluation_sets"]) == {"one", "two"}
    wanted = {"evaluation_set": "two", "seed": 1, "metric": "acc1"}
    (row,) = [row for row in rows if wanted.items() <= row.items()]
    image, text = pairs[1]
    logits = (two["image_features"] @ image) @ zeroshot.classifier(two["prompt_features"], text).T
    assert row["value"] == pytest.approx((logits.argmax(1) == two["labels"]).mean())
    assert row["fingerprint"] == "print of two"
    assert row["n"] == 90
    names = {row["classname"] for row in rows if row["metric"] == "class_recall"}
    assert names == {f"class {number}" for number in range(7)}
    assert len(rows) == 2 * 2 * (4 + 7)


def test_step_names_the_file_of_a_bad_label(tmp_path, capsys):
    data = _set()
    data["labels"][5] = 99
    _write_set(tmp_path / "one", "one", data, 8)
    _write_projection(tmp_path / "projection", stack=1)
    out = tmp_path / "zeroshot.json"
    arguments = ["evaluate-zeroshot", "--projection", tmp_path / "projection", "--zeroshot", out]
    assert cli.main([str(a) for a in [*arguments, "--evaluation-features", tmp_path / "one"]]) == 2
    assert "label 99 names none of the 8 classes" in capsys.readouterr().err
