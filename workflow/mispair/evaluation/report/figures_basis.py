"""Figure of the identified basis: recovery of known features, and agreement of halves."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from mispair.evaluation.report import arm_words
from mispair.evaluation.report.figures_nulls import over_null
from mispair.evaluation.report.series import TOWERS
from mispair.report import charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables, records

METRICS = {
    "mean_recovery": "Mean recovery, |r|",
    "split_half_agreement": "Split-half agreement, |r|",
}


BASES = {
    "original": ("own basis", style.BLUE),
    "rotated": ("rotated bases", style.GREY),
    "varimax": ("varimax", style.ORANGE),
    "ica": ("ICA", style.GREEN),
    "linear ceiling": ("linear ceiling", style.INK),
}
"""Bases in the order of the legend, with their names and colours."""

MOST = 12
"""Most arms in the figure."""


def _of_projections(tables: Tables) -> pd.DataFrame:
    """Return the rows of whole bases, not of single neurons or features, with the arm in words."""
    table = tables.of_scheme().bases
    whole = table[table["neuron"].isna() & table["feature"].isna()]
    arms = [" ".join(_arm_of(row)) for row in records(whole[["start", "scheme", "rate"]])]
    return whole.assign(arm=pd.Series(arms, index=whole.index, dtype="str"))


def _arm_of(arm: dict[str, Any]) -> tuple[str, ...]:
    """Return the start by its name in the configuration, and C_m."""
    return (arm["start"],) if pd.isna(arm["rate"]) else (arm["start"], f"{arm['rate']:g}")


def identified_basis(tables: Tables) -> Drawing | Hole:
    """Recovery of known features by basis, and agreement of halves, for each arm and tower."""
    whole = _of_projections(tables)
    shown = whole[whole["metric"].isin(METRICS) & whole["value"].notna()]
    # Only one null is drawn: of the neurons for recovery, of the components for agreement.
    null = (shown["basis"] == "whitened") & (shown["metric"] == "mean_recovery")
    data = shown[~null].drop_duplicates(["arm", "tower", "metric", "basis"])
    if data.empty:
        return Hole(Note("evaluation", "hole_basis", ran=tables.study("image_text")))
    data = data.assign(
        basis=[BASES.get(basis, BASES["rotated"])[0] for basis in data["basis"]],
        null_low=data["low"], null_high=data["high"],
    )[["metric", "tower", "arm", "basis", "value", "null_low", "null_high"]]  # fmt: skip
    data = charts.first_on_top(data, "basis", dict(BASES.values()))
    arms = arm_words.arms(tables.of_scheme().bases)
    order = [" ".join(_arm_of(arm)) for arm in arms][:MOST]
    data = data[data["arm"].isin(order)]
    panels = [
        _panel(data, metric, tower, order)
        for metric in METRICS
        for tower in TOWERS
        if ((data["metric"] == metric) & (data["tower"] == tower)).any()
    ]
    chart = charts.side_by_side(panels, 2, data, gap=48)
    return Drawing(chart, data, toggle="basis")


def _panel(data: pd.DataFrame, metric: str, tower: str, order: list[str]) -> charts.Panel:
    rows = data[(data["metric"] == metric) & (data["tower"] == tower)]
    # The left panel names the arms for both.
    left = tower == next(name for name in TOWERS if name in set(data["tower"]))
    axis = alt.Axis(labelLimit=180, labels=left)
    y = alt.Y("arm:N", title="Projections, C_m" if left else None, sort=order, axis=axis)
    scale = alt.Scale(domain=[0, 1])
    colours = dict(BASES.values())
    colour = charts.colour("basis", "Basis", colours, list(colours))
    tips = charts.tips("arm:N:projections", "basis:N:basis", "value:Q:value", "null_low:Q:from",
                       "null_high:Q:to")  # fmt: skip
    points = alt.Chart(name=f"{charts.VIEW}{metric}_{tower}").mark_circle(size=55)
    value, low = (
        alt.X(f"{name}:Q", title=METRICS[metric], scale=scale) for name in ("value", "null_low")
    )
    layered = over_null(
        points, rows, {"x": value}, {"x": low, "x2": "null_high:Q"},
        {"y": y, "color": colour, "tooltip": tips}, 5,
    ).transform_filter(f"datum.tower == '{tower}' && datum.metric == '{metric}'")  # fmt: skip
    height = 24 * len(rows["arm"].unique())
    return layered.properties(width=300, height=height, title=f"{tower.capitalize()} tower")
