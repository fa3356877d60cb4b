"""Estimates of the audit where the true share is known."""

from __future__ import annotations

import math

import pandas as pd

from mispair.report.tables import Tables

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


def captions_are_right(tables: Tables) -> bool:
    """Return whether the captions of the corpus itself are right, as those of generated scenes."""
    origin = tables.provenance
    answers = origin[(origin["artefact"] == "calibration") & (origin["key"] == "right")]["text"]
    return "False" not in set(answers)


def wrong_before(tables: Tables) -> float:
    """Return the share of captions that were wrong before any trial; NaN if it is not known.

    It is 0 for right captions. That of the user's corpus is known from pairs known to be right,
    unless the scores contradict these. An estimate without them is no such share: the trials would
    then compare it with itself.
    """
    if captions_are_right(tables):
        return 0.0
    values = tables.audit.drop_duplicates("metric").set_index("metric")["value"]
    if "trusted" not in values or values.get("trusted_excess", 0.0) > 0:
        return math.nan
    return float(values["trusted"])


def known_rates(tables: Tables) -> pd.DataFrame:
    """Return `shown_rates` with the share of all wrong captions as ``true``, and what was ``made``.

    Captions that were wrong before count in every estimate without trusted pairs. They do not where
    pairs of the trial are trusted: these have as many of them. ``true`` is NaN where the share is
    not known: without `wrong_before`, and in a filtered corpus, whose filter takes some of them.
    """
    rates = shown_rates(tables.audit_calibration).rename(columns={"true": "made"})
    before = wrong_before(tables)
    every = rates["made"] + (1 - rates["made"]) * before
    if before != 0:
        every = every.mask(rates["scheme"] == "filtered")
    return rates.assign(true=every.where(rates["series"] != TRUSTED, rates["made"]))
