"""Panels of arms in their own basis against randomly rotated ones."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from mispair.evaluation.report.series import SHOWN, TOWERS
from mispair.report import charts, style

NULL = "95 % of rotated bases"
OWN = "own basis"
COLOURS = {OWN: style.BLUE, NULL: style.GREY}
UNTOUCHED = "untouched"
MOST = 12
"""Most values of C_m in a panel."""


def against_null(observed: pd.DataFrame, null: pd.DataFrame) -> pd.DataFrame:
    """Return values of the own basis and limits of rotated bases, for the arms that are shown.

    Both tables have ``start``, ``rate``, ``tower``, ``seed`` and ``value``; that of the null also
    ``low`` and ``high``. The result has ``tower``, ``arm`` (text), ``seed``, ``value``,
    ``null_low``, ``null_high`` and ``layer``, `OWN` or `NULL`; the limits are means over seeds. It
    is empty without values of the own basis.
    """
    columns = ["tower", "arm", "seed", "value", "null_low", "null_high", "layer"]
    observed, null = _labelled(observed), _labelled(null)
    if observed.empty:
        return pd.DataFrame(columns=columns)
    null = null[null["low"].notna()].rename(columns={"low": "null_low", "high": "null_high"})
    keys = ["tower", "arm"]
    limits = null.groupby(keys)[["value", "null_low", "null_high"]].mean().reset_index()
    data = pd.concat([limits.assign(layer=NULL), observed.assign(layer=OWN)], ignore_index=True)
    rates = [arm for arm in data["arm"].unique() if arm != UNTOUCHED]
    kept = {UNTOUCHED, *(charts.evenly(sorted(rates, key=float), MOST) if rates else ())}
    return data[data["arm"].isin(kept)].reindex(columns=columns).reset_index(drop=True)


def _labelled(table: pd.DataFrame) -> pd.DataFrame:
    shown = table[table["start"].isin(SHOWN) & table["value"].notna()]
    arm = [UNTOUCHED if pd.isna(rate) else f"{rate:g}" for rate in shown["rate"]]
    return shown.assign(arm=pd.Series(arm, index=shown.index, dtype="str"))


def null_panels(data: pd.DataFrame, title: str) -> alt.ConcatChart:
    """Return a panel for each tower: points of the own basis, bars of the rotated ones."""
    rates = sorted({arm for arm in data["arm"] if arm != UNTOUCHED}, key=float)
    towers = [tower for tower in TOWERS if tower in set(data["tower"])]
    panels = [_panel(tower, data, [UNTOUCHED, *rates], title) for tower in towers]
    return charts.side_by_side(panels, 2, data)


def over_null(
    points: alt.Chart, rows: pd.DataFrame, value: dict[str, Any], limits: dict[str, Any],
    common: dict[str, Any], width: int,
) -> alt.LayerChart | alt.FacetChart:  # fmt: skip
    """Return points over bars of their null, where `rows` have any, by the channels of both."""
    parts = [points.encode(**common, **value, opacity=charts.fade(0.9))]
    if rows["null_low"].notna().any():
        bars = alt.Chart().transform_filter("isValid(datum.null_low)").mark_rule(strokeWidth=width)
        parts.insert(0, bars.encode(**common, **limits, opacity=charts.fade(0.5)))
    return alt.layer(*parts)


def _panel(tower: str, data: pd.DataFrame, order: list[str], title: str) -> charts.Panel:
    x = alt.X("arm:N", title=style.CM, sort=order, axis=alt.Axis(labelAngle=0))
    colour = charts.colour("layer", "Of", COLOURS, list(COLOURS))
    tips = charts.tips("arm:N:C_m", "value:Q:value", "null_low:Q:from", "null_high:Q:to",
                       "layer:N:of")  # fmt: skip
    points = alt.Chart(name=f"{charts.VIEW}null_{tower}").transform_filter(
        f"datum.layer == '{OWN}'"
    )
    layered = over_null(
        points.mark_circle(size=45), data[data["tower"] == tower], {"y": charts.y_axis(title)},
        {"y": "null_low:Q", "y2": "null_high:Q"}, {"x": x, "color": colour, "tooltip": tips}, 3,
    ).transform_filter(f"datum.tower == '{tower}'")  # fmt: skip
    return layered.properties(
        width=charts.WIDTH, height=charts.HEIGHT, title=f"{tower.capitalize()} projection"
    )
