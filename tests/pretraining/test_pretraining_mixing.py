"""The mixing score on embeddings whose mixing is known, and which features are linked."""

import numpy as np
import pytest

from mispair.pairs.scenes.scene_captions import FEATURES, spurious_partners
from mispair.pretraining.measure import embeddings_of, measure_tower, words_of_features
from mispair.pretraining.mixing import centred_by_kind, comparisons, cross_fitted, mixing, readouts
from mispair.pretraining.settings import IDENTIFIED, LINEAR, NEURONS, PROMPTS

KINDS = {"shape": 8, "colour": 8, "digit": 10}
NAMES = [f"{kind}:{value}" for kind, number in KINDS.items() for value in range(number)]
CIRCLE = {
    f"{kind}:{value}": f"{kind}:{(value + 1) % number}"
    for kind, number in KINDS.items()
    for value in range(number)
}


def one_of_each(count: int, seed: int) -> np.ndarray:
    """Return true features of inputs with one value of each kind."""
    draw = np.random.default_rng(seed)
    codes = np.zeros((count, len(NAMES)))
    start = 0
    for number in KINDS.values():
        codes[np.arange(count), start + draw.integers(0, number, count)] = 1
        start += number
    return codes


def embeddings(codes: np.ndarray, mixed: float, seed: int, turned: bool = False) -> np.ndarray:
    """Return embeddings with an axis a feature, each with a share of its partner, and noise."""
    draw = np.random.default_rng(seed)
    partner = [NAMES.index(CIRCLE[name]) for name in NAMES]
    values = codes + mixed * codes[:, partner] + 0.3 * draw.standard_normal(codes.shape)
    if turned:
        values = values @ np.linalg.qr(draw.standard_normal((len(NAMES), len(NAMES))))[0]
    return values


def test_linked_are_the_partner_and_whose_partner_a_feature_is():
    found = {NAMES[each.feature]: each for each in comparisons(NAMES, CIRCLE)}
    assert len(found) == 26
    digit = found["digit:0"]
    assert {NAMES[k] for k in digit.linked} == {"digit:1", "digit:9"}
    assert {NAMES[k] for k in digit.others} == {f"digit:{value}" for value in range(2, 9)}


def test_kinds_without_other_values_and_features_that_do_not_vary_are_left_out():
    compared = comparisons(FEATURES, spurious_partners(3))
    kinds = [FEATURES[each.feature].split(":")[0] for each in compared]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "shape": 8, "colour": 8, "position": 4, "background": 6, "digit": 10
    }  # fmt: skip
    varying = [name != "digit:five" for name in FEATURES]
    without = comparisons(FEATURES, spurious_partners(3), varying)
    five = FEATURES.index("digit:five")
    assert five not in [each.feature for each in without]
    assert all(five not in each.linked + each.others for each in without)


def test_the_score_is_the_difference_of_correlations_written_out():
    codes = one_of_each(400, 0)
    values = embeddings(codes, 0.7, 1)
    (other_codes, other) = one_of_each(300, 2), embeddings(one_of_each(300, 2), 0.7, 3)
    found = mixing(np.eye(26), (other, other_codes), (values, codes), comparisons(NAMES, CIRCLE))
    expected = []
    for name in NAMES:
        column, kind = NAMES.index(name), name.split(":")[0]
        choice = [np.corrcoef(other[:, unit], other_codes[:, column])[0, 1] for unit in range(26)]
        unit = int(np.argmax(np.abs(choice)))
        sign = np.sign(choice[unit])
        by = {
            k: sign * np.corrcoef(values[:, unit], codes[:, NAMES.index(k)])[0, 1]
            for k in NAMES
            if k.split(":")[0] == kind and k != name
        }
        linked = [k for k in by if CIRCLE[name] == k or CIRCLE[k] == name]
        expected.append(
            np.mean([by[k] for k in linked]) - np.mean([by[k] for k in by if k not in linked])
        )
    assert found.score == pytest.approx(np.mean(expected))
    assert found.linked - found.others == pytest.approx(found.score)


def test_a_readout_of_separable_features_does_not_mix_and_of_merged_ones_does():
    codes = one_of_each(8000, 6)
    draw = np.random.default_rng(7)
    # Values 2i and 2i + 1 of each kind have one axis: nothing can tell them apart.
    merged = codes @ np.kron(np.eye(13), [[1.0], [1.0]]) @ draw.standard_normal((13, 20))
    separable = (codes + 0.8 * codes[:, [NAMES.index(CIRCLE[name]) for name in NAMES]]) @ (
        draw.standard_normal((26, 30))
    )
    scores = []
    for values in (separable, merged):
        first, second = (values[::2], codes[::2]), (values[1::2], codes[1::2])
        scores.append(mixing(readouts(first), first, second, comparisons(NAMES, CIRCLE), True))
    assert abs(scores[0].score) < 0.01
    assert scores[0].recovery > 0.99
    # One of two linked features has the same readout: the correlation of halves of a merged axis.
    assert scores[1].score > 0.3


def test_readouts_are_ridge_regression_with_an_intercept():
    draw = np.random.default_rng(9)
    values, truth = draw.standard_normal((50, 5)) + 2, draw.standard_normal((50, 3))
    penalty = 1e-4 * np.var(values, axis=0).mean() * 50
    from sklearn.linear_model import Ridge

    by_library = Ridge(alpha=penalty).fit(values, truth).coef_.T
    assert readouts((values, truth)) == pytest.approx(by_library)


def test_readouts_withstand_directions_in_which_only_few_inputs_vary():
    codes, draw = one_of_each(4000, 13), np.random.default_rng(14)
    values = np.c_[codes @ draw.standard_normal((26, 26)), 1e-9 * draw.standard_normal((4000, 4))]
    values[3000:3003, 26:] += 0.1  # in the other half alone
    first, second = (values[:2000], codes[:2000]), (values[2000:], codes[2000:])
    assert mixing(readouts(first), first, second, comparisons(NAMES, CIRCLE), True).recovery > 0.95


def test_an_unsupervised_basis_shows_mixing_that_the_embedding_has():
    codes = one_of_each(6000, 10).astype(bool)
    scores = {}
    for mixed in (0.0, 0.6):
        values = embeddings(codes.astype(float), mixed, 11, turned=True)
        rows = measure_tower(values, np.eye(26), codes, NAMES, CIRCLE, 23, 0)
        scores[mixed] = {
            (row["basis"], row["metric"]): row["value"] for row in rows
        }  # fmt: skip
    for basis in (LINEAR, NEURONS):
        assert scores[0.6][basis, "mixing"] - scores[0.0][basis, "mixing"] > 0.03, basis
        assert abs(scores[0.0][basis, "mixing"]) < 0.02, basis
    assert scores[0.0][LINEAR, "recovery"] >= scores[0.0][IDENTIFIED, "recovery"] - 0.02


def test_prompts_are_directions_of_the_words_of_each_feature():
    texts, columns = words_of_features(FEATURES)
    assert texts[columns.tolist().index(0)] == "circle"
    features = np.random.default_rng(0).standard_normal((len(texts), 6))
    directions = embeddings_of(features, np.eye(6), columns)
    assert directions.shape == (6, len(FEATURES))
    own = features[columns == 5]
    expected = (own / np.linalg.norm(own, axis=1, keepdims=True)).mean(axis=0)
    assert directions[:, 5] == pytest.approx(expected)
    centred = centred_by_kind(directions, FEATURES)
    shapes = [name.startswith("shape:") for name in FEATURES]
    assert centred[:, shapes].mean(axis=1) == pytest.approx(np.zeros(6))
    assert PROMPTS not in (IDENTIFIED, LINEAR, NEURONS)


def test_both_roles_of_the_halves_count_alike():
    codes = one_of_each(600, 12)
    compared = comparisons(NAMES, CIRCLE)
    parts = [
        mixing(np.eye(26), (v, c), (v, c), compared)
        for v, c in (
            (embeddings(codes[:300], 0.4, 1), codes[:300]),
            (embeddings(codes[300:], 0.4, 2), codes[300:]),
        )
    ]
    assert cross_fitted(parts).score == pytest.approx((parts[0].score + parts[1].score) / 2)
    assert cross_fitted(parts).features == 26


def test_nothing_to_compare_is_an_error():
    with pytest.raises(ValueError, match="linked"):
        mixing(np.eye(2), (np.eye(2), np.eye(2)), (np.eye(2), np.eye(2)), [])
