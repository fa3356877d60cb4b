"""Reproduction of the points of figure 1, in units of error, and the softness of its tolerances."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mispair.core import seeds
from mispair.report import published, style
from mispair.simulation.report.runs import PAIR, SELECTED, best, runs

TOLERANCES = {
    "purified_features": 3.0,
    "purified_magnitude": 0.04,
    "accuracy": 0.03,
    "silhouette": 0.012,
}
"""Largest distance of a reproduced point from the published one."""


PUBLISHED_RUNS = 15
"""Published runs at each point, which averages the best two thirds of them."""

RESAMPLES = 1000

ROUNDING = {
    "purified_features": 0.1,
    "purified_magnitude": 0.001,
    "accuracy": 0.0001,
    "silhouette": 0.0001,
}
"""Step of the published numbers."""

FAR = 2.0
"""Standard errors beyond which a point differs from the published one."""


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
        """Whether there are enough runs to select from."""
        return math.isfinite(self.best)

    @property
    def within(self) -> bool:
        """Whether it is within the tolerance of its measure."""
        return abs(self.best - self.published) <= TOLERANCES[self.metric]

    @property
    def error(self) -> float:
        """Standard error of measured − published.

        No spread was published. So the runs here are resampled twice: as many as there are, and as
        many as were published, each with a selection of the best two thirds. Both have at
        least the error of rounding the published number.
        """
        values = self.values.dropna().to_numpy(dtype=float)
        draw = seeds.generator(0, "reporting", "figure 1", self.metric, self.trained_on,
                               self.spurious_probability)  # fmt: skip
        rounding = ROUNDING[self.metric] ** 2 / 12
        return math.sqrt(
            sum(
                _selected_variance(values, number, draw) for number in (len(values), PUBLISHED_RUNS)
            )
            + rounding
        )

    @property
    def in_errors(self) -> float:
        """Measured − published in units of the standard error of both."""
        return (self.best - self.published) / self.error


def _selected_variance(values: np.ndarray, number: int, draw: np.random.Generator) -> float:
    """Return the variance of the mean of the best two thirds of `number` runs, by bootstrap.

    The variance of a resample of n values is too small by the factor (n − 1) / n.
    """
    resampled = np.sort(draw.choice(values, size=(RESAMPLES, number)), axis=1)
    chosen = resampled[:, number - round(SELECTED * number) :].mean(axis=1)
    return float(chosen.var() * len(values) / (len(values) - 1))


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
                    compared.append(Point(metric, arm, c_s, expected, best(values), values))
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


def _shifted(curve: pd.Series, step: float) -> pd.Series:
    """Return, at each C_s, the value of the curve one step further; missing at its end."""
    rounded = pd.Series(curve.to_numpy(), np.round(curve.index.to_numpy(dtype=float), 6))
    shifted = np.round(curve.index.to_numpy(dtype=float) + step, 6)
    return pd.Series(rounded.reindex(shifted).to_numpy(), curve.index)
