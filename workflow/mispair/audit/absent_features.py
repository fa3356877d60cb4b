"""How often a caption names what its picture does not show, by feature.

Captions alone do not show it. A probe of a feature that is trained on all captions also learns what
else occurs with the word. If the word wrongly follows another feature, the probe confuses the two.
So probes are trained on pairs that are known to be right, and applied to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mispair.core import seeds
from mispair.core.metrics import Row

LEAST_NAMED = 20
"""Trusted pairs that name a feature, at least."""

LEAST_SEEN = 0.75
"""Least difference between a probe's rates of detection where a feature is named and elsewhere."""

FOLDS = 2


@dataclass(frozen=True)
class Probes:
    """Linear probes of w features, one for each fold of the trusted pairs.

    Attributes
    ----------
    weight : (folds, d, w) float32 array
        A picture shows a feature if its features times the weight are above `threshold`.
    threshold : (folds, w) float32 array
        Infinite for a feature that too few trusted pairs name.
    """

    weight: np.ndarray
    threshold: np.ndarray

    def answers(self, features: np.ndarray) -> np.ndarray:
        """Return which pictures (n, d) show which features by each fold, (folds, n, w) bool."""
        scores = features.astype(np.float32) @ self.weight
        answers: np.ndarray = scores > self.threshold[:, None, :]
        return answers


def measure(
    blocks: Callable[[np.ndarray], Iterable[tuple[np.ndarray, np.ndarray]]],
    packed: np.ndarray,
    trusted: np.ndarray,
    names: Sequence[str],
) -> list[Row]:
    """Return `absent_rows` of n pairs whose images are read in blocks.

    Parameters
    ----------
    blocks : callable
        Returns for some pairs, (n,) bool, blocks of their positions (m,) and image features (m, d).
    packed : (n, ceil(w / 8)) uint8 array
        Which of the w features each caption names, as `numpy.packbits` packs.
    trusted : (n,) bool array
        Pairs known to be right.
    names : sequence of str
        Names of the features.
    """

    def named(pairs: np.ndarray) -> np.ndarray:
        return np.unpackbits(packed[pairs], axis=1, count=len(names)).astype(bool)

    right, examples = map(np.concatenate, zip(*blocks(trusted), strict=True))
    folds = seeds.generator(0, "audit", "features", "folds").integers(0, FOLDS, len(right))
    probes = fit_probes(examples, named(right), folds)
    answers = probes.answers(examples)[folds, np.arange(len(right))]
    shown, number = np.zeros((2, len(names)))
    for pairs, features in blocks(~trusted):
        of_block = named(pairs)
        shown += (probes.answers(features) & of_block).sum(axis=1).mean(axis=0)
        number += of_block.sum(axis=0)
    return absent_rows(answers, named(right), shown, number, names)


def fit_probes(features: np.ndarray, named: np.ndarray, folds: np.ndarray) -> Probes:
    """Fit probes of the features that captions known to be right name.

    Parameters
    ----------
    features : (m, d) array
        Image features of the trusted pairs.
    named : (m, w) bool array
        What their captions name.
    folds : (m,) int array
        0 or 1; the probe of a fold is fitted on the pairs of the other.
    """
    from sklearn.linear_model import LogisticRegression

    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-6
    standard = ((features - mean) / spread).astype(np.float64)
    shape = FOLDS, features.shape[1], named.shape[1]
    weight, threshold = np.zeros(shape, np.float32), np.full((FOLDS, shape[2]), np.inf, np.float32)
    for fold in range(FOLDS):
        fitted = folds != fold
        for number in range(shape[2]):
            if named[fitted, number].sum() < LEAST_NAMED / FOLDS or named[fitted, number].all():
                continue
            probe = LogisticRegression(C=0.003, max_iter=300, class_weight="balanced")
            probe.fit(standard[fitted], named[fitted, number])
            slope = probe.coef_[0] / spread
            weight[fold, :, number] = slope
            threshold[fold, number] = mean @ slope - probe.intercept_[0]
    return Probes(weight, threshold)


def absent_rows(
    answers: np.ndarray,
    named: np.ndarray,
    others_seen: np.ndarray,
    others_named: np.ndarray,
    names: Sequence[str],
) -> list[Row]:
    """Return how often each feature, and all together, are named but not in the picture.

    A probe detects a share T of namings on trusted pairs, a share F of trusted pairs that do not
    name the feature, and a share P = (1 − C) T + C F of namings on other pairs. So the share C of
    wrong namings is (T − P) / (T − F). C has no interval, because one of sampling would hide its
    main errors. Trusted pairs may show simpler pictures than the others. Right captions leave
    features out, which makes F too large. Features may be named by mistake in pictures that look
    alike, which makes C too small.

    Parameters
    ----------
    answers : (m, w) bool array
        What held-out probes detect in the pictures of the trusted pairs.
    named : (m, w) bool array
        What their captions name.
    others_seen, others_named : (w,) arrays
        Namings on other pairs: those that the probes detect (mean over folds), and all.
    names : sequence of str
        Names of the features.

    Notes
    -----
    Adjusted counts: Forman, "Quantifying counts and costs via classification", Data Min. Knowl.
    Discov. 2008.
    """
    on_trusted = named.sum(axis=0)
    total = on_trusted + others_named
    right = (answers & named).sum(axis=0) / np.maximum(on_trusted, 1)
    mistaken = (answers & ~named).sum(axis=0) / np.maximum((~named).sum(axis=0), 1)
    gap = right - mistaken
    judged = (on_trusted >= LEAST_NAMED) & (others_named >= LEAST_NAMED) & (gap >= LEAST_SEEN)
    share = right - others_seen / np.maximum(others_named, 1)
    share = share / np.where(judged, gap, 1) * others_named / np.maximum(total, 1)
    rows: list[Row] = [
        {"metric": "named_but_absent", "word": names[feature], "value": _clipped(share[feature]),
         "n": int(total[feature])}
        for feature in np.flatnonzero(judged).tolist()
    ]  # fmt: skip
    if judged.any():
        mean = _clipped(share[judged] @ total[judged] / total[judged].sum())
        rows.append(
            {"metric": "named_but_absent_of_all", "value": mean, "n": int(total[judged].sum())}
        )
    return [*rows, {"metric": "features_judged", "value": int(judged.sum()), "n": len(names)}]


def _clipped(share: float) -> float:
    return min(1.0, max(0.0, float(share)))
