"""Small figures next to answers: one panel, few marks, and self-explanatory axis titles."""

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from mispair.report import charts, style

WIDTH, HEIGHT = 250, 130
"""Plot area, in pixels."""

LEAST_FALL = 0.05
"""An axis of accuracy spans at least this, so that noise is not magnified."""


def curves(
    runs: pd.DataFrame, x_title: str, y_title: str, *, colours: Mapping[str, str],
    legend: str, labels: Mapping[str, str] | None = None, least: float = 0.0,
) -> tuple[alt.TopLevelMixin, pd.DataFrame]:  # fmt: skip
    """Return lines of means with a point for each run, and the numbers in them.

    Parameters
    ----------
    runs : DataFrame
        Columns ``x``, ``value`` and ``series``, a row for each run.
    x_title, y_title : str
        Titles of the axes.
    colours, labels : mapping of str to str
        By series; a legend is drawn for two or more.
    legend : str
        Title of the legend.
    least : float
        Smallest span of the y axis.
    """
    data = charts.summary(runs, ["series", "x"]).assign(layer="mean")
    data = pd.concat([data, runs[["series", "x", "value"]].assign(layer="run")], ignore_index=True)
    data = charts.mark_sparse(data, "x", ["series", "layer"])
    present = [name for name in colours if name in set(data["series"])]
    colour = charts.colour("series", legend, colours, present, labels, gap=20, columns=1)
    base = alt.Chart().encode(
        x=charts.x_axis("x", x_title, sorted(data["x"].unique())),
        y=alt.Y("value:Q", title=y_title, scale=span([*data["value"]], least),
                axis=alt.Axis(tickCount=4)),
        color=colour if len(present) > 1 else alt.ColorValue(colours[present[0]]),
    )  # fmt: skip
    parts = [
        charts.only(base, "run").mark_circle(size=18, opacity=0.45),
        *charts.lines(
            base, data[data["layer"] == "mean"], "datum.layer == 'mean'", 34
        ),
    ]  # fmt: skip
    return framed(parts, data), data


def span(levels: Sequence[float], least: float) -> alt.Scale:
    """Return a scale around some values, of at least the given span."""
    low, high = min(levels), max(levels)
    missing = max(0.0, least - (high - low)) / 2
    return alt.Scale(domain=[low - missing, high + missing], zero=False, nice=4)


def scatter(
    points: pd.DataFrame, x_title: str, y_title: str, *, colour: str, diagonal: str = ""
) -> tuple[alt.TopLevelMixin, pd.DataFrame]:
    """Return points at ``x`` and ``value``, with limits ``low`` and ``high`` where there are any.

    `diagonal` names the dashed line of equal numbers in the legend; without it there is none.
    """
    base = alt.Chart().encode(
        x=alt.X("x:Q", title=x_title, scale=alt.Scale(zero=bool(diagonal), nice=4),
                axis=alt.Axis(tickCount=4, format="~g")),
        y=alt.Y("value:Q", title=y_title, scale=alt.Scale(zero=bool(diagonal), nice=4),
                axis=alt.Axis(tickCount=4)),
    )  # fmt: skip
    marks = [base.mark_circle(size=26, color=colour, opacity=0.8)]
    if charts.limited(points.assign(layer="point"), layer="point"):
        bars = base.transform_filter("isValid(datum.low)").mark_rule(color=colour, strokeWidth=1.5)
        marks.append(bars.encode(y=alt.Y("low:Q", title=y_title), y2=alt.Y2("high:Q")))
    if diagonal:
        same = alt.Chart().mark_line(color=style.GREY, strokeWidth=1.2)
        same = same.encode(x="x:Q", y=alt.Y("x:Q", title=y_title))
        marks.insert(0, charts.named_line(same, diagonal, {diagonal: [5, 4]}))
    return framed(marks, points), points


def dots(
    runs: pd.DataFrame, x_title: str, *, colour: str, levels: Sequence[float] = ()
) -> tuple[alt.TopLevelMixin, pd.DataFrame]:
    """Return a row of points for each ``label``, in their order, with a tick at the mean.

    `levels` are values at which a grey line is drawn.
    """
    order = list(dict.fromkeys(runs["label"]))
    base = alt.Chart().encode(
        y=alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelLimit=170))
    )
    scale = alt.Scale(zero=False, nice=4)
    rule = alt.Chart().mark_rule(color=style.GREY)
    parts = [
        *(rule.encode(x=alt.datum(level)) for level in levels),
        base.mark_circle(size=30, color=colour, opacity=0.6).encode(
            x=alt.X("value:Q", title=x_title, scale=scale, axis=alt.Axis(tickCount=4))
        ),
        base.mark_tick(thickness=2.5, size=14, color=style.INK).encode(
            x=alt.X("mean(value):Q", title=x_title, scale=scale)
        ),
    ]
    return framed(parts, runs, width=190), runs


def framed(parts: Sequence[alt.Chart], data: pd.DataFrame, width: int = WIDTH) -> alt.TopLevelMixin:
    """Return layers as one chart of the size of a small figure."""
    return alt.layer(*parts, data=charts.values(data)).properties(width=width, height=HEIGHT)
