"""Figures of what neurons and features look like: cosines, mixing, and images in two dimensions."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from mispair.report import charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables, where
from mispair.simulation.definitions import AT_LEAST
from mispair.simulation.report.panels import (
    condition_titles,
    faceted,
    first_points,
    hole,
    of_presets,
)
from mispair.simulation.report.runs import PAIR, at_largest, in_order, of_preset

LARGEST, SECOND = "Largest |cos| with a feature", "Second largest |cos|"
"""Titles of the axes on which neurons are compared by two features."""

SHAPES = ("circle", "triangle-up", "square", "diamond", "cross")
"""Shapes of the classes: each shape is used for as many classes as there are hues."""


def simulation_cosines(tables: Tables) -> Drawing | Hole:
    """Draw histograms of |cos| of neurons with the dictionaries, raw and filtered."""
    rows = of_presets(tables.simulation, metric="cosine_histogram", trained_on=PAIR)
    if rows.empty:
        return hole(tables, Note("simulation", "hole_histogram"))
    rows = at_largest(rows)
    keys = ["condition", "tower", "trained_on", "trial"]
    share = rows["value"] / rows.groupby(keys)["value"].transform("sum")
    data = charts.summary(
        rows.assign(value=share),
        ["condition", "spurious_probability", "tower", "trained_on", "bin_low", "bin_high"],
    )
    data["middle"] = (data["bin_low"] + data["bin_high"]) / 2
    titles = condition_titles(data)
    data["panel"] = titles + ": " + data["tower"] + " neurons, " + data["trained_on"]
    # Raw and filtered of one preset are side by side.
    order = [
        f"{title}: {tower} neurons, {arm}"
        for title in sorted(set(titles)) for tower in ("text", "image") for arm in PAIR
    ]  # fmt: skip
    order = [panel for panel in order if panel in set(data["panel"])]
    tips = charts.tips("panel:N:", "bin_low:Q:from", "bin_high:Q:to", "value:Q:share of pairs",
                       "low:Q:−1 s.d.", "high:Q:+1 s.d.", "n:Q:trials")  # fmt: skip
    bars = alt.Chart().mark_bar(binSpacing=0).encode(
        x=alt.X("bin_low:Q", title="|cos| of neuron and feature", bin="binned",
                axis=alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~g")),
        x2="bin_high:Q",
        y=alt.Y("value:Q", title="Share of pairs", axis=alt.Axis(format="~%"),
                scale=alt.Scale(type="sqrt")),
        color=charts.colour("trained_on", "Trained on", style.ARMS, list(PAIR)),
        tooltip=tips,
    )  # fmt: skip
    parts = [bars]
    if charts.limited(data):
        spread = alt.Chart().mark_rule(color=style.INK, strokeWidth=0.8).encode(
            x="middle:Q", y=alt.Y("floor:Q"), y2="high:Q", tooltip=tips
        ).transform_calculate(floor="max(datum.low, 0)")  # fmt: skip
        parts.append(spread)
    chart = faceted(alt.layer(*parts, data=charts.values(data)), 140, order)
    chart = chart.resolve_axis(x="independent")
    return Drawing(chart, data.drop(columns=["panel", "middle"]), [_between(data)])


def _between(data: pd.DataFrame) -> Note:
    """Return the shares of cosines of 0.2 to 0.5, by preset and tower."""
    middle = data[(data["bin_low"] >= 0.2) & (data["bin_low"] < 0.5)]
    sums = middle.groupby(["condition", "tower", "trained_on"])["value"].sum()
    presets = []
    for preset in in_order(data["condition"]):
        of_condition = where(data, condition=preset)
        shares = {
            tower: {arm: sums.get((preset, tower, arm), 0) for arm in PAIR}
            for tower in ("text", "image")
            if tower in set(of_condition["tower"])
        }
        presets.append((preset, of_condition["spurious_probability"].max(), shares))
    return Note("simulation", "figure_cosines", presets=presets)


def simulation_mixing(tables: Tables) -> Drawing | Hole:
    """Draw each neuron's largest against its second |cos|, raw and filtered."""
    rows = first_points(tables, "neuron_alignment", trained_on=PAIR)
    if rows.empty:
        return hole(tables, Note("simulation", "hole_neurons"))
    data = rows.drop(columns=["kind", "metric", "label"]).assign(
        panel=condition_titles(rows) + ": " + rows["tower"] + " neurons"
    )
    scale = alt.Scale(domain=[0, 1])
    shown = charts.values(data.drop(columns=["condition", "spurious_probability", "tower"]), 4)
    half = (
        alt.Chart()
        .mark_line(color=style.GREY, strokeDash=[4, 4], strokeWidth=1)
        .transform_aggregate(low="min(x)", groupby=["panel"])
        .transform_calculate(ends="[0, 1]")
        .transform_flatten(["ends"])
        .transform_calculate(half=f"{AT_LEAST} * datum.ends")
        .encode(
            x=alt.X("ends:Q", title=LARGEST, scale=scale),
            y=alt.Y("half:Q", title=SECOND, scale=scale),
            tooltip=charts.tips("half:Q:half of the largest"),
        )
    )
    points = (
        alt.Chart()
        .mark_circle(size=36)
        .encode(
            x=alt.X("x:Q", title=LARGEST, scale=scale),
            y=alt.Y("y:Q", title=SECOND, scale=scale),
            color=charts.colour("trained_on", "Trained on", style.ARMS, list(PAIR)),
            opacity=alt.value(0.6),
            tooltip=charts.tips("trained_on:N:trained on", "neuron:Q:neuron", "x:Q:largest",
                                "y:Q:second"),
        )
    )  # fmt: skip
    chart = faceted(alt.layer(half, points, data=shown), charts.HEIGHT)
    return Drawing(chart, data.drop(columns="panel"), [_two_largest(tables, data)])


def _two_largest(tables: Tables, data: pd.DataFrame) -> Note:
    """Return the means of the largest and second |cos|, and how many neurons mix, by preset."""
    presets = []
    for preset in in_order(data["condition"]):
        of_condition = where(data, condition=preset)
        means = {
            arm: (one["x"].mean(), one["y"].mean())
            for arm, one in ((arm, where(of_condition, trained_on=arm)) for arm in PAIR)
            if len(one)
        }
        shown, trial = of_condition["spurious_probability"].max(), of_condition["trial"].min()
        mixed = _mixed(tables, preset, shown, trial)
        presets.append((preset, shown, trial, means, mixed))
    return Note("simulation", "figure_mixing", presets=presets)


def _mixed(tables: Tables, preset: str, probability: float, trial: int) -> dict[str, float]:
    """Return the share of neurons that mix a spurious pair, by arm."""
    of_condition = where(
        of_preset(tables.simulation, preset),
        spurious_probability=probability,
        trial=trial,
        metric="mixed_neurons",
    ).dropna(subset=["value"])
    shares = of_condition.set_index("trained_on")["value"]
    return {arm: shares[arm] for arm in PAIR if arm in shares.index}


def simulation_tsne(tables: Tables) -> Drawing | Hole:
    """Draw the test images' features in two dimensions, raw and filtered, by class."""
    rows = first_points(tables, "tsne", trained_on=PAIR)
    if rows.empty:
        return hole(tables, Note("simulation", "hole_layout"))
    titles = condition_titles(rows)
    rows = rows.assign(panel=titles + ": " + rows["trained_on"])
    data = rows[["condition", "spurious_probability", "trained_on", "trial", "label", "x", "y"]]
    shown = rows[["panel", "label", "x", "y"]].assign(label=rows["label"].map("{:g}".format))
    labels = sorted(set(shown["label"]), key=float)
    hues = [style.CLASSES[index % len(style.CLASSES)] for index in range(len(labels))]
    shapes = [SHAPES[index // len(style.CLASSES) % len(SHAPES)] for index in range(len(labels))]
    order = [f"{title}: {arm}" for title in sorted(set(titles)) for arm in PAIR]
    chart = (
        alt.Chart(charts.values(shown, 3))
        .mark_point(size=16, opacity=0.7, filled=True)
        .encode(
            x=alt.X("x:Q", axis=None, scale=alt.Scale(zero=False)),
            y=alt.Y("y:Q", axis=None, scale=alt.Scale(zero=False)),
            color=alt.Color("label:N", title="Class", legend=alt.Legend(columns=10),
                            scale=alt.Scale(domain=labels, range=hues)),
            shape=alt.Shape("label:N", title="Class", legend=alt.Legend(columns=10),
                            scale=alt.Scale(domain=labels, range=shapes)),
            tooltip=charts.tips("label:N:class", "panel:N:", "x:Q:x", "y:Q:y"),
        )
        .properties(width=charts.WIDTH, height=1.5 * charts.HEIGHT)
        .facet(facet=alt.Facet("panel:N", title=None, sort=order), columns=2)
        .resolve_scale(x="independent", y="independent")
    )  # fmt: skip
    panels = [panel for panel in order if panel in set(shown["panel"])]
    images, classes = len(shown), len(labels)
    note = Note("simulation", "figure_layout", images=images, classes=classes, panels=panels)
    return Drawing(chart, data, [note])


def simulation_samples(tables: Tables) -> Drawing | Hole:
    """Draw the features of the first pairs' captions, raw and filtered."""
    rows = first_points(tables, "caption_feature", source=PAIR)
    if rows.empty:
        return hole(tables, Note("simulation", "hole_captions"))
    same, absent = rows["x"] == rows["y"], rows["y"] == 0
    rows = rows.assign(entry=np.select([same, absent], ["right", "missing"], "wrong"))
    # The image's features come first, and a feature has the same place for every caption.
    keys = ["condition", "pair"]
    features = rows.drop_duplicates([*keys, "latent"])
    features = features.assign(extra=features["x"] == 0).sort_values([*keys, "extra", "latent"])
    features["place"] = features.groupby(keys).cumcount() + 1
    rows = rows.merge(features[[*keys, "latent", "place"]], on=[*keys, "latent"])
    # A feature that neither the image nor this caption has is no entry of the caption.
    rows = rows[(rows["x"] != 0) | (rows["y"] != 0)]
    fate, titles = np.where(rows["replaced"] > 0, "replaced", "kept"), condition_titles(rows)
    rows = rows.assign(panel=titles + ": " + rows["source"], fate=fate)
    columns = ["condition", "spurious_probability", "source", "pair", "fate", "latent", "place",
               "entry"]  # fmt: skip
    order = [f"{title}: {arm}" for title in sorted(set(titles)) for arm in PAIR]
    most, last = int(rows["place"].max()), int(rows["pair"].max())
    chart = (
        alt.Chart(charts.values(rows[["panel", "pair", "fate", "latent", "place", "entry"]]))
        .mark_point(size=90, filled=True)
        .encode(
            x=alt.X("place:Q", title="Features of image and caption",
                    scale=alt.Scale(domain=[0, most + 1], nice=False),
                    axis=alt.Axis(labels=False, ticks=False, grid=False)),
            y=alt.Y("pair:Q", title="Pair",
                    scale=alt.Scale(domain=[-1, last + 1], reverse=True, nice=False),
                    axis=alt.Axis(labels=False, ticks=False, tickCount=last + 2)),
            color=charts.colour("entry", "Feature is", style.ENTRIES, list(style.ENTRIES)),
            shape=alt.Shape("fate:N", title="Caption was", scale=alt.Scale(
                domain=["kept", "replaced"], range=["square", "circle"])),
            tooltip=charts.tips("latent:Q:feature", "entry:N:in the caption", "pair:Q:pair",
                                "fate:N:caption was"),
        )
        .properties(width=charts.WIDTH, height=20 * (last + 2))
        .facet(facet=alt.Facet("panel:N", title=None, sort=order), columns=2)
    )  # fmt: skip
    return Drawing(chart, rows[columns].reset_index(drop=True), [_entries(rows)])


def _entries(rows: pd.DataFrame) -> Note:
    panels = []
    for panel, of_panel in rows.groupby("panel", sort=False):
        counts = of_panel["entry"].value_counts()
        panels.append((panel, *(int(counts.get(entry, 0)) for entry in style.ENTRIES)))
    pairs = rows.groupby("condition")["pair"].nunique().max()
    return Note("simulation", "figure_samples", pairs=pairs, panels=panels)
