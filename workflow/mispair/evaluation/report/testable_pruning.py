"""Judge the claims on pruning only on a model whose own basis is better than a random one.

A ranking of neurons by purity presupposes neurons that differ from arbitrary directions. If the
model's own basis follows the known features no better than its random rotations, such a ranking
orders arbitrary directions, and its result neither supports nor contradicts the claims on pruning.
"""

from __future__ import annotations

from dataclasses import replace

from mispair.core.words import interval, number
from mispair.evaluation.report import claims_pruning
from mispair.evaluation.report.claims_construct import (
    SMALLEST_GAIN,
    own_basis_better_than_random,
    own_basis_is_better,
)
from mispair.report import verdicts
from mispair.report.tables import Tables
from mispair.report.verdicts import Verdict

REASON = "cannot be tested here"
TOWER = "text"
"""The tower whose neurons the claims on pruning rank."""


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on pruning, undecided if this model cannot test them.

    The verdicts stay if the true features are unknown: then the basis cannot be judged.
    """
    judged = claims_pruning.judge(tables, confidence)
    if own_basis_is_better(tables, TOWER, confidence) is not False:
        return judged
    gain = own_basis_better_than_random(tables, TOWER, confidence=confidence)
    reason = (
        f"{REASON}: the model’s own basis follows the known features no better than random ones "
        f"(mean |r| with the best feature, own − rotated, {number(gain.value, sign=True)}, "
        f"{interval(gain.low, gain.high, sign=True)}; at least {number(SMALLEST_GAIN, 2)} would "
        "be an advantage), so a ranking by purity orders arbitrary directions"
    )
    return [
        verdict
        if verdict.outcome == verdicts.UNMEASURED
        else replace(verdict, outcome=verdicts.UNDECIDED, reason=reason)
        for verdict in judged
    ]
