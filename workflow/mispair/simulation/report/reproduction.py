"""Reproduction of the points of figure 1, and the softness of its tolerances."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mispair.report import published, style
from mispair.simulation.report.runs import PAIR, best, runs

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


def comparable(table: pd.DataFrame) -> bool:
    """Return whether runs have as many features as the published ones, as far as recorded."""
    return bool((table["features"].dropna() == FEATURES).all())


def points(table: pd.DataFrame) -> list[Point]:
    """Return the published points at which one preset's table has runs of the published size."""
    compared: list[Point] = []
    if not comparable(table):
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


@dataclass(frozen=True)
class Foil:
    """A wrong curve in place of the measured one, and how many of its points pass the tolerance."""

    name: str
    passed: int
    points: int


def foils() -> list[Foil]:
    """Return how many published points pass as measured ones after a wrong replacement.

    Tolerances that pass many of them cannot tell the published curve from a wrong one.
    """
    counts: dict[str, list[bool]] = {}
    for metric, tolerance in TOLERANCES.items():
        curves = {arm: published.figure1_curve(metric, arm) for arm in PAIR}
        both = (curves[PAIR[0]] + curves[PAIR[1]]) / 2
        for arm, foil in (PAIR, PAIR[::-1]):
            curve = curves[arm]
            wrong = {
                "the neighbouring point, C_s + 0.05": _shifted(curve, 0.05),
                "the point at C_s + 0.1": _shifted(curve, 0.1),
                "the other arm": curves[foil],
                "one curve for both arms": both,
            }
            for name, values in wrong.items():
                apart = (values - curve).dropna().abs()
                counts.setdefault(name, []).extend((apart <= tolerance + 1e-9).tolist())
    return [Foil(name, sum(passed), len(passed)) for name, passed in counts.items()]


def neighbour(metric: str, arm: str, probability: float) -> float:
    """Return the published value at the next C_s; NaN at the end of the curve."""
    shifted = _shifted(published.figure1_curve(metric, arm), 0.05)
    return float(shifted.get(probability, math.nan))


def _shifted(curve: pd.Series, step: float) -> pd.Series:
    """Return, at each C_s, the value of the curve one step further; missing at its end."""
    rounded = pd.Series(curve.to_numpy(), np.round(curve.index.to_numpy(dtype=float), 6))
    shifted = np.round(curve.index.to_numpy(dtype=float) + step, 6)
    return pd.Series(rounded.reindex(shifted).to_numpy(), curve.index)
