"""Corrections for the number of claims: Holm's for the primary ones, the false-discovery rate's.

The primary claims are few and named in advance: Holm's procedure keeps the probability of any
false one at α. The other claims are many: the procedure of Benjamini and Hochberg keeps the
expected share of false ones among those that are decided at α.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from mispair.reporting.verdicts import CONTRADICTS, SUPPORTS, UNDECIDED, Verdict
from mispair.reporting.words import count, p_value

RULE = (
    "Each test is two-sided at α. The p values of the primary claims are corrected by Holm’s "
    "procedure, which keeps the probability of any false one at α; those of the other claims by "
    "Benjamini’s and Hochberg’s, which keeps the expected share of false ones at α. A claim that "
    "its own test supports or contradicts becomes “cannot tell” if its corrected p value exceeds "
    "α. Claims whose rule has no p value are not corrected."
)
"""The corrections in words, as the report prints them."""


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted by Holm's step-down procedure (Holm 1979).

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, stepped)
    return [float(value) for value in adjusted]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return p values adjusted by the step-up procedure of Benjamini and Hochberg (1995)."""
    if not p_values:
        return []
    return [float(value) for value in stats.false_discovery_control(p_values, method="bh")]


def adjusted(verdicts: Sequence[Verdict], alpha: float) -> list[Verdict]:
    """Return the verdicts with corrected p values, and without those that do not withstand them."""
    results = list(verdicts)
    for primary, correct, name in ((True, holm, "Holm"), (False, benjamini_hochberg, "FDR")):
        places = [
            place
            for place, verdict in enumerate(verdicts)
            if verdict.claim.primary == primary
            and verdict.effect is not None
            and math.isfinite(verdict.effect.p)
        ]
        corrected = correct([_p(verdicts[place]) for place in places])
        kind = "primary test" if primary else "other test"
        for place, p in zip(places, corrected, strict=True):
            verdict = replace(verdicts[place], adjusted_p=p)
            if p > alpha and verdict.outcome in (SUPPORTS, CONTRADICTS):
                reason = (
                    f"{verdict.reason}; corrected for {count(len(places), kind)} ({name}) "
                    f"{p_value(p)}"
                )
                verdict = replace(verdict, outcome=UNDECIDED, reason=reason)
            results[place] = verdict
    return results


def _p(verdict: Verdict) -> float:
    assert verdict.effect is not None
    return verdict.effect.p
