"""The simulation's figures along C_s: figure 1, captions and filter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from mispair.core.words import listing, number
from mispair.report import charts, published, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables
from mispair.simulation.report.controls_simulation import share_range
from mispair.simulation.report.runs import (
    PAIR,
    best,
    caption_runs,
    differences,
    main,
    of_preset,
    presets,
    spurious,
)

NOT_RUN = "the simulation was not run"
KINDS = {
    "replaced_share_bad": "captions of another image",
    "replaced_share_clean": "right captions",
}
CAPTIONS = {
    "caption_true": "Right features kept (probability)",
    "caption_spurious": "Wrong features added (probability)",
    "caption_wrong": "Any wrong feature added (probability)",
}


def simulation_figure1_as_written(tables: Tables) -> Drawing | Hole:
    """Figure 1 by the text, repaired."""
    return _figure1(tables, "as-written")


def simulation_figure1_as_run(tables: Tables) -> Drawing | Hole:
    """Figure 1 by the public code."""
    return _figure1(tables, "as-run")


def _figure1(tables: Tables, preset: str) -> Drawing | Hole:
    """Draw the four measures of figure 1 of one preset, with every run and the published points."""
    table = main(of_preset(tables.simulation, preset))
    runs = table[table["metric"].isin(style.MEASURES) & table["value"].notna()]
    runs = runs[runs["trained_on"].isin(PAIR)]
    if runs.empty:
        if not presets(tables.simulation):
            return Hole(NOT_RUN)
        if preset in presets(tables.simulation):
            return Hole(f"no run of preset {preset} gave a result")
        return Hole(f"preset {preset} was not run; `simulate: {{compare_presets: true}}` runs both")
    keys = ["metric", "trained_on", "spurious_probability"]
    printed = published.figure1().melt(
        ["spurious_probability", "trained_on"], list(style.MEASURES), "metric", "value"
    )
    chosen = runs.groupby(keys)["value"].agg(best).dropna().reset_index()
    data = charts.layers(
        runs[[*keys, "trial", "value"]], keys, chosen.assign(layer="best"),
        printed.assign(layer="published"),
    )  # fmt: skip
    data, left_out = charts.within(data, "spurious_probability")
    arms = [arm for arm in PAIR if arm in set(data["trained_on"])]
    panels = [
        _panel(
            metric,
            title,
            letter,
            arms,
            metric in set(chosen["metric"]),
            charts.limited(data, metric=metric),
        )
        for (metric, title), letter in zip(style.MEASURES.items(), "abcd", strict=True)
    ]
    grid = charts.side_by_side(panels, 2, data)
    return Drawing(grid, data, _figure1_sentence(table) + left_out, "trained_on")


def _panel(
    metric: str, title: str, letter: str, arms: list[str], selected: bool, limited: bool
) -> charts.Panel:
    base = alt.Chart().encode(
        x=charts.x_axis("spurious_probability", style.CS),
        y=charts.y_axis(unit(title)),
        color=charts.colour("trained_on", "Trained on", style.ARMS, arms),
    )
    tips = charts.tips(
        "trained_on:N:trained on", "spurious_probability:Q:C_s", "value:Q:value", "n:Q:runs",
        "trial:Q:trial", "layer:N:what",
    )  # fmt: skip
    parts = [
        charts.only(base, "mean").mark_line(point=alt.OverlayMarkDef(size=50)).encode(
            opacity=charts.fade(1), tooltip=tips
        ).properties(name=f"{charts.VIEW}{letter}"),
        charts.only(base, "run").mark_circle(size=22).encode(
            opacity=charts.fade(0.3), tooltip=tips
        ),
        charts.only(base, "published").mark_point(shape="diamond", size=42, filled=False).encode(
            opacity=charts.fade(0.9), tooltip=tips
        ),
        charts.only(base, "published").mark_line(strokeDash=[2, 3], strokeWidth=1.2).encode(
            opacity=charts.fade(0.7)
        ),
    ]  # fmt: skip
    # A layer without a row would make the browser complain of an empty axis.
    if limited:
        parts.insert(0, charts.band(charts.only(base, "mean")))
    if selected:
        parts += [
            charts.only(base, "best").mark_line(strokeWidth=1.4, strokeDash=[7, 3]).encode(
                opacity=charts.fade(0.9)
            ),
            charts.only(base, "best").mark_point(shape="triangle-up", size=48, filled=False).encode(
                opacity=charts.fade(1), tooltip=tips
            ),
        ]  # fmt: skip
    layered = alt.layer(*parts).transform_filter(f"datum.metric == '{metric}'")
    heading = f"({letter}) {title.split(' (')[0]}"
    return layered.properties(width=charts.WIDTH, height=charts.HEIGHT, title=heading)


def unit(title: str) -> str:
    """Return what a panel's y axis says below a heading that names the measure: its unit."""
    name, _, unit = title.rstrip(")").partition(" (")
    return f"{unit[:1].upper()}{unit[1:]}" or name


def _figure1_sentence(table: pd.DataFrame) -> str:
    parts = []
    for metric, name, digits in (
        ("accuracy", "accuracy", 3), ("silhouette", "silhouette", 3),
        ("purified_features", "purified features", 1), ("purified_magnitude", "magnitude", 3),
    ):  # fmt: skip
        gains = spurious(differences(table, metric))
        if len(gains):
            parts.append(f"{name} by {number(gains.mean(), digits, sign=True)}")
    if not parts:
        return "No trial has both a raw and a filtered run at C_s above 0."
    return f"Over all runs with C_s above 0, filtering changes {listing(parts)}."


def simulation_filter(tables: Tables) -> Drawing | Hole:
    """Draw the share of captions that the filter replaced, of right and of wrong ones."""
    table = tables.simulation
    rows = table[table["metric"].isin(KINDS) & table["value"].notna()]
    rows = rows[(rows["kind"] == "preset") & (rows["trained_on"] == "filtered")]
    if rows.empty:
        return Hole(NOT_RUN if table.empty else "no shares of replaced captions were recorded")
    rows = rows.assign(kind=rows["metric"].map(KINDS))
    colours = dict(zip(KINDS.values(), (style.ARMS["raw"], style.ARMS["filtered"]), strict=True))
    columns = ["condition", "kind", "spurious_probability"]
    data = charts.summary(rows, columns)
    panels = [
        _lines(
            "kind", "Of", colours, "Share replaced (share of captions)",
            charts.limited(data, condition=preset), domain=[0, 1],
        ).transform_filter(
            f"datum.condition == '{preset}'"
        ).properties(title=preset, width=charts.WIDTH, height=charts.HEIGHT)
        for preset in presets(rows.assign(kind="preset"))
    ]  # fmt: skip
    texts = [
        f"{share_range(of_kind['value'])} of the {kind} ({preset})"
        for preset in presets(rows.assign(kind="preset"))
        for kind, of_kind in rows[rows["condition"] == preset].groupby("kind")
    ]
    return Drawing(
        charts.side_by_side(panels, 2, data), data, f"The filter replaced {listing(texts)}."
    )


def simulation_captions(tables: Tables) -> Drawing | Hole:
    """Draw how often captions keep an image's features and how often they hold wrong ones."""
    table = tables.simulation
    rows = table[table["metric"].isin(CAPTIONS) & table["value"].notna()]
    rows = rows[(rows["kind"] == "preset") & rows["source"].isin(style.SOURCES)]
    rows = rows[rows["trained_on"].isin(PAIR)]
    # Features at large stand where no feature is spuriously correlated with another.
    correlated = set(rows.loc[rows["metric"] == "caption_spurious", "condition"])
    rows = rows[(rows["metric"] != "caption_wrong") | ~rows["condition"].isin(correlated)]
    if rows.empty:
        return Hole(NOT_RUN if table.empty else "no probabilities of captions were recorded")
    columns = ["condition", "metric", "source", "spurious_probability"]
    runs = rows.groupby([*columns, "trial"])[["value"]].mean().reset_index()
    data = charts.summary(runs, columns)
    scale: dict[str, dict[str, Any]] = {"caption_true": {"domainMax": 1}}
    panels = [
        _lines(
            "source", "Captions", style.SOURCES, title,
            charts.limited(data, condition=preset, metric=metric), **scale.get(metric, {}),
        )
        .transform_filter(f"datum.condition == '{preset}' && datum.metric == '{metric}'")
        .properties(title=f"{title.split(' (')[0]}, {preset}", width=charts.WIDTH,
                    height=charts.HEIGHT)
        for preset in presets(rows)
        for metric, title in CAPTIONS.items()
        if metric in set(of_preset(rows, preset)["metric"])
    ]  # fmt: skip
    return Drawing(charts.side_by_side(panels, 2, data), data, _caption_sentence(rows))


def _lines(
    field: str, title: str, colours: Mapping[str, str], y: str, limited: bool, **scale: Any
) -> charts.Panel:
    base = alt.Chart().encode(
        x=charts.x_axis("spurious_probability", style.CS),
        y=charts.y_axis(unit(y), **scale),
        color=charts.colour(field, title, colours, list(colours)),
        tooltip=charts.tips(f"{field}:N:of", "spurious_probability:Q:C_s", "value:Q:value",
                            "n:Q:runs"),
    )  # fmt: skip
    band = base.mark_area(opacity=0.16, line=False, clip=True).encode(y="low:Q", y2="high:Q")
    line = base.mark_line(point=alt.OverlayMarkDef(size=50))
    return alt.layer(band, line) if limited else alt.layer(line)


def _caption_sentence(rows: pd.DataFrame) -> str:
    parts = []
    for preset in presets(rows):
        of_condition = of_preset(rows, preset)
        kept = {
            source: caption_runs(of_condition, "caption_true", source) for source in style.SOURCES
        }
        added = {
            source: caption_runs(of_condition, "caption_spurious", source)
            for source in style.SOURCES
        }
        for source in style.SOURCES:
            texts = [
                f"{number(values[source].mean())} {what}"
                for what, values in (("kept", kept), ("wrong", added))
                if len(values[source])
            ]
            if texts:
                parts.append(f"{preset}, {source} captions: {' and '.join(texts)}")
    if not parts:
        return "Captions were measured at C_s = 0 only."
    return f"Mean over C_s above 0: {'; '.join(parts)}."
