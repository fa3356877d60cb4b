"""How well embeddings classify: by prompts (zero-shot), by a linear probe, and their silhouette."""

import warnings
from collections.abc import Sequence

import numpy as np

from mispair.core.distributions import Row, interval_of_mean, mean_of_shares, share_row

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
    low, high = interval_of_mean(samples)
    return {**row, "value": float(samples.mean()), "low": low, "high": high}


# Linear probe: logistic regression on the training embeddings, scored on the test split.


Split = tuple[np.ndarray, np.ndarray]
"""Embeddings of length one (n, e), and labels (n,), of the images of a split."""


def probe(
    train: Split,
    test: Split,
    C: float | None,
    grid: Sequence[float],
    folds: int,
    seed: int,
    max_iter: int,
) -> tuple[list[Row], list[str]]:
    """Fit scikit-learn's multinomial logistic regression and score it on other images.

    It minimises ``C * sum of losses + |W|^2 / 2`` with L-BFGS from zero, without random draws.

    Parameters
    ----------
    train, test : tuple of arrays
        Splits; the classes are those in both.
    C : float or None
        Inverse strength of the penalty. None takes it from the grid by the accuracy in seeded
        cross-validation on the training split, stratified by class.
    grid, folds, seed
        Of that search.
    max_iter : int
        Most iterations of the solver.

    Returns
    -------
    rows : list of dict
        ``probe_acc1`` and ``probe_mean_per_class_recall`` with ``n``, ``low``, ``high``, ``chance``
        and the ``C`` that they were fitted with.
    complaints : list of str
        Warnings of scikit-learn, such as that the solver did not converge, each once.

    Raises
    ------
    ValueError
        If labels do not fit, a class with test images has no training image, or a class has fewer
        training images than there are folds.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    (_, train_labels), (_, test_labels) = train, test
    classes = 1 + max(int(labels.max(initial=0)) for labels in (train_labels, test_labels))
    check_labels(train_labels, classes)
    check_labels(test_labels, classes)
    numbers, counts = np.unique(train_labels, return_counts=True)
    unseen = np.setdiff1d(test_labels, numbers)
    if unseen.size:
        raise ValueError(
            f"class {unseen[0]} has test images but no training image ({unseen.size} such classes)"
        )
    if len(numbers) < 2:
        raise ValueError("the training images are all of one class")
    if C is None and counts.min() < folds:
        raise ValueError(
            f"class {numbers[counts.argmin()]} has {counts.min()} training images, too few for "
            f"cross-validation in {folds} folds; give C, or fewer folds"
        )
    # Among equally accurate values the search takes the first: that of the strongest penalty.
    values = sorted(grid) if C is None else [C]
    model = LogisticRegression(C=values[0], max_iter=max_iter)
    if len(values) > 1:
        splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
        model = GridSearchCV(model, {"C": values}, cv=splitter)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answers = model.fit(*train).predict(test[0])
    chosen = model.best_params_["C"] if len(values) > 1 else values[0]
    hits, of_classes = class_counts(answers == test_labels, test_labels, classes)
    rows = [
        share_row("probe_acc1", int(hits.sum()), len(test_labels), 1 / classes),
        mean_recall_row("probe_mean_per_class_recall", hits, of_classes),
    ]
    messages = dict.fromkeys(" ".join(str(one.message).split()) for one in caught)
    return [{**row, "C": chosen} for row in rows], [*messages]


# Exact silhouette with the cosine distance, without a distance matrix.
#
# For vectors of length one the mean distance from x to a cluster is ``1 - <x, m>``, with m the
# mean of the cluster's vectors. So all mean distances are one product with the K means: the score
# takes O(n K d) operations instead of O(n^2 d), and memory for the means and one block of rows.


ROUNDING = 1e-12
"""Distances below this are those of identical directions."""

SILHOUETTE_ENTRIES = 1 << 18
"""Entries of the largest temporary matrix: two megabytes, which stay in the cache."""


class CosineSilhouette:
    """Silhouettes of one set of labels, for any number of representations of its samples.

    Sums over clusters are fastest if the samples of each cluster are adjacent.

    Parameters
    ----------
    labels : (n,) int array
        Cluster of each sample. Clusters without a sample are ignored.

    Raises
    ------
    ValueError
        If there are not 2 to n - 1 clusters with samples: the score is not defined.
    """

    def __init__(self, labels: np.ndarray) -> None:
        _, self._cluster, self._counts = np.unique(
            np.asarray(labels), return_inverse=True, return_counts=True
        )
        if not 2 <= len(self._counts) < len(self._cluster):
            raise ValueError(
                f"a silhouette needs 2 to n - 1 classes with images; there are "
                f"{len(self._counts)} classes and n = {len(self._cluster)} images"
            )
        order = np.argsort(self._cluster, kind="stable")
        self._members = [
            _as_slice(members) for members in np.split(order, np.cumsum(self._counts)[:-1])
        ]

    def samples(self, features: np.ndarray, squares: np.ndarray | None = None) -> np.ndarray:
        """Return the silhouette of every sample, as scikit-learn defines it.

        With a the mean distance to the other samples of its own cluster and b the smallest mean
        distance to another cluster, ``(b - a) / max(a, b)``; 0 for the only sample of a cluster
        and where a and b are both 0.

        Parameters
        ----------
        features : (n, d) array
            Rows of any length; a row of zeros has distance 1 to all others, as in scikit-learn.
        squares : (n,) array, optional
            Squared lengths of the rows, if they are known already.

        Returns
        -------
        (n,) float64 array
            Values in [-1, 1], computed in double precision.
        """
        if squares is None:
            squares = np.einsum("ij,ij->i", features, features, dtype=np.float64)
        inverse = np.zeros(len(features))
        np.divide(1.0, np.sqrt(squares), out=inverse, where=squares > 0)
        centres = np.empty((len(self._counts), features.shape[1]))
        for centre, members, count in zip(centres, self._members, self._counts, strict=True):
            np.matmul(inverse[members] / count, _double(features[members]), out=centre)
        scores = np.empty(len(features))
        block = max(1, SILHOUETTE_ENTRIES // max(centres.shape))
        for start in range(0, len(features), block):
            rows = slice(start, start + block)
            products = _double(features[rows]) @ centres.T
            scores[rows] = self._scores(products, self._cluster[rows], inverse[rows])
        return scores

    def _scores(self, products: np.ndarray, cluster: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        """Turn products of rows with the cluster means (m, K), overwritten, into scores (m,).

        Rows have the length ``1 / inverse``, or 0 where `inverse` is 0.
        """
        rows = np.arange(len(cluster))
        size = self._counts[cluster]
        # The mean over the own cluster includes the sample's distance to itself: 0 for a unit
        # vector, but 1 by the formula for a row of zeros.
        inside = size * (1 - inverse * products[rows, cluster]) - (inverse == 0)
        inside /= np.maximum(size - 1, 1)
        products[rows, cluster] = -np.inf
        nearest = products.argmax(axis=1)  # several times as fast as max
        outside = 1 - inverse * products[rows, nearest]
        inside = np.where(inside < ROUNDING, 0.0, inside)
        outside = np.where(outside < ROUNDING, 0.0, outside)
        largest = np.maximum(inside, outside)
        scores = np.zeros_like(largest)
        np.divide(outside - inside, largest, out=scores, where=(largest > 0) & (size > 1))
        return scores


def _as_slice(rows: np.ndarray) -> slice | np.ndarray:
    """Return ascending row numbers without a gap as a slice, which selects them without a copy."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first == len(rows) - 1 else rows


def _double(rows: np.ndarray) -> np.ndarray:
    return rows.astype(np.float64, copy=False)


def silhouette_samples(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cosine silhouette of every sample; see `CosineSilhouette`."""
    return CosineSilhouette(labels).samples(features)
