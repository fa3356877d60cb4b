"""The simulation's figures along C_s: figure 1, captions, filter, and small figures of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from mispair.report import charts, published, small, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables, where
from mispair.simulation.report.panels import hole, of_presets, unit
from mispair.simulation.report.reproduction import TOLERANCES, points
from mispair.simulation.report.runs import (
    PAIR,
    PRESETS,
    best,
    caption_runs,
    differences,
    in_order,
    main,
    of_preset,
    presets,
    runs,
    spurious,
)

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
    """Draw figure 1 with the settings of the text, repaired."""
    return _figure1(tables, "as-written")


def simulation_figure1_as_run(tables: Tables) -> Drawing | Hole:
    """Draw figure 1 with the settings of the public code."""
    return _figure1(tables, "as-run")


def _figure1(tables: Tables, preset: str) -> Drawing | Hole:
    """Draw the four measures of figure 1 of one preset, with every run and the published points."""
    table = main(of_preset(tables.simulation, preset))
    runs = where(table, metric=style.MEASURES, trained_on=PAIR).dropna(subset=["value"])
    if runs.empty:
        if not presets(tables.simulation):
            return Hole(Note("simulation", "hole_not_run"))
        ran = preset in presets(tables.simulation)
        return Hole(Note("simulation", "hole_preset", preset=preset, ran=ran))
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
    return Drawing(grid, data, [_gains(table), *left_out], "trained_on")


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
    # A layer without rows would cause a browser warning about an empty axis.
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


def _gains(table: pd.DataFrame) -> Note:
    """Return the mean gain by filtering, over all runs with C_s above 0, by measure."""
    metrics = ("accuracy", "silhouette", "purified_features", "purified_magnitude")
    gains = {metric: spurious(differences(table, metric)) for metric in metrics}
    means = {metric: of_runs.mean() for metric, of_runs in gains.items() if len(of_runs)}
    return Note("simulation", "figure_gains", gains=means)


def simulation_filter(tables: Tables) -> Drawing | Hole:
    """Draw the share of captions that the filter replaced, of right and of wrong ones."""
    rows = of_presets(tables.simulation, metric=KINDS, trained_on="filtered")
    if rows.empty:
        return hole(tables, Note("simulation", "hole_replaced"))
    rows = rows.assign(kind=rows["metric"].map(KINDS))
    colours = dict(zip(KINDS.values(), (style.ARMS["raw"], style.ARMS["filtered"]), strict=True))
    data = charts.summary(rows, ["condition", "kind", "spurious_probability"])
    names = in_order(rows["condition"])
    panels = [
        _lines(
            data, "kind", "Of", colours, "Share replaced (share of captions)", {"domain": [0, 1]},
            condition=preset,
        ).properties(title=preset)
        for preset in names
    ]  # fmt: skip
    replaced = [
        (of_kind["value"].min(), of_kind["value"].max(), kind, preset)
        for preset in names
        for kind, of_kind in where(rows, condition=preset).groupby("kind")
    ]
    note = Note("simulation", "figure_filter", replaced=replaced)
    return Drawing(charts.side_by_side(panels, 2, data), data, [note])


def simulation_captions(tables: Tables) -> Drawing | Hole:
    """Draw how often captions keep an image's features and how often they hold wrong ones."""
    rows = of_presets(tables.simulation, metric=CAPTIONS, source=style.SOURCES, trained_on=PAIR)
    # All wrong features are shown where no feature is spuriously correlated with another.
    correlated = set(where(rows, metric="caption_spurious")["condition"])
    rows = rows[(rows["metric"] != "caption_wrong") | ~rows["condition"].isin(correlated)]
    if rows.empty:
        return hole(tables, Note("simulation", "hole_probabilities"))
    columns = ["condition", "metric", "source", "spurious_probability"]
    runs = rows.groupby([*columns, "trial"])[["value"]].mean().reset_index()
    data = charts.summary(runs, columns)
    panels = [
        _lines(
            data, "source", "Captions", style.SOURCES, title,
            {"domainMax": 1} if metric == "caption_true" else {}, condition=preset, metric=metric,
        ).properties(title=f"{title.split(' (')[0]}, {preset}")
        for preset in presets(rows)
        for metric, title in CAPTIONS.items()
        if metric in set(of_preset(rows, preset)["metric"])
    ]  # fmt: skip
    return Drawing(charts.side_by_side(panels, 2, data), data, [_captions(rows)])


def _lines(
    data: pd.DataFrame, field: str, title: str, colours: Mapping[str, str], y: str,
    scale: Mapping[str, Any], **shown: str,
) -> charts.Panel:  # fmt: skip
    """Return lines along C_s of the rows with these values, with a band if there are limits."""
    base = alt.Chart().encode(
        x=charts.x_axis("spurious_probability", style.CS),
        y=charts.y_axis(unit(y), **scale),
        color=charts.colour(field, title, colours, list(colours)),
        tooltip=charts.tips(f"{field}:N:of", "spurious_probability:Q:C_s", "value:Q:value",
                            "n:Q:runs"),
    )  # fmt: skip
    band = base.mark_area(opacity=0.16, line=False, clip=True).encode(y="low:Q", y2="high:Q")
    line = base.mark_line(point=alt.OverlayMarkDef(size=50))
    layered = alt.layer(band, line) if charts.limited(data, **shown) else alt.layer(line)
    condition = " && ".join(f"datum.{name} == '{value}'" for name, value in shown.items())
    return layered.transform_filter(condition).properties(width=charts.WIDTH, height=charts.HEIGHT)


def _captions(rows: pd.DataFrame) -> Note:
    """Return the shares of features that captions keep, and that they add, over C_s above 0."""
    means = []
    for preset in presets(rows):
        of_condition = of_preset(rows, preset)
        for source in style.SOURCES:
            values = {
                "kept": caption_runs(of_condition, "caption_true", source),
                "wrong": caption_runs(of_condition, "caption_spurious", source),
            }
            of_source = {name: each.mean() for name, each in values.items() if len(each)}
            if of_source:
                means.append((preset, source, of_source))
    return Note("simulation", "figure_captions", means=means)


# Small figures ---------------------------------------------------------------------------------

SMALL_TITLE = "Share of wrong captions"
OF_PRESETS = dict(zip(PRESETS, (style.BLUE, style.ORANGE), strict=True))
MEASURES = {
    "purified_features": "features",
    "purified_magnitude": "magnitude",
    "accuracy": "accuracy",
    "silhouette": "silhouette",
}


def _of_series(values: pd.Series, name: str) -> pd.DataFrame:
    frame = values.dropna().rename("value").reset_index()
    return frame.rename(columns={"spurious_probability": "x"}).assign(series=name)


def _ends(data: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return the means at the smallest and largest C_s, by series."""
    means = data[data["layer"] == "mean"].sort_values("x").groupby("series", sort=False)["value"]
    return {str(name): (of.iloc[0], of.iloc[-1]) for name, of in means}


def small_purified(tables: Tables) -> Drawing | Hole:
    """Draw the number of purified features on raw captions against C_s, by preset."""
    table = tables.simulation
    parts = [
        _of_series(runs(of_preset(table, name), "purified_features")["raw"], name)
        for name in presets(table)
    ]
    parts = [part for part in parts if len(part)]
    if not parts:
        return hole(tables, Note("simulation", "hole_purified"))
    chart, data = small.curves(
        pd.concat(parts), SMALL_TITLE, "Purified features", colours=OF_PRESETS
    )
    return Drawing(chart, data, [Note("simulation", "figure_purified", ends=_ends(data))])


def small_filtering(tables: Tables) -> Drawing | Hole:
    """Draw accuracy on raw and filtered captions against C_s, in the last preset."""
    names = presets(tables.simulation)
    if not names:
        return hole(tables, Note("simulation", "hole_presets"))
    wide = runs(of_preset(tables.simulation, names[-1]), "accuracy")
    parts = [_of_series(wide[arm], arm) for arm in PAIR if wide[arm].notna().any()]
    if not parts:
        return hole(tables, Note("simulation", "hole_accuracy"))
    chart, data = small.curves(
        pd.concat(parts), SMALL_TITLE, f"Accuracy ({names[-1]})", colours=style.ARMS,
        least=small.LEAST_FALL,
    )  # fmt: skip
    note = Note("simulation", "figure_accuracy", preset=names[-1], ends=_ends(data))
    return Drawing(chart, data, [note])


def small_reproduction(tables: Tables) -> Drawing | Hole:
    """Draw all runs − published at every point of figure 1, in units of its tolerance."""
    measured = [
        {"label": MEASURES[point.metric],
         "value": (point.mean - point.published) / TOLERANCES[point.metric]}
        for name in presets(tables.simulation)
        for point in points(of_preset(tables.simulation, name))
    ]  # fmt: skip
    if not measured:
        return hole(tables, Note("simulation", "hole_published"))
    chart, data = small.dots(
        pd.DataFrame(measured), "Difference (in tolerances)", colour=style.BLUE,
        levels=(-1.0, 0.0, 1.0),
    )  # fmt: skip
    within = int((data["value"].abs() <= 1).sum())
    note = Note("simulation", "figure_tolerance", within=within, points=len(data))
    return Drawing(chart, data, [note])
