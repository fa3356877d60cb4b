"""Figures of what the logit scale does to overlap, and of overlap measured on activations."""

from __future__ import annotations

import pandas as pd

from mispair.core.words import listing, number
from mispair.evaluation.report.series import TOWERS, change, purity_series, scale_series
from mispair.image_text.report.controls_overlap import gap_times_scale
from mispair.image_text.report.figures_shuffling import (
    NOT_RUN,
    level_rules,
    purity_rows,
    series_panel,
)
from mispair.report import charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables

GAP = "gap"
"""Name of the panel of the cosine gap times the scale."""


def overlap_by_scale(tables: Tables) -> Drawing | Hole:
    """Mean |cos| of both towers, and the cosine gap times the scale, against C_m by scale."""
    parts = []
    for start in style.BY_SCALE:
        measured = {
            tower: purity_series(tables, start, tower, "mean_abs_cosine") for tower in TOWERS
        }
        measured[GAP] = scale_series(tables, start, "gap_times_scale")
        parts += [
            series.dropna(subset=["rate", "value"]).assign(start=start, panel=panel)
            for panel, series in measured.items()
        ]
    rows = pd.concat(parts)
    if rows.loc[rows["start"] != "pretrained", "start"].empty:
        return Hole(NOT_RUN if tables.purity.empty else "no other logit scale was run")
    keys = ["panel", "start", "rate"]
    data = charts.layers(rows[[*keys, "seed", "value"]], keys)
    data, left_out = charts.within(data, "rate")
    data = charts.first_on_top(data, "start", style.BY_SCALE)
    titles = {tower: f"{tower.capitalize()} projection" for tower in TOWERS}
    titles[GAP] = "Own − other captions"
    axes = dict.fromkeys(TOWERS, "Mean |cos| of neuron pairs") | {GAP: "Cosine gap × logit scale"}
    present = [panel for panel in titles if panel in set(data["panel"])]
    panels = [
        series_panel(data, "panel", panel, number, axes[panel], titles[panel], 230, 230,
                     style.BY_SCALE)
        for number, panel in enumerate(present)
    ]  # fmt: skip
    chart = charts.side_by_side(panels, 3, data)
    return Drawing(chart, data, _scale_sentence(tables) + left_out, "start")


def _scale_sentence(tables: Tables) -> str:
    changes = []
    for start in style.BY_SCALE:
        moved = {
            tower: change(purity_series(tables, start, tower, "mean_abs_cosine"))
            for tower in TOWERS
        }
        measured = [f"{tower} {number(value, 4, sign=True)}" for tower, value in moved.items()
                 if value == value]  # fmt: skip
        if measured:
            changes.append(f"{style.START_LABELS[start]}: {listing(measured)}")
    rates = sorted(scale_series(tables, "pretrained", "gap_times_scale")["rate"].unique())
    text = f"Change of mean |cos| from the lowest to the highest C_m: {'; '.join(changes)}."
    products = gap_times_scale(tables, rates[-1]) if rates else {}
    if len(products) > 1:
        low, high = min(products.values()), max(products.values())
        text += (
            f" At C_m {rates[-1]:g} the gap times the scale is {number(low, 2)} to "
            f"{number(high, 2)} over frozen scales."
        )
    return text


def correlation_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Mean |correlation| of activations against C_m by tower and arm."""
    rows = purity_rows(tables, ["mean_abs_correlation"])
    tuned = rows[rows["rate"].notna()]
    if tuned.empty:
        return Hole(NOT_RUN if tables.purity.empty else "no correlation was measured")
    keys = ["tower", "start", "rate"]
    data = charts.layers(tuned[[*keys, "seed", "value"]], keys, level_rules(rows, ["tower"]))
    data, left_out = charts.within(data, "rate")
    data = charts.first_on_top(data, "start", style.STARTS)
    panels = [
        series_panel(data, "tower", tower, position, "Mean |correlation| of activations",
                     f"{tower.capitalize()} tower", 340)
        for position, tower in enumerate(tower for tower in TOWERS if tower in set(tuned["tower"]))
    ]  # fmt: skip
    sentences = []
    for start in style.FINE_TUNED:
        moved = [
            f"{tower} {number(value, 4, sign=True)}"
            for tower in TOWERS
            if (value := change(purity_series(tables, start, tower, "mean_abs_correlation")))
            == value
        ]
        if moved:
            sentences.append(f"{style.START_LABELS[start]}: {listing(moved)}")
    sentence = f"Change from the lowest to the highest C_m: {'; '.join(sentences)}."
    return Drawing(charts.side_by_side(panels, 2, data), data, sentence + left_out, "start")
