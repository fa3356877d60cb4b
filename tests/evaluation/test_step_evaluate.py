"""The steps evaluate_zeroshot and compare_arms, on files as the rules give them."""

import json
import shutil

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, silhouette_score

from mispair.core import files, metrics
from mispair.evaluation import classification, retrieval
from mispair.evaluation.arm_comparison import difference
from tests.evaluation.encoded import step, write_projection

K = 8
NAMES = [f"name {number}" for number in range(K)]


def _features(n, seed, k=K):
    """Pictures and prompts of classes that lie in the same directions."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, k, n)
    images, prompts = (draw.standard_normal((count, 20)).astype(np.float32) for count in (n, 3 * k))
    images[np.arange(n), labels] += 3
    numbers = np.repeat(np.arange(k), 3)
    prompts[np.arange(3 * k), numbers] += 3
    return images, labels, prompts, numbers


def _write_set(folder, name, images, labels=None, classnames=NAMES, **about):
    path = folder / name / "images.safetensors"
    known = {} if labels is None else {"labels": labels}
    metadata = {"name": name, "kind": "classification" if known else "retrieval", "towers": "t",
                "classnames": json.dumps(classnames),
                "images_fingerprint": f"pictures of {name}"}  # fmt: skip
    files.write_tensors(path, {"image_features": images, **known}, metadata | about)
    return path


def _write_prompts(folder, name, protocol, prompts, numbers, classnames=NAMES, **about):
    path = folder / name / f"prompts~{protocol}.safetensors"
    tensors = {"prompt_features": prompts, "prompt_classes": numbers}
    metadata = {"name": name, "protocol": protocol,
                "metric": "mean_per_class_recall" if protocol == "laclip" else "acc1",
                "classnames": json.dumps(classnames), "templates": json.dumps(["{c}"]),
                "fingerprint": f"{protocol} of {name}", "towers": "t"}  # fmt: skip
    files.write_tensors(path, tensors, metadata | about)
    return path


def _write_projection(path, stack=2, spread=0.05, seed=9, **metadata):
    """Projections near one that keeps the first 16 of 20 coordinates."""
    draw = np.random.default_rng(seed)
    drawn = np.eye(20, 16) + spread * draw.standard_normal((2, stack, 20, 16))
    image, text = drawn.astype(np.float32)
    seeds = json.dumps(list(range(5, 5 + stack)))
    write_projection(path, image, text, **{"towers": "t", "seeds": seeds} | metadata)
    return image, text


def _evaluate(folder, images, prompts, arm="arm"):
    out = {"zeroshot": folder / f"{arm}.json", "answers": folder / f"{arm}.safetensors"}
    return step("evaluate-zeroshot", projection=folder / arm, images=images, prompts=prompts, **out)


def _row(rows, **wanted):
    (row,) = [row for row in rows if wanted.items() <= row.items()]
    return row


@pytest.fixture
def one_set(tmp_path):
    data = _features(200, 0)
    pictures = [_write_set(tmp_path, "toys", *data[:2])]
    return tmp_path, pictures, [_write_prompts(tmp_path, "toys", "clip_benchmark", *data[2:])]


def test_every_set_protocol_and_seed_is_scored(tmp_path):
    first, second = _features(200, 0), _features(90, 3)
    pictures = [
        _write_set(tmp_path, name, *data[:2])
        for name, data in {"toys": first, "cars": second}.items()
    ]
    prompts = [
        _write_prompts(tmp_path, "toys", "clip_benchmark", *first[2:]),
        _write_prompts(tmp_path, "cars", "clip_benchmark", *second[2:]),
        # One prompt for each class, of classes with other names.
        _write_prompts(tmp_path, "cars", "laclip", second[2][::3], np.arange(K), NAMES[::-1]),
    ]
    image, text = _write_projection(tmp_path / "arm", spread=0.4, start="untouched")
    assert _evaluate(tmp_path, pictures, prompts) == 0
    rows, provenance = metrics.read_metrics(tmp_path / "arm.json")
    answers, about = files.read_tensors(tmp_path / "arm.safetensors")
    images, labels = second[:2]
    for protocol, (features, numbers) in {
        "clip_benchmark": second[2:],
        "laclip": (second[2][::3], np.arange(K)),
    }.items():
        here = {"evaluation_set": "cars", "protocol": protocol, "seed": 6}
        embeddings = classification.embed(images, image[1])
        logits = embeddings @ classification.classifier(features, numbers, text[1]).T
        expected = logits.argmax(1)
        found = _row(rows, **here, metric="acc1")
        assert found["value"] == pytest.approx(np.mean(expected == labels))
        assert found["fingerprint"] == f"{protocol} of cars"
        assert found["n"] == 90
        recall = _row(rows, **here, metric="mean_per_class_recall")
        assert recall["value"] == pytest.approx(balanced_accuracy_score(labels, expected))
        silhouette = _row(rows, **here, metric="silhouette")["value"]
        assert silhouette == pytest.approx(silhouette_score(embeddings, labels, metric="cosine"))
        np.testing.assert_array_equal(answers[f"cars|{protocol}|6"], expected)
        assert answers[f"cars|{protocol}|6"].dtype == np.int32
        names = NAMES if protocol == "clip_benchmark" else NAMES[::-1]
        own = _row(rows, **here, metric="class_recall", classname=names[2])
        assert own["value"] == pytest.approx(np.mean(expected[labels == 2] == 2))
    assert len(rows) == 3 * 2 * (4 + K)
    accuracies = {
        (row["evaluation_set"], row["protocol"], row["seed"]): row["value"]
        for row in rows
        if row["metric"] == "acc1"
    }
    assert len(set(accuracies.values())) > 3  # nothing was scored with something else's features
    assert provenance["headline"] == {
        "toys": {"clip_benchmark": "acc1"},
        "cars": {"clip_benchmark": "acc1", "laclip": "mean_per_class_recall"},
    }
    assert set(answers) == {"toys|labels", "cars|labels"} | {
        "|".join(map(str, key)) for key in accuracies
    }
    np.testing.assert_array_equal(answers["cars|labels"], labels)
    assert json.loads(about["projection"])["start"] == "untouched"
    assert json.loads(about["sets"]) == {"toys": "pictures of toys", "cars": "pictures of cars"}
    assert json.loads(about["protocols"])["cars|laclip"] == "laclip of cars"


def test_a_further_set_is_scored_alone_and_another_model_on_all(tmp_path, monkeypatch):
    scored = []
    score = classification.classify

    def counting(embeddings, *rest):
        scored.append(len(embeddings))
        return score(embeddings, *rest)

    monkeypatch.setattr("mispair.evaluation.set_scores.classify", counting)
    sizes = {"toys": 200, "cars": 90, "pets": 40}
    sets = {name: _features(size, size) for name, size in sizes.items()}
    pictures = [_write_set(tmp_path, name, *data[:2]) for name, data in sets.items()]
    prompts = [_write_prompts(tmp_path, name, "own", *data[2:]) for name, data in sets.items()]

    def results():
        return [(tmp_path / name).read_bytes() for name in ("arm.json", "arm.safetensors")]

    def newly_scored(*chosen):
        """Score some sets, compare with the bytes of a job that has nothing to reuse."""
        scored.clear()
        some = [[files_of[place] for place in chosen] for files_of in (pictures, prompts)]
        assert _evaluate(tmp_path, *some) == 0
        new, written = {*scored}, results()
        (tmp_path / "reuse").rename(tmp_path / "put-away")
        assert _evaluate(tmp_path, *some) == 0
        shutil.rmtree(tmp_path / "reuse")
        (tmp_path / "put-away").rename(tmp_path / "reuse")
        assert written == results()
        return new

    _write_projection(tmp_path / "arm")
    assert newly_scored(0, 1) == {200, 90}
    assert newly_scored(2, 0, 1) == {40}
    assert newly_scored(0, 2) == set()
    _write_prompts(tmp_path, "toys", "own", *_features(200, 5)[2:])
    assert newly_scored(0, 2) == {200}
    _write_projection(tmp_path / "arm", seed=4)
    assert newly_scored(0, 2) == {200, 40}


def test_captioned_pictures_have_recalls_and_no_answers(tmp_path):
    draw = np.random.default_rng(0)
    images = draw.standard_normal((30, 20)).astype(np.float32)
    numbers = np.repeat(np.arange(30), draw.integers(1, 6, 30))
    captions = images[numbers] + draw.standard_normal((len(numbers), 20)).astype(np.float32)
    pictures = _write_set(tmp_path, "flickr", images, classnames=[])
    prompts = _write_prompts(tmp_path, "flickr", "captions", captions, numbers, [])
    image, text = _write_projection(tmp_path / "arm", start="untouched")
    assert _evaluate(tmp_path, [pictures], [prompts]) == 0
    rows, _ = metrics.read_metrics(tmp_path / "arm.json")
    expected = retrieval.recalls(
        classification.embed(images, image[0]), classification.embed(captions, text[0]), numbers
    )
    found = [row for row in rows if row["seed"] == 5]
    assert len(found) == 6
    for row, own in zip(found, expected, strict=True):
        assert row.items() >= (own | {"evaluation_set": "flickr", "protocol": "captions"}).items()
    assert 0.2 < _row(found, metric="image_recall@1")["value"] < 1
    assert files.read_tensors(tmp_path / "arm.safetensors")[0] == {}


def test_one_image_a_class_and_a_class_without_image_are_said(tmp_path, caplog):
    images, _, prompts, numbers = _features(K - 1, 0)
    pictures = _write_set(tmp_path, "toys", images, np.arange(K - 1))
    asked = _write_prompts(tmp_path, "toys", "laclip", prompts, numbers)
    _write_projection(tmp_path / "arm", stack=1)
    assert _evaluate(tmp_path, [pictures], [asked]) == 0
    rows, _ = metrics.read_metrics(tmp_path / "arm.json")
    assert _row(rows, metric="silhouette")["value"] is None
    assert _row(rows, metric="classes_without_images")["value"] == 1
    assert any("no silhouette (images of one class, or one image a" in m for m in caplog.messages)


@pytest.mark.parametrize(
    ("fault", "words", "named"),
    [
        ("nan image", "a feature is not finite", "images"),
        ("nan prompt", "a feature is not finite", "prompts"),
        ("label", "label 99 names none of the 8 classes (0 to 7)", "images"),
        ("last class", "only 7 of 8 classes have prompts", "prompts"),
        ("class", "class 3 has no prompt", "prompts"),
        ("width", "features of width 19 do not fit a projection from 20", "images"),
        ("towers", "comes from other towers than the projection", "prompts"),
        ("elsewhere", "has no prompts next to it", "images"),
        ("no images", "has no images next to it", "prompts"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(one_set, capsys, fault, words, named):
    folder, pictures, prompts = one_set
    images, labels, features, numbers = _features(200, 0)
    about = {}
    match fault:
        case "nan image":
            images[3, 2] = np.nan
        case "nan prompt":
            features[3, 2] = np.inf
        case "label":
            labels[5] = 99
        case "last class":
            features, numbers = features[:-3], numbers[:-3]
        case "class":
            features, numbers = features[numbers != 3], numbers[numbers != 3]
        case "width":
            images = images[:, 1:]
        case "towers":
            about = {"towers": "others"}
    _write_set(folder, "toys", images, labels)
    _write_prompts(folder, "toys", "clip_benchmark", features, numbers, **about)
    if fault == "elsewhere":
        prompts = []
    if fault == "no images":
        prompts.append(_write_prompts(folder, "cars", "laclip", features, numbers))
    _write_projection(folder / "arm")
    assert _evaluate(folder, pictures, prompts) == 2
    message = capsys.readouterr().err
    assert words in message
    assert str((pictures if named == "images" else prompts)[-1]) in message
    assert not (folder / "arm.json").exists()
    assert not (folder / "arm.safetensors").exists()


# compare_arms ----------------------------------------------------------------------------------


def _write_answers(path, right, rate=None, start="pretrained", images="print", **origin):
    """Answers of an arm, of which the given ones (s, n) are right."""
    right = np.atleast_2d(right)
    labels = np.arange(right.shape[1]) % K
    given = np.where(right, labels, (labels + 1) % K).astype(np.int32)
    tensors = {f"toys|laclip|{seed}": one for seed, one in enumerate(given)} | {
        "toys|labels": labels
    }
    origin |= {"start": start} if rate is None else {"start": start, "rate": repr(rate)}
    about = {"projection": origin, "sets": {"toys": images}, "protocols": {"toys|laclip": "p"}}
    files.write_tensors(path, tensors, {key: json.dumps(one) for key, one in about.items()})
    return path


@pytest.fixture
def arms(tmp_path):
    draw = np.random.default_rng(0)
    easy = draw.random((1, 400)) < 0.8
    one = _write_answers(tmp_path / "u", easy, start="untouched")
    two = _write_answers(
        tmp_path / "0", easy & (draw.random((3, 400)) < 0.98), 0.0, scheme="random"
    )
    worse = easy & (draw.random((3, 400)) < 0.9)
    three = _write_answers(tmp_path / "3", worse, 0.3, scheme="similar")
    four = _write_answers(tmp_path / "r", worse, 0.3, "reinitialised", scheme="random")
    return [one, two, three, four]


def _compared(arms, **wanted):
    """Compare arms; return the rows on the set, or on all sets, that have these values."""
    comparison = arms[0].with_name("comparison.json")
    assert step("compare-arms", zeroshot_answers=arms, comparison=comparison) == 0
    rows, _ = metrics.read_metrics(comparison)
    wanted = {"metric": "acc1_difference"} | wanted
    return [row for row in rows if wanted.items() <= row.items()]


def _right(path):
    """Return which answers of an arm are right, (seeds, n)."""
    tensors, _ = files.read_tensors(path)
    return np.stack([tensors[key] == tensors["toys|labels"]
                     for key in sorted(tensors) if not key.endswith("labels")])  # fmt: skip


def test_arms_are_compared_with_the_untouched_one_and_with_their_own_at_rate_0(arms):
    rows = _compared(arms)
    assert [(row["start"], row["scheme"], row["rate"], row["reference"]) for row in rows] == [
        ("pretrained", "random", 0.0, "untouched"),
        ("pretrained", "similar", 0.3, "untouched"),
        ("pretrained", "similar", 0.3, "rate 0"),  # of another scheme: at 0 they are all the same
        ("reinitialised", "random", 0.3, "untouched"),
    ]
    right = [_right(path) for path in arms]
    expected = [right[1].mean() - right[0].mean(), right[2].mean() - right[0].mean(),
                right[2].mean() - right[1].mean()]  # fmt: skip
    assert [row["value"] for row in rows[:3]] == pytest.approx(expected)
    about = {"evaluation_set": "toys", "protocol": "laclip", "n": 400}
    assert rows[2].items() >= (about | vars(difference([right[2]], [right[1]]))).items()
    assert [row["seeds"] for row in rows] == [3, 3, 3, 3]
    # With one evaluation set the mean of all sets is that set.
    mean = _compared(arms, metric="acc1_difference_of_all_sets")
    assert [row["value"] for row in mean] == [row["value"] for row in rows]
    assert [row["error"] for row in mean] == [row["error"] for row in rows]
    assert "evaluation_set" not in mean[0]
    for row in rows:
        assert row["low"] <= row["value"] <= row["high"]
        assert row["value"] < 0
    # Neither the order of the files nor the presence of another arm changes an interval.
    again = _compared([arms[2], arms[1], arms[0]])
    assert sorted(map(str, again)) == sorted(map(str, rows[:3]))


def test_weighted_arms_are_compared_with_the_same_captions_without_weights(arms):
    better, path = np.ones((3, 400), bool), arms[0].with_name("w")
    weighted = _write_answers(path, better, 0.3, "audit-weighted", scheme="similar")
    rows = _compared([*arms, weighted], start="audit-weighted")
    by_reference = {row["reference"]: row["value"] for row in rows}
    assert by_reference.keys() == {"untouched", "not weighted"}  # it has no arm at rate 0 here
    assert by_reference["not weighted"] == pytest.approx(1 - _right(arms[2]).mean())


def test_other_schemes_are_compared_with_the_main_one_at_the_same_rate(arms):
    some, path = np.random.default_rng(1).random((3, 400)) < 0.6, arms[0].with_name("m")
    random = _write_answers(path, some, 0.3, scheme="random")
    (row,) = _compared([*arms, random], reference="scheme random")  # none of another start or rate
    assert (row["start"], row["scheme"], row["rate"]) == ("pretrained", "similar", 0.3)
    assert row.items() >= vars(difference([_right(arms[2])], [_right(random)])).items()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("images", "do not answer for the same images and prompts (toys)"),
        ("protocol", "do not answer for the same images and prompts (toys|laclip)"),
        ("untouched", "0 of the 3 files of answers are of the untouched projections"),
    ],
)
def test_arms_that_cannot_be_compared_are_refused(arms, capsys, fault, words):
    if fault == "images":
        _write_answers(arms[2], np.ones((1, 400), bool), 0.3, images="other")
    if fault == "protocol":
        tensors, about = files.read_tensors(arms[2])
        files.write_tensors(arms[2], tensors, about | {"protocols": "{}"})
    given = arms[1:] if fault == "untouched" else arms
    comparison = arms[0].with_name("comparison.json")
    assert step("compare-arms", zeroshot_answers=given, comparison=comparison) == 2
    message = capsys.readouterr().err
    assert words in message
    if fault != "untouched":
        assert str(arms[0]) in message
        assert str(arms[2]) in message
    assert not comparison.exists()
