"""Retrieval of images by captions and of captions by images: recall at 1, 5 and 10."""

from __future__ import annotations

import numpy as np

from mispair.core.intervals import Row, share_of_variance, share_row
from mispair.evaluation.zeroshot import starts_of_classes

BEST = (1, 5, 10)
"""Values of k in recall at k."""

TIE = 1e-6
"""Cosines closer than this are equal: rounding in the towers changes equal captions this much."""

BLOCK_ENTRIES = 1 << 21
"""Entries of the largest block of cosines: 16 megabytes."""


def ranks(
    images: np.ndarray, captions: np.ndarray, image_of_caption: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many wrong results precede the first right one, for captions and images.

    Ties count against the model: a wrong result that is as similar as the right one precedes it.
    So ranks do not depend on the order of images or captions. A model that gives everything the
    same embedding retrieves nothing, and another image's caption with the same words is wrong.

    Parameters
    ----------
    images : (n, e) array
        Embeddings of length one.
    captions : (m, e) array
        Embeddings of length one, those of an image adjacent.
    image_of_caption : (m,) int array
        Image of each caption, from 0 to n - 1; every image has at least one.

    Returns
    -------
    image_ranks : (m,) int64 array
        For each caption, images before its own.
    text_ranks : (n,) int64 array
        For each image, captions of others before the most similar one of its own.

    Raises
    ------
    ValueError
        If an image has no caption, or a caption no image.
    """
    starts = starts_of_classes(image_of_caption, len(captions))
    if len(starts) != len(images):
        raise ValueError(f"there are captions of {len(starts)} images, but {len(images)} images")
    own_scores = np.einsum("ij,ij->i", captions, images[image_of_caption])
    best = np.maximum.reduceat(own_scores, starts)
    ends = np.append(starts[1:], len(captions))
    image_ranks = np.zeros(len(captions), dtype=np.int64)
    text_ranks = np.empty(len(images), dtype=np.int64)
    block = max(1, BLOCK_ENTRIES // len(captions))
    for first in range(0, len(images), block):
        rows = slice(first, min(first + block, len(images)))
        cosines = images[rows] @ captions.T
        mine = np.arange(starts[rows.start], ends[rows.stop - 1])
        cosines[image_of_caption[mine] - first, mine] = -np.inf
        image_ranks += (cosines >= own_scores - TIE).sum(axis=0)
        text_ranks[rows] = (cosines >= best[rows, None] - TIE).sum(axis=1)
    return image_ranks, text_ranks


def recalls(images: np.ndarray, captions: np.ndarray, image_of_caption: np.ndarray) -> list[Row]:
    """Return recall at 1, 5 and 10 in both directions by CLIP_benchmark, and DataComp's mean.

    ``image_recall@k`` is the share of captions whose image is among the k most similar ones (its
    ``image_retrieval_recall@k``); ``text_recall@k`` is the share of images with at least one of
    their captions among the k most similar ones (``text_retrieval_recall@k``). ``mean_recall@1`` is
    the mean of the two at 1; its interval takes an image with its captions as one trial. Parameters
    and errors are those of `ranks`.

    Returns
    -------
    list of dict
        Rows with ``metric``, ``value``, ``n`` (queries), ``low``, ``high`` (Wilson's 95 %
        interval) and ``chance`` (of a random order).
    """
    image_ranks, text_ranks = ranks(images, captions, image_of_caption)
    n, m = len(images), len(captions)
    counts = np.bincount(image_of_caption)
    rows = []
    for k in BEST:
        rows.append(share_row(f"image_recall@{k}", int((image_ranks < k).sum()), m, min(k, n) / n))
        # k captions drawn without replacement hold none of an image's c own ones.
        drawn = np.arange(min(k, m))
        none = np.prod(np.maximum(m - counts[:, None] - drawn, 0) / (m - drawn), axis=1)
        hits, chance = int((text_ranks < k).sum()), float(1 - none.mean())
        rows.append(share_row(f"text_recall@{k}", hits, n, chance))
    by_caption, by_image = image_ranks < 1, text_ranks < 1
    value = (by_caption.mean() + by_image.mean()) / 2
    # Contribution of each image to the mean; for the captions, to a ratio of two sums.
    hits_of_image = np.bincount(image_of_caption, weights=by_caption)
    added = (hits_of_image - by_caption.mean() * counts) / counts.mean()
    added += by_image - by_image.mean()
    low, high = share_of_variance(float(value), float(np.square(added / 2).mean()) / n, n)
    chance = (rows[0]["chance"] + rows[1]["chance"]) / 2
    rows.append({"metric": "mean_recall@1", "value": float(value), "n": n,
                 "low": low, "high": high, "chance": chance})  # fmt: skip
    return rows
