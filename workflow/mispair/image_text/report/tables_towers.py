"""Table of the measures over several pairs of towers."""

from __future__ import annotations

import pandas as pd

from mispair.core.words import MISSING, interval, number
from mispair.image_text.report.study import REPLICATES
from mispair.report.table import Table
from mispair.report.tables import Tables, records

MEASURES = {
    "mean_abs_cosine": ("mean |cos|", 4),
    "log_participation_ratio": ("ln of the participation ratio", 3),
    "acc1": ("zero-shot accuracy, mean of the sets", 3),
    "selection_acc": ("right choices on compositional sets", 3),
    "mean_rank_correlation": ("ρ of mean |cos| with purity and selectivity", 3),
    "mean_rank_correlation_over_rotated": ("the same − its mean in rotated bases", 3),
    "mean_semantic_purity": ("semantic purity", 3),
}
"""Measures that are printed, in words, and their digits."""


def replicates(tables: Tables) -> list[Table]:
    """Return levels and changes of the measures, with intervals over pairs of towers."""
    measured = tables.tower_intervals
    order = {metric: place for place, metric in enumerate(MEASURES)}
    measured = measured[measured["metric"].isin(order)]
    measured = measured.sort_values("metric", key=lambda names: names.map(order), kind="stable")
    if measured.empty:
        return []
    return [
        Table(
            "Measures over pairs of towers",
            (
                "measure",
                "tower",
                "start",
                "scheme",
                "C_m",
                "quantity",
                "mean",
                "interval",
                "towers",
            ),
            tuple(_cells(row) for row in records(measured)),
            "The replicate is a pair of towers: its value is the mean over its seeds. A change is "
            "the value at C_m − the value at the lowest C_m on the same towers. Each pair of "
            "towers by itself: the table towers.",
            section=REPLICATES,
        )
    ]


def _cells(row: dict[str, object]) -> tuple[str, ...]:
    name, digits = MEASURES[str(row["metric"])]
    is_signed = row["quantity"] == "change"
    value, low, high = (float(str(row[key])) for key in ("value", "low", "high"))
    text = [MISSING if pd.isna(row[key]) else str(row[key]) for key in ("tower", "start", "scheme")]
    rate = MISSING if pd.isna(row["rate"]) else f"{row['rate']:g}"
    limits = interval(low, high, digits, sign=is_signed) if low < high else MISSING
    shown = number(value, digits, sign=is_signed)
    return name, *text, rate, str(row["quantity"]), shown, limits, f"{row['n']:.0f}"
