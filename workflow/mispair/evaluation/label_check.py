"""Detect class lists that do not fit the labels because they are shifted or permuted.

With such a list a model that recognises the classes answers consistently with wrong names. So
names and labels are matched on one half of the images, and judged on the other. Three things
look alike and must not be taken for a wrong list: a weak model, for which no relabelling helps
on images that it was not fitted to; a model that mixes up a few classes; and a model that does
not recognise the classes, but separates them, and so gives each some name consistently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mispair.core.intervals import Row, share_row

SIGNIFICANCE = 1e-3
"""Largest p value of a list that is reported."""

FACTOR, POINTS = 2.0, 0.10
"""Least factor and least gain in accuracy by relabelling, for a list to be flagged."""

SHARE_MOVED, LEAST_MOVED = 0.5, 3
"""Least share and number of classes that move: to mix up two classes is no sign of a wrong list."""

KNOWN = 0.7
"""Least accuracy after relabelling of a model that recognises the classes. Below, only a shift is
reported: names given at random form any permutation, but hardly ever a shift."""

SHARE_SHIFTED, FEWEST_SHIFTED = 0.8, 8
"""Least share of the moved classes that move equally far in a shift. Fewest classes with which a
shift is more than chance: 7 of the 8! orders of 8 names are shifts, but 4 of the 5! of 5."""


@dataclass(frozen=True)
class LabelCheck:
    """Effect of relabelling on the half of the images that it was not fitted to.

    Attributes
    ----------
    classes : int
        Classes with images.
    n, hits, relabelled_hits : int
        Images of the half, and right answers with the list as it is and relabelled.
    p_value : float
        Of McNemar's exact one-sided test: probability to gain as many images by chance.
    shift_p_value : float
        Probability that names given at random come as near to a shift, for all shifts.
    assignment : (k,) int array
        Place in the list of the name that the model gives to the images of each class.
    moved : (j,) int array
        Classes that are assigned another place than their own, if both halves agree on it.
    """

    classes: int
    n: int
    hits: int
    relabelled_hits: int
    p_value: float
    shift_p_value: float
    assignment: np.ndarray
    moved: np.ndarray

    @property
    def flagged(self) -> bool:
        """Whether the list very likely does not fit the labels."""
        is_shift = self.classes >= FEWEST_SHIFTED and self.shift_p_value < SIGNIFICANCE
        return (
            len(self.moved) >= max(LEAST_MOVED, SHARE_MOVED * self.classes)
            and self.p_value < SIGNIFICANCE
            and self.relabelled_hits >= FACTOR * self.hits
            and self.relabelled_hits - self.hits >= POINTS * self.n
            and (self.relabelled_hits >= KNOWN * self.n or (is_shift and self.shift != 0))
        )

    @property
    def shift(self) -> int:
        """Places by which most moved names are too late (negative: too early); 0 if no shift."""
        if len(self.moved) == 0:
            return 0
        k = len(self.assignment)
        shifts = (self.assignment[self.moved] - self.moved) % k
        most = int(np.bincount(shifts).argmax())
        if (shifts == most).mean() < SHARE_SHIFTED:
            return 0
        return most if most <= k / 2 else most - k

    def rows(self) -> list[Row]:
        """Return the check as rows: flagged or not (1 or 0), classes moved, both accuracies.

        There are no rows if no image could be held out (one image per class).
        """
        if self.n == 0:
            return []
        prefix, chance = "label_check", 1 / len(self.assignment)
        return [
            {"metric": f"{prefix}_flagged", "value": int(self.flagged), "n": self.n},
            {"metric": f"{prefix}_moved_classes", "value": len(self.moved), "n": self.classes},
            share_row(f"{prefix}_listed_acc1", self.hits, self.n, chance),
            share_row(f"{prefix}_relabelled_acc1", self.relabelled_hits, self.n, chance),
        ]

    def described(self, classnames: Sequence[str]) -> str:
        """Describe what is likely wrong with a list in which at least one class moves."""
        number = int(self.moved[0])
        listed, answered = classnames[number], classnames[int(self.assignment[number])]
        how = f"{len(self.moved)} of {self.classes} classes have the name of another one"
        if shift := self.shift:
            distance = f"{abs(shift)} place{'s' if abs(shift) > 1 else ''}"
            how = f"the names of {len(self.moved)} of {self.classes} classes are {distance} "
            how += "too late" if shift > 0 else "too early"
        return (
            f"the class list does not seem to fit the labels: {how}. Images of class {number}, "
            f"{listed!r} in the list, look like {answered!r}. With names and labels "
            f"matched on half of the images, accuracy on the other half is "
            f"{self.relabelled_hits / self.n:.1%} instead of {self.hits / self.n:.1%}"
        )


def check(answers: np.ndarray, labels: np.ndarray, classes: int) -> LabelCheck:
    """Fit a relabelling of the classes on half of the images and judge it on the other half.

    Two are tried: the one-to-one assignment of labels to answers that is right most often (Kuhn
    1955, Naval Research Logistics 2, 83), in which a class moves only if that is right more
    often, and the best shift of the whole list, for which a weak model is evidence enough.
    Images of each class are dealt to the halves in turn. McNemar's exact test (1947,
    Psychometrika 12, 153) goes over the images that only one of two lists gets right.

    Parameters
    ----------
    answers, labels : (n,) int arrays
        Answers of a model and labels, in 0 to k - 1.
    classes : int
        Number of classes k.
    """
    from scipy.optimize import linear_sum_assignment

    from mispair.core.distributions import binomial_at_least

    fitted, held_out = _confusions(answers, labels, classes)
    numbers = np.arange(classes)
    shifted = (numbers + _best_shift(fitted)) % classes
    # The bonus for classes that stay adds up to less than one image.
    stay = np.eye(classes) / (2 * classes)
    assigned = linear_sum_assignment(fitted + stay, maximize=True)[1]
    order = max((shifted, assigned), key=lambda order: held_out[numbers, order].sum())
    old, new, moves = held_out[numbers, numbers], held_out[numbers, order], order != numbers
    only_new, only_old = new[moves].sum(), old[moves].sum()
    return LabelCheck(
        classes=len(np.unique(labels)),
        n=int(held_out.sum()),
        hits=int(old.sum()),
        relabelled_hits=int(new.sum()),
        p_value=binomial_at_least(only_new, only_new + only_old, 0.5),
        shift_p_value=_p_of_shift(fitted + held_out),
        assignment=order,
        moved=np.flatnonzero(moves & (new > old)),
    )


def _confusions(
    answers: np.ndarray, labels: np.ndarray, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Count labels (rows) and answers (columns) of the images of either half, (k, k) each."""
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=classes)
    number_in_class = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    one, second = (
        np.bincount(labels[half] * classes + answers[half], minlength=classes**2)
        for half in (order[number_in_class % 2 == 0], order[number_in_class % 2 == 1])
    )
    return one.reshape(classes, classes), second.reshape(classes, classes)


def _shifts(confusion: np.ndarray) -> np.ndarray:
    """Return how many answers are right with the list shifted by 0 to k - 1 places, (k,)."""
    numbers = np.arange(len(confusion))
    moved = (numbers + numbers[:, None]) % len(confusion)
    return confusion[numbers, moved].sum(axis=1)


def _best_shift(confusion: np.ndarray) -> int:
    return int(_shifts(confusion)[1:].argmax()) + 1


def _p_of_shift(confusion: np.ndarray) -> float:
    """Return the probability that random names come as near to a shift of the list as these.

    Of all one-to-one namings the number of right answers has the mean ``sum(C) / k`` and the
    variance ``sum(D^2) / (k - 1)``, with D the confusions C less the means of their rows and
    columns, and is nearly normal (Hoeffding 1951, Annals of Mathematical Statistics 22, 558).
    """
    from mispair.core.distributions import normal_tail

    k = len(confusion)
    centred = confusion - confusion.mean(axis=0) - confusion.mean(axis=1)[:, None]
    centred += confusion.mean()
    deviation = np.sqrt((centred**2).sum() / (k - 1))
    most = _shifts(confusion)[1:].max() - confusion.sum() / k
    return min(1.0, (k - 1) * normal_tail(most / deviation)) if deviation > 0 else 1.0
