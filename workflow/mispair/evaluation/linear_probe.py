"""Linear probe: logistic regression on the training embeddings, scored on the test split."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from mispair.core.intervals import Row, share_row
from mispair.evaluation.zeroshot import check_labels, class_counts, mean_recall_row

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
