"""Recipes of figures: from a table, axes and a colour to a chart with panels.

A figure of a study is a query and a recipe. Each row of the table belongs to the panel whose title
is in its column ``panel``. A column ``layer``, if there is one, chooses the mark of a row. Limits
``low`` and ``high`` are drawn where a row has them. Hover values are written as in `charts.tips`.
With `toggle`, a click in the legend selects values of a colour, whose field the figure names
(`mispair.report.charts.Drawing.toggle`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import pandas as pd

from mispair.report import charts, style

DASHES = [4, 4]


def sweep(
    data: pd.DataFrame, x: alt.X, y: alt.Y, colour: alt.Color, tips: Sequence[str], *,
    points: bool = False, runs: Sequence[str] = (), toggle: bool = False,
    width: int = charts.WIDTH,
) -> alt.ConcatChart:  # fmt: skip
    """Return curves over a swept variable, such as steps.

    Rows of the layer ``dashed`` are a dashed curve, such as a bound, a threshold or a published
    one; those of ``mark`` are circles on the curves; all others a solid curve, with a point for
    each row if `points`. `runs` are fields that separate curves of one colour, such as the seed.
    """
    detail = [f"{field}:N" for field in runs]

    def draw(rows: pd.DataFrame, number: int) -> list[alt.Chart]:
        base = _base(colour, tips, toggle, 1).encode(x=x, y=y, detail=detail)
        solid = base.transform_filter("datum.layer != 'dashed' && datum.layer != 'mark'")
        parts = [solid.mark_line(strokeWidth=1.6, point=points)]
        if (rows["layer"] == "dashed").any():
            parts.append(charts.only(base, "dashed").mark_line(strokeDash=DASHES, strokeWidth=1.2))
        if _limited(rows):
            bars = solid.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.2)
            parts.append(bars.encode(y=_of("low", y), y2=alt.Y2("high:Q")))
        if (rows["layer"] == "mark").any():
            # In one colour: points with a scale of colours would turn its legend into points.
            circles = charts.only(base, "mark").mark_point(size=45, filled=True, stroke="white")
            parts.append(circles.encode(color=alt.ColorValue(style.INK)))
        return parts

    return _panels(data, draw, width=width)


def forest(
    data: pd.DataFrame, x_title: str, y: alt.Y, colour: Any, tips: Sequence[str], *,
    offset: str = "", levels: Sequence[float] = (), toggle: bool = False, step: int = 26,
) -> alt.ConcatChart:  # fmt: skip
    """Return values in rows of two panels side by side, which share the names of the rows.

    Rows of the layer ``mean`` are a tick, all others a circle. ``sort`` of `y` has the names in
    their order. Values of the field `offset` are one below the other at each name. Dashed lines are
    drawn at `levels`. `step` is the height for each name, or for each of its parts, in pixels.
    """
    order, parts_of_name = y["sort"], [*data[offset].unique()] if offset else [""]
    below = alt.YOffset(f"{offset}:N", sort=parts_of_name) if offset else alt.Undefined
    x = alt.X("value:Q", title=x_title, scale=alt.Scale(zero=False, padding=6))

    def draw(rows: pd.DataFrame, number: int) -> list[alt.Chart]:
        names, left = y.copy(), number % 2 == 0
        names["axis"] = alt.Axis(labels=left, labelLimit=320)
        names["scale"], names["title"] = alt.Scale(domain=order), y["title"] if left else None
        base = _base(colour, tips, toggle, 0.7).encode(y=names, yOffset=below)
        runs = base.transform_filter("datum.layer != 'mean'").mark_circle(size=45)
        parts = [runs.encode(x=x)]
        if (rows["layer"] == "mean").any():
            parts.append(charts.only(base, "mean").mark_tick(thickness=2.5, size=13).encode(x=x))
        if _limited(rows):
            bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.6)
            parts.append(bars.encode(x=_of("low", x), x2=alt.X2("high:Q")))
        return [*parts, *(_level(x=alt.datum(value)) for value in levels)]

    height = step * len(parts_of_name) * len(order) + 10
    return _panels(data, draw, width=charts.WIDTH - 90, height=height, gap=32)


def scatter(
    data: pd.DataFrame, x: alt.X, y: alt.Y, colour: alt.Color, tips: Sequence[str], *,
    toggle: bool = False,
) -> alt.ConcatChart:  # fmt: skip
    """Return a point for each row."""
    base = _base(colour, tips, toggle, 0.9).encode(x=x, y=y)
    return _panels(data, lambda rows, number: [base.mark_circle(size=50)])


def bars(
    data: pd.DataFrame, x: alt.X, y: alt.Y, colour: alt.Color, tips: Sequence[str], *,
    offset: alt.XOffset, level: float, toggle: bool = False,
) -> alt.ConcatChart:  # fmt: skip
    """Return groups of bars, with a dashed line at the `level` that they are compared with."""
    upright = _base(colour, tips, toggle, 1).mark_bar().encode(x=x, xOffset=offset, y=y)
    return _panels(data, lambda rows, number: [upright, _level(y=alt.datum(level))])


def _base(colour: Any, tips: Sequence[str], toggle: bool, shown: float) -> alt.Chart:
    opacity = charts.fade(shown) if toggle else alt.OpacityValue(shown)
    return alt.Chart().encode(color=colour, tooltip=charts.tips(*tips), opacity=opacity)


def _panels(
    data: pd.DataFrame, draw: Callable[[pd.DataFrame, int], list[alt.Chart]], *,
    width: int = charts.WIDTH, height: int = charts.HEIGHT, gap: int = 72,
) -> alt.ConcatChart:  # fmt: skip
    """Lay out a panel for each title in ``panel``, in the order of the rows, two side by side.

    The first view of each panel is named, so that the legend can be its toggle.
    """
    of_panel = (data if "layer" in data else data.assign(layer="")).groupby("panel", sort=False)
    panels = []
    for number, (title, rows) in enumerate(of_panel):
        first, *others = draw(rows, number)
        layered = alt.layer(first.properties(name=f"{charts.VIEW}{number}"), *others)
        chosen = alt.FieldEqualPredicate(field="panel", equal=str(title))
        panel = layered.transform_filter(chosen)
        panels.append(panel.properties(width=width, height=height, title=str(title)))
    return charts.side_by_side(panels, 2, data, gap)


def _level(**at: Any) -> alt.Chart:
    """Return a line at a value, which is drawn once, not for every row."""
    once = alt.Chart().transform_aggregate(rows="count()")
    return once.mark_rule(color=style.QUIET, strokeDash=DASHES).encode(**at)


def _limited(rows: pd.DataFrame) -> bool:
    return "low" in rows and bool(rows["low"].notna().any())


def _of(field: str, axis: Any) -> Any:
    """Return the same axis for another field."""
    other = axis.copy()
    other["shorthand"] = f"{field}:Q"
    return other
