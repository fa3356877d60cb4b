"""Runs of a condition, differences between their arms, and the published points with their runs."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mispair.report import published, style
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


def runs(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return a measure of every run of one condition, in its main definition.

    Returns
    -------
    DataFrame
        One row for each C_s and trial, one column for each arm of
        `mispair.report.style.ARM_WORDS`. Two towers of one run are averaged. ``oracle`` is the raw
        arm of the same trial at C_s = 0, where every caption is right. S_h is the same at every
        C_s, and so is ``high-quality-only``, which is run at C_s = 0 alone.
    """
    rows = where(main(table), metric=metric)
    wide = rows.pivot_table(index=RUN, columns="trained_on", values="value")
    clean = wide[wide.index.get_level_values("spurious_probability") == 0].droplevel(0)
    trials = wide.index.get_level_values("trial")
    for name, arm in (("oracle", "raw"), ("high-quality-only", "high-quality-only")):
        if arm in clean:
            wide[name] = clean[arm].reindex(trials).to_numpy()
    return wide.reindex(columns=list(style.ARM_WORDS))


def spurious(values: pd.Series) -> pd.Series:
    """Keep the runs with C_s above 0."""
    return values[values.index.get_level_values("spurious_probability") > 0]


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


TOLERANCES = {
    "purified_features": 3.0,
    "purified_magnitude": 0.04,
    "accuracy": 0.03,
    "silhouette": 0.012,
}
"""Largest distance of a reproduced point from the published one."""


@dataclass(frozen=True)
class Point:
    """A published point of figure 1 and what was measured there.

    ``mean`` is that of all runs; ``best`` that of the best two thirds of them, as published, NaN
    with fewer than three runs.
    """

    metric: str
    trained_on: str
    spurious_probability: float
    published: float
    values: pd.Series

    @property
    def mean(self) -> float:
        """The mean of all runs."""
        return float(self.values.mean())

    @property
    def best(self) -> float:
        """The mean of the best two thirds of the runs; NaN with fewer than three."""
        return best(self.values)

    def within(self, value: float) -> bool:
        """Return whether a value is within the tolerance of the published point."""
        return abs(value - self.published) <= TOLERANCES[self.metric] + 1e-9


FEATURES = 50
"""d of the published points; at another size there is nothing to compare with them."""


def points(table: pd.DataFrame) -> list[Point]:
    """Return the published points at which one preset's table has runs of the published size.

    Runs without a recorded size are taken to have it.
    """
    compared: list[Point] = []
    if (table["features"].dropna() != FEATURES).any():
        return compared
    for metric in style.MEASURES:
        wide = runs(table, metric)
        for arm in PAIR:
            curve = published.figure1_curve(metric, arm)
            for probability, values in wide[arm].dropna().groupby("spurious_probability"):
                if probability in curve.index:
                    c_s, expected = float(str(probability)), float(curve[probability])
                    compared.append(Point(metric, arm, c_s, expected, values))
    return compared


def neighbour(metric: str, arm: str, probability: float) -> float:
    """Return the published value at the next C_s; NaN at the end of the curve."""
    curve = published.figure1_curve(metric, arm)
    return float(curve[np.isclose(curve.index, probability + 0.05)].sum(min_count=1))
