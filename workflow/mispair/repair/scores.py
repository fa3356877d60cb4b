"""Cosines of images with captions, and wins over other pairs' captions, by a scoring model."""

from __future__ import annotations

import numpy as np

from mispair.audit.embeddings import project
from mispair.towers.features import PairedFeatures

BLOCK = 1 << 14
"""Pairs whose embeddings are multiplied at a time."""

COMPARED, COMPARISONS = 5000, 10
"""Pairs of `wins`, at most, and comparisons of each."""

LEAST_COMPARED = 20
"""Fewest pairs of `wins`."""


def cosines(
    features: PairedFeatures, image_projection: np.ndarray, text_projection: np.ndarray, draw: int
) -> np.ndarray:
    """Return the cosine of each image with its caption in one draw, (n,) float32.

    Parameters
    ----------
    features : PairedFeatures
        Features before the projections; of images with several crops the first is taken.
    image_projection : (d_image, e) array
        Columns are neurons.
    text_projection : (d_text, e) array
        Columns are neurons.
    draw : int
        Draw of captions.

    Raises
    ------
    ValueError
        If a feature is not finite, or an embedding has no direction.
    """
    texts = project(features.text_features, text_projection)
    rows = features.text_rows[draw]
    images = np.arange(len(rows)) if features.image_rows is None else features.image_rows[draw]
    result = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), BLOCK):
        some = slice(start, start + BLOCK)
        embedded = project(features.image_features[images[some] * features.crops], image_projection)
        result[some] = np.einsum("ne,ne->n", embedded, texts[rows[some]])
    return result


def wins(
    features: PairedFeatures,
    image_projection: np.ndarray,
    text_projection: np.ndarray,
    draw: int,
    pairs: np.ndarray,
    generator: np.random.Generator,
) -> tuple[float, float]:
    """Return how often a pair's caption fits its image better than another pair's, and the error.

    Both captions are of one kind (old or new), so their style makes no difference: 0.5 is chance.
    The standard error is over pairs. Both are NaN for fewer than 20 pairs.

    Parameters
    ----------
    features, image_projection, text_projection, draw
        As `cosines` takes them.
    pairs : (m,) int array
        Pairs that are compared with one another; a part of them is drawn if there are many.
    generator : numpy.random.Generator
        Draws pairs and their order.
    """
    pairs = generator.permutation(pairs)[:COMPARED]
    if len(pairs) < LEAST_COMPARED:
        return np.nan, np.nan
    texts = features.text_rows[draw][pairs]
    images = pairs if features.image_rows is None else features.image_rows[draw][pairs]
    pictures = project(features.image_features[images * features.crops], image_projection)
    captions = project(features.text_features[texts], text_projection)
    own = np.einsum("ne,ne->n", pictures, captions)
    won, compared = np.zeros(len(pairs)), np.zeros(len(pairs))
    for shift in range(1, COMPARISONS + 1):
        cosine = np.einsum("ne,ne->n", pictures, np.roll(captions, shift, axis=0))
        differs = np.roll(texts, shift) != texts
        won += np.where(differs, (own > cosine) + 0.5 * (own == cosine), 0)
        compared += differs
    # A caption with the same words as all that it is compared with decides nothing.
    share = np.where(compared > 0, won / np.maximum(compared, 1), 0.5)
    return float(share.mean()), float(share.std(ddof=1)) / len(pairs) ** 0.5
