"""Estimates of the audit where the true share is known."""

from __future__ import annotations

import pandas as pd

UNTOUCHED, TRUSTED = "untouched model", "with trusted pairs"
MEMORISED, CROSS_FITTED = "memorised", "cross-fitted"


def shown_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Return the estimates of the figure and its table, each with the name of its series."""
    rates = table[table["metric"] == "rate"]
    names = {
        ("random", "untouched", "mixture"): UNTOUCHED,
        ("random", "untouched", "trusted"): TRUSTED,
        ("random", "memorised", "mixture"): MEMORISED,
        ("random", "cross-fitted", "mixture"): CROSS_FITTED,
        ("similar", "untouched", "mixture"): UNTOUCHED,
        ("similar", "untouched", "similar"): TRUSTED,
    }
    keys = zip(rates["scheme"], rates["scorer"], rates["method"], strict=True)
    return rates.assign(series=[names.get(key, "") for key in keys]).query("series != ''")
