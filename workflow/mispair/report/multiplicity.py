"""Corrections for the number of claims: Holm's for primary ones, false discovery rate for others.

The primary claims are few and named in advance: Holm's procedure keeps the probability of any
false one at α. The other claims are many: the procedure of Benjamini and Hochberg keeps the
expected share of false ones among those that are decided at α.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mispair.core.words import count, p_value
from mispair.report.corrections import benjamini_hochberg, holm
from mispair.report.verdicts import CONTRADICTS, SUPPORTS, UNDECIDED, Verdict

RULE = (
    "Each test is two-sided at α. The p values of the primary claims are corrected by Holm’s "
    "procedure, which keeps the probability of any false one at α; those of the other claims by "
    "Benjamini’s and Hochberg’s, which keeps the expected share of false ones at α. A claim that "
    "its own test supports or contradicts becomes “cannot tell” if its corrected p value exceeds "
    "α. Claims whose rule has no p value are not corrected."
)
"""The corrections in words, as the report prints them."""


def adjusted(verdicts: Sequence[Verdict], alpha: float) -> list[Verdict]:
    """Return the verdicts with corrected p values; with p above α they become "cannot tell"."""
    results = list(verdicts)
    for primary, correct, name in ((True, holm, "Holm"), (False, benjamini_hochberg, "FDR")):
        tested = {
            position: verdict.effect.p
            for position, verdict in enumerate(verdicts)
            if verdict.claim.primary == primary
            and verdict.effect is not None
            and math.isfinite(verdict.effect.p)
        }
        kind = "primary test" if primary else "other test"
        for position, p in zip(tested, correct([*tested.values()]), strict=True):
            verdict = replace(verdicts[position], adjusted_p=p)
            if p > alpha and verdict.outcome in (SUPPORTS, CONTRADICTS):
                reason = (
                    f"{verdict.reason}; corrected for {count(len(tested), kind)} ({name}) "
                    f"{p_value(p)}"
                )
                verdict = replace(verdict, outcome=UNDECIDED, reason=reason)
            results[position] = verdict
    return results
