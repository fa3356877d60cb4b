"""Labels and order of arms and checkpoints in tables that list every one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from mispair.report import style
from mispair.report.table import Number, with_interval
from mispair.report.tables import main_first, records

KEYS = ["start", "scheme", "rate"]

UNFOLDED = 16
"""Rows of the longest table of models that is shown unfolded."""


def arms(*tables: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the arms in tables: the untouched model, then by start, scheme and rate."""
    if not tables:
        return []
    rows = pd.concat([table[KEYS] for table in tables]).dropna(subset=["start"]).drop_duplicates()
    starts = ["untouched", *style.FINE_TUNED, *style.SCALES]
    schemes = main_first(rows["scheme"].dropna())

    def sort_key(arm: Mapping[str, Any]) -> tuple[int, str, int, float]:
        start, scheme = arm["start"], arm["scheme"]
        return (
            starts.index(start) if start in starts else len(starts),
            start,
            schemes.index(scheme) if scheme in schemes else -1,
            -1.0 if math.isnan(arm["rate"]) else arm["rate"],
        )

    return sorted(records(rows), key=sort_key)


def by_arm(table: pd.DataFrame) -> dict[tuple[str, str, float], pd.DataFrame]:
    """Return the rows of every arm by its `key`."""
    if table.empty:
        return {}
    filled = [table["start"].fillna(""), table["scheme"].fillna(""), table["rate"].fillna(-1.0)]
    return {key(rows.iloc[0]): rows for _, rows in table.groupby(filled)}


def key(arm: Mapping[str, Any] | pd.Series) -> tuple[str, str, float]:
    """Return an arm as a key of `by_arm`, without missing values, so equal arms have equal keys."""
    scheme = "" if pd.isna(arm["scheme"]) else arm["scheme"]
    return arm["start"], scheme, -1.0 if pd.isna(arm["rate"]) else float(arm["rate"])


def model_label(row: Mapping[str, Any]) -> str:
    """Return the name of the model of a row: start and C_m of an arm, or the checkpoint's name."""
    if "start" not in row:
        return str(row["towers"])
    return str(row["start"]) if pd.isna(row["rate"]) else f"{row['start']}, C_m {row['rate']:g}"


Groups = list[tuple[dict[str, Any], pd.DataFrame]]


def groups(table: pd.DataFrame, keys: list[str]) -> Groups:
    """Return for each group of rows with the same keys its first row, and the group."""
    return [(records(rows)[0], rows) for _, rows in table.groupby(keys, dropna=False, sort=True)]


def models(table: pd.DataFrame, *keys: str) -> Groups:
    """Return `groups` of further keys and of arms, the untouched model first, or of checkpoints."""
    of_model = KEYS if "start" in table else ["towers"]
    of_models = groups(table, [*keys, *of_model])
    return sorted(of_models, key=lambda group: group[0].get("start") != "untouched")


ByMetric = dict[str, pd.DataFrame]


def by_metric(rows: pd.DataFrame) -> ByMetric:
    """Return rows by metric."""
    return {str(metric): part for metric, part in rows.groupby("metric")}


def cell(rows: ByMetric, metric: str) -> Number:
    """Return the value of a metric with its interval or spread as a cell of a table."""
    return with_interval(rows[metric]) if metric in rows else Number()
