"""Correlations of neurons with true features: planted cases, and NumPy and SciPy as references."""

import itertools

import numpy as np
import pytest
from scipy import stats

from mispair.evaluation import semantics
from mispair.evaluation.purity import neuron_overlap, random_rotation
from mispair.evaluation.semantics import FeatureSample

FACTORIAL = np.array(list(itertools.product([0, 1], repeat=3)) * 5, dtype=bool)
"""Three features, each in half of the sample and uncorrelated with the others."""


def _sample(embeddings, codes, blocks=1):
    sample = FeatureSample(embeddings.shape[1], codes.shape[1])
    for rows in np.array_split(np.arange(len(codes)), blocks):
        sample.add_inputs(embeddings[rows], codes[rows])
    return sample


def _random(n=400, e=6, f=5, seed=0):
    draw = np.random.default_rng(seed)
    codes = draw.random((n, f)) < draw.uniform(0.05, 0.6, f)
    embeddings = draw.standard_normal((n, e)) + codes @ draw.standard_normal((f, e)) + 30
    return embeddings, codes


def test_a_neuron_that_is_a_feature_is_pure_and_a_mixture_is_as_computed_by_hand():
    z = FACTORIAL.astype(float)
    neurons = np.stack([z[:, 0], 2 - 5 * z[:, 1], 3 * z[:, 0] + 4 * z[:, 2], z[:, 0] + z[:, 1]], 1)
    found = _sample(neurons, FACTORIAL).correlations()
    half = 0.5**0.5
    expected = [[1, 0, 0], [0, -1, 0], [0.6, 0, 0.8], [half, half, 0]]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(semantics.selectivity(found), [1, 1, 0.64, 0.5])


@pytest.mark.parametrize("blocks", [1, 7, 400])
def test_correlations_are_numpys_however_the_sample_is_cut(blocks):
    embeddings, codes = _random()
    whole = np.corrcoef(embeddings, codes.astype(float), rowvar=False)[:6, 6:]
    np.testing.assert_allclose(_sample(embeddings, codes, blocks).correlations(), whole, atol=1e-10)


def test_neurons_and_features_that_do_not_vary_correlate_with_nothing():
    embeddings, codes = _random()
    embeddings[:, 2] = 0.7
    codes[:, 1], codes[:, 3] = True, False
    sample = _sample(embeddings, codes, 4)
    assert sample.varying.tolist() == [True, False, True, False, True]
    found = sample.correlations()
    assert found.shape == (6, 3)
    assert not found[2].any()
    assert semantics.selectivity(found)[2] == 0
    assert np.abs(found[[0, 1, 3, 4, 5]]).min() > 0


def test_rank_correlation_is_spearmans():
    draw = np.random.default_rng(0)
    a, b = draw.permutation(40), draw.permutation(40)
    by_hand = 1 - 6 * ((a - b) ** 2).sum() / (40 * (40**2 - 1))
    value, p = semantics.rank_correlation(np.exp(a / 10), b**3)
    assert value == pytest.approx(by_hand)
    t = by_hand * np.sqrt(38 / (1 - by_hand**2))
    assert p == pytest.approx(2 * stats.t.sf(abs(t), 38))
    for few in ((a[:2], b[:2]), (np.ones(40), b)):
        assert np.isnan(semantics.rank_correlation(*few)).all()


def _rows(rows, **wanted):
    return [row for row in rows if wanted.items() <= row.items()]


def test_measures_name_the_features_and_set_them_beside_the_overlap():
    embeddings, codes = _random()
    codes[:, 4] = True
    projection = np.random.default_rng(5).standard_normal((9, 6))
    rotation = random_rotation(6, np.random.default_rng(6))
    sample = _sample(embeddings, codes, 2)
    names = ["a", "b", "c", "d", "e"]
    rows = semantics.measures(sample, projection, names, [rotation])
    assert _rows(rows, metric="features_constant") == [
        {"basis": "original", "metric": "features_constant", "value": 1, "n": 5}
    ]
    for basis, turn in (("original", np.eye(6)), ("rotated-0", rotation)):
        whole = np.corrcoef(embeddings @ turn, codes[:, :4].astype(float), rowvar=False)[:6, 6:]
        overlap = neuron_overlap(projection @ turn)
        best = _rows(rows, basis=basis, metric="best_correlation")
        for neuron, (row, found) in enumerate(zip(whole, best, strict=True)):
            feature = np.abs(row).argmax()
            assert (found["neuron"], found["feature"], found["n"]) == (neuron, names[feature], 400)
            assert found["value"] == pytest.approx(row[feature])
            assert found["overlap"] == pytest.approx(overlap[neuron])
        purity = np.abs(whole).max(axis=1)
        share = purity**2 / (whole**2).sum(axis=1)
        values = [row["value"] for row in _rows(rows, basis=basis, metric="selectivity")]
        np.testing.assert_allclose(values, share)
        for name, measured in (("semantic_purity", purity), ("selectivity", share)):
            group = "original" if basis == "original" else "rotated"
            (mean,) = _rows(rows, basis=group, metric=f"mean_{name}")
            assert mean["value"] == pytest.approx(measured.mean())
            (told,) = _rows(rows, basis=group, metric=f"{name}_by_overlap")
            reference = stats.spearmanr(measured, overlap)
            assert told["value"] == pytest.approx(reference.statistic)
            assert told["n"] == 6
            if basis == "original":
                assert told["p"] == pytest.approx(reference.pvalue)
    assert len(rows) == 1 + 2 * 6 * 2 + 2 * 4


def test_rotated_bases_are_summed_up_as_a_null():
    embeddings, codes = _random()
    projection = np.random.default_rng(5).standard_normal((9, 6))
    rotations = [random_rotation(6, np.random.default_rng(number)) for number in range(8)]
    sample, names = _sample(embeddings, codes), ["a", "b", "c", "d", "e"]
    rows = semantics.measures(sample, projection, names, rotations)
    each = [
        _rows(semantics.measures(sample, projection, names, [rotation]), basis="rotated")
        for rotation in rotations
    ]
    for row in _rows(rows, basis="rotated"):
        values = [only["value"] for one in each for only in _rows(one, metric=row["metric"])]
        (own,) = _rows(rows, basis="original", metric=row["metric"])
        assert row["value"] == pytest.approx(np.mean(values))
        assert row["deviation"] == pytest.approx(np.std(values, ddof=1))
        assert row["low"] <= row["value"] <= row["high"]
        assert row["below"] == np.mean(np.array(values) < own["value"])
        assert row["rotations"] == 8
    assert {row["basis"] for row in rows} == {"original", "rotated", "rotated-0"}


def test_features_of_which_none_varies_are_refused():
    sample = _sample(FACTORIAL * 1.0, np.ones((len(FACTORIAL), 2), bool))
    with pytest.raises(ValueError, match="of 2 true features none is in some"):
        semantics.measures(sample, np.eye(3), ["a", "b"], [])
