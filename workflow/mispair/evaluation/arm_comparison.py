"""The answers of arms, and the differences between two arms in the credit for the same images."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mispair.core.distributions import t_quantile, t_tail
from mispair.towers.arms import PRETRAINED, WEIGHTED

# Compare two arms on the same images, with images and seeds both as random samples.
#
# An answer depends on the image and on the seed of the arm. Resampling the images alone treats the
# seeds as fixed; a t test over seeds treats the images as fixed. Here the variance of a difference
# is the sum of two parts of the two-way analysis of variance with random effects: the variance
# between the means of seeds, which contains the interaction of images and seeds, and that of
# images without the interaction. The t quantile has Satterthwaite's degrees of freedom
# (Satterthwaite 1946, Biometrics Bulletin 2, 110).
#
# The bootstrap that resamples images and seeds together (Owen 2007, Annals of Applied Statistics
# 1, 386) has the same purpose, but counts the interaction up to three times and, with three seeds,
# underestimates their spread: its nominal 5 % test rejects between 0.5 % and 23 % of true null
# hypotheses. The closed form needs no resamples: its cost is one pass over the answers.

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """A mean difference with its 95 % interval and two-sided p value.

    Attributes
    ----------
    value, low, high, p : float
        Difference of two accuracies.
    n, seeds : int
        Numbers of images and of pairs of seeds. With one pair, seeds are taken as fixed.
    error, freedom : float
        Standard error and degrees of freedom, for intervals at another confidence.
    """

    value: float
    low: float
    high: float
    p: float
    n: int
    seeds: int
    error: float
    freedom: float


@dataclass(frozen=True)
class _Components:
    """One set's differences by seed, and the variance of their mean due to images alone."""

    by_seed: np.ndarray
    images: float
    n: int


def difference(
    correct: Sequence[np.ndarray],
    reference: Sequence[np.ndarray],
    pictures: Sequence[np.ndarray | None] | None = None,
) -> Difference:
    """Return the difference in accuracy of two arms, averaged over evaluation sets.

    Images are independent from set to set; seeds are the same in all sets, because a seed is one
    training of the arm.

    Parameters
    ----------
    correct, reference : sequences of (s, n_k) arrays
        For each evaluation set, the credit of each seed of an arm for each image: 1 or True for a
        right answer, 0 for a wrong one, and between for one drawn by lot. Rows are paired by seed.
        A reference with one row is compared with every seed of the arm.
    pictures : sequence of (n_k,) int arrays or None, optional
        Images of a set with the same number are the same picture, so they are one trial; None for
        a set of distinct pictures.

    Raises
    ------
    ValueError
        If there is no set or no image, or the shapes do not fit.

    Notes
    -----
    Two half images are added to every set: one that only the arm answers, and one that only the
    reference answers (Agresti and Min 2005, Statistics in Medicine 24, 729). So arms that agree on
    all images have an interval that is not empty.
    """
    each_picture = pictures if pictures is not None else [None] * len(correct)
    sets = [
        _components(one, base, same)
        for one, base, same in zip(correct, reference, each_picture, strict=True)
    ]
    if not sets:
        raise ValueError("arms without an evaluation set cannot be compared")
    factor = 1 / len(sets)
    if len({len(each.by_seed) for each in sets}) > 1:
        raise ValueError("arms with other seeds on each evaluation set cannot be compared")
    by_seed = np.sum([factor * each.by_seed for each in sets], axis=0)
    number = len(by_seed)
    images = [factor**2 * each.images for each in sets]
    # The variance between seeds contains the interaction, so that of images excludes it.
    seeds = float(by_seed.var(ddof=1)) / number if number > 1 else 0.0
    variance = seeds + sum(images)
    # Satterthwaite: each squared component over its own degrees of freedom.
    squares = seeds**2 / max(1, number - 1)
    squares += sum(
        of_set**2 / max(1, each.n - 1) for of_set, each in zip(images, sets, strict=True)
    )
    value, error, freedom = float(by_seed.mean()), math.sqrt(variance), variance**2 / squares
    half = t_quantile((1 + CONFIDENCE) / 2, freedom) * error
    return Difference(
        value=value,
        low=value - half,
        high=value + half,
        p=2 * t_tail(abs(value) / error, freedom),
        n=sum(each.n for each in sets),
        seeds=number,
        error=error,
        freedom=freedom,
    )


def _components(
    correct: np.ndarray, reference: np.ndarray, pictures: np.ndarray | None
) -> _Components:
    seeds, n = correct.shape
    if n == 0 or n != reference.shape[1]:
        raise ValueError(f"arms on {n} and {reference.shape[1]} images cannot be compared in pairs")
    if len(reference) not in (1, seeds):
        raise ValueError(f"arms of {seeds} and {len(reference)} seeds cannot be compared in pairs")
    apart = correct.astype(np.float32) - reference.astype(np.float32)
    if pictures is not None:
        apart = _of_pictures(apart, pictures)
        n = apart.shape[1]
    by_seed = apart.mean(axis=1, dtype=np.float64)
    by_image = apart.mean(axis=0, dtype=np.float64)
    mean = by_seed.mean()
    of_images = float(((by_image - mean) ** 2).sum()) / n / n
    interaction = 0.0
    if seeds > 1 and n > 1:
        # The squares of a two-way layout: total = seeds + images + interaction.
        total = float(np.square(apart).sum(dtype=np.float64)) - seeds * n * mean**2
        rest = total - n * float(((by_seed - mean) ** 2).sum())
        rest -= seeds * float(((by_image - mean) ** 2).sum())
        interaction = max(0.0, rest) / ((seeds - 1) * (n - 1)) / (seeds * n)
    return _Components(by_seed, max(0.0, of_images - interaction) + 1 / n**2, n)


def _of_pictures(apart: np.ndarray, pictures: np.ndarray) -> np.ndarray:
    """Return one column for each picture; the mean of a row stays that of all images."""
    order = np.argsort(pictures, kind="stable")
    starts = np.flatnonzero(np.diff(pictures[order], prepend=-1))
    sums = np.add.reduceat(apart[:, order], starts, axis=1)
    return sums * (len(starts) / apart.shape[1])


OF_ONE_SET, OF_ALL_SETS = "acc1_difference", "acc1_difference_of_all_sets"
"""Metrics of the rows: on one evaluation set, and averaged over all sets of a protocol."""

AGAINST_SCHEME = "scheme {}"
"""Reference that is the same start at the same rate, under another scheme, which is named."""

SELECTION_OF_ONE_SET = "selection_difference"
SELECTION_OF_ALL_SETS = "selection_difference_of_all_sets"
"""The same for sets in which one of an image's captions is chosen."""

Key = tuple[str, str]
"""An evaluation set and a protocol."""


@dataclass(frozen=True)
class ArmAnswers:
    """The answers of one arm.

    Attributes
    ----------
    path : Path
        Their file, for messages.
    keys : dict
        ``start``, ``scheme`` and ``rate``.
    fingerprints : dict
        Those of the images by set, and of the prompts by set and protocol.
    correct : dict
        By set and protocol, and by seed, the credit for each image (n,).
    pictures : dict
        By set, if captions are chosen in it, (n,) ints: images with the same number are the same
        picture.
    """

    path: Path
    keys: dict[str, Any]
    fingerprints: dict[str, str]
    correct: dict[Key, dict[str, np.ndarray]]
    pictures: dict[str, np.ndarray]

    @property
    def start(self) -> str | None:
        """Start of its fine-tuning."""
        return self.keys["start"]

    def rows(self, reference: ArmAnswers) -> list[dict[str, Any]]:
        """Return the differences on every set, and on all sets of each protocol."""
        pairs = {
            key: _paired(correct, reference.correct[key]) for key, correct in self.correct.items()
        }

        def row(sets: Sequence[Key], **keys: str) -> dict[str, Any]:
            one, second = zip(*(pairs[key] for key in sets), strict=True)
            pictures = [self.pictures.get(name) for name, _ in sets]
            return {**keys, **vars(difference(one, second, pictures))}

        rows = []
        for name, protocol in pairs:
            metric = SELECTION_OF_ONE_SET if name in self.pictures else OF_ONE_SET
            of_set = [(name, protocol)]
            rows.append(row(of_set, evaluation_set=name, protocol=protocol, metric=metric))
        for protocol in dict.fromkeys(protocol for _, protocol in pairs):
            of_protocol = [key for key in pairs if key[1] == protocol]
            is_choice = of_protocol[0][0] in self.pictures
            metric = SELECTION_OF_ALL_SETS if is_choice else OF_ALL_SETS
            rows.append(row(of_protocol, protocol=protocol, metric=metric))
        return rows


def arm_of(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> ArmAnswers:
    """Return the arm whose answers `evaluate_zeroshot` wrote."""
    origin = json.loads(metadata["projection"])
    correct: dict[Key, dict[str, np.ndarray]] = {}
    pictures = {}
    for key, answers in tensors.items():
        if key.endswith("|pictures"):
            pictures[key.removesuffix("|pictures")] = answers
        elif not key.endswith("|labels"):
            name, protocol, seed = key.rsplit("|", 2)
            labels = tensors.get(f"{name}|labels")
            credit = answers if labels is None else answers == labels
            correct.setdefault((name, protocol), {})[seed] = credit
    rate = origin.get("rate")
    return ArmAnswers(
        path=path,
        keys={
            "start": origin.get("start"),
            "scheme": origin.get("scheme"),
            "rate": None if rate is None else float(rate),
        },
        fingerprints=json.loads(metadata["sets"]) | json.loads(metadata["protocols"]),
        correct=correct,
        pictures=pictures,
    )


def references(
    arms: Sequence[ArmAnswers], untouched: ArmAnswers
) -> Iterator[tuple[ArmAnswers, dict[str, ArmAnswers]]]:
    """Yield each arm with its references by name; the untouched arm has none."""
    # At rate 0 all schemes are the same, so each start has one such arm.
    controls = {arm.start: arm for arm in arms if arm.keys["rate"] == 0}
    found = {(arm.start, arm.keys["scheme"], arm.keys["rate"]): arm for arm in arms}
    schemes = sorted({arm.keys["scheme"] for arm in arms} - {None})
    for arm in arms:
        candidates = {"untouched": untouched, "rate 0": controls.get(arm.start)}
        for scheme in schemes if arm.keys["rate"] else ():
            same_rate = arm.start, scheme, arm.keys["rate"]
            candidates[AGAINST_SCHEME.format(scheme)] = found.get(same_rate)
        if arm.start == WEIGHTED:
            same_captions = arm.keys["scheme"], arm.keys["rate"]
            candidates["not weighted"] = found.get((PRETRAINED, *same_captions))
        yield arm, {
            name: reference for name, reference in candidates.items()
            if reference is not None and reference is not arm and arm is not untouched
        }  # fmt: skip


def _paired(
    one: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the answers of the common seeds; a single reference is compared with all seeds."""
    if len(reference) == 1:
        return np.stack([*one.values()]), np.stack([*reference.values()])
    common = [seed for seed in one if seed in reference]
    return np.stack([one[seed] for seed in common]), np.stack([reference[seed] for seed in common])
