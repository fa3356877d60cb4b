"""Figures of the features that neurons represent, on corpora with ground truth."""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.evaluation.report.construct import measured_arm, with_basis
from mispair.evaluation.report.figures_nulls import against_null, null_panels
from mispair.evaluation.report.series import TOWERS
from mispair.evaluation.semantics import ORIGINAL, ROTATED
from mispair.report import charts, small, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables

MOST = 4_000
"""Most neurons in the figure: 1,000 of each tower, and as many of a rotated basis."""


def _hole(tables: Tables) -> Hole:
    return Hole(Note("evaluation", "hole_truth", ran=tables.study("image_text")))


def semantic_purity(tables: Tables) -> Drawing | Hole:
    """|correlation| of each neuron with its best feature against its mean |cos|, by tower."""
    arm = measured_arm(tables)
    rows = arm[(arm["metric"] == "best_correlation") & arm["value"].notna()]
    if rows.empty:
        return _hole(tables)
    rows = rows.assign(semantic=rows["value"].abs())
    original = rows[rows["basis"] == ORIGINAL].assign(where="own basis")
    rotated = rows[rows["basis"] != ORIGINAL]
    if not rotated.empty:  # one rotated basis represents all
        rotated = rotated[rotated["basis"] == rotated["basis"].min()]
    data = pd.concat([original, rotated.assign(where="a rotated basis")], ignore_index=True)
    data = data[["tower", "where", "neuron", "feature", "overlap", "semantic"]]
    data, left_out = charts.within(data, "neuron", MOST)
    panels = [_panel(tower, data) for tower in TOWERS if tower in set(data["tower"])]
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data, left_out, "where")


def _panel(tower: str, data: pd.DataFrame) -> charts.Panel:
    colours = {"own basis": style.TOWERS[tower], "a rotated basis": style.GREY}
    points = alt.Chart(name=f"{charts.VIEW}semantics_{tower}").mark_circle(size=36)
    scatter = points.encode(
        x=charts.x_axis("overlap", "Mean |cos| with all other neurons"),
        y=alt.Y("semantic:Q", title="|r| with the best feature",
                scale=alt.Scale(domain=[0, 1])),
        color=charts.colour("where", "Neurons of", colours, list(colours)),
        opacity=charts.fade(0.75),
        tooltip=charts.tips("neuron:Q:neuron", "feature:N:best feature", "semantic:Q:|r|",
                            "overlap:Q:mean |cos|", "where:N:in"),
    )  # fmt: skip
    layered = alt.layer(scatter).transform_filter(f"datum.tower == '{tower}'")
    return layered.properties(
        width=charts.WIDTH, height=charts.HEIGHT + 20, title=f"{tower.capitalize()} projection"
    ).resolve_scale(color="independent")


def semantics_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Mean |correlation| with the best feature at both ends of C_m, by tower."""
    table = with_basis(tables.semantics[tables.semantics["metric"] == "mean_semantic_purity"])
    data = against_null(table[table["basis"] == ORIGINAL], table[table["basis"] == ROTATED])
    if data.empty:
        return _hole(tables)
    return Drawing(null_panels(data, "Mean |r| with the best feature"), data, toggle="layer")


def small_semantics(tables: Tables) -> Drawing | Hole:
    """Draw |correlation| of each text neuron with its best feature against its mean |cos|."""
    arm = measured_arm(tables)
    rows = arm[(arm["metric"] == "best_correlation") & (arm["basis"] == ORIGINAL)]
    rows = rows[(rows["tower"] == "text") & rows["value"].notna()]
    if rows.empty:
        return _hole(tables)
    points = rows.assign(x=rows["overlap"], value=rows["value"].abs())[["x", "value"]]
    chart, data = small.scatter(
        points.reset_index(drop=True), "Overlap of the neuron (mean |cos|)",
        "|r| with best feature", colour=style.TOWERS["text"],
    )  # fmt: skip
    return Drawing(chart, data)
