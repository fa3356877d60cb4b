"""Conditions other than the presets: the bridge between them, and the grid around one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import pandas as pd

from mispair.core.words import listing
from mispair.report import style
from mispair.report.statistics import Interval, mean_interval
from mispair.report.tables import Tables, records, where
from mispair.simulation.report.runs import PAIR, PRESETS, by_trial, of_preset, runs

Limits = TypeVar("Limits", float, pd.Series)

FAR_END = "all of them"
"""Name of the far end of the bridge: the other preset itself."""

CONCLUSIONS = {"purified_features": "purifies more", "accuracy": "classifies better"}
"""The two conclusions of the paper that are compared with every cell of the grid."""

DIGITS = {"purified_features": 1, "purified_magnitude": 3, "accuracy": 3, "silhouette": 3}
"""Digits of the four measures of figure 1 in tables."""

FAILED = {"silenced_at_step": "silenced", "diverged_at_step": "diverged"}


def excludes_zero(low: Limits, high: Limits) -> Limits:
    """Return whether an interval, or each of several, excludes zero."""
    return (low > 0) | (high < 0)


def bridge_base(table: pd.DataFrame) -> str | None:
    """Return the preset whose switches were thrown, or None without a bridge."""
    base_presets = where(table, kind="bridge")["preset"].dropna()
    return None if base_presets.empty else str(base_presets.iloc[0])


def bridge_changes(tables: Tables, confidence: float = 0.95) -> pd.DataFrame:
    """Compare every condition of the bridge with its base, at the same C_s and in the same trials.

    Returns
    -------
    DataFrame
        One row for each switch (and the far end), ``trained_on`` (raw, filtered, and gain =
        filtered − raw) and measure. It has the mean of condition − base, the t interval of its
        spread over trials (``low``, ``high``) and the number of pairs. Each condition is measured
        in its main definition. Empty without a bridge.
    """
    table = tables.simulation
    base = bridge_base(table)
    bridge = where(table, kind="bridge")
    sides = {str(name): of_switch for name, of_switch in bridge.groupby("switch")}
    bridge_runs = runs(bridge, "accuracy").index.union(runs(bridge, "purified_features").index)
    for opposite in PRESETS:
        far = of_preset(table, opposite)
        if base not in (None, opposite) and not far.empty:
            sides[FAR_END] = far
    rows = []
    for metric in style.MEASURES:
        at_base = _with_gain(of_preset(table, base or ""), metric)
        for switch, of_switch in sides.items():
            at_switch = _with_gain(of_switch, metric)
            change = at_switch[at_switch.index.isin(bridge_runs)] - at_base
            for name in style.CHANGES:
                if len(values := change[name].dropna()):
                    mean = by_trial(values, confidence)
                    rows.append((switch, name, metric, mean.value, mean.low, mean.high, mean.n))
    columns = ["switch", "trained_on", "metric", "value", "low", "high", "n"]
    return pd.DataFrame(rows, columns=columns)


def _with_gain(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return raw, filtered and their difference (gain) of every run of one condition."""
    wide = runs(table, metric)[list(PAIR)]
    return wide.assign(gain=wide["filtered"] - wide["raw"])


def largest_changes(changes: pd.DataFrame) -> dict[str, dict[str, object]]:
    """Return, by measure, the switch that changes the gain most, if its interval excludes zero."""
    gains = changes[(changes["trained_on"] == "gain") & (changes["switch"] != FAR_END)]
    gains = gains[excludes_zero(gains["low"], gains["high"])]
    gains = gains.assign(size=gains["value"].abs())
    gains = gains.sort_values(["size", "switch"], ascending=[False, True], kind="stable")
    return {str(row["metric"]): row for row in records(gains.drop_duplicates("metric"))}


@dataclass(frozen=True)
class Cell:
    """One condition of the grid at one C_s.

    ``gains`` holds the gain filtered − raw of each measure with its interval; ``failed`` names arms
    that gave no result.
    """

    preset: str
    noise: str
    misalignment: str
    bias: str
    spurious_probability: float
    variance: float
    raw: dict[str, float]
    gains: dict[str, Interval]
    failed: str

    @property
    def position(self) -> tuple[str, str, float]:
        """The position of the cell, for any bias schedule."""
        return self.noise, self.misalignment, self.spurious_probability

    def mark(self, metric: str) -> str:
        """Return whether a conclusion holds, is reversed or is open; "" without a gain."""
        gain = self.gains[metric]
        if not math.isfinite(gain.value):
            return ""
        return "holds" if gain.low > 0 else "reversed" if gain.high < 0 else "open"


def grid_cells(tables: Tables, confidence: float = 0.95) -> list[Cell]:
    """Return the cells of the grid by noise, misalignment, bias schedule and C_s."""
    groups = where(tables.simulation, kind="grid").groupby(["condition", "spurious_probability"])
    cells = [
        _cell(str(condition), float(str(probability)), rows, confidence)
        for (condition, probability), rows in groups
    ]
    return sorted(cells, key=lambda cell: (cell.variance, cell.noise, cell.misalignment,
                                           cell.bias, cell.spurious_probability))  # fmt: skip


def _cell(condition: str, probability: float, rows: pd.DataFrame, confidence: float) -> Cell:
    parts = condition.split("~")[1:]
    wide = {metric: runs(rows, metric) for metric in CONCLUSIONS}
    gains = {
        metric: mean_interval((arms["filtered"] - arms["raw"]).tolist(), confidence)
        for metric, arms in wide.items()
    }
    first = rows.iloc[0]
    return Cell(
        preset=str(first["preset"]),
        noise=parts[0] if len(parts) == 3 else condition,
        misalignment=str(first["misalignment"]),
        bias=str(first["bias_schedule"]),
        spurious_probability=probability,
        variance=float(first["image_noise_variance"]),
        raw={metric: float(arms["raw"].mean()) for metric, arms in wide.items()},
        gains=gains,
        failed=_failed(rows),
    )


def _failed(rows: pd.DataFrame) -> str:
    trials = rows["trial"].nunique()
    texts = [
        f"{arm} {FAILED[str(metric)]} in {group['trial'].nunique()} of {trials}"
        for (metric, arm), group in where(rows, metric=FAILED).groupby(["metric", "trained_on"])
    ]
    return listing(texts) if texts else ""
