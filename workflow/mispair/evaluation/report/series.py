"""Series of one start against C_m: ends and change."""

from __future__ import annotations

import math

import pandas as pd

from mispair.report.tables import Tables, mean_by, remembered

TOWERS = ("text", "image")
SHOWN = ("untouched", "pretrained")
"""Starts that are shown against nulls: the untouched model, and its projections at every C_m."""


@remembered
def purity_series(tables: Tables, start: str, tower: str, metric: str) -> pd.DataFrame:
    """Return a measure of every rate and seed of a start, averaged over rotations."""
    rows = tables.purity_of(start, metric)
    return mean_by(rows[rows["tower"] == tower], ["rate", "seed"])


def scale_series(tables: Tables, start: str, metric: str) -> pd.DataFrame:
    """Return the logit scale, or a measure of it, of every rate and seed of a start."""
    rows = tables.purity_of(start, metric)
    return mean_by(rows[rows["rate"].notna()], ["rate", "seed"])


AT_CHANCE = "at chance"
"""Gate of claims on the accuracy of a model that answers no better than by chance."""


def at_chance(tables: Tables) -> bool:
    """Return whether the fine-tuned model classifies no better than chance at the lowest rate.

    The mean over evaluation sets of accuracy − chance must exceed 3 standard errors due to images.
    False if no accuracy or no chance was measured.
    """
    rows = tables.zeroshot_of("pretrained", "acc1")
    rows = rows.dropna(subset=["rate", "value", "chance", "n"])
    rows = rows[rows["rate"] == rows["rate"].min()]
    if rows.empty:
        return False
    sets = rows.groupby("evaluation_set")[["value", "chance", "n"]].mean()
    variance = float((sets["chance"] * (1 - sets["chance"]) / sets["n"]).sum())
    excess = float((sets["value"] - sets["chance"]).sum())
    return excess <= 3 * math.sqrt(variance)


@remembered
def zeroshot_series(
    tables: Tables, start: str, metric: str, evaluation_set: str | None = None
) -> pd.DataFrame:
    """Return a measure of every rate and seed on one set, or the mean of the sets all arms have.

    It is of the main protocol, unless `tables` has only another one.
    """
    rows = tables.zeroshot_of(start, metric)
    if evaluation_set is not None:
        rows = rows[rows["evaluation_set"] == evaluation_set]
    else:
        wide = rows.pivot_table(
            index=["rate", "seed"], columns="evaluation_set", values="value", dropna=False
        )
        complete = wide.columns[wide.notna().all()]
        rows = rows[rows["evaluation_set"].isin(complete)]
    return mean_by(rows, ["rate", "seed"])


def ends(series: pd.DataFrame) -> tuple[float, float, float, float]:
    """Return the lowest and highest measured rate and the means over seeds there."""
    means = series.dropna().groupby("rate")["value"].mean()
    if means.empty:
        return (math.nan,) * 4
    low, high = (float(means.index[end]) for end in (0, -1))
    return low, high, float(means.iloc[0]), float(means.iloc[-1])


def change(series: pd.DataFrame) -> float:
    """Return the change of the mean from the lowest to the highest rate; NaN for one rate."""
    low, high, first, last = ends(series)
    return last - first if low < high else math.nan
