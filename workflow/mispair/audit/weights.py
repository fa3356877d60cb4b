"""How much each pair weighs in a fine-tuning: the probability that its caption is right."""

from __future__ import annotations

import numpy as np

from mispair.audit.embeddings import project
from mispair.audit.probability import judged
from mispair.audit.ranks import deal, rank
from mispair.towers.features import PairedFeatures


def pair_weights(
    features: PairedFeatures,
    draw: int,
    projections: tuple[np.ndarray, np.ndarray],
    seed: int,
    device: str = "cpu",
    trusted: np.ndarray | None = None,
) -> np.ndarray:
    """Return the probability that the caption of each pair of a draw is right, float32 (n,).

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
    trusted : (n,) bool array, optional
        Pairs of the draw whose captions are known to be right.

    Raises
    ------
    ValueError
        If a feature is zero or not finite, or the audit refuses.
    """
    texts = features.text_rows[draw]
    n = len(texts)
    images = np.arange(n) if features.image_rows is None else features.image_rows[draw]
    blocks = (
        (
            pairs,
            project(features.image_features[images[pairs] * features.crops], projections[0]),
            project(features.text_features[texts[pairs]], projections[1]),
        )
        for pairs in deal(n, seed)
    )
    ranked = rank(blocks, (images, texts), seed, device, scored=True)
    _, refused, chance = judged(ranked, seed, trusted)
    if refused:
        raise ValueError(f"the audit of these pairs refuses: {refused.rstrip('.')}")
    return (1 - chance).astype(np.float32)
