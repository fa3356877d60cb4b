"""What an arm is called in tables that list every arm, and in which order they stand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from mispair.report import style
from mispair.report.tables import main_first, records

KEYS = ["start", "scheme", "rate"]


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
    """Return an arm as a key of `by_arm`: nothing missing, so that equal arms have equal keys."""
    scheme = "" if pd.isna(arm["scheme"]) else arm["scheme"]
    return arm["start"], scheme, -1.0 if pd.isna(arm["rate"]) else float(arm["rate"])


def cells(arm: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return start, scheme and C_m of an arm as cells of a table."""
    rate = "–" if pd.isna(arm["rate"]) else f"{arm['rate']:g}"
    scheme = "–" if pd.isna(arm["scheme"]) else str(arm["scheme"])
    return style.START_WORDS.get(arm["start"], str(arm["start"])), scheme, rate


HEADS = ("projections", "scheme", "C_m")
