"""Rows of arms and models: their series against C_m, their protocol, and their labels."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from mispair.report import style
from mispair.report.tables import Tables, mean_by, records, remembered
from mispair.towers.arms import CONVERGED, FIXED_SCALES, LABELS, PRETRAINED

TOWERS = ("text", "image")
_COLOURS = style.colours("start", LABELS)
COLOURS = {name: colour for name, colour in _COLOURS.items() if name not in FIXED_SCALES}
"""Arms of the figures: first the paper's own, then its controls."""
BY_SCALE = {name: _COLOURS[name] for name in (CONVERGED, *FIXED_SCALES, PRETRAINED)}
"""Arms that differ in their logit scale, in figures by scale."""
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


def change(series: pd.DataFrame) -> float:
    """Return the change of the mean from the lowest to the highest rate; NaN for one rate."""
    means = series.dropna().groupby("rate")["value"].mean()
    return float(means.iloc[-1] - means.iloc[0]) if len(means) > 1 else math.nan


# The protocol of a zero-shot number -----------------------------------------------------------


def short(fingerprint: object) -> str:
    """Return a fingerprint's first eight digits after a #."""
    return f"#{str(fingerprint)[:8]}"


def base_arm(table: pd.DataFrame) -> pd.DataFrame:
    """Return the arm nearest to the published model: the untouched one, else the lowest C_m."""
    for start in ("untouched", "pretrained", "reinitialised"):
        rows = table[table["start"] == start]
        if not rows.empty:
            rate = rows["rate"].min()
            return rows if pd.isna(rate) else rows[rows["rate"] == rate]
    return table


# Labels and order of arms ---------------------------------------------------------------------

KEYS = ["start", "scheme", "rate"]


def model_label(row: Mapping[str, Any]) -> str:
    """Return the name of the model of a row: start and C_m of an arm, or the checkpoint's name."""
    if "start" not in row:
        return str(row["towers"])
    start = LABELS.get(row["start"], row["start"])
    return str(start) if pd.isna(row["rate"]) else f"{start}, C_m {row['rate']:g}"


Groups = list[tuple[dict[str, Any], pd.DataFrame]]


def groups(table: pd.DataFrame, keys: list[str]) -> Groups:
    """Return for each group of rows with the same keys its first row, and the group."""
    return [(records(rows)[0], rows) for _, rows in table.groupby(keys, dropna=False, sort=True)]


def models(table: pd.DataFrame, *keys: str) -> Groups:
    """Return `groups` of further keys and of arms, the untouched model first, or of checkpoints."""
    of_model = KEYS if "start" in table else ["towers"]
    of_models = groups(table, [*keys, *of_model])
    return sorted(
        of_models,
        key=lambda group: (*(group[0][key] for key in keys), group[0].get("start") != "untouched"),
    )
