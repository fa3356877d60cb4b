"""Scores of pairs by published methods, for comparison: larger is more suspicious."""

from __future__ import annotations

import numpy as np

from mispair.pairs.neighbours.similarity import nearest_rows

NEIGHBOURS = 30
TAU_DISTANCE, TAU_PAIR, WEIGHT = 0.1, 5.0, 5.0
"""Hyperparameters that LEMoN states for data without labelled mismatches."""


def two_gaussians(similarity: np.ndarray, seed: int) -> np.ndarray:
    """Return the posterior of the component with the larger loss, (n,); loss is 1 − similarity.

    A mixture of two normal distributions on losses scaled to [0, 1], as NCR separates clean pairs
    from noisy ones (Huang et al., "Learning with noisy correspondence", NeurIPS 2021).
    """
    from sklearn.mixture import GaussianMixture

    loss = 1 - similarity.astype(np.float64)
    scaled = ((loss - loss.min()) / max(float(np.ptp(loss)), 1e-12))[:, None]
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=seed)
    mixture.fit(scaled)
    posterior: np.ndarray = mixture.predict_proba(scaled)[:, int(mixture.means_.argmax())]
    return posterior


def neighbour_disagreement(images: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Return LEMoN's score, (n,): the pair's distance, and how its neighbours disagree.

    For the nearest pictures: the distance of their captions to this one, with less weight for far
    pictures and for pairs that do not fit. The same for the nearest captions (Zhang et al.,
    "LEMoN: label error detection using multimodal neighbors", ICML 2025, equations 2 to 4).

    Parameters
    ----------
    images, texts : (n, e) float32 arrays
        Embeddings of length 1.
    """
    distance = 1 - np.einsum("ne,ne->n", images, texts)
    k = min(NEIGHBOURS, len(images) - 1)
    score = distance.astype(np.float64)
    for near, opposite in ((images, texts), (texts, images)):
        start = 0
        for neighbours, cosines in nearest_rows(near, k):
            rows = slice(start, start + len(neighbours))
            apart = 1 - np.einsum("me,mke->mk", opposite[rows], opposite[neighbours])
            weight = np.exp(-TAU_DISTANCE * (1 - cosines) - TAU_PAIR * distance[neighbours])
            score[rows] += WEIGHT * (apart * weight).mean(axis=1)
            start += len(neighbours)
    return score
