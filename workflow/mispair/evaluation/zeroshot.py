"""Zero-shot classification from cached features: classifier, answers and scores."""

from __future__ import annotations

import numpy as np

from mispair.core.intervals import Row, mean, mean_of_shares, share_row
from mispair.evaluation.silhouette import silhouette_samples

BLOCK_ENTRIES = 1 << 23
"""Entries of the largest block of logits: those of all images may not fit into memory."""


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
        The product has the precision of the projection, as in the tower.

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


def classifier(
    prompt_features: np.ndarray, prompt_classes: np.ndarray, projection: np.ndarray
) -> np.ndarray:
    """Return one vector for each class, as open_clip's ``build_zero_shot_classifier``.

    Each prompt's embedding is normalised, then averaged over the prompts of a class, and the mean
    is normalised. Classes may have different numbers of prompts.

    Parameters
    ----------
    prompt_features : (p, d_text) array
        Pre-projection features of all prompts, those of a class adjacent.
    prompt_classes : (p,) int array
        Class of each prompt, from 0 upwards without a gap.
    projection : (d_text, e) array
        Text projection.

    Returns
    -------
    (k, e) float64 array
        Rows of length one, k = ``prompt_classes[-1] + 1``.

    Raises
    ------
    ValueError
        If a class has no prompt, or the prompts are not in the order of their classes.
    """
    return classifier_of(embed(prompt_features, projection), prompt_classes)


def classifier_of(embeddings: np.ndarray, prompt_classes: np.ndarray) -> np.ndarray:
    """Return `classifier` from the embeddings of the prompts, (p, e) of length one."""
    starts = starts_of_classes(prompt_classes, len(embeddings))
    counts = np.diff(starts, append=len(embeddings))
    return normalised(np.add.reduceat(embeddings, starts, axis=0) / counts[:, None])


def starts_of_classes(prompt_classes: np.ndarray, prompts: int) -> np.ndarray:
    """Return the number of the first prompt of each class, (k,) int; errors as in `classifier`."""
    if len(prompt_classes) != prompts or prompts == 0:
        raise ValueError(f"{prompts} prompts do not fit the classes of {len(prompt_classes)}")
    steps = np.diff(prompt_classes, prepend=-1)
    if (steps < 0).any():
        raise ValueError("the prompts are not in the order of their classes")
    if (steps > 1).any():
        after = np.flatnonzero(steps > 1)[0]
        raise ValueError(f"class {prompt_classes[after] - 1} has no prompt")
    return np.flatnonzero(steps)


def classify(
    embeddings: np.ndarray, classes: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the answers, and how many classes are ranked before the true ones.

    Among equal logits the class with the smaller number ranks first, as in argmax.

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
    answers, ranks : (n,) int64 arrays
        Rank 0 is a correct answer.

    Raises
    ------
    ValueError
        If a label is no class.
    """
    check_labels(labels, len(classes))
    predicted = np.empty(len(labels), dtype=np.int64)
    ranks = np.empty(len(labels), dtype=np.int64)
    numbers = np.arange(len(classes))
    block = max(1, BLOCK_ENTRIES // len(classes))
    for start in range(0, len(embeddings), block):
        rows = slice(start, start + block)
        logits = embeddings[rows] @ classes.T
        true_scores = labels[rows, None]
        true = np.take_along_axis(logits, true_scores, axis=1)
        predicted[rows] = logits.argmax(axis=1)
        ranks[rows] = ((logits > true) | ((logits == true) & (numbers < true_scores))).sum(axis=1)
    return predicted, ranks


def check_labels(labels: np.ndarray, classes: int) -> None:
    """Raise ValueError if there is no label, or one is no class."""
    if len(labels) == 0:
        raise ValueError("there is no image")
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        raise ValueError(
            f"label {labels[outside][0]} names none of the {classes} classes (0 to {classes - 1}); "
            "labels and class list do not fit"
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


def accuracies(ranks: np.ndarray, labels: np.ndarray, classes: int) -> list[Row]:
    """Return accuracies, mean per-class recall and the recall of each class.

    Intervals are Wilson's for shares of images, and the combined Wilson intervals of the classes
    for the mean of recalls, which is the mean over classes that have images.

    Parameters
    ----------
    ranks, labels : (n,) int arrays
        How many classes are ranked before the true one, and the true one.
    classes : int
        Number of classes k.

    Returns
    -------
    list of dict
        Rows with ``metric``, ``value``, ``n``, ``low``, ``high``, ``chance``. ``class_recall``
        has the number of its ``class`` too, and is missing for classes without images. The row
        ``classes_without_images`` has their number, if there are any.
    """
    n = len(labels)
    rows = [
        share_row(f"acc{best}", int((ranks < best).sum()), n, min(best, classes) / classes)
        for best in (1, 5)
    ]
    correct, counts = class_counts(ranks == 0, labels, classes)
    rows.append(mean_recall_row("mean_per_class_recall", correct, counts))
    present = np.flatnonzero(counts)
    if absent := classes - len(present):
        rows.append({"metric": "classes_without_images", "value": absent, "n": classes})
    for number in present.tolist():
        row = share_row("class_recall", int(correct[number]), int(counts[number]), 1 / classes)
        rows.append({**row, "class": number})
    return rows


def mean_recall_row(metric: str, hits: np.ndarray, counts: np.ndarray) -> Row:
    """Return the row of the mean recall over the classes that have images; see `class_counts`."""
    present = counts > 0
    low, high = mean_of_shares(hits[present], counts[present])
    return {
        "metric": metric,
        "value": float((hits[present] / counts[present]).mean()),
        "n": int(counts.sum()),
        "low": low,
        "high": high,
        "chance": 1 / len(counts),
    }


def silhouette_row(embeddings: np.ndarray, labels: np.ndarray) -> Row:
    """Return the row of the mean cosine silhouette by class.

    Its interval is the normal one of the mean over samples, which takes the clusters as given. The
    value is NaN if it is not defined (one class with images, or one image for each class).
    """
    row = {"metric": "silhouette", "n": len(labels)}
    try:
        samples = silhouette_samples(embeddings, labels)
    except ValueError:
        return {**row, "value": np.nan, "low": np.nan, "high": np.nan}
    low, high = mean(samples)
    return {**row, "value": float(samples.mean()), "low": low, "high": high}
