"""What an arm is called in tables that list every arm, and in which order they stand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from mispair.reporting import style
from mispair.reporting.tables import main_first, records

KEYS = ["start", "scheme", "rate"]


def arms(*tables: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the arms in tables: the untouched model, then by start, scheme and rate."""
    found = pd.concat([table[KEYS] for table in tables]).dropna(subset=["start"]).drop_duplicates()
    starts = ["untouched", *style.FINE_TUNED]
    schemes = main_first(found["scheme"].dropna())

    def place(arm: Mapping[str, Any]) -> tuple[int, str, int, float]:
        start, scheme = arm["start"], arm["scheme"]
        return (
            starts.index(start) if start in starts else len(starts),
            start,
            schemes.index(scheme) if scheme in schemes else -1,
            -1.0 if math.isnan(arm["rate"]) else arm["rate"],
        )

    return sorted(records(found), key=place)


def of_arm(table: pd.DataFrame, arm: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of an arm."""
    own = table["start"] == arm["start"]
    for key in KEYS[1:]:
        missing = pd.isna(arm[key])
        own &= table[key].isna() if missing else table[key] == arm[key]
    return table[own]


def words(arm: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return start, scheme and C_m of an arm as cells of a table."""
    rate = "–" if pd.isna(arm["rate"]) else f"{arm['rate']:g}"
    scheme = "–" if pd.isna(arm["scheme"]) else str(arm["scheme"])
    return style.START_WORDS.get(arm["start"], str(arm["start"])), scheme, rate


HEADS = ("projections", "scheme", "C_m")
