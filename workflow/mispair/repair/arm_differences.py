"""The answers of the arms of the repair, and the differences in accuracy between two arms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mispair.evaluation.paired_differences import difference
from mispair.towers.arms import REPAIR

Key = tuple[str, str, float]
"""Rule, scheme and rate of an arm."""

Answers = dict[tuple[str, str], np.ndarray]
"""Right answers (seeds, images) by evaluation set and protocol."""

REFERENCES: dict[str, tuple[str, ...]] = {
    "raw": ("oracle",),
    "factor": ("raw", "drop", "all", "oracle", "trusted-alone", "random-replaced",
               "factor-untouched"),
    "drop": ("raw", "random-dropped"),
    "second-round": ("factor",),
}  # fmt: skip
"""References that each rule is compared with; other rules are compared with raw captions."""


def arm_of(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> tuple[Key, Answers]:
    """Return the arm whose answers `evaluate_zeroshot` wrote, and those on sets of classes."""
    origin = json.loads(metadata["projection"])
    stacks: dict[tuple[str, str], list[np.ndarray]] = {}
    for key in sorted(tensors):
        name, _, rest = key.partition("|")
        if rest.count("|") == 1 and f"{name}|labels" in tensors:
            right = tensors[key] == tensors[f"{name}|labels"]
            stacks.setdefault((name, rest.partition("|")[0]), []).append(right)
    answers = {key: np.stack(stack) for key, stack in stacks.items()}
    return (origin["start"].removeprefix(REPAIR), origin["scheme"], float(origin["rate"])), answers


def comparisons(arms: Mapping[Key, Answers]) -> Iterator[dict[str, Any]]:
    """Yield the rows of `differences` of each arm with its references at the same corruption.

    Rows have the keys ``rule``, ``reference``, ``scheme`` and ``rate``, too.
    """
    for (rule, scheme, rate), answered in arms.items():
        for name in REFERENCES.get(rule, ("raw",)):
            reference = arms.get((name, scheme, rate))
            if reference is not None:
                keys = {"rule": rule, "reference": name, "scheme": scheme, "rate": rate}
                yield from ({**keys, **row} for row in differences(answered, reference))


def differences(answered: Answers, reference: Answers) -> list[dict[str, Any]]:
    """Return the difference in accuracy on each set, and over all sets of each protocol.

    Rows have ``metric`` and the fields of `mispair.evaluation.paired_differences.Difference`.
    """
    rows = [
        {"metric": "acc1_difference", "evaluation_set": name, "protocol": protocol}
        | vars(difference([answered[name, protocol]], [reference[name, protocol]]))
        for name, protocol in answered
    ]
    for protocol in dict.fromkeys(protocol for _, protocol in answered):
        sets = [key for key in answered if key[1] == protocol]
        both = [[arm[key] for key in sets] for arm in (answered, reference)]
        rows.append(
            {"metric": "acc1_difference_of_all_sets", "protocol": protocol}
            | vars(difference(both[0], both[1]))
        )
    return rows
