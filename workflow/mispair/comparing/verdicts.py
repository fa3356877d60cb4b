"""The verdicts of two runs side by side."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mispair.comparing.runs import Run
from mispair.core.words import significant
from mispair.report.table import Table
from mispair.report.tables import records

KEYS = ["claim", "preset"]


def verdicts(a: Run, b: Run) -> Table:
    """Return the claims whose outcome is not the same; those of one run alone are among them."""
    both = a.claims.merge(b.claims, "outer", KEYS, suffixes=("_a", "_b"), sort=False)
    changed = both[both["outcome_a"].fillna("") != both["outcome_b"].fillna("")]
    rows = tuple(
        (
            row["claim"], _text(row["preset"]),
            *(cell for run in "ab" for cell in (_text(row[f"outcome_{run}"]), _effect(row, run))),
        )
        for row in records(changed)
    )  # fmt: skip
    heads = ("claim", "preset", "A", "effect in A", "B", "effect in B")
    return Table("Verdicts that differ", heads, rows)


def _text(value: Any) -> str:
    return "–" if pd.isna(value) or value == "" else str(value)


def _effect(row: dict[str, Any], run: str) -> str:
    value, low, high = (row[f"{name}_{run}"] for name in ("effect", "low", "high"))
    if pd.isna(value):
        return "–"
    limits = f" ({significant(low, sign=True)} to {significant(high, sign=True)})"
    return significant(value, sign=True) + ("" if pd.isna(low) else limits)
