"""Probabilities of single pairs: calibrated, ordered as similarities, and peers."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import average_precision_score, roc_auc_score

from mispair.audit.probability import probabilities, reliability
from mispair.audit.trials import neighbour_disagreement, two_gaussians
from tests.audit.made_up import embeddings, swapped


def sample(n, rate, seed):
    """Similarities of two normal distributions, of which the densities are known."""
    generator = np.random.default_rng(seed)
    wrong = generator.random(n) < rate
    similarity = np.where(wrong, generator.normal(0, 1, n), generator.normal(2, 1, n))
    return similarity, wrong, generator.normal(0, 1, (n, 5)), generator.integers(0, 2, n)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.8])
def test_probabilities_are_those_of_the_densities(rate):
    similarity, wrong, reference, folds = sample(20_000, rate, 0)
    found = probabilities(similarity, reference, rate, folds)
    exact = rate * norm.pdf(similarity) / (
        rate * norm.pdf(similarity) + (1 - rate) * norm.pdf(similarity - 2)
    )  # fmt: skip
    assert np.abs(found - exact).mean() < 0.02
    for mean, share, n in reliability(found, wrong):
        assert abs(mean - share) < 0.03 + 2 / np.sqrt(n)


def test_they_fall_strictly_with_the_similarity():
    similarity, wrong, reference, folds = sample(3000, 0.3, 1)
    found = probabilities(similarity, reference, 0.3, folds)
    order = np.argsort(similarity)
    assert (np.diff(found[order]) < 0).all()
    assert ((found >= 0) & (found <= 1)).all()
    assert roc_auc_score(wrong, found) == roc_auc_score(wrong, -similarity)
    assert average_precision_score(wrong, found) == pytest.approx(
        average_precision_score(wrong, -similarity)
    )


def test_without_wrong_captions_none_is_likely():
    similarity, _, reference, folds = sample(1000, 0.0, 2)
    assert probabilities(similarity, reference, 0.0, folds).max() < 1e-5


def test_peers_find_wrong_pairs():
    images, texts = embeddings(1500, noise=0.7)
    source, wrong = swapped(1500, 0.3)
    own = texts[source]
    similarity = np.einsum("ne,ne->n", images, own)
    assert roc_auc_score(wrong, two_gaussians(similarity, 0)) > 0.95
    assert roc_auc_score(wrong, neighbour_disagreement(images, own)) > 0.8


def test_disagreement_is_that_of_a_plain_loop():
    images, texts = embeddings(40, noise=1)
    found = neighbour_disagreement(images, texts)
    distance = 1 - np.sum(images * texts, axis=1)
    for i in (0, 20, 39):
        score = distance[i]
        for near, other in ((images, texts), (texts, images)):
            order = [j for j in np.argsort(-(near @ near[i])) if j != i][:30]
            terms = [
                (1 - other[i] @ other[j])
                * np.exp(-0.1 * (1 - near[i] @ near[j]))
                * np.exp(-5 * distance[j])
                for j in order
            ]
            score += 5 * np.mean(terms)
        assert found[i] == pytest.approx(score, rel=1e-4)
