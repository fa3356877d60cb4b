"""Linear probe: logistic regression on the training embeddings, scored on the test split."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mispair.core.intervals import Row, share_row
from mispair.evaluation.zeroshot import check_labels, class_counts, mean_recall_row


@dataclass(frozen=True)
class Probe:
    """A fitted probe.

    Attributes
    ----------
    rows : list of dict
        ``probe_acc1`` and ``probe_mean_per_class_recall`` with ``n``, ``low``, ``high``, ``chance``
        and the ``C`` that they were fitted with.
    complaints : list of str
        Warnings of scikit-learn, such as that the solver did not converge.
    """

    rows: list[Row]
    complaints: list[str]


Split = tuple[np.ndarray, np.ndarray]
"""Embeddings of length one (n, e), and labels (n,), of the images of a split."""


def fit(
    train: Split,
    test: Split,
    C: float | None,
    grid: Sequence[float],
    folds: int,
    seed: int,
    max_iter: int,
) -> Probe:
    """Return `probe` of the classes in both splits, with the given C or `best_c` of a grid."""
    complaints: list[str] = []
    if C is None:
        C, complaints = best_c(*train, grid, folds, seed, max_iter)
    classes = 1 + max(int(labels.max(initial=0)) for _, labels in (train, test))
    result = probe(*train, *test, classes, C=C, max_iter=max_iter)
    return Probe(result.rows, [*complaints, *result.complaints])


def probe(
    train: np.ndarray,
    train_labels: np.ndarray,
    test: np.ndarray,
    test_labels: np.ndarray,
    classes: int,
    *,
    C: float,
    max_iter: int,
) -> Probe:
    """Fit scikit-learn's multinomial logistic regression and score it on other images.

    It minimises ``C * sum of losses + |W|^2 / 2`` with L-BFGS from zero, without random draws.

    Parameters
    ----------
    train, test : (m, e) and (n, e) arrays
        Embeddings of length one.
    train_labels, test_labels : (m,) and (n,) int arrays
        Classes.
    classes : int
        Number of classes k.
    C : float
        Inverse strength of the penalty.
    max_iter : int
        Most iterations of the solver.

    Raises
    ------
    ValueError
        If labels do not fit, or a class with test images has no training image.
    """
    check_labels(train_labels, classes)
    check_labels(test_labels, classes)
    unseen = np.setdiff1d(test_labels, train_labels)
    if unseen.size:
        raise ValueError(
            f"class {unseen[0]} has test images but no training image ({unseen.size} such classes)"
        )
    if len(np.unique(train_labels)) < 2:
        raise ValueError("the training images are all of one class")
    answers, complaints = _answers(train, train_labels, test, C, max_iter)
    hits, counts = class_counts(answers == test_labels, test_labels, classes)
    rows = [
        share_row("probe_acc1", int(hits.sum()), len(test), 1 / classes),
        mean_recall_row("probe_mean_per_class_recall", hits, counts),
    ]
    return Probe([{**row, "C": C} for row in rows], complaints)


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
    from sklearn.model_selection import StratifiedKFold

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
        for fit, held_out in splitter.split(embeddings, labels):
            answers, message = _answers(
                embeddings[fit], labels[fit], embeddings[held_out], C, max_iter
            )
            hits[C] += int((answers == labels[held_out]).sum())
            complaints |= dict.fromkeys(f"with C = {C:g}: {one}" for one in message)
    return max(hits, key=hits.__getitem__), list(complaints)


def _answers(
    train: np.ndarray, labels: np.ndarray, test: np.ndarray, C: float, max_iter: int
) -> tuple[np.ndarray, list[str]]:
    """Return the answers on the test images, and the warnings of the fit."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=C, max_iter=max_iter)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(train, labels)
    return model.predict(test), [" ".join(str(one.message).split()) for one in caught]
