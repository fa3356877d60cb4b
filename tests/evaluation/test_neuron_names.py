"""Names by words with held-out AUC, and the monosemanticity score, against naive references."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mispair.core.seeds import generator
from mispair.evaluation import basis_measures as neuron_names
from mispair.evaluation.basis_measures import monosemanticity, scaled, unit_rows


def test_the_score_is_the_weighted_mean_over_all_pairs() -> None:
    draw = generator("monosemanticity")
    activations = scaled(draw.standard_normal((30, 4)))
    embeddings = unit_rows(draw.standard_normal((30, 7)))
    expected = []
    for neuron in activations.T:
        above = below = 0.0
        for i in range(30):
            for j in range(30):
                if i != j:
                    weight = neuron[i] * neuron[j]
                    above += weight * float(embeddings[i] @ embeddings[j])
                    below += weight
        expected.append(above / below)
    np.testing.assert_allclose(monosemanticity(activations, embeddings), expected, atol=1e-12)


def test_a_neuron_of_one_kind_of_input_has_a_score_of_one() -> None:
    kinds = np.repeat(np.eye(3), 10, axis=0)
    activations = np.column_stack([kinds[:, 0], np.ones(30), np.zeros(30)])
    score = monosemanticity(activations, kinds)
    assert score[0] == pytest.approx(1)
    # Active everywhere: the mean cosine of all pairs, of which 9 in 29 are of one kind.
    assert score[1] == pytest.approx(9 / 29)
    assert np.isnan(score[2])


def test_activations_are_scaled_to_the_unit_interval() -> None:
    result = scaled(np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]]))
    np.testing.assert_allclose(result, [[0, 0], [1, 0], [0.5, 0]])
    np.testing.assert_allclose(unit_rows(np.array([[3.0, 4.0], [0, 0]])), [[0.6, 0.8], [0, 0]])


def test_the_vocabulary_has_words_that_tell_captions_apart() -> None:
    captions = ["A red star", "a blue star!", "a RED ring", "a étoile_7"]
    words, presence = neuron_names.vocabulary(captions, 10)
    # "a" is in every caption; repeated words count once a caption.
    assert words == ["red", "star", "blue", "ring", "étoile_7"]
    np.testing.assert_array_equal(
        presence.toarray(),
        [[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 1]],
    )
    assert neuron_names.vocabulary(captions, 2)[0] == ["red", "star"]
    assert neuron_names.vocabulary(["a", "a"], 5)[0] == []


def test_areas_are_those_of_scikit_learn() -> None:
    draw = generator("areas")
    activations = draw.standard_normal((60, 3)).round(1)  # with ties
    captions = ["star" * (draw.random() < 0.4) + " red" * (draw.random() < 0.5) for _ in range(60)]
    words, presence = neuron_names.vocabulary(captions, 10)
    result = neuron_names.areas(activations, presence)
    for column in range(len(words)):
        labels = presence.toarray()[:, column]
        for neuron in range(3):
            expected = roc_auc_score(labels, activations[:, neuron])
            assert result[neuron, column] == pytest.approx(expected)
    nobody = presence.copy() * 0
    np.testing.assert_array_equal(neuron_names.areas(activations, nobody), 0.5)


def test_a_planted_word_is_named_with_its_sign_and_shuffled_captions_are_not() -> None:
    draw = generator("names")
    red, star = (draw.random((2, 2000)) < 0.3).astype(float)
    captions = [
        " ".join(["thing", *["red"] * int(r), *["star"] * int(s)])
        for r, s in zip(red, star, strict=True)
    ]
    noise = draw.standard_normal((2000, 3))
    activations = np.column_stack([red, -2 * star, np.zeros(2000)]) + 0.5 * noise
    split = np.arange(1000), np.arange(1000, 2000)
    words, presence = neuron_names.vocabulary(captions, 10)
    word, sign, area = neuron_names.names(activations, presence, split)
    assert [words[column] for column in word[:2]] == ["red", "star"]
    assert sign[:2].tolist() == [1, -1]
    # AUC of two Gaussians one and four deviations of a difference apart.
    np.testing.assert_allclose(area[:2], [0.921, 0.998], atol=0.02)
    assert area[2] < 0.55
    shuffled = presence[draw.permutation(2000)]
    assert neuron_names.names(activations, shuffled, split)[2].max() < 0.56
