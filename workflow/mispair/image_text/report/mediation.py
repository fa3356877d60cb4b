"""Does accuracy follow overlap? Changes from C_m 0, arm by arm, and the relation that remains.

An arm is a start of the fine-tuning under a scheme of corruption. Arms intervene on overlap: they
raise it by different amounts at the same C_m. If overlap carried the loss of accuracy, arms whose
overlap rises more would lose more accuracy at the same C_m.
"""

from __future__ import annotations

import pandas as pd

from mispair.evaluation.report.series import purity_series, zeroshot_series
from mispair.report.tables import Tables, main_first, remembered

LEAST_ARMS = 3
"""Fewer arms leave no relation to measure at a C_m."""

ARM = ["start", "scheme"]


@remembered
def points(tables: Tables, tower: str) -> pd.DataFrame:
    """Return overlap and accuracy of every fine-tuned arm at every C_m.

    Returns
    -------
    DataFrame
        Columns ``start``, ``scheme``, ``rate``, ``seed``, ``overlap`` (mean |cos| of the tower's
        neurons) and ``accuracy`` (mean of the sets). The arm at rate 0 of a start is in each of
        its schemes.
    """
    parts = []
    for scheme in tables.schemes:
        arms = tables.of_scheme(scheme)
        for start in sorted(set(arms.purity["start"].dropna()) - {"untouched"}):
            overlap = purity_series(arms, start, tower, "mean_abs_cosine").dropna()
            scores = zeroshot_series(arms, start, "acc1").dropna()
            both = overlap.merge(scores, on=["rate", "seed"], suffixes=("_x", "_y"))
            if (both["rate"] > 0).any() and (both["rate"] == 0).any():
                both = both.rename(columns={"value_x": "overlap", "value_y": "accuracy"})
                parts.append(both.assign(start=start, scheme=scheme))
    columns = [*ARM, "rate", "seed", "overlap", "accuracy"]
    if not parts:
        return pd.DataFrame(columns=columns, dtype=float)
    return pd.concat(parts, ignore_index=True)[columns]


def changes(arm_points: pd.DataFrame) -> pd.DataFrame:
    """Return `points` above rate 0 less the same arm and seed at rate 0."""
    start = arm_points[arm_points["rate"] == 0].set_index([*ARM, "seed"])[["overlap", "accuracy"]]
    moved = arm_points[arm_points["rate"] > 0].set_index([*ARM, "seed"])
    moved = moved[moved.index.isin(start.index)]
    for name in start.columns:
        moved[name] = moved[name] - start[name].reindex(moved.index)
    return moved.reset_index()


def main_scheme(arm_points: pd.DataFrame) -> str:
    """Return the main scheme of corruption among arms, or "" if there are none."""
    return next(iter(main_first(arm_points["scheme"])), "")
