"""Recipes of figures: from a table, axes and a colour to a chart with panels.

A figure of a study is a query and a recipe. Each row of the table belongs to the panel whose title
is in its column ``panel``. A column ``layer``, if there is one, chooses the mark of a row. Limits
``low`` and ``high`` are drawn where a row has them. Hover values are written as in `charts.tips`.
With `toggle`, a click in the legend selects values of a colour, whose field the figure names
(`mispair.report.charts.Drawing.toggle`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from mispair.report import charts, style

SOLID, DASHED, DOTTED, LONG = [1, 0], [6, 4], [2, 3], [12, 3]
"""Dashes of lines, in pixels."""

Level = tuple[str, float]
"""A line between values: its name in the legend, and its level or slope."""


def sweep(
    data: pd.DataFrame, x: alt.X, y: alt.Y, colour: alt.Color, tips: Sequence[str], *,
    lines: Mapping[str, Sequence[int]] | None = None, points: bool = False,
    runs: Sequence[str] = (), clipped: Sequence[str] = (), logs: Sequence[str] = (),
    exact: Sequence[str] = (), toggle: bool = False,
) -> alt.ConcatChart:  # fmt: skip
    """Return curves over a swept variable, such as steps or a share of captions.

    `lines` are the layers that are curves, and their dashes, which a legend explains; without it
    all rows are one solid curve. A curve of two points is thin, which a legend explains, unless its
    layer is in `exact`: known in between without a measurement. Another one of the layer ``mean``
    has a band between its limits; all others have bars. A row without a value of `x` is a level.
    Further layers are ``run``, a faint point each, and ``mark``, circles on the curves. With
    `points`, curves have a point for each row.
    `runs` are fields that separate curves of one colour, such as the seed.

    A column ``y``, if there is one, is the title of the vertical axis of its panel, whose name at
    the end (``accuracy on NAME``) stands above the panel alone. Axes with equal titles have equal
    ranges; those with titles in `logs` are logarithmic. Layers in `clipped`, such
    as a low level of chance, widen none, and are left out where no axis reaches them.
    """
    dashes = {name: [*of] for name, of in (lines or {"": SOLID}).items()}
    data = (data if "layer" in data else data.assign(layer="")).assign(
        y=data["y"] if "y" in data else str(y["title"])
    )
    field, value = (str(axis["shorthand"]).partition(":")[0] for axis in (x, y))
    levels = {
        title: _levels(rows[~rows["layer"].isin(clipped)], y)
        for title, rows in data[data["layer"] != "mark"].groupby("y")
    }
    ticks = {title: _ticks(of) if title in logs else [] for title, of in levels.items()}
    ranges = {title: _span(of, y, ticks[title]) for title, of in levels.items()}
    data = data[[
        layer not in clipped or _reaches(ranges[title], level)
        for layer, title, level in zip(data["layer"], data["y"], data[value], strict=True)
    ]]  # fmt: skip
    hue = str(colour["shorthand"]).partition(":")[0]
    keys = [key for key in ("panel", "layer", hue, *runs) if key in data]
    data = charts.mark_sparse(data, field, keys, exact)
    drawn = [name for name in dashes if name in set(data["layer"])]
    dash = alt.StrokeDash(
        "layer:N", title=None,
        legend=None if all(dashes[name] == SOLID for name in drawn) else charts.dashes(),
        scale=alt.Scale(domain=drawn, range=[dashes[name] for name in drawn]),
    )  # fmt: skip

    def draw(rows: pd.DataFrame, number: int) -> list[alt.Chart]:
        (title,) = rows["y"].unique()
        upright, words = y.copy(), title
        if "panel" in rows:
            words = title.removesuffix(f" on {rows['panel'].iloc[0]}")
        upright["title"], upright["scale"] = words[:1].upper() + words[1:], ranges[title]
        if ticks[title]:
            upright["axis"] = alt.Axis(values=ticks[title])
        base = _base(colour, tips, toggle, 1).encode(
            x=x, y=upright, detail=[alt.Detail(f"{f}:N") for f in runs]
        )
        placed, layers = rows[rows[field].notna()], {*rows["layer"]}
        # One filter for each mark: Vega-Lite gives up on merging longer chains.
        line = f"isValid(datum['{field}']) && datum.layer != 'run' && datum.layer != 'mark'"
        of_curves = placed[~placed["layer"].isin(["run", "mark"])]
        parts = charts.lines(base, of_curves, line, 40 if points else 0, strokeDash=dash)
        of_band = (placed["layer"] == "mean") & (placed["measured"] == charts.BETWEEN)
        band = f"(datum.layer == 'mean' && datum.measured == '{charts.BETWEEN}')"
        if _limited(placed[of_band]):
            parts.append(charts.band(base.transform_filter(band)).encode(tooltip=alt.Undefined))
        if _limited(placed[~of_band]):
            bars = base.transform_filter(f"isValid(datum.low) && !{band}")
            parts.append(
                bars.mark_rule(strokeWidth=1.2).encode(y=_of("low", upright), y2=alt.Y2("high:Q"))
            )
        if "run" in layers:
            faint = charts.fade(0.4) if toggle else alt.OpacityValue(0.4)
            parts.append(charts.only(base, "run").mark_circle(size=22).encode(opacity=faint))
        if "mark" in layers:
            # In one colour: points with a scale of colours would turn its legend into points.
            circles = charts.only(base, "mark").mark_point(size=45, filled=True, stroke="white")
            parts.append(circles.encode(color=alt.ColorValue(style.INK)))
        if rows[field].isna().any():
            levels = alt.Chart().transform_filter(f"!isValid(datum['{field}'])")
            parts.append(levels.mark_rule(clip=True, color=style.INK, strokeWidth=1.3).encode(
                y=upright, strokeDash=dash, tooltip=charts.tips("layer:N:", f"{value}:Q:value")
            ))  # fmt: skip
        return parts

    return _panels(data, draw)


def _levels(rows: pd.DataFrame, y: alt.Y) -> pd.Series:
    """Return all values and limits of some rows."""
    fields = {str(y["shorthand"]).partition(":")[0], "low", "high"} & {*rows}
    return pd.Series(rows[[*fields]].to_numpy(dtype=float).ravel()).dropna()


def _ticks(levels: pd.Series) -> list[float]:
    """Return about five round numbers, with room for letters, that enclose the positive levels.

    Without two different ones there are none.

    Examples
    --------
    >>> _ticks(pd.Series([37.8, 64.8])), _ticks(pd.Series([8.2, 101.5]))
    ([30.0, 40.0, 50.0, 60.0, 70.0], [8.0, 20.0, 40.0, 60.0, 80.0, 120.0])
    """
    levels = levels[levels > 0]
    if levels.nunique() < 2:
        return []
    low, high = float(levels.min()), float(levels.max())
    rough = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    ticks = [step * n for n in range(math.floor(low / step), math.ceil(high / step) + 1)]
    place = 10.0 ** math.floor(math.log10(low))
    first, *others, last = (tick or place * math.floor(low / place) for tick in ticks)
    room, kept = (last / first) ** 0.1, [last]
    for tick in reversed(others):
        if kept[-1] / tick >= room and tick / first >= room:
            kept.append(tick)
    return [first, *reversed(kept)]


def _span(levels: pd.Series, y: alt.Y, ticks: Sequence[float] = ()) -> Any:
    """Return the scale of an axis over all levels; with `ticks` it is logarithmic, between them."""
    scale = alt.Scale() if y["scale"] is alt.Undefined else y["scale"].copy()
    if levels.nunique() > 1:
        scale["domain"], scale["zero"] = [float(levels.min()), float(levels.max())], alt.Undefined
        scale["nice"] = alt.Undefined if scale["type"] == "log" else 5
        if ticks:
            scale["type"], scale["nice"], scale["domain"] = "log", False, [ticks[0], ticks[-1]]
    return scale


def _reaches(scale: alt.Scale, value: float) -> bool:
    """Return whether an axis reaches a value: a range ends at a round number, a fifth beyond it."""
    if scale["domain"] is alt.Undefined:
        return True
    low, high = scale["domain"]
    room = (high - low) / 5
    return low - room <= value <= high + room


def forest(
    data: pd.DataFrame, x_title: str | list[str], y: alt.Y, colour: Any, tips: Sequence[str], *,
    offset: str = "", levels: Sequence[Level] = (), toggle: bool = False, step: int = 26,
) -> alt.ConcatChart:  # fmt: skip
    """Return values in rows of two panels side by side, which share the names of the rows.

    Rows of the layer ``mean`` are a tick, all others a circle. ``sort`` of `y` has the names in
    their order. Values of the field `offset` are one below the other at each name. Lines are drawn
    at `levels`, dashed by name. `step` is the height for each name, or for each of its parts, in
    pixels.
    """
    order, parts_of_name = y["sort"], [*data[offset].unique()] if offset else [""]
    below = alt.YOffset(f"{offset}:N", sort=parts_of_name) if offset else alt.Undefined
    x = alt.X("value:Q", title=x_title, scale=alt.Scale(zero=False, padding=6))

    def draw(rows: pd.DataFrame, number: int) -> list[alt.Chart]:
        names, left = y.copy(), number % 2 == 0
        names["axis"] = alt.Axis(labels=left, labelLimit=320)
        names["scale"], names["title"] = alt.Scale(domain=order), None  # the names are words
        base = _base(colour, tips, toggle, 0.7).encode(y=names, yOffset=below)
        runs = base.transform_filter("datum.layer != 'mean'").mark_circle(size=45)
        parts = [runs.encode(x=x)]
        if (rows["layer"] == "mean").any():
            parts.append(charts.only(base, "mean").mark_tick(thickness=2.5, size=13).encode(x=x))
        if _limited(rows):
            bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.6)
            parts.append(bars.encode(x=_of("low", x), x2=alt.X2("high:Q")))
        names_of_levels = [*dict.fromkeys(name for name, _ in levels)]
        return parts + [_level(name, names_of_levels, x=alt.datum(at)) for name, at in levels]

    height = step * len(parts_of_name) * len(order) + 10
    return _panels(data, draw, size=(charts.WIDTH - 90, height), gap=32)


def scatter(
    data: pd.DataFrame, x: alt.X, y: alt.Y, colour: Any, tips: Sequence[str], *,
    slope: Level | None = None, size: Any = alt.Undefined, toggle: bool = False,
) -> alt.ConcatChart:  # fmt: skip
    """Return a point for each row, with its limits, and a dashed line from the origin to x = 1.

    `slope` is that of the line; 1 marks equal numbers. `size` is the channel of the points' areas.
    """
    base = _base(colour, tips, toggle, 0.8).encode(x=x)

    def draw(rows: pd.DataFrame, number: int) -> list[alt.Chart]:
        mark: dict[str, Any] = {} if size is not alt.Undefined else {"size": 45}
        parts = [base.mark_circle(**mark).encode(y=y, size=size)]
        if _limited(rows):
            bars = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.6)
            parts.append(bars.encode(y=_of("low", y), y2=alt.Y2("high:Q")))
        if slope is not None:
            name, end = slope
            ends = {"x": alt.datum(0), "y": alt.datum(0), "x2": alt.datum(1), "y2": alt.datum(end)}
            parts.append(_level(name, [name], **ends))
        return parts

    return _panels(data, draw)


def bars(
    data: pd.DataFrame, x: alt.X, y: alt.Y, colour: alt.Color, tips: Sequence[str], *,
    offset: alt.XOffset, level: Level,
) -> alt.ConcatChart:  # fmt: skip
    """Return groups of bars, with a dashed line at the `level` that they are compared with."""
    upright = _base(colour, tips, False, 1).mark_bar().encode(x=x, xOffset=offset, y=y)
    name, at = level
    return _panels(data, lambda rows, number: [upright, _level(name, [name], y=alt.datum(at))])


def histogram(
    data: pd.DataFrame, x: alt.X, y: alt.Y, colour: Any, tips: Sequence[str], *,
    level: Level | None = None,
) -> alt.ConcatChart:  # fmt: skip
    """Return a bar from ``bin_low`` to ``bin_high`` for each row, with its limits.

    A dashed line is drawn at `level`. Panels have equal ranges, two side by side.
    """
    base, y = _base(colour, tips, False, 1).encode(x=x), y.copy()
    tops = data[[*{"value", "high"} & {*data}]].max()
    y["scale"] = alt.Scale(**{**y["scale"].to_dict(), "domain": [0, float(tops.max())]})

    def draw(rows: pd.DataFrame, number: int) -> list[alt.Chart]:
        parts = [base.mark_bar(binSpacing=0).encode(x2=alt.X2("bin_high:Q"), y=y, y2=alt.datum(0))]
        if _limited(rows):
            # Bars of errors begin at zero: a square root has no negative values.
            middle = base.transform_calculate(
                floor="max(datum.low, 0)", middle="(datum.bin_low + datum.bin_high) / 2"
            )
            spread = middle.mark_rule(strokeWidth=0.8).encode(x=alt.X("middle:Q", title=x["title"]))
            spread = spread.encode(
                color=alt.ColorValue(style.INK), y=_of("floor", y), y2=alt.Y2("high:Q")
            )
            parts.append(spread)
        if level is not None:
            name, at = level
            parts.append(_level(name, [name], y=alt.datum(at)))
        return parts

    width = charts.WIDTH if data["panel"].nunique() > 1 else 2 * charts.WIDTH
    return _panels(data, draw, size=(width, 150))


def _base(colour: Any, tips: Sequence[str], toggle: bool, shown: float) -> alt.Chart:
    opacity = charts.fade(shown) if toggle else alt.OpacityValue(shown)
    return alt.Chart().encode(color=colour, tooltip=charts.tips(*tips), opacity=opacity)


SIZES = {1: (1, 2 * charts.WIDTH), 2: (2, charts.WIDTH), 4: (2, charts.WIDTH)}
"""Columns, and the width of a panel in pixels, by the number of panels."""


def _panels(
    data: pd.DataFrame, draw: Callable[[pd.DataFrame, int], list[alt.Chart]], *,
    size: tuple[int, int] | None = None, gap: int = 72,
) -> alt.ConcatChart:  # fmt: skip
    """Lay out a panel for each title in ``panel``, in the order of the rows.

    Panels of a given `size` are two side by side. The first view of each panel is named, so that
    the legend can be its toggle.
    """
    of_panel = (data if "layer" in data else data.assign(layer="")).groupby("panel", sort=False)
    columns, width = SIZES.get(len(of_panel), (3, 260))
    height = charts.HEIGHT if len(of_panel) <= 3 else 190
    if size is not None:
        columns, (width, height) = 2, size
    panels = []
    for number, (title, rows) in enumerate(of_panel):
        first, *others = draw(rows, number)
        named = first.copy(deep=False)
        named.name = f"{charts.VIEW}{number}"
        chosen = alt.FieldEqualPredicate(field="panel", equal=str(title))
        # Given at once: each method of a chart copies all its parts.
        panels.append(alt.layer(
            named, *others, transform=[alt.FilterTransform(filter=chosen)],
            width=width, height=height, title=str(title),
        ))  # fmt: skip
    return charts.side_by_side(panels, columns, data, gap)


def _level(name: str, names: Sequence[str], **at: Any) -> alt.Chart:
    """Return a line between values, drawn once, not for every row; a legend has all `names`."""
    once = alt.Chart().transform_aggregate(rows="count()")
    line = once.mark_rule(color=style.QUIET).encode(**at)
    return charts.named_line(line, name, dict(zip(names, (DASHED, DOTTED, LONG), strict=False)))


def _limited(rows: pd.DataFrame) -> bool:
    return "low" in rows and bool(rows["low"].notna().any())


def _of(field: str, axis: Any) -> Any:
    """Return the same axis for another field."""
    other = axis.copy()
    other["shorthand"] = f"{field}:Q"
    return other
