"""How much each pair weighs in a fine-tuning: the probability that its caption is right."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mispair.audit.embeddings import project
from mispair.audit.probability import probabilities
from mispair.audit.ranks import deal, rank
from mispair.audit.rate import rate_rows
from mispair.core import seeds
from mispair.towers.features import PairedFeatures


def pair_weights(
    features: PairedFeatures,
    draw: int,
    projections: tuple[np.ndarray, np.ndarray],
    seed: int,
    device: str = "cpu",
) -> tuple[np.ndarray, str]:
    """Return the probability that the caption of each pair of a draw is right, float32 (n,).

    All are 1 if the model cannot tell, and the second value says why.

    Parameters
    ----------
    features : PairedFeatures
        Features before the projections; of images with several crops the first is taken.
    draw : int
        Which draw of pairs.
    projections : two (d, e) arrays
        Of images and of texts, by a model that was not trained on these pairs.
    seed : int
        Of blocks, ties, bootstrap and folds.
    device : {"cpu", "cuda"}
        Where to compute.

    Raises
    ------
    ValueError
        If a feature is zero or not finite.
    """
    texts = features.text_rows[draw]
    n = len(texts)
    images = np.arange(n) if features.image_rows is None else features.image_rows[draw]

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for pairs in deal(n, seed):
            first_crops = features.image_features[images[pairs] * features.crops]
            captions = features.text_features[texts[pairs]]
            yield pairs, project(first_crops, projections[0]), project(captions, projections[1])

    ranked = rank(blocks(), (images, texts), seed, device)
    none = np.zeros(n, bool)
    found, refused = rate_rows(ranked.histograms, ranked.p_value, np.empty(0), np.empty(0), none)
    if refused:
        return np.ones(n, np.float32), refused
    rate = next(row["value"] for row in found if row["metric"] == "wrong_captions")
    folds = seeds.generator(seed, "audit", "folds").integers(0, 2, n)
    chance = probabilities(ranked.similarity, ranked.reference_similarity, rate, folds)
    return (1 - chance).astype(np.float32), ""
