"""Figures and table of the spectral identity: overlap as directions, and what the basis adds."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from mispair.core.words import listing, number
from mispair.evaluation.report.figures_nulls import against_null, null_panels
from mispair.evaluation.report.series import TOWERS, change, purity_series
from mispair.image_text.report.figures_shuffling import (
    NOT_RUN,
    level_rules,
    purity_rows,
    series_panel,
)
from mispair.image_text.report.tables_spectrum import published_directions, shape_sentence
from mispair.report import charts, published, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables


def participation_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Participation ratio against C_m by tower and start; the published one apart."""
    rows = purity_rows(tables, ["participation_ratio"])
    tuned = rows[rows["rate"].notna()]
    if tuned.empty:
        return Hole(NOT_RUN if tables.purity.empty else "no fine-tuned arm was measured")
    keys = ["tower", "start", "rate"]
    published_rows = published_directions().rename_axis("rate").rename("value").reset_index()
    data = charts.layers(
        tuned[[*keys, "seed", "value"]],
        keys,
        level_rules(rows, ["tower"]),
        published_rows.assign(layer="published", tower="published", start="pretrained"),
    )
    data, left_out = charts.within(data, "rate")
    data = charts.first_on_top(data, "start", style.STARTS)
    changes = {
        tower: change(purity_series(tables, "pretrained", tower, "participation_ratio"))
        for tower in TOWERS
    }
    moved = [
        f"{tower} {number(value, 1, sign=True)}"
        for tower, value in changes.items()
        if math.isfinite(value)
    ]
    sentence = (
        "From the lowest to the highest C_m, the participation ratio of projections fine-tuned "
        f"from the pre-trained ones changes {listing(moved)}."
        if moved
        else "No arm from the pre-trained projections was measured."
    )
    towers = [tower for tower in TOWERS if tower in set(tuned["tower"])]
    panels = [
        series_panel(data, "tower", tower, number_, "Participation ratio (directions)",
                     f"{tower.capitalize()} projection", 300, 260)
        for number_, tower in enumerate(towers)
    ]  # fmt: skip
    chart = charts.side_by_side([*panels, _published_panel(published_rows)], 3, data)
    return Drawing(chart, data, sentence + left_out, "start")


def _published_panel(published_rows: pd.DataFrame) -> charts.Panel:
    base = charts.only(alt.Chart(), "published").encode(
        x=charts.x_axis("rate", style.CM_SHORT, sorted(published_rows["rate"])),
        y=charts.y_axis("Participation ratio (directions)"),
        tooltip=charts.tips("rate:Q:C_m", "value:Q:implied participation ratio"),
    )
    return alt.layer(
        base.mark_line(strokeDash=[3, 3], color=style.PUBLISHED),
        base.mark_point(shape="diamond", color=style.PUBLISHED),
    ).properties(width=180, height=260, title=f"Published, of {published.NEURONS}")


def shape_ratio(tables: Tables) -> Drawing | Hole:
    """Shape ratio of the own basis of each arm against that of rotated bases."""
    table = tables.purity
    data = against_null(
        table[table["metric"] == "shape_ratio"], table[table["metric"] == "shape_ratio_rotated"]
    )
    if data.empty:
        return Hole(NOT_RUN if tables.purity.empty else "no shape ratio was measured")
    return Drawing(null_panels(data, "Shape ratio"), data, shape_sentence(tables), "layer")
