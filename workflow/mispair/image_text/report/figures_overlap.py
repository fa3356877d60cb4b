"""Figures of overlap by logit scale, of activations, and as directions of the spectrum."""

from __future__ import annotations

import pandas as pd

from mispair.evaluation.report.figures_nulls import against_null, null_panels
from mispair.evaluation.report.published_overlap import published_directions
from mispair.evaluation.report.series import TOWERS, purity_series, scale_series
from mispair.image_text.report.figures_shuffling import (
    level_rules,
    missing,
    published_panel,
    purity_rows,
    series_panel,
)
from mispair.report import charts, published, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
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
        return missing(tables.purity, Note("image_text", "hole_scale"))
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
    return Drawing(chart, data, left_out, "start")


def _by_tower(
    tables: Tables, metric: str, reason: Note, *more: pd.DataFrame
) -> tuple[pd.DataFrame, list[str], list[Note]] | Hole:
    """Return what is drawn of a measure against C_m, its towers, and notes on what is not."""
    rows = purity_rows(tables, [metric])
    tuned = rows[rows["rate"].notna()]
    if tuned.empty:
        return missing(tables.purity, reason)
    keys = ["tower", "start", "rate"]
    levels = level_rules(rows, ["tower"])
    data = charts.layers(tuned[[*keys, "seed", "value"]], keys, levels, *more)
    data, left_out = charts.within(data, "rate")
    data = charts.first_on_top(data, "start", style.STARTS)
    return data, [tower for tower in TOWERS if tower in set(tuned["tower"])], left_out


def correlation_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Mean |correlation| of activations against C_m by tower and arm."""
    drawn = _by_tower(tables, "mean_abs_correlation", Note("image_text", "hole_correlation"))
    if isinstance(drawn, Hole):
        return drawn
    data, towers, left_out = drawn
    panels = [
        series_panel(data, "tower", tower, position, "Mean |correlation| of activations",
                     f"{tower.capitalize()} tower", 340)
        for position, tower in enumerate(towers)
    ]  # fmt: skip
    return Drawing(charts.side_by_side(panels, 2, data), data, left_out, "start")


def participation_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Participation ratio against C_m by tower and start; the published one apart."""
    curve = published_directions().rename_axis("rate").rename("value").reset_index()
    drawn = _by_tower(
        tables, "participation_ratio", Note("image_text", "hole_fine_tuned"),
        curve.assign(layer="published", tower="published", start="pretrained"),
    )  # fmt: skip
    if isinstance(drawn, Hole):
        return drawn
    data, towers, left_out = drawn
    title = "Participation ratio (directions)"
    panels = [
        series_panel(data, "tower", tower, position, title, f"{tower.capitalize()} projection",
                     300, 260)
        for position, tower in enumerate(towers)
    ]  # fmt: skip
    panels.append(
        published_panel(sorted(curve["rate"]), title, "implied participation ratio",
                        f"Published, of {published.NEURONS}")
    )  # fmt: skip
    chart = charts.side_by_side(panels, 3, data)
    return Drawing(chart, data, left_out, "start")


def shape_ratio(tables: Tables) -> Drawing | Hole:
    """Shape ratio of the own basis of each arm against that of rotated bases."""
    table = tables.purity
    data = against_null(
        table[table["metric"] == "shape_ratio"], table[table["metric"] == "shape_ratio_rotated"]
    )
    if data.empty:
        return missing(tables.purity, Note("image_text", "hole_shape"))
    return Drawing(null_panels(data, "Shape ratio"), data, toggle="layer")
