"""Figures of the study of towers trained from scratch on wrong captions."""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.pretraining.names import TOWERS
from mispair.pretraining.report.claims import SMALLEST
from mispair.pretraining.report.runs import (
    MAIN,
    NOT_RUN,
    bases,
    conditions,
    effects,
    less_clean,
    values,
)
from mispair.report import charts, small, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables

CONFIDENCE = 0.95
"""Of the bars, as in the text of the figure."""


def pretraining_mixing(tables: Tables) -> Drawing | Hole:
    """Draw the mixing score less that of clean captions, for each seed, scheme and basis."""
    table = tables.pretraining
    if table.empty:
        return Hole(NOT_RUN)
    parts = []
    for tower in TOWERS:
        for basis in bases(table, tower):
            scores = values(table, "mixing", tower=tower, basis=basis)
            where = {"tower": tower, "basis": basis}
            parts.append(less_clean(scores).assign(layer="run", **where))
            means = [
                {"scheme": scheme, "rate": rate, "value": effect.value, "low": effect.low,
                 "high": effect.high, "n": effect.n, "layer": "mean", **where}
                for (scheme, rate), effect in effects(scores, CONFIDENCE).items()
            ]  # fmt: skip
            parts.append(pd.DataFrame(means))
    data = pd.concat(parts, ignore_index=True)
    if data.empty:
        return Hole(Note("pretraining", "hole_clean"))
    data["captions"] = data["scheme"] + data["rate"].map(" {:g}".format)
    order = [f"{scheme} {rate:g}" for scheme, rate in conditions(table) if rate > 0]
    panels = [_mixing(data, tower, order) for tower in TOWERS if tower in set(data["tower"])]
    return Drawing(charts.side_by_side(panels, 2, data, gap=96), data, toggle="basis")


def _mixing(data: pd.DataFrame, tower: str, order: list[str]) -> charts.Panel:
    present = [name for name in style.BASES if name in set(data["basis"])]
    base = alt.Chart().encode(
        y=alt.Y("captions:N", title="Captions", sort=order),
        yOffset=alt.YOffset("basis:N", sort=list(style.BASES)),
        color=charts.colour("basis", "Basis", style.BASES, present),
    )
    title = "Mixing score less that of clean captions (correlation)"
    tips = charts.tips(
        "captions:N:captions", "basis:N:basis", "seed:Q:seed", "value:Q:difference",
        "low:Q:from", "high:Q:to",
    )  # fmt: skip
    rules = [
        alt.Chart().mark_rule(color=style.GREY).encode(x=alt.datum(0)),
        *(alt.Chart().mark_rule(color=style.GREY, strokeDash=[4, 3]).encode(x=alt.datum(limit))
          for limit in (-SMALLEST, SMALLEST)),
    ]  # fmt: skip
    runs = charts.only(base.mark_point(size=26), "run").encode(
        x=alt.X("value:Q", title=title), opacity=charts.fade(0.7), tooltip=tips
    )
    means = charts.only(base.mark_tick(thickness=2.5, size=11), "mean").encode(
        x=alt.X("value:Q", title=title), opacity=charts.fade(1), tooltip=tips
    )
    parts = [*rules, means, runs.properties(name=f"{charts.VIEW}{tower}")]
    if charts.limited(data, layer="mean", tower=tower):
        parts.append(
            charts.only(base.mark_rule(strokeWidth=1.8), "mean").encode(
                x=alt.X("low:Q", title=title), x2="high:Q", opacity=charts.fade(0.9), tooltip=tips
            )
        )
    layered = alt.layer(*parts).transform_filter(f"datum.tower == '{tower}'")
    return layered.properties(
        width=charts.WIDTH - 90, height=76 * len(order), title=f"{tower.capitalize()} tower"
    )


def pretraining_accuracy(tables: Tables) -> Drawing | Hole:
    """Draw the accuracy and the overlap of neurons of every training."""
    table = tables.pretraining
    if table.empty:
        return Hole(NOT_RUN)
    parts = [values(table, "acc1").assign(panel="accuracy", series="mean of the sets")]
    parts += [
        values(table, "mean_abs_cosine", tower=tower).assign(panel="overlap", series=tower)
        for tower in TOWERS
    ]
    data = charts.layers(pd.concat(parts, ignore_index=True), ["scheme", "rate", "panel", "series"])
    data["captions"] = data["scheme"] + data["rate"].map(" {:g}".format).where(data["rate"] > 0, "")
    order = [scheme if rate == 0 else f"{scheme} {rate:g}" for scheme, rate in conditions(table)]
    colours = {"mean of the sets": style.INK, **style.TOWERS}
    panels = [
        _dots(panel, title, order, colours, sorted(set(data.loc[data["panel"] == panel, "series"])))
        for panel, title in (("accuracy", "Zero-shot accuracy (share of images)"),
                             ("overlap", "Mean |cos| of neuron pairs"))
    ]  # fmt: skip
    chart = charts.side_by_side(panels, 2, data, gap=96).resolve_scale(color="independent")
    return Drawing(chart, data)


def _dots(
    panel: str, title: str, order: list[str], colours: dict[str, str], present: list[str]
) -> charts.Panel:
    base = alt.Chart().encode(
        y=alt.Y("captions:N", title="Captions", sort=order),
        color=charts.colour("series", "", colours, present),
        x=alt.X("value:Q", title=title, scale=alt.Scale(zero=False)),
        tooltip=charts.tips("captions:N:captions", "series:N:of", "seed:Q:seed", "value:Q:value"),
    )
    layered = alt.layer(
        charts.only(base.mark_tick(thickness=2.5, size=16), "mean"),
        charts.only(base.mark_point(size=30, opacity=0.7), "run"),
    ).transform_filter(f"datum.panel == '{panel}'")
    return layered.properties(
        width=charts.WIDTH - 90, height=40 * len(order), title=title.split(" (")[0]
    )


def small_pretraining(tables: Tables) -> Drawing | Hole:
    """Draw the mixing score less that of clean captions, for each seed and scheme."""
    if tables.pretraining.empty:
        return Hole(NOT_RUN)
    apart = less_clean(values(tables.pretraining, "mixing", **MAIN))
    if apart.empty:
        return Hole(Note("pretraining", "hole_clean"))
    runs = apart.assign(label=apart["scheme"] + apart["rate"].map(" {:g}".format))
    chart, data = small.dots(
        runs[["label", "value"]].reset_index(drop=True), "Mixing score − clean",
        colour=style.BASES["identified"], levels=(0.0, SMALLEST),
    )  # fmt: skip
    return Drawing(chart, data)
