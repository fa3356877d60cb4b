"""Zero-shot classification from cached features: classifier, ranks and scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from mispair.evaluation import intervals
from mispair.evaluation.silhouette import silhouette_samples

Row = dict[str, Any]

BLOCK_ENTRIES = 1 << 23
"""Entries of the largest block of logits."""


def normalised(rows: np.ndarray) -> np.ndarray:
    """Return the vectors along the last axis at length one, in double precision."""
    rows = np.asarray(rows, dtype=np.float64)
    norms = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.maximum(norms, 1e-12)


def embed(features: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """Return the tower's embeddings: features times projection, at length one.

    Parameters
    ----------
    features : (..., d) array
        Pre-projection features.
    projection : (d, e) array
        Columns are neurons.

    Returns
    -------
    (..., e) float64 array
        The product is taken in the precision of the projection, as the tower takes it.

    Raises
    ------
    ValueError
        If widths do not match, or a feature is not finite.
    """
    if features.shape[-1] != len(projection):
        raise ValueError(
            f"features of width {features.shape[-1]} do not fit a projection from {len(projection)}"
        )
    product = np.asarray(features, dtype=projection.dtype) @ projection
    if not np.isfinite(product).all():
        raise ValueError("a feature is not finite, or has no finite projection")
    return normalised(product)


def classifier(prompt_features: np.ndarray, projection: np.ndarray) -> np.ndarray:
    """Return one vector for each class, as open_clip's ``build_zero_shot_classifier``.

    Each prompt's embedding is normalised, the mean over the templates is taken, and normalised.

    Parameters
    ----------
    prompt_features : (k, t, d_text) array
        Pre-projection features of class k in template t.
    projection : (d_text, e) array
        Text projection.

    Returns
    -------
    (k, e) float64 array
        Rows of length one.
    """
    return normalised(embed(prompt_features, projection).mean(axis=1))


def true_ranks(embeddings: np.ndarray, classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return how many classes are ranked before the true one; 0 is a correct answer.

    Among equal logits the class with the smaller number goes first, as in argmax.

    Parameters
    ----------
    embeddings : (n, e) array
        Images.
    classes : (k, e) array
        Classifier.
    labels : (n,) int array
        True classes.

    Raises
    ------
    ValueError
        If a label names no class.
    """
    check_labels(labels, len(classes))
    ranks = np.empty(len(labels), dtype=np.int64)
    numbers = np.arange(len(classes))
    block = max(1, BLOCK_ENTRIES // len(classes))
    for start in range(0, len(labels), block):
        rows = slice(start, start + block)
        logits, own = embeddings[rows] @ classes.T, labels[rows, None]
        true = np.take_along_axis(logits, own, axis=1)
        ranks[rows] = ((logits > true) | ((logits == true) & (numbers < own))).sum(axis=1)
    return ranks


def check_labels(labels: np.ndarray, classes: int) -> None:
    """Raise ValueError if there is no label, or one names no class."""
    if len(labels) == 0:
        raise ValueError("there is no image")
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        raise ValueError(
            f"label {labels[outside][0]} names none of the {classes} classes (0 to {classes - 1})"
        )


def class_counts(
    correct: np.ndarray, labels: np.ndarray, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return how many images of each class were classified correctly, and how many there are.

    Parameters
    ----------
    correct : (n,) bool array
        Whether the first answer was right.
    labels : (n,) int array
        True classes.
    classes : int
        Number of classes k.

    Returns
    -------
    hits, counts : (k,) int arrays
        Their ratio is the class's recall. The mean over classes with images is
        ``mean_per_class_recall`` (scikit-learn's ``balanced_accuracy_score``).
    """
    counts = np.bincount(labels, minlength=classes)
    return np.bincount(labels[correct], minlength=classes), counts


def scores(embeddings: np.ndarray, classes: np.ndarray, labels: np.ndarray) -> list[Row]:
    """Return accuracies, mean per-class recall and silhouette with 95 % intervals.

    Intervals: Wilson's for shares of images, the combined Wilson intervals of the classes for the
    mean of recalls, and for the silhouette the normal interval of the mean over samples, which
    takes the clusters as given. The silhouette is not a number where it is not defined (one
    class with images, or one image for each class).

    Parameters
    ----------
    embeddings : (n, e) array
        Images.
    classes : (k, e) array
        Classifier.
    labels : (n,) int array
        True classes.

    Returns
    -------
    list of dict
        Rows with ``metric``, ``value``, ``n``, ``low``, ``high``, ``chance``; ``class_recall``
        has the number of its ``class`` too, and is missing for classes without images.
    """
    ranks = true_ranks(embeddings, classes, labels)
    n, k = len(labels), len(classes)
    rows: list[Row] = []
    for best in (1, 5):
        hits = int((ranks < best).sum())
        low, high = intervals.wilson(hits, n)
        chance = min(best, k) / k
        rows.append(_row(f"acc{best}", hits / n, n, low.item(), high.item(), chance))
    correct, counts = class_counts(ranks == 0, labels, k)
    present = np.flatnonzero(counts)
    recalls = correct[present] / counts[present]
    interval = intervals.mean_of_shares(correct[present], counts[present])
    rows.append(_row("mean_per_class_recall", recalls.mean(), n, *interval, 1 / k))
    rows.append(silhouette_row(embeddings, labels))
    low, high = intervals.wilson(correct[present], counts[present])
    for number, recall, lowest, highest in zip(present, recalls, low, high, strict=True):
        row = _row("class_recall", recall, int(counts[number]), lowest, highest, 1 / k)
        rows.append({**row, "class": int(number)})
    return rows


def silhouette_row(embeddings: np.ndarray, labels: np.ndarray) -> Row:
    """Return the row of the mean cosine silhouette by class; see `scores`."""
    try:
        samples = silhouette_samples(embeddings, labels)
    except ValueError:
        return _row("silhouette", np.nan, len(labels), np.nan, np.nan, np.nan)
    return _row("silhouette", samples.mean(), len(labels), *intervals.mean(samples), np.nan)


def _row(metric: str, value: float, n: int, low: float, high: float, chance: float) -> Row:
    row = {"metric": metric, "value": value, "n": n, "low": low, "high": high}
    return row if np.isnan(chance) else {**row, "chance": chance}
