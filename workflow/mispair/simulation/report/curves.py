"""Curves of the simulation for TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from mispair.report.exports.runs import Run, in_order, path_of, tag_of
from mispair.report.tables import Tables, records

DISTINGUISHING = ("tower", "source", "definition", "prompts", "margin", "bias")
"""Columns of the simulation that distinguish curves of a metric."""


def runs(tables: Tables, trained: Mapping[str, Sequence[Path]], points: int) -> list[Run]:
    """Return a run for each trial and arm of the simulation: its dynamics over epochs and steps."""
    table = tables.simulation
    keys = ["condition", "spurious_probability", "trained_on", "trial"]
    rows = table[table["bin_low"].isna() & table[["epoch", "step"]].notna().any(axis=1)]
    results = []
    for (condition, probability, arm, trial), group in rows.groupby(keys, sort=True):
        name = f"simulation/{condition}/cs~{probability:g}/{arm}/trial~{trial:g}"
        curves: dict[str, dict[int, float]] = {}
        for row in records(group):
            tag = tag_of([row["metric"], *(row[key] for key in DISTINGUISHING)])
            step = row["epoch"] if pd.isna(row["step"]) else row["step"]
            curves.setdefault(tag, {})[int(step)] = row["value"]
        keys_of_run = dict(zip(keys, (condition, probability, arm, trial), strict=True))
        results.append(Run(path_of(name), keys_of_run, tuple(in_order(curves))))
    return results
