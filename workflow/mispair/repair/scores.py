"""Cosines of images with their old and new captions, by the projections of a scoring model."""

from __future__ import annotations

import numpy as np

from mispair.audit.embeddings import project
from mispair.towers.features import PairedFeatures

BLOCK = 1 << 14
"""Pairs whose embeddings are multiplied at a time."""


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
