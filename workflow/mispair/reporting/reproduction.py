"""Whether the points of figure 1 come out again, each within a tolerance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from mispair.reporting import published, style
from mispair.reporting.simulation_runs import PAIR, best, runs

TOLERANCES = {
    "purified_features": 3.0,
    "purified_magnitude": 0.04,
    "accuracy": 0.03,
    "silhouette": 0.012,
}
"""How far from the published point a measured one may lie."""


@dataclass(frozen=True)
class Point:
    """A published point of figure 1 and what was measured there.

    ``best`` is the mean of the best two thirds of the runs, NaN with fewer than three runs.
    """

    metric: str
    trained_on: str
    spurious_probability: float
    published: float
    best: float
    values: pd.Series

    @property
    def measured(self) -> bool:
        """Whether there are runs enough to select from."""
        return math.isfinite(self.best)

    @property
    def within(self) -> bool:
        """Whether it lies within the tolerance of its measure."""
        return abs(self.best - self.published) <= TOLERANCES[self.metric]


FEATURES = 50
"""d of the published points; at another size there is nothing to compare with them."""


def comparable(table: pd.DataFrame) -> bool:
    """Tell whether runs have as many features as the published ones, as far as they say."""
    return bool((table["features"].dropna() == FEATURES).all())


def points(table: pd.DataFrame) -> list[Point]:
    """Return the published points at which one preset's table has runs of the published size."""
    found: list[Point] = []
    if not comparable(table):
        return found
    for metric in style.MEASURES:
        wide = runs(table, metric)
        for arm in PAIR:
            curve = published.figure1_curve(metric, arm)
            for probability, own in wide[arm].dropna().groupby("spurious_probability"):
                if probability in curve.index:
                    there = float(curve[probability])
                    found.append(Point(metric, arm, float(str(probability)), there, best(own), own))
    return found
