"""What the simulation's claims, tables and figures select from its one tidy table."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from mispair.report import style
from mispair.report.statistics import (
    Effect,
    Interval,
    effect_of_mean,
    mean_interval,
    trial_means,
)
from mispair.report.tables import where

PRESETS = ("as-written", "as-run")
"""The presets in the order in which they are side by side: text, then code."""

PAIR = ("raw", "filtered")
"""The two arms that every claim of figure 1 compares."""

RUN = ["spurious_probability", "trial"]
"""Columns that name a run of one condition and arm."""

SELECTED = 2 / 3
"""Share of the runs, the best ones, that the published points average (ten of fifteen)."""


def in_order(names: Iterable[object]) -> list[str]:
    """Return the presets among names of conditions, the paper's text first."""
    present = set(names)
    return [name for name in PRESETS if name in present]


def presets(table: pd.DataFrame) -> list[str]:
    """Return the presets that were run as conditions."""
    return in_order(where(table, kind="preset")["condition"])


def of_preset(table: pd.DataFrame, preset: str) -> pd.DataFrame:
    """Return the rows of a preset itself: nothing of the bridge, nothing of the grid."""
    return where(table, kind="preset", condition=preset)


def main(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out measures in the definition that is not their condition's main one."""
    return table[table["definition"].isna() | (table["definition"] == table["definition_main"])]


def at_largest(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep each condition's rows at its largest C_s."""
    largest = rows.groupby("condition")["spurious_probability"].transform("max")
    return rows[rows["spurious_probability"] == largest]


def first_trial(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the first trial of each condition at its largest C_s."""
    rows = at_largest(rows)
    return rows[rows["trial"] == rows.groupby("condition")["trial"].transform("min")]


def runs(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return a measure of every run of one condition, in its main definition.

    Returns
    -------
    DataFrame
        One row for each C_s and trial, one column for each arm of `mispair.report.style.ARMS`. Two
        towers of one run are averaged. ``oracle`` is the raw arm of the same trial at C_s = 0,
        where every caption is right. S_h is the same at every C_s, and so is
        ``high-quality-only``, which is run at C_s = 0 alone.
    """
    rows = where(main(table), metric=metric)
    wide = rows.pivot_table(index=RUN, columns="trained_on", values="value")
    clean = wide[wide.index.get_level_values("spurious_probability") == 0].droplevel(0)
    trials = wide.index.get_level_values("trial")
    for name, arm in (("oracle", "raw"), ("high-quality-only", "high-quality-only")):
        if arm in clean:
            wide[name] = clean[arm].reindex(trials).to_numpy()
    return wide.reindex(columns=list(style.ARMS))


def differences(
    table: pd.DataFrame, metric: str, arm: str = "filtered", baseline: str = "raw"
) -> pd.Series:
    """Return arm − baseline of every run that has both, by C_s and trial."""
    wide = runs(table, metric)
    return (wide[arm] - wide[baseline]).dropna()


def spurious(values: pd.Series) -> pd.Series:
    """Keep the runs with C_s above 0."""
    return values[values.index.get_level_values("spurious_probability") > 0]


def by_trial(values: pd.Series, confidence: float) -> Interval:
    """Return the mean over trials of each trial's mean over C_s, with its t interval.

    A trial has the same data at every C_s, so it counts once: see `trial_means`.
    """
    return mean_interval(trial_means(values), confidence)


def effect_by_trial(values: pd.Series, confidence: float) -> Effect:
    """Return the effect over trials of each trial's mean over C_s."""
    return effect_of_mean(trial_means(values), confidence, "trial")


def best(values: pd.Series) -> float:
    """Return the mean of the best two thirds of the runs, like the published points.

    Examples
    --------
    >>> best(pd.Series([1.0, 5.0, 3.0])), best(pd.Series([1.0, 5.0]))
    (4.0, nan)
    """
    values = values.dropna()
    if len(values) < 3:
        return math.nan
    return float(values.nlargest(round(SELECTED * len(values))).mean())


def listed(probabilities: Iterable[float]) -> str:
    """Print values of C_s, each once."""
    return ", ".join(f"{value:g}" for value in sorted(set(probabilities)))


def caption_runs(table: pd.DataFrame, metric: str, source: str = "generated") -> pd.Series:
    """Return a probability of captions of a source in every run with C_s above 0."""
    values = where(table, metric=metric, source=source).dropna(subset=["value"])
    return spurious(values.groupby(RUN)["value"].mean())
