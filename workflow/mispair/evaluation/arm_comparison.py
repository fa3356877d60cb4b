"""The answers of arms, and the differences between two arms in the credit for the same images."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mispair.evaluation.paired_differences import difference
from mispair.towers.arms import PRETRAINED, WEIGHTED

OF_ONE_SET, OF_ALL_SETS = "acc1_difference", "acc1_difference_of_all_sets"
"""Metrics of the rows: on one evaluation set, and averaged over all sets of a protocol."""

SELECTION_OF_ONE_SET = "selection_difference"
SELECTION_OF_ALL_SETS = "selection_difference_of_all_sets"
"""The same for sets in which one of an image's captions is chosen."""

BEYOND_ACCURACY = "selection_difference_beyond_accuracy"
"""Difference in selection minus that in accuracy, both as shares of the range from chance to 1."""

Key = tuple[str, str]
"""An evaluation set and a protocol."""


@dataclass(frozen=True)
class Arm:
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
    chances : dict
        The credit by chance, by set and protocol.
    pictures : dict
        By set, if captions are chosen in it, (n,) ints: images with the same number are the same
        picture.
    """

    path: Path
    keys: dict[str, Any]
    fingerprints: dict[str, str]
    correct: dict[Key, dict[str, np.ndarray]]
    chances: dict[Key, float]
    pictures: dict[str, np.ndarray]

    @property
    def start(self) -> str | None:
        """Start of its fine-tuning."""
        return self.keys["start"]

    def rows(self, reference: Arm) -> list[dict[str, Any]]:
        """Return the differences on every set, on all sets of each protocol, and between kinds."""
        pairs = {
            key: _paired(correct, reference.correct[key]) for key, correct in self.correct.items()
        }

        def row(weights: Mapping[Key, float], **keys: str) -> dict[str, Any]:
            one, second = zip(*(pairs[key] for key in weights), strict=True)
            pictures = [self.pictures.get(name) for name, _ in weights]
            return {**keys, **vars(difference(one, second, [*weights.values()], pictures))}

        rows = []
        for name, protocol in pairs:
            metric = SELECTION_OF_ONE_SET if name in self.pictures else OF_ONE_SET
            weights = {(name, protocol): 1.0}
            rows.append(row(weights, evaluation_set=name, protocol=protocol, metric=metric))
        chosen = [key for key in pairs if key[0] in self.pictures]
        for protocol in dict.fromkeys(protocol for _, protocol in pairs):
            of_protocol = [key for key in pairs if key[1] == protocol]
            is_choice = of_protocol[0] in chosen
            metric = SELECTION_OF_ALL_SETS if is_choice else OF_ALL_SETS
            mean = dict.fromkeys(of_protocol, 1 / len(of_protocol))
            rows.append(row(mean, protocol=protocol, metric=metric))
            if chosen and not is_choice:
                above = {key: 1 / len(chosen) / (1 - self.chances[key]) for key in chosen}
                below = {key: -1 / len(of_protocol) / (1 - self.chances[key])
                         for key in of_protocol}  # fmt: skip
                rows.append(row(above | below, protocol=protocol, metric=BEYOND_ACCURACY))
        return rows


def arm_of(path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> Arm:
    """Return the arm whose answers `evaluate_zeroshot` wrote."""
    origin, chances = json.loads(metadata["projection"]), json.loads(metadata["chances"])
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
    return Arm(
        path=path,
        keys={
            "start": origin.get("start"),
            "scheme": origin.get("scheme"),
            "rate": None if rate is None else float(rate),
        },
        fingerprints=json.loads(metadata["sets"]) | json.loads(metadata["protocols"]),
        correct=correct,
        chances={key: chances["|".join(key)] for key in correct},
        pictures=pictures,
    )


def references(arms: Sequence[Arm], untouched: Arm) -> Iterator[tuple[Arm, dict[str, Arm]]]:
    """Yield each arm with its references by name; the untouched arm has none."""
    # At rate 0 all schemes are the same, so each start has one such arm.
    controls = {arm.start: arm for arm in arms if arm.keys["rate"] == 0}
    pretrained = {
        (arm.keys["scheme"], arm.keys["rate"]): arm for arm in arms if arm.start == PRETRAINED
    }
    for arm in arms:
        candidates = {"untouched": untouched, "rate 0": controls.get(arm.start)}
        if arm.start == WEIGHTED:
            same_captions = arm.keys["scheme"], arm.keys["rate"]
            candidates["not weighted"] = pretrained.get(same_captions)
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
