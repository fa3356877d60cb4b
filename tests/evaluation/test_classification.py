"""Zero-shot scores and silhouettes against libraries, hand-computed cases and closed forms."""

import tracemalloc

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, silhouette_score, top_k_accuracy_score
from sklearn.metrics import silhouette_samples as reference

from mispair.core import distributions
from mispair.evaluation import classification
from mispair.evaluation.classification import CosineSilhouette, silhouette_samples

K, T = 8, 3


def _set(n=200, seed=0):
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, K - 1, n)  # the last class has no image
    images = draw.standard_normal((n, 20)).astype(np.float32)
    images[:, :K] += 2 * np.eye(K, dtype=np.float32)[labels]
    prompts = draw.standard_normal((K * T, 10)).astype(np.float32)
    return images, labels, prompts, np.repeat(np.arange(K), T)


def _projections(seed=1, e=16):
    draw = np.random.default_rng(seed)
    image = draw.standard_normal((20, e)).astype(np.float32)
    text = draw.standard_normal((10, e)).astype(np.float32)
    return image, text


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ([0, 0, 2], "class 1 has no prompt"),
        ([1, 1, 2], "class 0 has no prompt"),
        ([0, 2, 1], "not in the order of their classes"),
        ([0, 1], "3 prompts do not fit the classes of 2"),
    ],
)
def test_prompts_that_do_not_fit_their_classes_are_refused(numbers, words):
    with pytest.raises(ValueError, match=words):
        classification.classifier(np.eye(3), np.array(numbers), np.eye(3))


def _scores(embeddings, classes, labels):
    _, ranks = classification.classify(embeddings, classes, labels)
    silhouette = classification.silhouette_row(embeddings, labels)
    return [*classification.accuracies(ranks, labels, len(classes)), silhouette]


@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true")
def test_scores_are_those_of_scikit_learn():
    (images, labels, prompts, numbers), (image, text) = _set(), _projections()
    labels[:150] %= 3  # unbalanced
    embeddings = classification.embed(images, image)
    classes = classification.classifier(prompts, numbers, text)
    logits = embeddings @ classes.T
    found = {row["metric"]: row for row in _scores(embeddings, classes, labels)}
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
    absent = found.pop("classes_without_images")
    assert (absent["value"], absent["n"]) == (1, 8)
    for row in found.values():
        assert row["low"] < row["value"] < row["high"]
    assert found["acc1"]["chance"] == 1 / 8
    assert found["acc5"]["chance"] == 5 / 8
    assert "chance" not in found["silhouette"]
    np.testing.assert_array_equal(classification.classify(embeddings, classes, labels)[0], answers)


def test_a_case_by_hand():
    classes = np.eye(3)
    images = np.array([[1, 0, 0], [0.9, 0.1, 0], [0, 1, 0], [0, 0.6, 0.8], [0, 0.8, 0.6]])
    labels = np.array([0, 0, 1, 1, 2])
    rows = _scores(images, classes, labels)
    values = {row["metric"]: row["value"] for row in rows if row["metric"] != "class_recall"}
    assert values["acc1"] == 3 / 5
    assert values["acc5"] == 1  # three classes: the true one is always among five
    assert values["mean_per_class_recall"] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert "classes_without_images" not in values
    recalls = [(row["class"], row["value"], row["n"]) for row in rows if "class" in row]
    assert recalls == [(0, 1.0, 2), (1, 0.5, 2), (2, 0.0, 1)]


def test_ranks_break_ties_as_argmax_and_do_not_depend_on_blocks(monkeypatch):
    images = np.array([[1.0, 1.0, 0.0]] * 3)
    answers, ranks = classification.classify(images, np.eye(3), np.array([0, 1, 2]))
    assert answers.tolist() == [0, 0, 0]
    assert ranks.tolist() == [0, 1, 2]
    draw = np.random.default_rng(0)
    images, labels = draw.standard_normal((50, 7)), draw.integers(0, 9, 50)
    classes = draw.standard_normal((9, 7))
    whole = classification.classify(images, classes, labels)
    monkeypatch.setattr(classification, "BLOCK_ENTRIES", 36)
    np.testing.assert_array_equal(classification.classify(images, classes, labels), whole)
    order = np.argsort(-(images @ classes.T), axis=1)
    np.testing.assert_array_equal(order[:, 0], whole[0])
    np.testing.assert_array_equal((order == labels[:, None]).argmax(1), whole[1])


def test_wilson_solves_its_equation():
    # The limits are the shares p with |p_observed - p| = z sqrt(p (1 - p) / n).
    for hits, n in [(0, 10), (3, 10), (10, 10), (517, 1000)]:
        for limit in (value.item() for value in distributions.wilson(hits, n)):
            distance = abs(hits / n - limit)
            spread = distributions.Z95 * np.sqrt(limit * (1 - limit) / n)
            assert distance == pytest.approx(spread, abs=1e-9)
    low, high = distributions.wilson(8, 10)  # Agresti and Coull 1998 give 0.490 to 0.943
    assert (round(low.item(), 3), round(high.item(), 3)) == (0.49, 0.943)
    low, high = distributions.wilson([0, 5], [0, 5])
    assert low[0] == 0
    assert high.tolist() == [1, 1]


def test_interval_of_a_mean_of_shares():
    one = distributions.mean_of_shares(np.array([8]), np.array([10]))
    assert one == pytest.approx([value.item() for value in distributions.wilson(8, 10)])
    # With many trials it is the normal interval of a mean of independent shares.
    hits, trials = np.array([60_000, 30_000]), np.array([100_000, 40_000])
    share = hits / trials
    error = np.sqrt((share * (1 - share) / trials).sum()) / 2
    low, high = distributions.mean_of_shares(hits, trials)
    assert low == pytest.approx(share.mean() - 1.96 * error, abs=2e-5)
    assert high == pytest.approx(share.mean() + 1.96 * error, abs=2e-5)
    perfect = distributions.mean_of_shares(np.array([5, 5]), np.array([5, 5]))
    assert perfect[0] < 0.9
    assert perfect[1] == 1


def test_interval_of_a_mean_covers_it():
    draw = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        low, high = distributions.interval_of_mean(draw.exponential(size=80))
        covered += low < 1 < high
    assert 0.91 < covered / 400 < 0.98


def _clusters(n, k, d, seed=0, spread=1.0):
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, k, n)
    return draw.standard_normal((k, d))[labels] + spread * draw.standard_normal((n, d)), labels


def _singletons(features, labels):
    labels[[5, 17]] = [100, 101]


def _zeros(features, labels):
    features[[2, 30 % len(features)]] = 0


def _lengths(features, labels):
    features *= np.geomspace(0.1, 10, len(features))[:, None]


@pytest.mark.parametrize("change", [None, _singletons, _zeros, _lengths])
@pytest.mark.parametrize(("n", "k", "d"), [(300, 7, 20), (50, 2, 3), (400, 90, 16), (31, 25, 4)])
def test_equals_scikit_learn_for_any_representation_of_the_samples(n, k, d, change):
    features, labels = _clusters(n, k, d)
    if change:
        change(features, labels)
    scorer = CosineSilhouette(labels)
    for width in {d, max(2, d // 2)}:
        expected = reference(features[:, :width], labels, metric="cosine")
        squares = (features[:, :width] ** 2).sum(1)
        for known in (None, squares):
            ours = scorer.samples(features[:, :width], known)
            np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_identical_samples_score_zero_rounding_or_not():
    same = np.repeat(np.random.default_rng(0).standard_normal((1, 50)), 6, axis=0)
    np.testing.assert_array_equal(silhouette_samples(same, np.array([0, 0, 0, 1, 1, 1])), 0)
    features = np.repeat(np.eye(2), 3, axis=0)
    np.testing.assert_array_equal(silhouette_samples(features, np.array([0, 0, 0, 1, 1, 1])), 1)


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


def test_memory_is_that_of_the_means_and_not_of_all_pairs():
    # All pairs of 60,000 would be 28.8 GB.
    n, k, d = 60_000, 1_000, 16
    features, labels = _clusters(n, k, d)
    tracemalloc.start()
    silhouette_samples(features, labels)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < features.nbytes + 16 * 2**20
