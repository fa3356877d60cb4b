"""Building blocks of the figures: marks that share one inline table, in one style."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from mispair.report import style
from mispair.report.tables import records
from mispair.report.texts import SHARED, Note

Panel = alt.Chart | alt.LayerChart | alt.FacetChart

WIDTH, HEIGHT = 400, 240
"""Plot area of one of two panels side by side, in pixels."""


@dataclass(frozen=True)
class Drawing:
    """A figure: its chart, the numbers in it, and notes on what it shows and leaves out.

    ``toggle`` is the field whose values can be selected in the legend.
    """

    chart: alt.TopLevelMixin
    data: pd.DataFrame
    notes: Sequence[Note] = ()
    toggle: str | None = None


@dataclass(frozen=True)
class Hole:
    """A figure that cannot be drawn, and why."""

    reason: Note


def values(table: pd.DataFrame, digits: int = 6) -> alt.InlineData:
    """Return a table as inline data; numbers are rounded, missing values left out."""
    rows = [
        {key: _plain(value, digits) for key, value in row.items() if not _missing(value)}
        for row in records(table)
    ]
    return alt.InlineData(values=rows)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _plain(value: Any, digits: int) -> Any:
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def summary(table: pd.DataFrame, keys: list[str], value: str = "value") -> pd.DataFrame:
    """Return mean, mean ± 1 standard deviation (``low``, ``high``) and n of groups.

    With one value in a group there is no spread: its limits are missing.
    """
    grouped = table.dropna(subset=[value]).groupby(keys, dropna=False)[value]
    out = grouped.agg(value="mean", spread="std", n="count").reset_index()
    out["low"], out["high"] = out["value"] - out["spread"], out["value"] + out["spread"]
    return out.drop(columns="spread")


def limited(data: pd.DataFrame, **where: str) -> bool:
    """Return whether any row with these values has limits; a layer without limits is an error."""
    if "low" not in data:
        return False
    rows = data[(data[list(where)] == pd.Series(where)).all(axis=1)]
    return bool(rows["low"].notna().any())


def layers(runs: pd.DataFrame, keys: list[str], *more: pd.DataFrame) -> pd.DataFrame:
    """Stack single runs, their means with spread, and further curves, marked by ``layer``."""
    return pd.concat(
        [runs.assign(layer="run"), summary(runs, keys).assign(layer="mean"), *more],
        ignore_index=True,
    )


MOST = 2_000
"""Most rows of a plot of a sweep, so that a page with many such plots stays small."""


def within(data: pd.DataFrame, x: str, most: int = MOST) -> tuple[pd.DataFrame, list[Note]]:
    """Thin out the rows of a plot to at most `most`: single runs first, then values of `x`.

    Returns the rows and notes on what was left out. Two values of `x` always stay.
    """
    left_out = []
    if len(data) > most and "layer" in data and (data["layer"] == "run").any():
        data = data[data["layer"] != "run"]
        left_out.append(Note(SHARED, "single_runs"))
    values = data[x].dropna().unique()
    shown = len(values)
    while len(data) > most and shown > 2:
        shown = max(2, min(shown - 1, shown * most // len(data)))
        data = data[data[x].isna() | data[x].isin(evenly(values, shown))]
    if shown < len(values):
        left_out.append(Note(SHARED, "some_values", name=x, shown=shown, of=len(values)))
    return data.reset_index(drop=True), left_out


def evenly(values: Any, most: int) -> list[Any]:
    """Return at most `most` of some values in order, evenly spread, the first and last of them.

    Examples
    --------
    >>> evenly([0.5, 0.1, 0.2, 0.4, 0.3], 3)
    [0.1, 0.3, 0.5]
    """
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(number * last / (most - 1))] for number in range(most)]


def first_on_top(data: pd.DataFrame, field: str, names: Mapping[str, str]) -> pd.DataFrame:
    """Sort rows so that what a palette names first is drawn last, over all others."""
    position = {name: -number for number, name in enumerate(names)}
    return data.sort_values(
        field, key=lambda column: column.map(position).fillna(1), kind="stable", ignore_index=True
    )


SPARSE, BETWEEN = "only the two ends are measured", "measured in between"
"""Curves of two points, and of more."""
THIN, THICK = 0.9, 2.2
"""Widths of lines of curves of two points, and of more, in pixels."""


def mark_sparse(
    data: pd.DataFrame, x: str, keys: Sequence[str], exact: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the rows with ``measured``: whether their curve has points between its ends.

    A curve is the rows with equal `keys`. It is `SPARSE` with at most two values of `x`, unless its
    layer is in `exact`: known in between without a measurement.
    """
    points = data.groupby([*keys], dropna=False)[x].transform("nunique")
    sparse = (points <= 2) & ~data["layer"].isin([*exact, "run", "mark"])
    return data.assign(measured=sparse.map({True: SPARSE, False: BETWEEN}))


def lines(
    base: alt.Chart, data: pd.DataFrame, where: str, point: int, **channels: Any
) -> list[alt.Chart]:
    """Return the lines of the rows that meet a condition, with points of an area in pixels.

    `data` are these rows, marked by `mark_sparse`. Lines of two points are thin, which a legend
    explains.
    """
    placed = base.transform_filter(where)
    drawn = placed.mark_line(clip=True).encode(**channels)
    if (data["measured"] == SPARSE).any():
        legend = dashes()
        legend.values = [SPARSE]
        scale = alt.Scale(domain=[BETWEEN, SPARSE], range=[THICK, THIN])
        thin = {"test": f"datum.measured == '{SPARSE}'", "value": THIN}
        # The size is the width of a line; the other channel is for the legend.
        drawn = drawn.encode(
            size=alt.SizeValue(THICK, condition=thin),
            strokeWidth=alt.StrokeWidth("measured:O", title=None, legend=legend, scale=scale),
        )
    return [drawn, placed.mark_point(filled=True, size=point)] if point else [drawn]


def band(base: alt.Chart) -> alt.Chart:
    """Return the area between the limits, for data that have some (`limited`)."""
    return base.mark_area(clip=True).encode(
        y=alt.Y("low:Q"), y2=alt.Y2("high:Q"), opacity=fade(0.16)
    )


def only(chart: alt.Chart, layer: str) -> alt.Chart:
    """Keep the rows of one layer."""
    return chart.transform_filter(f"datum.layer == '{layer}'")


def palette(colours: Mapping[str, str], present: list[str]) -> alt.Scale:
    """Return the colours of the values that occur, in the order of the palette."""
    names = [name for name in colours if name in present]
    return alt.Scale(domain=names, range=[colours[name] for name in names])


def colour(
    field: str,
    title: str,
    colours: Mapping[str, str],
    present: list[str],
    labels: Mapping[str, str] | None = None,
    gap: int | None = None,
    columns: int = 2,
) -> alt.Color:
    """Return a colour channel with a legend, whose labels are `labels` of the values.

    `gap` is the space between entries, in pixels. If a label is long, `columns` entries are side by
    side.
    """
    legend = alt.Legend(symbolOpacity=1, symbolType="circle", symbolStrokeWidth=0)
    if gap is not None:
        legend.columnPadding = gap
    if labels is not None:
        legend.labelExpr = f"{json.dumps(dict(labels))}[datum.label] || datum.label"
        legend.labelLimit = 300
        if any(len(labels.get(name, name)) > LONG_LABEL for name in present):
            legend.columns = columns
    return alt.Color(f"{field}:N", title=title, scale=palette(colours, present), legend=legend)


LONG_LABEL = 20
"""Characters of a label from which on few entries of a legend are side by side."""


def dashes() -> alt.Legend:
    """Return the legend of the dashes of lines."""
    return alt.Legend(
        orient="bottom", symbolType="stroke", symbolSize=720, symbolStrokeColor=style.INK
    )


def named_line(line: alt.Chart, name: str, dashes_of: Mapping[str, list[int]]) -> alt.Chart:
    """Dash a line by its name, and explain the dashes of all names in the legend."""
    dash = alt.StrokeDash(
        "line:N", title=None, legend=dashes(),
        scale=alt.Scale(domain=[*dashes_of], range=[*dashes_of.values()]),
    )  # fmt: skip
    return line.transform_calculate(line=json.dumps(name)).encode(strokeDash=dash)


TOGGLE = "shown"
"""Name of the selection that a click in the legend sets."""


def fade(shown: float) -> alt.OpacityValue:
    """Return an opacity: `shown`, and nearly 0 for values that are not selected in the legend."""
    return alt.OpacityValue(shown * 0.08, condition=[{"param": TOGGLE, "value": shown}])


def add_toggle(spec: dict[str, Any], field: str) -> None:
    """Let the legend of a finished chart select values of a field, in all its named views.

    Vega-Lite needs the selection once, at the top, with the name of one view of each panel; Altair
    would add it to every layer, which is an error.
    """
    select = {"type": "point", "fields": [field]}
    spec["params"] = [
        {"name": TOGGLE, "select": select, "bind": "legend", "views": sorted(_names(spec))}
    ]


def _names(node: Any) -> set[str]:
    if isinstance(node, dict):
        names = (
            {node["name"]}
            if "mark" in node and str(node.get("name", "")).startswith(VIEW)
            else set()
        )
        return names.union(*(_names(child) for key, child in node.items() if key != "params"))
    if isinstance(node, list):
        return set().union(*(_names(child) for child in node))
    return set()


VIEW = "panel_"
"""Prefix of the names of views whose legend is the toggle."""


def x_axis(field: str, title: str, ticks: list[float] | None = None) -> alt.X:
    """Return an x axis, with ticks at the values of a sweep if they are given and few."""
    axis = alt.Axis(labelExpr="format(datum.value, '.4~g')")
    if ticks and len(ticks) <= 12:
        axis.values = list(ticks)
    scale = alt.Scale(zero=False, nice=False, padding=12)
    return alt.X(f"{field}:Q", title=title, axis=axis, scale=scale)


def log_x(field: str, title: str, form: str = "~g", ticks: Iterable[float] = ()) -> alt.X:
    """Return a logarithmic x axis, with ticks at the values of a sweep if they are given."""
    axis = alt.Axis(format=form, labelOverlap=True)
    axis.values, axis.tickCount = (sorted(set(ticks)) or alt.Undefined), 5
    scale = alt.Scale(type="log", nice=False, padding=10)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=axis)


def log_y(field: str, title: str) -> alt.Y:
    """Return a logarithmic y axis."""
    axis = alt.Axis(format="~g", tickCount=5)
    return alt.Y(f"{field}:Q", title=title, scale=alt.Scale(type="log"), axis=axis)


def side_by_side(
    panels: Sequence[Panel], columns: int, data: pd.DataFrame, gap: int = 72
) -> alt.ConcatChart:
    """Lay panels out in rows; their frames, not their labels, are aligned."""
    return alt.concat(
        *panels, columns=columns, data=values(data), bounds="flush",
        spacing={"row": 84, "column": gap},
    )  # fmt: skip


def y_axis(title: str | None, **scale: Any) -> alt.Y:
    """Return a y axis on ``value`` that need not begin at zero."""
    return alt.Y("value:Q", title=title, scale=alt.Scale(**{"zero": False, **scale}))


def tips(*fields: str) -> list[alt.Tooltip]:
    """Return hover values: ``name:type:title``."""
    tooltips = []
    for field in fields:
        name, kind, title = field.split(":", 2)
        tip = alt.Tooltip(f"{name}:{kind}", title=title)
        tooltips.append(tip.format(".4~g") if kind == "Q" else tip)
    return tooltips


def config(font_size: int) -> dict[str, Any]:
    """Return the common look of all figures, as Vega-Lite's configuration of a chart."""
    sizes = {"labelFontSize": font_size, "titleFontSize": font_size}
    return {
        "font": style.FONT, "background": "white", "padding": 8,
        "view": {"stroke": None},
        "axis": sizes | {
            "titleFontWeight": "normal", "labelColor": style.QUIET, "titleColor": style.INK,
            "gridColor": style.GRID, "domainColor": style.GREY, "tickColor": style.GREY,
            "titlePadding": 8, "labelOverlap": "greedy", "labelSeparation": 5, "labelFlush": False,
        },
        "axisXQuantitative": {"tickCount": 6},
        "legend": sizes | {
            "titleFontWeight": "normal", "labelColor": style.INK, "titleColor": style.QUIET,
            "titlePadding": 12,
            "orient": "top", "direction": "horizontal", "titleOrient": "left", "titleLimit": 300,
            "labelLimit": 300, "symbolStrokeWidth": 2.5,
        },
        "header": sizes | {"labelColor": style.INK, "labelFontWeight": "bold", "title": None},
        "title": {
            "fontSize": font_size + 1, "subtitleFontSize": font_size - 1, "anchor": "start",
            "frame": "group",
            "color": style.INK, "fontWeight": "bold", "offset": 8,
        },
        "text": {"fontSize": font_size - 1},
        "line": {"strokeWidth": THICK},
        "point": {"size": 45},
    }  # fmt: skip


def for_paper(spec: Mapping[str, Any], font_size: int) -> dict[str, Any]:
    """Return a finished chart for print: larger letters, narrower panels, at most two in a row."""
    printed = _narrowed(spec)
    printed["config"] = {**config(font_size), "aria": False}
    printed["config"]["legend"]["columns"] = PAPER_LEGEND
    if "columns" in printed:
        columns = printed["columns"]
        # Two rows of three panels would be broken into three rows whose panels do not belong
        # together, so each column becomes a row.
        rows = [
            printed["concat"][at : at + columns] for at in range(0, len(printed["concat"]), columns)
        ]
        if len(rows) == PAPER_COLUMNS < columns == len(rows[-1]):
            printed["concat"] = [panel for pair in zip(*rows, strict=True) for panel in pair]
        printed["columns"] = min(PAPER_COLUMNS, columns)
    if "spacing" in printed:
        larger = font_size - SCREEN_FONT
        printed["spacing"] = {
            "row": printed["spacing"]["row"] + ROW_GROWTH * larger,
            "column": printed["spacing"]["column"] + COLUMN_GROWTH * larger,
        }
    return printed


def _narrowed(node: Any) -> Any:
    if isinstance(node, Mapping):
        drawn = "mark" in node or "layer" in node or "facet" in node or "concat" in node
        return {
            key: round(PAPER_WIDTH * value)
            if drawn and key == "width" and not isinstance(value, Mapping)
            else (value if key in ("data", "encoding") else _narrowed(value))
            for key, value in node.items()
        }
    if isinstance(node, list):
        return [_narrowed(child) for child in node]
    return node


PAPER_WIDTH, PAPER_COLUMNS, PAPER_LEGEND = 0.85, 2, 3
"""For a printed figure: factor of panel widths, and most panels and legend entries in a row."""
SCREEN_FONT, ROW_GROWTH, COLUMN_GROWTH = 12, 6, 4
"""Size of labels on the page, and what each larger pixel in print adds to the gaps, in pixels."""
