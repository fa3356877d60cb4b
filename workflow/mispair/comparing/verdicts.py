"""The verdicts of two runs side by side."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mispair.comparing.runs import Run
from mispair.report.table import Table, effect_cell
from mispair.report.tables import records

KEYS = ["claim", "preset"]


def verdicts(a: Run, b: Run) -> Table:
    """Return the claims whose outcomes differ, including claims of one run alone."""
    both = a.claims.merge(b.claims, "outer", KEYS, suffixes=("_a", "_b"), sort=False)
    changed = both[both["outcome_a"].fillna("") != both["outcome_b"].fillna("")]
    rows = tuple(
        (
            row["claim"], _text(row["preset"]),
            _text(row["outcome_a"]), effect_cell(row["effect_a"], row["low_a"], row["high_a"]),
            _text(row["outcome_b"]), effect_cell(row["effect_b"], row["low_b"], row["high_b"]),
        )
        for row in records(changed)
    )  # fmt: skip
    heads = ("claim", "preset", "A", "effect in A", "B", "effect in B")
    return Table("Verdicts that differ", heads, rows)


def _text(value: Any) -> str:
    return "–" if pd.isna(value) or value == "" else str(value)
