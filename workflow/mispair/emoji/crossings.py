"""Sign of the change of an overlap by wrong captions, and where it crosses zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from scipy import stats

CONFIDENCE = 0.95
KEYS = ["metric", "scale", "neurons", "parameters", "pairs"]
METRICS = tuple(
    f"mean_abs_{measure}_{tower}"
    for measure in ("cosine", "correlation")
    for tower in ("image", "text")
)
"""Measures of overlap whose changes are compared."""


class Crossing(NamedTuple):
    """A number of pairs at which a change is zero, and its interval over seeds."""

    pairs: float
    """NaN if there is none."""
    low: float
    high: float
    """NaN unless every seed has one crossing, and there are two seeds."""
    finding: str
    """In words."""


def changes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the change of each measure of overlap from no wrong captions to the largest share.

    `rows` are those of `mispair.emoji.regimes.measure`.

    Returns
    -------
    DataFrame
        One row for each measure, scale, number of neurons and number of pairs: ``value``, the mean
        over seeds of the paired differences; ``low`` and ``high``, its t interval; ``n`` seeds;
        ``pairs_per_parameter``; ``sign``, that of the interval, 0 where it holds zero; and
        ``by_seed``, the differences.
    """
    measured = rows[rows["metric"].isin(METRICS) & rows["rate"].notna()]
    table = measured.pivot_table(index=[*KEYS, "seed"], columns="rate", values="value")
    differences = (table[table.columns.max()] - table[table.columns.min()]).dropna()
    records = []
    for keys, values in differences.groupby(level=KEYS, sort=True):
        low, high = _interval(values.to_numpy())
        row: dict[str, Any] = dict(zip(KEYS, cast("tuple[Any, ...]", keys), strict=True))
        records.append(
            {
                **row,
                "pairs_per_parameter": row["pairs"] / row["parameters"],
                "value": float(values.mean()),
                "low": low,
                "high": high,
                "n": len(values),
                "sign": int(low > 0) - int(high < 0),
                "by_seed": values.to_list(),
            }
        )
    return pd.DataFrame(records)


def _interval(values: np.ndarray) -> tuple[float, float]:
    """Return the t interval of a mean; NaN with one value."""
    if len(values) < 2:
        return math.nan, math.nan
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * stats.sem(values)
    return float(values.mean() - half), float(values.mean() + half)


def crossing(pairs: Sequence[float], by_seed: np.ndarray) -> Crossing:
    """Return where a change goes through zero, interpolated between logarithms of pairs.

    Parameters
    ----------
    pairs : sequence of float
        Numbers of pairs, ascending.
    by_seed : (s, len(pairs)) array
        The change of each seed.

    Returns
    -------
    Crossing
        Of the mean over seeds. The interval is a t interval of the logarithms of the seeds' own
        crossings.

    Examples
    --------
    >>> result = crossing([100, 10_000], np.array([[-1.0, 1.0], [-1.0, 1.0]]))
    >>> round(result.pairs), result.finding
    (1000, 'from a fall to a rise')
    >>> crossing([100, 10_000], np.array([[1.0, 1.0]])).finding
    'no crossing seen: a rise throughout'
    """
    logs = np.log(np.asarray(pairs, float))
    mean = by_seed.mean(axis=0)
    zeros = _zeros(logs, mean)
    names = {1: "a rise", -1: "a fall", 0: "no change"}
    if not zeros:
        throughout = names[int(np.sign(mean[-1]))]
        finding = f"no crossing seen: {throughout} throughout"
        return Crossing(math.nan, math.nan, math.nan, finding)
    ends = [names[int(np.sign(value))] for value in (mean[0], mean[-1])]
    if len(zeros) > 1:
        finding = f"{len(zeros)} crossings, from {ends[0]} to {ends[1]}"
        return Crossing(float(np.exp(zeros[0])), math.nan, math.nan, finding)
    zeros_by_seed = [_zeros(logs, values) for values in by_seed]
    low = high = math.nan
    if all(len(one) == 1 for one in zeros_by_seed):
        low, high = np.exp(_interval(np.array([one[0] for one in zeros_by_seed]))).tolist()
    return Crossing(float(np.exp(zeros[0])), low, high, f"from {ends[0]} to {ends[1]}")


def _zeros(logs: np.ndarray, values: np.ndarray) -> list[float]:
    """Return where a piecewise linear curve changes its sign."""
    return [
        float(left + (right - left) * a / (a - b))
        for left, right, a, b in zip(logs, logs[1:], values, values[1:], strict=False)
        if a * b < 0
    ]


def crossings(changed: pd.DataFrame) -> pd.DataFrame:
    """Return the crossing of each measure, scale and number of neurons in a table of `changes`."""
    records = []
    for keys, rows in changed.groupby(["metric", "scale", "neurons", "parameters"], sort=True):
        ordered = rows.sort_values("pairs")
        by_seed = np.array(ordered["by_seed"].to_list()).T
        crossing_at = crossing(ordered["pairs"].to_list(), by_seed)
        metric, scale, neurons, parameters = cast("tuple[str, str, int, int]", keys)
        records.append(
            {
                "metric": metric,
                "scale": scale,
                "neurons": neurons,
                **crossing_at._asdict(),
                "pairs_per_parameter": crossing_at.pairs / parameters,
            }
        )
    return pd.DataFrame(records)


def pooled(changed: pd.DataFrame) -> pd.DataFrame:
    """Return where a line through the changes of all widths crosses zero.

    For each seed, the line is a least-squares fit of the change over the logarithm of pairs per
    parameter. `changed` is a table of `changes` with at least two numbers of pairs per parameter.

    Returns
    -------
    DataFrame
        One row for each measure and scale: ``slope``, the change for ten times as many pairs per
        parameter, with the t interval over seeds ``slope_low``, ``slope_high``; and
        ``pairs_per_parameter``, where the mean line is zero, with the t interval ``low``, ``high``
        of the seeds' own zeros. A zero outside the measured range is NaN. The interval is NaN
        unless all zeros are inside.
    """
    records = []
    for (metric, scale), rows in changed.groupby(["metric", "scale"], sort=True):
        logs = np.log10(rows["pairs_per_parameter"].to_numpy())
        by_seed = np.array(rows["by_seed"].to_list())
        slopes, intercepts = np.polyfit(logs, by_seed, 1)
        crossing_at = -intercepts.mean() / slopes.mean()
        zeros = -intercepts / slopes
        inside = [logs.min() <= zero <= logs.max() for zero in (crossing_at, *zeros)]
        limits = _interval(zeros) if all(inside) else (math.nan, math.nan)
        slope_low, slope_high = _interval(slopes)
        records.append(
            {
                "metric": metric,
                "scale": scale,
                "slope": float(slopes.mean()),
                "slope_low": slope_low,
                "slope_high": slope_high,
                "pairs_per_parameter": 10.0**crossing_at if inside[0] else math.nan,
                "low": 10.0 ** limits[0],
                "high": 10.0 ** limits[1],
            }
        )
    return pd.DataFrame(records)
