"""Figures of the stepsize study."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from mispair.report import charts, small, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables
from mispair.stepsize.report.runs import (
    FIRST_BUDGET,
    SCHEDULES,
    first_seed,
    named,
    of_parts,
    onset,
    settled_share,
    slopes,
    speedup_span,
)

LOG = alt.Scale(type="log", nice=False)
STEPSIZES = alt.Scale(type="log", nice=False, padding=10)
WIDTH, HEIGHT = 380, 220
QUANTITIES = {
    "lowest_rise": ("lowest risk before a rise", style.ORANGE),
    "transition_risk": ("risk as oscillation ends", style.AMBER),
    "stable_threshold": ("tight threshold", style.BLUE),
    "stable_threshold_paper": ("printed threshold", style.SKY),
}
STEPS = {
    "transition": ("oscillation over", style.ORANGE),
    "stable_step": ("below the stable threshold", style.BLUE),
    "settled_step": ("below the threshold of growing margins", style.GREEN),
}


def _hole(tables: Tables, part: str, more: str = "") -> Hole:
    """Return the hole of a figure without data; it names the part that is not configured."""
    if not tables.study("stepsize"):
        return Hole(Note("stepsize", "hole_not_run"))
    return Hole(Note("stepsize", "hole_part", part=part, more=more))


def _colour() -> alt.Color:
    """Return the colour of a stepsize, the same in every panel."""
    legend = alt.Legend(title="Stepsize η", type="gradient", gradientLength=200, format="~g")
    shades = alt.SchemeParams("viridis", extent=[0, 0.85])
    scale = alt.Scale(type="log", scheme=shades, reverse=True)
    return alt.Color("stepsize:Q", scale=scale, legend=legend)


def _level(value: float, colour: str = style.QUIET) -> alt.Chart:
    """Return a horizontal line that is drawn once, not for every row."""
    once = alt.Chart().transform_aggregate(rows="count()")
    return once.mark_rule(color=colour, strokeDash=[4, 4]).encode(y=alt.datum(value))


def _steps_axis(title: str = "Step t") -> alt.X:
    return alt.X("t:Q", title=title, scale=LOG, axis=alt.Axis(format="~s", tickCount=5))


def _log_y(field: str, title: str, form: str = "~g") -> alt.Y:
    axis = alt.Axis(format=form, tickCount=5)
    return alt.Y(f"{field}:Q", title=title, scale=alt.Scale(type="log"), axis=axis)


def _curves(tables: Tables, *parts: str) -> pd.DataFrame:
    """Return the curves of the first seed of some parts, from step 1 on."""
    curves = first_seed(of_parts(tables.stepsize_curves, *parts))
    return curves[curves["t"] > 0]


def _runs(tables: Tables) -> pd.DataFrame:
    return named(of_parts(tables.stepsize_runs, "sweep"))


def _lines(y: alt.Y, tip: str, width: float = 1.6, **mark: Any) -> alt.Chart:
    """Return lines over the steps, one for each stepsize, with hover values."""
    lines = alt.Chart().mark_line(strokeWidth=width, **mark)
    return lines.encode(x=_steps_axis(), y=y, color=_colour(), tooltip=_tips(tip))


def _points(size: int, y: alt.Y, x_title: str, **mark: Any) -> alt.Chart:
    """Return points over the stepsizes."""
    points = alt.Chart().mark_point(filled=True, size=size, **mark)
    x = alt.X("stepsize:Q", title=x_title, scale=STEPSIZES, axis=alt.Axis(format="~g"))
    return points.encode(x=x, y=y)


def _panels(
    data: pd.DataFrame, draw: Callable[[str], charts.Panel], width: int = WIDTH,
    height: int = HEIGHT,
) -> list[charts.Panel]:  # fmt: skip
    """Draw a panel for each value of ``panel``, in the order of the rows."""
    return [
        draw(name)
        .transform_filter(f"datum.panel == '{name}'")
        .properties(width=width, height=height, title=name)
        for name in data["panel"].unique()
    ]


def _drawn(
    data: pd.DataFrame, panels: Sequence[charts.Panel], note: Note, columns: int = 2
) -> Drawing:
    return Drawing(charts.side_by_side(panels, columns, data), data, [note])


def _tips(*more: str) -> list[alt.Tooltip]:
    return charts.tips("stepsize:Q:η", "t:Q:step", *more)


def stepsize_risk(tables: Tables) -> Drawing | Hole:
    """Draw the risk against steps, with the end of the oscillation and the threshold."""
    curves, runs = named(_curves(tables, "sweep")), first_seed(_runs(tables))
    if curves.empty:
        return _hole(tables, "sweep")
    ended = runs[(runs["transition"] > 0) & (runs["settled"] == 1)]
    marks = ended.assign(t=ended["transition"], risk=ended["transition_risk"], layer="over")
    columns = ["panel", "stepsize", "t", "risk", "layer"]
    lines = [
        runs.assign(risk=runs["stable_threshold"], t=end, layer="threshold")
        for end in (1, runs["steps"])
    ]
    data = pd.concat([curves.assign(layer="run"), marks, *lines], ignore_index=True)[columns]
    data = data[data["risk"] > 0]

    def draw(name: str) -> charts.Panel:
        base = alt.Chart().encode(
            x=_steps_axis(), y=_log_y("risk", "Risk L"), tooltip=_tips("risk:Q:risk")
        )
        lines = base.encode(color=_colour())
        return alt.layer(
            charts.only(lines, "threshold").mark_line(strokeDash=[4, 4], strokeWidth=1),
            charts.only(lines, "run").mark_line(strokeWidth=1.6),
            # In one colour: points with a scale of colours would turn its legend into points.
            charts.only(base, "over").mark_point(
                size=45, filled=True, color=style.INK, stroke="white", opacity=1
            ),
        )

    return _drawn(data, _panels(data, draw), settled_share(tables.stepsize_runs))


def stepsize_rate(tables: Tables) -> Drawing | Hole:
    """Draw η t L against steps."""
    curves = named(_curves(tables, "sweep"))
    if curves.empty:
        return _hole(tables, "sweep")
    data = curves.assign(product=curves["stepsize"] * curves["t"] * curves["risk"])
    data = data.loc[data["product"] > 0, ["panel", "stepsize", "t", "product"]]
    y = _log_y("product", "η t L", "~s")
    panels = _panels(data, lambda name: _lines(y, "product:Q:η t L"))
    runs = first_seed(_runs(tables))
    runs = runs[runs["settled"] == 1]
    last = runs.assign(product=runs["stepsize"] * runs["steps"] * runs["final_risk"])
    products = last.groupby("panel", sort=False)["product"].agg(["min", "max"])
    spans = products.reset_index().to_numpy().tolist()
    return _drawn(data, panels, Note("stepsize", "figure_rate", spans=spans))


def stepsize_margin(tables: Tables) -> Drawing | Hole:
    """Draw the normalised margin against steps."""
    curves = named(_curves(tables, "sweep"))
    if curves.empty:
        return _hole(tables, "sweep")
    data = curves[["panel", "stepsize", "t", "margin"]].dropna()
    top = data.groupby("panel")["margin"].max().abs()

    def draw(name: str) -> charts.Panel:
        domain = [-1.5 * top[name], 1.1 * top[name]]
        y = alt.Y("margin:Q", title="min q / ‖w‖", scale=alt.Scale(domain=domain, nice=False))
        return alt.layer(_level(0), _lines(y, "margin:Q:margin", clip=True))

    runs = first_seed(_runs(tables))
    best = []
    for panel, of_panel in runs.dropna(subset=["margin_final"]).groupby("panel", sort=False):
        last = of_panel.sort_values("margin_final").iloc[-1]
        best.append((panel, last["margin_final"], last["stepsize"]))
    return _drawn(data, _panels(data, draw), Note("stepsize", "figure_margin", best=best))


def stepsize_thresholds(tables: Tables) -> Drawing | Hole:
    """Draw risks at rises and transitions next to the thresholds."""
    return _against_stepsize(tables, QUANTITIES, "Risk", _conservatism)


def stepsize_steps(tables: Tables) -> Drawing | Hole:
    """Draw the steps to the transition and to the thresholds."""
    return _against_stepsize(tables, STEPS, "Step", _before)


def _against_stepsize(
    tables: Tables, quantities: dict[str, tuple[str, str]], title: str,
    note: Callable[[pd.DataFrame], Note],
) -> Drawing | Hole:  # fmt: skip
    runs = _runs(tables)
    if runs.empty:
        return _hole(tables, "sweep")
    runs = runs[runs["settled"] == 1]
    parts = [
        runs.assign(what=label, value=runs[column])[["panel", "stepsize", "seed", "what", "value"]]
        for column, (label, _) in quantities.items()
    ]
    data = pd.concat(parts, ignore_index=True)
    data = data[data["value"] > 0]
    if data.empty:
        return Hole(Note("stepsize", "hole_settled"))
    colours = dict(quantities.values())

    points = _points(40, _log_y("value", title), "Stepsize η", opacity=0.8).encode(
        color=charts.colour("what", "", colours, list(colours)),
        tooltip=charts.tips("what:N:", "stepsize:Q:η", "seed:Q:seed", "value:Q:value"),
    )
    return _drawn(data, _panels(data, lambda name: points), note(runs))


def _conservatism(runs: pd.DataFrame) -> Note:
    ratio = runs["conservatism"].dropna()
    if ratio.empty:
        return Note("stepsize", "figure_no_rise")
    return Note("stepsize", "figure_conservatism", least=ratio.min(), most=ratio.max())


def _before(runs: pd.DataFrame) -> Note:
    reached = runs[runs["stable_step"] >= 0]
    late = int((reached["transition"] > reached["stable_step"]).sum())
    early = len(reached) - late
    return Note("stepsize", "figure_before", early=early, reached=len(reached))


def stepsize_neurons(tables: Tables) -> Drawing | Hole:
    """Draw margins of the network and of its neurons on the five points."""
    of_neurons = _curves(tables, "neurons")
    if of_neurons.empty:
        return _hole(tables, "neurons")
    labels = {"margin": "the network", "neuron_plus": "neuron of a = +1",
             "neuron_minus": "neuron of a = −1"}  # fmt: skip
    data = of_neurons.melt(id_vars=["t", "stepsize"], value_vars=list(labels), var_name="what")
    data["what"] = data["what"].map(labels)
    colours = dict(zip(labels.values(), style.CLASSES, strict=False))
    lines = alt.Chart().mark_line().encode(
        x=_steps_axis(), y=alt.Y("value:Q", title="Margin"),
        color=charts.colour("what", "", colours, list(colours)),
        tooltip=_tips("what:N:", "value:Q:margin"),
    )  # fmt: skip
    panel = alt.layer(_level(0), lines).properties(width=2 * WIDTH, height=HEIGHT)
    last = data.loc[data["t"] == data["t"].max(), ["what", "value"]].to_numpy().tolist()
    return _drawn(data, [panel], Note("stepsize", "figure_neurons", last=last), columns=1)


def stepsize_speedup(tables: Tables) -> Drawing | Hole:
    """Draw the steps of the largest monotone stepsize over those of each larger one."""
    of_sweep = named(first_seed(of_parts(tables.stepsize_speedups, "sweep")))
    of_sweep = of_sweep[
        of_sweep["speedup"].notna() & (of_sweep["stepsize"] >= of_sweep["monotone_stepsize"])
    ]
    if of_sweep.empty:
        return Hole(Note("stepsize", "hole_speedup"))
    data = of_sweep[["panel", "stepsize", "level", "steps_to_level", "speedup"]].assign(
        to="L ≤ " + of_sweep["level"].map("{:g}".format)
    )
    names = [f"L ≤ {level:g}" for level in sorted(data["level"].unique(), reverse=True)]
    colours = dict(zip(names, style.CLASSES, strict=False))

    def draw(name: str) -> charts.Panel:
        bars = (
            alt.Chart()
            .mark_bar()
            .encode(
                x=alt.X("stepsize:O", title="Stepsize η", axis=alt.Axis(labelAngle=0)),
                xOffset=alt.XOffset("to:N", sort=names),
                y=alt.Y("speedup:Q", title="Speed-up", scale=alt.Scale(type="symlog")),
                color=charts.colour("to", "", colours, names),
                tooltip=charts.tips("stepsize:Q:η", "to:N:", "steps_to_level:Q:steps",
                                    "speedup:Q:speed-up"),
            )
        )  # fmt: skip
        return alt.layer(bars, _level(1))

    return _drawn(data, _panels(data, draw), speedup_span(tables))


def stepsize_acceleration(tables: Tables) -> Drawing | Hole:
    """Draw the risk after T steps by schedule of the stepsize, a panel for each data set."""
    points = named(tables.stepsize_acceleration)
    if points.empty:
        return _hole(tables, "acceleration")
    data = first_seed(points).assign(schedule=first_seed(points)["schedule"].map(SCHEDULES))
    data = data[["panel", "schedule", "budget", "stepsize", "risk"]].rename(columns={"budget": "t"})
    colours = dict(zip(SCHEDULES.values(), style.CLASSES, strict=False))
    lines = (
        alt.Chart()
        .mark_line(point=True)
        .encode(
            x=_steps_axis("Steps T"), y=_log_y("risk", "Risk L after T steps"),
            color=charts.colour("schedule", "", colours, list(colours)),
            tooltip=charts.tips("schedule:N:", "t:Q:T", "stepsize:Q:η", "risk:Q:risk"),
        )
    )  # fmt: skip
    fitted = [
        (slope, SCHEDULES[name], panel)
        for panel, of_panel in points.groupby("panel", sort=False)
        for name, slope in slopes(of_panel).items()
    ]
    note = Note("stepsize", "figure_slopes", first=FIRST_BUDGET, fitted=fitted)
    return _drawn(data, _panels(data, lambda name: lines), note)


def stepsize_sharpness(tables: Tables) -> Drawing | Hole:
    """Draw the sharpness over its critical value, and the risk below it."""
    measured = named(_curves(tables, "sharpness"))
    if measured.empty:
        return _hole(tables, "sharpness")
    data = measured[["panel", "t", "stepsize", "sharpness_ratio", "risk"]]

    def lines(field: str, title: str) -> alt.Chart:
        curves = _lines(_log_y(field, title), f"{field}:Q:{title}", width=1.3)
        return curves.transform_filter(f"datum.{field} > 0")

    sharpness = lines("sharpness_ratio", "λ m η / 2")
    panels = _panels(data, lambda name: alt.layer(sharpness, _level(1, style.INK)))
    panels += _panels(data, lambda name: alt.layer(lines("risk", "Risk L")))
    onsets = onset(tables)
    note = Note("stepsize", "figure_no_onset")
    if not onsets.empty:
        ratio = onsets["onset"] / onsets["critical"]
        note = Note("stepsize", "figure_onset", least=ratio.min(), most=ratio.max())
    return _drawn(data, panels, note, columns=data["panel"].nunique())


def stepsize_bounds(tables: Tables) -> Drawing | Hole:
    """Draw averages and their bounds."""
    measured = named(_curves(tables, "bounds"))
    labels = {
        "average_risk": ("average risk", "measured"), "risk_bound": ("average risk", "bound"),
        "average_potential": ("average gradient potential", "measured"),
        "potential_bound": ("average gradient potential", "bound"),
    }  # fmt: skip
    data = measured.melt(id_vars=["panel", "t", "stepsize"], value_vars=list(labels), var_name="of")
    data = data[data["value"] > 0]
    if data.empty:
        return _hole(tables, "bounds", "separable")
    data["what"], data["layer"] = (data["of"].map(lambda of, k=k: labels[of][k]) for k in (0, 1))
    data = data.drop(columns="of")
    panels = []
    for panel in data["panel"].unique():
        for what in data["what"].unique():
            panels.append(
                _lines(_log_y("value", what.capitalize()), "value:Q:value", width=1.5)
                .encode(
                    strokeDash=alt.StrokeDash("layer:N", title="", sort=["measured", "bound"]),
                    tooltip=_tips("layer:N:", "value:Q:value"),
                )
                .transform_filter(f"datum.panel == '{panel}' && datum.what == '{what}'")
                .properties(width=WIDTH, height=HEIGHT, title=panel)
            )
    runs = tables.stepsize_runs
    risk, potential = runs["average_ratio"].max(), runs["potential_ratio"].max()
    note = Note("stepsize", "figure_bounds", risk=risk, potential=potential)
    return _drawn(data, panels, note)


def stepsize_activations(tables: Tables) -> Drawing | Hole:
    """Draw small multiples of the risk, by activation and by width."""
    curves = _curves(tables, "activations", "widths")
    curves = curves[curves["risk"] > 0]
    if curves.empty:
        return _hole(tables, "activations", "widths")
    by_width = curves["part"] == "widths"
    label = np.where(by_width, "m = " + curves["width"].map("{:g}".format),
                     curves["activation"].str.replace("_", " "))  # fmt: skip
    data = curves.assign(panel=label)[["panel", "stepsize", "t", "risk"]]
    lines = _lines(_log_y("risk", "Risk L"), "risk:Q:risk", width=1.5)
    panels = _panels(data, lambda name: lines, 170, 130)
    runs = of_parts(tables.stepsize_runs, "activations", "widths")
    never = int((runs["settled"] == 0).sum())
    return _drawn(
        data, panels, Note("stepsize", "figure_never", never=never, runs=len(runs)), columns=4
    )


def stepsize_accuracy(tables: Tables) -> Drawing | Hole:
    """Draw the test accuracy against the stepsize."""
    runs = of_parts(tables.stepsize_runs, "sweep", "multilayer")
    tested = named(runs.dropna(subset=["accuracy"]))
    if tested.empty:
        return _hole(tables, "sweep", "test set")
    data = tested.assign(
        kind=np.where(tested["rises"] > 0, "risk oscillated", "risk fell throughout")
    )[["panel", "stepsize", "seed", "kind", "accuracy"]]
    colours = {"risk fell throughout": style.CLASSES[0], "risk oscillated": style.CLASSES[1]}
    y = alt.Y("accuracy:Q", title="Test accuracy", scale=alt.Scale(zero=False))
    points = _points(50, y, "Stepsize").encode(
        color=charts.colour("kind", "", colours, list(colours)),
        tooltip=charts.tips("stepsize:Q:stepsize", "seed:Q:seed", "accuracy:Q:accuracy"),
    )
    best = []
    for panel, part in data.groupby("panel", sort=False):
        means = part.groupby("stepsize")["accuracy"].mean()
        best.append((panel, means.max(), means.idxmax()))
    panels = _panels(data, lambda name: points)
    return _drawn(data, panels, Note("stepsize", "figure_accuracy", best=best))


def small_stepsize(tables: Tables) -> Drawing | Hole:
    """Draw the risk against steps on one data set, a line for each stepsize."""
    data = _curves(tables, "sweep")
    data = data[(data["risk"] > 0) & data["risk"].notna()]
    if data.empty:
        return _hole(tables, "sweep")
    data, _ = charts.within(data[data["data_set"] == data["data_set"].iloc[0]], "t")
    columns = ["stepsize", "t", "risk"]
    lines = alt.Chart().mark_line(strokeWidth=1.6).encode(
        x=_steps_axis(), y=_log_y("risk", "Risk (log scale)"), color=_colour()
    )  # fmt: skip
    chart = small.framed([lines], data[columns])
    note = Note("stepsize", "figure_stepsizes", stepsizes=data["stepsize"].nunique())
    return Drawing(chart, data[columns], [note])
