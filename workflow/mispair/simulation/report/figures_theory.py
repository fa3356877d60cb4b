"""The figures of the theory of training: alignments as measured and by the equations."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from mispair.report import charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables, where
from mispair.simulation.report.panels import condition_titles, hole, of_presets
from mispair.simulation.report.runs import RUN, at_largest, of_preset, presets

SOURCES = {"measured": "measured", "eq34": "Eq. 34", "eq35": "Eqs. 35-36"}
DASHES = [[1, 0], [7, 3], [2, 2]]
LOG = alt.Scale(type="log", nice=False)
LEGEND = alt.Legend(symbolType="stroke", symbolSize=400, symbolOpacity=1)
STEPS = 120
"""Most steps that one curve shows."""

FEATURES = {f"alignment_{name}": name for name in style.FEATURES}
NORMS = {
    "alignment_norm": ("Norm of the alignments", "Norm"),
    "alignment_error": ("Error of the equations", "Relative error"),
}
"""Headings and axes of the figure of all alignments."""


def simulation_dynamics(tables: Tables) -> Drawing | Hole:
    """Draw alignments with true, spurious and other features by step, and by the equations."""
    rows = of_presets(tables.simulation, metric=FEATURES, source=SOURCES)
    if rows.empty:
        return hole(tables, Note("simulation", "hole_alignments"))
    by_condition = rows.groupby("condition")["spurious_probability"]
    lowest, highest = by_condition.transform("min"), by_condition.transform("max")
    rows = rows[
        (rows["spurious_probability"] == lowest) | (rows["spurious_probability"] == highest)
    ]
    rows = _thinned(rows).assign(
        feature=rows["metric"].map(FEATURES), source=rows["source"].map(SOURCES)
    )
    keys = ["condition", "spurious_probability", "feature", "source", "step"]
    data = charts.summary(rows, keys)
    # The spread of the equations is that of their starts, which are the measured ones.
    data.loc[(data["source"] != "measured") | (data["low"] <= 0), ["low", "high"]] = float("nan")
    data["panel"] = condition_titles(data)
    colour = charts.colour("feature", "Features", style.FEATURES, list(style.FEATURES))
    names = [name for name in style.EQUATIONS if name in set(data["source"])]
    tips = charts.tips("feature:N:feature", "source:N:", "step:Q:step", "value:Q:mean |alignment|",
                       "low:Q:−1 s.d.", "high:Q:+1 s.d.", "n:Q:trials")  # fmt: skip
    panels = [
        _curves(data, colour, "|Alignment|", names, tips, panel=panel)
        .transform_filter(f"datum.panel == '{panel}'")
        .properties(title=panel)
        for panel in sorted(set(data["panel"]))
    ]
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data.drop(columns="panel"), [_growth(data)], "feature")


def _curves(
    data: pd.DataFrame, colour: alt.Color, axis: str, names: list[str], tips: list[alt.Tooltip],
    **where: str,
) -> charts.Panel:  # fmt: skip
    """Return curves by step, dashed by their source, with a band where there are limits."""
    base = alt.Chart().encode(
        x=alt.X("step:Q", title="Training step", scale=alt.Scale(zero=False, nice=False)),
        y=alt.Y("value:Q", title=f"{axis} (log scale)", scale=LOG),
        color=colour,
    )
    dashes = alt.StrokeDash("source:N", title="Alignments", legend=LEGEND,
                            scale=alt.Scale(domain=names, range=DASHES[:len(names)]))  # fmt: skip
    line = base.mark_line().encode(strokeDash=dashes, opacity=charts.fade(1))
    view = "".join(letter if letter.isalnum() else "_" for letter in "".join(where.values()))
    lines = charts.hovered(line.properties(name=f"{charts.VIEW}{view}"), tips)
    band = [charts.band(base)] if charts.limited(data, **where) else []
    return alt.layer(*band, lines).properties(width=charts.WIDTH, height=charts.HEIGHT)


def _growth(data: pd.DataFrame) -> Note:
    """Return the last alignments with spurious and other features, as shares of true ones."""
    shares = []
    for panel, of_panel in data.groupby("panel"):
        last = of_panel[of_panel["step"] == of_panel["step"].max()]
        measured = last[last["source"] == "measured"].set_index("feature")["value"]
        if {"true", "spurious", "other"} <= set(measured.index):
            spurious, other = (measured[name] / measured["true"] for name in ("spurious", "other"))
            shares.append((panel, spurious, other))
    return Note("simulation", "figure_growth", shares=shares)


def simulation_alignments(tables: Tables) -> Drawing | Hole:
    """Draw the norm of all alignments by step, and the equations' relative error."""
    rows = of_presets(tables.simulation, metric=NORMS, source=SOURCES)
    if rows.empty:
        return hole(tables, Note("simulation", "hole_alignments"))
    # The error at step 0 is rounding (1e-16), which would take up the whole log scale.
    shown = at_largest(rows[(rows["metric"] == "alignment_norm") | (rows["step"] > 0)])
    keys = ["condition", "spurious_probability", "metric", "source", "step"]
    data = charts.summary(_thinned(shown), keys)
    data.loc[data["low"] <= 0, ["low", "high"]] = float("nan")  # not on a log scale
    data["source"] = data["source"].map(SOURCES)
    data["panel"] = condition_titles(data)
    panels = [
        _norms(metric, panel, data) for panel in sorted(set(data["panel"])) for metric in NORMS
    ]
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data.drop(columns="panel"), [_errors(rows)], "source")


def _norms(metric: str, panel: str, data: pd.DataFrame) -> charts.Panel:
    heading, axis = NORMS[metric]
    names = list(style.EQUATIONS)
    colour = alt.Color("source:N", title="Alignments", legend=LEGEND,
                       scale=charts.palette(style.EQUATIONS, names))  # fmt: skip
    tips = charts.tips("source:N:", "step:Q:step", "value:Q:value", "low:Q:−1 s.d.",
                       "high:Q:+1 s.d.", "n:Q:trials")  # fmt: skip
    title = alt.TitleParams(text=heading, subtitle=panel, subtitleColor=style.QUIET)
    return (
        _curves(data, colour, axis, names, tips, metric=metric, panel=panel)
        .transform_filter(
            f"datum.metric == '{metric}' && datum.panel == '{panel}' && datum.value > 0"
        )
        .properties(title=title)
    )


def _thinned(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep at most `STEPS` steps of each condition, evenly spread."""
    kept = set()
    for _, curve in rows.groupby(["condition", "spurious_probability"]):
        steps = np.unique(curve["step"].dropna())
        chosen = np.linspace(0, len(steps) - 1, min(STEPS, len(steps))).round().astype(int)
        kept |= set(steps[chosen])
    return rows[rows["step"].isin(kept)]


def _errors(rows: pd.DataFrame) -> Note:
    means = []
    for preset in presets(rows):
        for source in ("eq34", "eq35"):
            errors = last_errors(of_preset(rows, preset), source)
            if len(errors):
                means.append((SOURCES[source], errors.mean(), preset))
    return Note("simulation", "figure_equations", means=means)


def last_errors(table: pd.DataFrame, source: str) -> pd.Series:
    """Return each run's relative error of an equation at the last step that was recorded."""
    errors = where(table, metric="alignment_error", source=source).dropna(subset=["value"])
    return errors.sort_values("step", kind="stable").groupby(RUN)["value"].last()
