"""All claims with their verdicts, as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mispair.core.words import p_value, significant
from mispair.report.table import Table
from mispair.report.verdicts import Verdict


def claims(judged: Sequence[Verdict]) -> list[Table]:
    """Return the table of the claims that were judged, if any was."""
    rows = tuple(
        (
            verdict.claim.text, verdict.claim.paper, verdict.preset or "–", verdict.measured or "–",
            verdict.published or "–", verdict.outcome, verdict.sample or "–", verdict.test or "–",
            *_effect(verdict),
        )
        for verdict in judged
    )  # fmt: skip
    heads = ("claim", "paper", "preset", "measured", "published", "verdict", "runs", "test",
             "effect", "smallest effect of interest", "corrected p")  # fmt: skip
    return [Table("Claims of the paper and what was measured", heads, rows)] if rows else []


def _effect(verdict: Verdict) -> tuple[str, str, str]:
    effect = verdict.effect
    if effect is None:
        return "–", "–", "–"
    text = significant(effect.value, sign=True)
    if effect.known:
        limits = [significant(limit, sign=True) for limit in (effect.low, effect.high)]
        text += f" ({' to '.join(limits)})"
    corrected = p_value(verdict.adjusted_p) if math.isfinite(verdict.adjusted_p) else "–"
    return text, significant(verdict.smallest), corrected
