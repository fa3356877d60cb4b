"""From one preset to the other: what each switch, thrown alone, changes in figure 1's measures."""

from __future__ import annotations

import pandas as pd

from mispair.report import style
from mispair.report.tables import Tables, records
from mispair.simulation.report.runs import PAIR, PRESETS, by_trial, of_preset, runs

FAR_END = "all of them"
"""Name of the far end of the bridge: the other preset itself."""

COLUMNS = ["switch", "trained_on", "metric", "value", "low", "high", "n"]


def base(table: pd.DataFrame) -> str | None:
    """Return the preset whose switches were thrown, or None without a bridge."""
    presets_of_bridge = table.loc[table["kind"] == "bridge", "preset"].dropna()
    return None if presets_of_bridge.empty else str(presets_of_bridge.iloc[0])


def changes(tables: Tables, confidence: float = 0.95) -> pd.DataFrame:
    """Compare every condition of the bridge with its base, at the same C_s and in the same trials.

    Returns
    -------
    DataFrame
        Of each switch and of the far end: for ``trained_on`` raw, filtered and gain (filtered −
        raw), and for each measure, the mean of condition − base with the t interval of its spread
        over trials (``low``, ``high``) and the number of pairs. Each condition is measured in its
        own main definition. Empty without a bridge.
    """
    table = tables.simulation
    start = base(table)
    if start is None:
        return pd.DataFrame(columns=COLUMNS)
    bridge = table[table["kind"] == "bridge"]
    sides = {str(name): of_switch for name, of_switch in bridge.groupby("switch")}
    index = runs_of(bridge, "accuracy").index.union(runs_of(bridge, "purified_features").index)
    for opposite in PRESETS:
        far = of_preset(table, opposite)
        if opposite != start and not far.empty:
            sides[FAR_END] = far
    rows = []
    for metric in style.MEASURES:
        at_start = runs_of(of_preset(table, start), metric)
        for switch, of_switch in sides.items():
            at_switch = runs_of(of_switch, metric)
            change = (at_switch[at_switch.index.isin(index)] - at_start).dropna(how="all")
            for name in style.CHANGES:
                values = change[name].dropna()
                if values.empty:
                    continue
                interval = by_trial(values, confidence)
                rows.append(
                    [switch, name, metric, interval.value, interval.low, interval.high, interval.n]
                )
    return pd.DataFrame(rows, columns=COLUMNS)


def runs_of(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return raw, filtered and their difference (gain) of every run of one condition."""
    wide = runs(table, metric)[list(PAIR)]
    return wide.assign(gain=wide["filtered"] - wide["raw"])


def stands_out(rows: pd.DataFrame) -> pd.Series:
    """Tell which changes have an interval without zero."""
    return (rows["low"] > 0) | (rows["high"] < 0)


def largest(rows: pd.DataFrame) -> dict[str, dict[str, object]]:
    """Return, of each measure, the single switch that changes the gain most, if it stands out."""
    gains = rows[(rows["trained_on"] == "gain") & (rows["switch"] != FAR_END)]
    gains = gains[stands_out(gains)]
    gains = gains.assign(size=gains["value"].abs()).sort_values(
        ["size", "switch"], ascending=[False, True], kind="stable"
    )
    first = gains.drop_duplicates("metric")
    return {str(row["metric"]): dict(row) for row in records(first)}
