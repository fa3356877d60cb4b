"""The figures of the theory of training: alignments as measured and as the equations say."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from mispair.core.words import number
from mispair.report import charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables
from mispair.simulation.report.claims_theory import last_errors
from mispair.simulation.report.figures_figure1 import NOT_RUN
from mispair.simulation.report.runs import at_largest, of_preset, presets

WORDS = {"measured": "measured", "eq34": "Eq. 34", "eq35": "Eqs. 35-36"}
DASHES = [[1, 0], [7, 3], [2, 2]]
HEADINGS = {
    "alignment_norm": "Norm of the alignments",
    "alignment_error": "Error of the equations",
}
LOG = alt.Scale(type="log", nice=False)
STEPS = 120
"""Most steps that one curve shows."""


FEATURES = {f"alignment_{name}": name for name in style.FEATURES}
NOT_FOLLOWED = (
    "alignments are followed where training is as written (SGD on the spectral loss), with "
    "`simulate: {arms_trials: 1}` or more"
)


def simulation_dynamics(tables: Tables) -> Drawing | Hole:
    """Draw alignments with own, spurious and other features by step, and by the equations."""
    table = tables.simulation
    rows = table[table["metric"].isin(FEATURES) & table["source"].isin(WORDS)]
    rows = rows[(rows["kind"] == "preset") & rows["value"].notna()]
    if rows.empty:
        return Hole(NOT_RUN if table.empty else NOT_FOLLOWED)
    ends = rows.groupby("condition")["spurious_probability"].agg(["min", "max"])
    of_run = ends.loc[rows["condition"]].to_numpy()
    rows = rows[(of_run == rows[["spurious_probability"]].to_numpy()).any(axis=1)]
    rows = _thinned(rows).assign(
        feature=rows["metric"].map(FEATURES), source=rows["source"].map(WORDS)
    )
    keys = ["condition", "spurious_probability", "feature", "source", "step"]
    data = charts.summary(rows, keys)
    # The spread of the equations is that of their starts, which are the measured ones.
    data.loc[(data["source"] != "measured") | (data["low"] <= 0), ["low", "high"]] = float("nan")
    data["panel"] = _panel_of(data)
    panels = [_growth(panel, data) for panel in sorted(set(data["panel"]))]
    sentence = _growth_sentence(data)
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data.drop(columns="panel"), sentence, "feature")


def _panel_of(data: pd.DataFrame) -> pd.Series:
    return data["condition"] + ", C_s = " + data["spurious_probability"].map("{:g}".format)


def _growth(panel: str, data: pd.DataFrame) -> charts.Panel:
    names = [name for name in style.EQUATIONS if name in set(data["source"])]
    base = alt.Chart().encode(
        x=alt.X("step:Q", title="Training step", scale=alt.Scale(zero=False, nice=False)),
        y=alt.Y("value:Q", title="|Alignment| (log scale)", scale=LOG),
        color=charts.colour("feature", "Features", style.FEATURES, list(style.FEATURES)),
    )
    tips = charts.tips("feature:N:feature", "source:N:", "step:Q:step", "value:Q:mean |alignment|",
                       "low:Q:−1 s.d.", "high:Q:+1 s.d.", "n:Q:trials")  # fmt: skip
    legend = alt.Legend(symbolType="stroke", symbolSize=400, symbolOpacity=1)
    dashes = alt.StrokeDash("source:N", title="Alignments", legend=legend,
                            scale=alt.Scale(domain=names, range=DASHES[:len(names)]))  # fmt: skip
    line = base.mark_line().encode(strokeDash=dashes, opacity=charts.fade(1))
    lines = charts.hovered(line.properties(name=f"{charts.VIEW}{_name(panel)}"), tips)
    shown = data[data["panel"] == panel]
    parts = [charts.band(base)] if charts.limited(shown) else []
    layered = alt.layer(*parts, lines).transform_filter(f"datum.panel == '{panel}'")
    return layered.properties(width=charts.WIDTH, height=charts.HEIGHT, title=panel)


def _name(panel: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in panel)


def _growth_sentence(data: pd.DataFrame) -> str:
    parts = []
    for panel, of_panel in data.groupby("panel"):
        last = of_panel[of_panel["step"] == of_panel["step"].max()]
        measured = last[last["source"] == "measured"].set_index("feature")["value"]
        if {"true", "spurious", "other"} <= set(measured.index):
            parts.append(
                f"{measured['spurious'] / measured['true']:.2g} ({panel}; other features "
                f"{measured['other'] / measured['true']:.2g})"
            )
    if not parts:
        return "No spuriously correlated features were followed."
    return (
        "At the last step followed, alignment with spurious features is, as a share of that with "
        f"the own feature, {'; '.join(parts)}."
    )


def simulation_alignments(tables: Tables) -> Drawing | Hole:
    """Draw the norm of all alignments by step, and the equations' relative error."""
    table = tables.simulation
    rows = table[table["metric"].isin(["alignment_norm", "alignment_error"])]
    rows = rows[(rows["kind"] == "preset") & rows["source"].isin(WORDS) & rows["value"].notna()]
    if rows.empty:
        return Hole(NOT_RUN if table.empty else NOT_FOLLOWED)
    # Rounding alone is the error at step 0, and 1e-16 would take up the whole of a log scale.
    shown = at_largest(rows[(rows["metric"] == "alignment_norm") | (rows["step"] > 0)])
    keys = ["condition", "spurious_probability", "metric", "source", "step"]
    data = charts.summary(_thinned(shown), keys)
    data.loc[data["low"] <= 0, ["low", "high"]] = float("nan")  # no place on a log scale
    data["source"] = data["source"].map(WORDS)
    data["panel"] = _panel_of(data)
    panels = [
        _panel(metric, title, panel, data)
        for panel in sorted(set(data["panel"]))
        for metric, title in (
            ("alignment_norm", "Norm"),
            ("alignment_error", "Relative error"),
        )
    ]
    sentence = _sentence(rows)
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data.drop(columns="panel"), sentence, "source")


def _thinned(rows: pd.DataFrame) -> pd.DataFrame:
    kept = set()
    for _, curve in rows.groupby(["condition", "spurious_probability"]):
        steps = np.unique(curve["step"].dropna())
        chosen = np.linspace(0, len(steps) - 1, min(STEPS, len(steps))).round().astype(int)
        kept |= set(steps[chosen])
    return rows[rows["step"].isin(kept)]


def _panel(metric: str, title: str, panel: str, data: pd.DataFrame) -> charts.Panel:
    names = list(style.EQUATIONS)
    legend = alt.Legend(symbolType="stroke", symbolSize=400, symbolOpacity=1)
    base = alt.Chart().encode(
        x=alt.X("step:Q", title="Training step", scale=alt.Scale(zero=False, nice=False)),
        y=alt.Y("value:Q", title=f"{title} (log scale)", scale=LOG),
        color=alt.Color("source:N", title="Alignments", legend=legend,
                        scale=charts.palette(style.EQUATIONS, names)),
    )  # fmt: skip
    dashes = alt.StrokeDash("source:N", title="Alignments", legend=legend,
                            scale=alt.Scale(domain=names, range=DASHES))  # fmt: skip
    tips = charts.tips("source:N:", "step:Q:step", "value:Q:value", "low:Q:−1 s.d.",
                       "high:Q:+1 s.d.", "n:Q:trials")  # fmt: skip
    line = base.mark_line().encode(strokeDash=dashes, opacity=charts.fade(1))
    name = f"{charts.VIEW}{_name(metric + panel)}"
    lines = charts.hovered(line.properties(name=name), tips)
    parts = [charts.band(base)] if charts.limited(data, metric=metric, panel=panel) else []
    layered = alt.layer(*parts, lines).transform_filter(
        f"datum.metric == '{metric}' && datum.panel == '{panel}' && datum.value > 0"
    )
    heading = alt.TitleParams(text=HEADINGS[metric], subtitle=panel, subtitleColor=style.QUIET)
    return layered.properties(width=charts.WIDTH, height=charts.HEIGHT, title=heading)


def _sentence(rows: pd.DataFrame) -> str:
    parts = []
    for preset in presets(rows):
        for source, label in (("eq34", "Eq. 34"), ("eq35", "Eqs. 35-36")):
            errors = last_errors(of_preset(rows, preset), source)
            if len(errors):
                parts.append(f"{label} by {number(errors.mean())} ({preset})")
    if not parts:
        return "The alignments grow as drawn; no equation was computed with them."
    return (
        "At the last step followed, mean over all C_s, the relative error is, of "
        f"{', of '.join(parts)}."
    )
