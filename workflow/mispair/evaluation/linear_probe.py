"""Linear probe: logistic regression on the training embeddings, scored on the test split."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mispair.core.intervals import Row, share_row
from mispair.evaluation.zeroshot import check_labels, class_counts, mean_recall_row

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

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
        Inverse strength of the penalty; None for `best_c` of the grid, with the folds and the seed.
    max_iter : int
        Most iterations of the solver.

    Returns
    -------
    rows : list of dict
        ``probe_acc1`` and ``probe_mean_per_class_recall`` with ``n``, ``low``, ``high``, ``chance``
        and the ``C`` that they were fitted with.
    complaints : list of str
        Warnings of scikit-learn, such as that the solver did not converge.

    Raises
    ------
    ValueError
        If labels do not fit, or a class with test images has no training image.
    """
    complaints: list[str] = []
    if C is None:
        C, complaints = best_c(*train, grid, folds, seed, max_iter)
    (_, train_labels), (_, test_labels) = train, test
    classes = 1 + max(int(labels.max(initial=0)) for labels in (train_labels, test_labels))
    check_labels(train_labels, classes)
    check_labels(test_labels, classes)
    unseen = np.setdiff1d(test_labels, train_labels)
    if unseen.size:
        raise ValueError(
            f"class {unseen[0]} has test images but no training image ({unseen.size} such classes)"
        )
    if len(np.unique(train_labels)) < 2:
        raise ValueError("the training images are all of one class")
    answers, messages = _answers(lambda model: model.fit(*train).predict(test[0]), C, max_iter)
    hits, counts = class_counts(answers == test_labels, test_labels, classes)
    rows = [
        share_row("probe_acc1", int(hits.sum()), len(test_labels), 1 / classes),
        mean_recall_row("probe_mean_per_class_recall", hits, counts),
    ]
    return [{**row, "C": C} for row in rows], [*complaints, *messages]


def best_c(
    embeddings: np.ndarray,
    labels: np.ndarray,
    grid: Sequence[float],
    folds: int,
    seed: int,
    max_iter: int,
) -> tuple[float, list[str]]:
    """Choose C by cross-validation on the training split, stratified by class and seeded.

    Among equally accurate values it takes the smallest, which has the strongest penalty.

    Returns
    -------
    C : float
        A value of the grid.
    complaints : list of str
        Warnings of scikit-learn, each once.

    Raises
    ------
    ValueError
        If a class has fewer images than there are folds.
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    numbers, counts = np.unique(labels, return_counts=True)
    if counts.min() < folds:
        raise ValueError(
            f"class {numbers[counts.argmin()]} has {counts.min()} training images, too few for "
            f"cross-validation in {folds} folds; give C, or fewer folds"
        )
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    hits = dict.fromkeys(sorted(grid), 0)
    complaints: dict[str, None] = {}
    for C in hits:
        answers, messages = _answers(
            lambda model: cross_val_predict(model, embeddings, labels, cv=splitter), C, max_iter
        )
        hits[C] = int((answers == labels).sum())
        complaints |= dict.fromkeys(f"with C = {C:g}: {one}" for one in messages)
    return max(hits, key=hits.__getitem__), list(complaints)


def _answers(
    predict: Callable[[LogisticRegression], np.ndarray], C: float, max_iter: int
) -> tuple[np.ndarray, list[str]]:
    """Return the answers of a model that `predict` fits, and the warnings of the fits."""
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        answers = predict(LogisticRegression(C=C, max_iter=max_iter))
    return answers, [" ".join(str(one.message).split()) for one in caught]
