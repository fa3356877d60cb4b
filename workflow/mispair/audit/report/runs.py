"""Estimates of the audit where the true share is known."""

from __future__ import annotations

import pandas as pd

UNTOUCHED, TRUSTED = "untouched model", "with trusted pairs"
MEMORISED, CROSS_FITTED = "memorised", "cross-fitted"
UNSEEN = ("boilerplate", "filtered")
"""Trials, at one share each, of errors that ranks among random captions cannot see."""


def shown_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Return the estimates of the figure and its table, each with the name of its series.

    An upper limit without a lower one is an interval from 0.
    """
    rates = table[table["metric"] == "rate"]
    names = {
        ("random", "untouched", "mixture"): UNTOUCHED,
        ("random", "untouched", "trusted"): TRUSTED,
        ("random", "memorised", "mixture"): MEMORISED,
        ("random", "cross-fitted", "mixture"): CROSS_FITTED,
        ("similar", "untouched", "mixture"): UNTOUCHED,
        ("similar", "untouched", "similar"): TRUSTED,
        **{(scheme, "untouched", "mixture"): UNTOUCHED for scheme in UNSEEN},
        **{(scheme, "untouched", "trusted"): TRUSTED for scheme in UNSEEN},
    }
    keys = zip(rates["scheme"], rates["scorer"], rates["method"], strict=True)
    series = [names.get(key, "") for key in keys]
    return rates.assign(series=series, low=rates["low"].fillna(0)).query("series != ''")
