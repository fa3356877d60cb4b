"""Series of one start against C_m: ends, change and trend."""

from __future__ import annotations

import math
from typing import Literal

import pandas as pd

from mispair.core.words import count, number
from mispair.report.statistics import Trend, trend
from mispair.report.tables import Tables, mean_by, remembered

SMALL, LARGE = 1 / 3, 2 / 3
"""Shares of a claim's effect: a control's effect is gone below SMALL, and the same above LARGE."""

TOWERS = ("text", "image")
SHOWN = ("untouched", "pretrained")
"""Starts that are shown against nulls: the untouched model, and its projections at every C_m."""

NOTICEABLE = 0.1
"""Least share of an effect that is worth a remark."""


Carried = Literal["keeps", "weakens", "removes", "reverses", "not measured"]
"""Result of a control for an effect."""


def carried(changed: float, in_control: float) -> Carried:
    """Return what remains of an effect in a control.

    Examples
    --------
    >>> carried(0.03, 0.03), carried(0.03, 0.015), carried(0.03, 0.001), carried(0.03, -0.02)
    ('keeps', 'weakens', 'removes', 'reverses')
    """
    if not (math.isfinite(changed) and math.isfinite(in_control)) or changed == 0:
        return "not measured"
    share = in_control / changed
    if share >= LARGE:
        return "keeps"
    if share <= -SMALL:
        return "reverses"
    return "weakens" if share >= SMALL else "removes"


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


def run_trend(series: pd.DataFrame) -> Trend:
    """Test the trend of a series over rates, within seeds."""
    return trend(series["rate"].tolist(), series["value"].tolist(), series["seed"].tolist())


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


def ends_text(series: pd.DataFrame, digits: int = 3) -> str:
    """Print the means at the lowest and the highest rate."""
    low, high, first, last = ends(series)
    if not math.isfinite(first):
        return ""
    return f"{number(first, digits)} → {number(last, digits)} from C_m {low:g} to {high:g}"


def sample(series: pd.DataFrame) -> str:
    """Return the numbers of rates and seeds of a series, in words."""
    seeds, rates = series["seed"].nunique(), series["rate"].nunique()
    return (
        f"{count(rates, 'rate')} × {count(seeds, 'seed')}, each with its own swaps, pairs and "
        "batches; one model"
    )


def why_missing(tables: Tables, start: str, reason: str) -> str:
    """Return why a claim on a start was not measured: `reason`, or a missing study or start."""
    if not tables.study("image_text"):
        return "the image-text study was not run"
    starts = set(tables.purity["start"].dropna()) | set(tables.zeroshot["start"].dropna())
    return reason if start in starts else f"no arm from {start} projections was measured"
