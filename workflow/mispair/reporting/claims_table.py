"""All claims with their verdicts, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from mispair.reporting.comparison import Table
from mispair.reporting.verdicts import Verdict


def claims(judged: Sequence[Verdict]) -> list[Table]:
    """Return the table of the claims that were judged, if any was."""
    rows = tuple(
        (
            verdict.claim.text, verdict.claim.paper, verdict.preset or "–", verdict.measured or "–",
            verdict.published or "–", verdict.outcome, verdict.sample or "–", verdict.test or "–",
        )
        for verdict in judged
    )  # fmt: skip
    heads = ("claim", "paper", "preset", "measured", "published", "verdict", "runs", "test")
    return [Table("Claims of the paper and what was measured", heads, rows)] if rows else []
