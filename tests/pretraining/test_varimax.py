"""Varimax on synthetic sources whose truth is known."""

import numpy as np
import pytest

from mispair.core.seeds import generator
from mispair.evaluation.purity import random_rotation
from mispair.pretraining import mixing as basis
from mispair.pretraining.mixing import varimax

SOURCES, WIDTH, SIZE = 16, 20, 4000


def _mixture(sources: np.ndarray, noise: float = 0.01) -> np.ndarray:
    """Return sources in random directions of a wider space, with a mean and a little noise."""
    draw = generator("mixture")
    mixing = draw.standard_normal((sources.shape[1], WIDTH))
    return sources @ mixing + 3 + noise * draw.standard_normal((len(sources), WIDTH))


def _sparse() -> np.ndarray:
    return (generator("sparse").random((SIZE, SOURCES)) < 0.1).astype(float)


def _gaussian() -> np.ndarray:
    return generator("gaussian").standard_normal((SIZE, SOURCES))


def _identify(sources: np.ndarray, embeddings: np.ndarray) -> basis.Identified:
    split = basis.halves(len(embeddings), generator("halves"))
    return basis.identify(embeddings, split, SOURCES, generator("search"), sources)


def test_sparse_sources_are_recovered_one_to_one() -> None:
    sources = _sparse()
    embeddings = _mixture(sources)
    result, again = _identify(sources, embeddings), _identify(sources, embeddings)
    np.testing.assert_array_equal(result.bases, again.bases)
    assert result.recovery.min() > 0.95
    correlations = np.abs(basis.correlations(result.bases[0], embeddings, sources))
    assert sorted(correlations.argmax(axis=0)) == [*range(SOURCES)]
    # The embedding's own coordinates are mixtures of the sources.
    own = np.abs(basis.correlations(np.eye(WIDTH), embeddings, sources))
    assert own.max(axis=0).mean() < 0.75


def test_nothing_is_identified_among_gaussian_sources() -> None:
    sources = _gaussian()
    embeddings = _mixture(sources)
    result = _identify(sources, embeddings)
    # Every rotation of a Gaussian looks alike: the search does no better than a random one.
    rotation = random_rotation(SOURCES, generator("rotation"))
    turned = basis.whitened_directions(embeddings, SOURCES) @ rotation
    random = np.abs(basis.correlations(turned, embeddings, sources)).max(axis=0).mean()
    assert result.recovery.mean() == pytest.approx(random, abs=0.05)


@pytest.mark.parametrize("components", [0, WIDTH + 1])
def test_numbers_of_components_that_are_impossible(components: int) -> None:
    with pytest.raises(ValueError, match=f"{components} principal components"):
        basis.whitened_directions(_mixture(_sparse()), components)


def test_an_embedding_without_enough_directions() -> None:
    with pytest.raises(ValueError, match="vary in fewer than 17 directions"):
        basis.whitened_directions(_mixture(_sparse(), noise=0), SOURCES + 1)


def _planar_varimax(scores: np.ndarray) -> np.ndarray:
    """Return Kaiser's varimax: the best angle of one pair of components after the other."""
    rotated = scores.copy()
    for _ in range(50):
        for i in range(rotated.shape[1]):
            for j in range(i):
                x, y = rotated[:, i], rotated[:, j]
                u, v = x**2 - y**2, 2 * x * y
                over = 2 * (u @ v - u.sum() * v.sum() / len(x))
                under = u @ u - v @ v - (u.sum() ** 2 - v.sum() ** 2) / len(x)
                angle = np.arctan2(over, under) / 4
                c, s = np.cos(angle), np.sin(angle)
                rotated[:, i], rotated[:, j] = c * x + s * y, c * y - s * x
    return rotated


def test_varimax_is_that_of_kaiser() -> None:
    embeddings = _mixture(_sparse())[:500]
    whitened = basis.whitened_directions(embeddings, 4)
    scores = (embeddings - embeddings.mean(axis=0)) @ whitened
    rotation = varimax(scores, np.eye(4), tolerance=1e-12)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(4), atol=1e-12)
    reference = np.sort(np.var(_planar_varimax(scores) ** 2, axis=0))
    np.testing.assert_allclose(
        np.sort(np.var((scores @ rotation) ** 2, axis=0)), reference, rtol=1e-4
    )


def test_correlations_are_those_of_numpy_and_zero_where_nothing_varies() -> None:
    draw = generator("correlations")
    embeddings, features = draw.standard_normal((50, 3)) + 7, draw.standard_normal((50, 2))
    features[:, 1] = 1.0
    directions = draw.standard_normal((3, 4))
    expected = np.corrcoef(embeddings @ directions, features[:, 0], rowvar=False)[:4, 4]
    measured = basis.correlations(directions, embeddings, features)
    np.testing.assert_allclose(measured[:, 0], expected)
    np.testing.assert_array_equal(measured[:, 1], 0)
