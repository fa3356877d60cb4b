"""The check of class lists: wrong lists are found, right ones with poor models are left alone."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from mispair.evaluation.label_check import LabelCheck, check


def _images(k, n, accuracy, kind="uniform", seed=0, concentration=0.5):
    """Labels, and answers of a model with a right class list, wrong in one of several ways."""
    draw = np.random.default_rng([seed, k, n])
    labels = draw.permutation(np.arange(n) % k)
    if kind == "uniform":
        wrong = draw.integers(0, k, n)
    elif kind == "few":  # whatever is not known is called one of a few classes
        wrong = draw.choice(draw.choice(k, max(2, k // 5), replace=False), n)
    elif kind == "favourite":  # each class is mistaken for a few others, again and again
        shares = draw.dirichlet(np.full(k, concentration), k).cumsum(axis=1)
        wrong = (draw.random(n)[:, None] > shares[labels]).sum(axis=1).clip(0, k - 1)
    else:  # counting: near misses are likely
        wrong = np.clip(labels + np.rint(draw.normal(0, 1.5, n)).astype(int), 0, k - 1)
    return np.where(draw.random(n) < accuracy, labels, wrong), labels


@pytest.mark.parametrize("kind", ["uniform", "few", "favourite", "counting"])
@pytest.mark.parametrize("k", [2, 8, 10, 47])
def test_a_right_list_with_a_weak_or_biased_model_is_left_alone(kind, k):
    flagged = [
        check(*_images(k, n, accuracy, kind, seed), k).flagged
        for seed in range(8)
        for n in (4 * k, 1000)
        for accuracy in (0.05, 0.2, 0.5, 0.95)
    ]
    assert sum(flagged) == 0


def test_two_classes_that_a_model_mixes_up_are_no_wrong_list():
    for k in (2, 3, 4, 10):
        answers, labels = _images(k, 600, 1.0)
        swapped = np.arange(k)
        swapped[:2] = 1, 0
        found = check(swapped[answers], labels, k)
        assert not found.flagged
        assert found.moved.tolist() == [0, 1]
        assert (found.hits, found.relabelled_hits) == (found.n * (k - 2) // k, found.n)


@pytest.mark.parametrize("shift", [1, -1, 3])
@pytest.mark.parametrize(("accuracy", "n"), [(0.9, 100), (0.3, 1000)])
def test_a_shifted_list_is_found_also_with_a_weak_model(shift, accuracy, n):
    answers, labels = _images(10, n, accuracy)
    found = check((answers + shift) % 10, labels, 10)
    assert found.flagged
    assert found.shift == shift
    names = [f"name {(place - shift) % 10}" for place in range(10)]  # as they stand in the list
    where = f"{abs(shift)} place{'s' if shift == 3 else ''} too {'late' if shift > 0 else 'early'}"
    first = found.moved[0]
    words = found.described(names)
    assert where in words
    assert f"of class {first}, '{names[first]}' in the list, look like 'name {first}'" in words
    assert not check(answers, labels, 10).flagged


def test_a_permuted_list_is_found_and_put_right():
    answers, labels = _images(10, 500, 0.9)
    order = np.random.default_rng(3).permutation(10)
    found = check(order[answers], labels, 10)
    assert found.flagged
    assert found.shift == 0
    np.testing.assert_array_equal(found.assignment, order)
    moved = np.flatnonzero(order != np.arange(10))
    np.testing.assert_array_equal(found.moved, moved)
    assert f"{len(moved)} of 10 classes have the name of another one" in found.described([""] * 10)
    rows = {row["metric"]: row for row in found.rows()}
    assert rows["label_check_flagged"]["value"] == 1
    assert rows["label_check_moved_classes"] == {
        "metric": "label_check_moved_classes", "value": len(moved), "n": 10,
    }  # fmt: skip
    expected = (order[answers] == order[labels]).mean()
    assert rows["label_check_relabelled_acc1"]["value"] == pytest.approx(expected, abs=0.05)
    assert rows["label_check_listed_acc1"]["value"] < 0.2
    assert rows["label_check_listed_acc1"]["n"] == 250


def test_a_name_that_is_missing_in_the_middle_is_a_shift_from_there_on():
    answers, labels = _images(20, 2000, 0.9)
    places = np.arange(20)
    places[5:] = np.roll(places[5:], 1)  # name 5 has gone to the end, the others moved up
    found = check(places[answers], labels, 20)
    assert found.flagged
    assert found.shift == -1
    assert found.moved.tolist() == list(range(5, 20))


def test_what_was_fitted_is_not_what_is_judged():
    """The best relabelling of random answers promises much, and on other images keeps nothing."""
    answers, labels = np.random.default_rng(0).integers(0, 30, (2, 180))
    found = check(answers, labels, 30)
    fitted = check(np.repeat(answers, 2), np.repeat(labels, 2), 30)  # each image in both halves
    assert fitted.relabelled_hits / fitted.n > 0.2
    assert found.relabelled_hits / found.n < 0.1
    assert found.p_value > 0.05
    assert found.n == sum(count // 2 for count in np.bincount(labels))


def _halves(answers, labels, k):
    """Confusions of every first and every second image of each class, counted one by one."""
    found = np.zeros((2, k, k), int)
    seen = [0] * k
    for answer, label in zip(answers, labels, strict=True):
        found[seen[label] % 2, label, answer] += 1
        seen[label] += 1
    return found


def test_assignment_and_p_values_are_those_of_every_permutation():
    k = 5
    answers, labels = _images(k, 300, 0.2, "favourite", seed=4)
    answers = (answers + 2) % k
    found = check(answers, labels, k)
    one, other = _halves(answers, labels, k)
    numbers = np.arange(k)
    every = [np.array(order) for order in permutations(range(k))]
    best = max(every, key=lambda order: one[numbers, order].sum())
    shifts = [(numbers + by) % k for by in range(1, k)]
    shifted = max(shifts, key=lambda order: one[numbers, order].sum())
    places = max(best, shifted, key=lambda order: other[numbers, order].sum())
    np.testing.assert_array_equal(found.assignment, places)
    moves = places != numbers
    gained, lost = other[numbers, places][moves].sum(), other[numbers, numbers][moves].sum()
    assert found.p_value == pytest.approx(
        binomtest(gained, gained + lost, alternative="greater").pvalue
    )
    # Mean and variance over all 120 namings, of which 4 are shifts.
    whole = one + other
    hits = [whole[numbers, order].sum() for order in every]
    most = max(whole[numbers, order].sum() for order in shifts)
    expected = 4 * norm.sf((most - np.mean(hits)) / np.std(hits))
    assert 0 < found.shift_p_value < 0.5
    assert found.shift_p_value == pytest.approx(expected)


def test_classes_without_images_or_answers_stay_where_they_are():
    answers, labels = _images(10, 400, 0.9)
    few = labels < 4
    found: LabelCheck = check(answers[few], labels[few], 10)
    assert found.classes == 4
    assert found.moved.size == 0
    assert not found.flagged
    single = check(np.array([1]), np.array([1]), 3)  # nothing is held out
    assert (single.n, single.flagged, single.rows()) == (0, False, [])
