"""Figures of the stepsize study. Curves are of the first seed, which every part has."""

import altair as alt
import numpy as np
import pandas as pd

from mispair.report import charts, recipes, small_figures, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables
from mispair.report.texts import Note
from mispair.stepsize.report.claims import SCHEDULES, named, of_parts

STEPS = charts.log_x("t", "Step t", "~s")
SHADES = alt.Color(
    "stepsize:Q",
    scale=alt.Scale(type="log", range=[*style.SHADES], interpolate="hcl"),
    legend=alt.Legend(title="Stepsize η", type="gradient", gradientLength=200, format="~g"),
)
TIPS = ("stepsize:Q:η", "t:Q:step")


def _hole(tables: Tables, part: str, more: str = "") -> Hole:
    """Return the hole of a figure without data; it names the part that is not configured."""
    if not tables.study("stepsize"):
        return Hole(Note("stepsize", "hole_not_run"))
    return Hole(Note("stepsize", "hole_part", part=part, more=more))


def _first_seed(rows: pd.DataFrame, *parts: str) -> pd.DataFrame:
    """Return the rows of some parts and of seed 0, with their panels."""
    return named(of_parts(rows[rows["seed"] == 0], *parts))


def _curves(tables: Tables, part: str) -> pd.DataFrame:
    curves = _first_seed(tables.stepsize_curves, part)
    return curves[curves["t"] > 0]


def stepsize_risk(tables: Tables) -> Drawing | Hole:
    """Draw the risk against steps, with the end of the oscillation and the threshold."""
    curves, runs = _curves(tables, "sweep"), _first_seed(tables.stepsize_runs, "sweep")
    if curves.empty:
        return _hole(tables, "sweep")
    ended = runs[(runs["transition"] > 0) & (runs["settled"] == 1)]
    of_layer = [
        curves.assign(layer="risk"),
        ended.assign(t=ended["transition"], risk=ended["transition_risk"], layer="mark"),
        *(runs.assign(t=end, risk=runs["stable_threshold"], layer="threshold")
          for end in (1, runs["steps"])),
    ]  # fmt: skip
    data = pd.concat(of_layer, ignore_index=True)[["panel", "stepsize", "t", "risk", "layer"]]
    data = data[data["risk"] > 0]
    risk = charts.log_y("risk", "Risk L")
    lines = {"risk": recipes.SOLID, "threshold": recipes.DASHED}
    tips = (*TIPS, "risk:Q:risk")
    chart = recipes.sweep(data, STEPS, risk, SHADES, tips, lines=lines, exact=["threshold"])
    return Drawing(chart, data)


def stepsize_speedup(tables: Tables) -> Drawing | Hole:
    """Draw the steps of the largest monotone stepsize over those of each larger one."""
    rows = _first_seed(tables.stepsize_speedups, "sweep")
    if rows.empty:
        return _hole(tables, "sweep")
    rows = rows[rows["speedup"].notna() & (rows["stepsize"] >= rows["monotone_stepsize"])]
    if rows.empty:
        return Hole(Note("stepsize", "hole_speedup"))
    data = rows[["panel", "stepsize", "level", "steps_to_level", "speedup"]].assign(
        to="L ≤ " + rows["level"].map("{:g}".format)
    )
    levels = [*data.sort_values("level", ascending=False)["to"].unique()]
    chart = recipes.bars(
        data, alt.X("stepsize:O", title="Stepsize η", axis=alt.Axis(labelAngle=0)),
        alt.Y("speedup:Q", title="Speed-up", scale=alt.Scale(type="symlog")),
        charts.colour("to", "Risk", style.shades(levels), levels),
        (TIPS[0], "to:N:", "steps_to_level:Q:steps", "speedup:Q:speed-up"),
        offset=alt.XOffset("to:N", sort=levels), level=("as soon", 1),
    )  # fmt: skip
    return Drawing(chart, data)


def stepsize_acceleration(tables: Tables) -> Drawing | Hole:
    """Draw the risk after T steps by schedule of the stepsize, a panel for each data set."""
    points = _first_seed(tables.stepsize_acceleration, "acceleration")
    if points.empty:
        return _hole(tables, "acceleration")
    data = points[["panel", "schedule", "budget", "stepsize", "risk"]].rename(
        columns={"budget": "t"}
    )
    colours = style.colours("schedule")
    chart = recipes.sweep(
        data, charts.log_x("t", "Steps T", "~s"), charts.log_y("risk", "Risk L after T steps"),
        charts.colour("schedule", "Stepsize", colours, [*colours], SCHEDULES),
        ("schedule:N:", "t:Q:T", "stepsize:Q:η", "risk:Q:risk"), points=True,
    )  # fmt: skip
    return Drawing(chart, data)


QUANTITIES = {
    "average_risk": ("average risk", "measured"),
    "risk_bound": ("average risk", "bound"),
    "average_potential": ("average gradient potential", "measured"),
    "potential_bound": ("average gradient potential", "bound"),
}
"""What is averaged, and the layer, of each column of the curves."""


def stepsize_bounds(tables: Tables) -> Drawing | Hole:
    """Draw averages and their bounds."""
    data = _curves(tables, "bounds").melt(
        ["panel", "t", "stepsize"], [*QUANTITIES], var_name="column"
    )
    data = data[data["value"] > 0]
    if data.empty:
        return _hole(tables, "bounds", "separable")
    what, data["layer"] = (
        data["column"].map(lambda name, k=k: QUANTITIES[name][k]) for k in (0, 1)
    )
    data["panel"] += ": " + what
    data = data.drop(columns="column").sort_values("panel", kind="stable", ignore_index=True)
    value = charts.log_y("value", "Average of steps 1 to t")
    tips = (*TIPS, "layer:N:", "value:Q:value")
    lines = {"measured": recipes.SOLID, "bound": recipes.DASHED}
    return Drawing(recipes.sweep(data, STEPS, value, SHADES, tips, lines=lines), data)


def stepsize_accuracy(tables: Tables) -> Drawing | Hole:
    """Draw the test accuracy against the stepsize."""
    tested = of_parts(tables.stepsize_runs, "sweep", "multilayer").dropna(subset=["accuracy"])
    if tested.empty:
        return _hole(tables, "sweep", "test set")
    data = named(tested)[["panel", "stepsize", "seed", "rises", "accuracy"]]
    colours = style.colours("risk")
    fell, oscillated = colours
    data["kind"] = np.where(data.pop("rises") > 0, oscillated, fell)
    chart = recipes.scatter(
        data, charts.log_x("stepsize", "Stepsize"),
        alt.Y("accuracy:Q", title="Test accuracy", scale=alt.Scale(zero=False)),
        charts.colour("kind", "The risk", colours, [*colours]),
        ("stepsize:Q:stepsize", "seed:Q:seed", "accuracy:Q:accuracy"),
    )  # fmt: skip
    return Drawing(chart, data)


def small_stepsize(tables: Tables) -> Drawing | Hole:
    """Draw the risk against steps on one data set, a line for each stepsize."""
    curves = of_parts(tables.stepsize_curves[tables.stepsize_curves["seed"] == 0], "sweep")
    curves = curves[(curves["t"] > 0) & (curves["risk"] > 0)]
    if curves.empty:
        return _hole(tables, "sweep")
    curves = curves[curves["data_set"] == curves["data_set"].iloc[0]]
    data, left_out = charts.within(curves[["stepsize", "t", "risk"]], "t")
    lines = alt.Chart().mark_line(strokeWidth=1.6).encode(
        x=STEPS, y=charts.log_y("risk", "Risk (log scale)"), color=SHADES
    )  # fmt: skip
    return Drawing(small_figures.framed([lines], data), data, left_out)
