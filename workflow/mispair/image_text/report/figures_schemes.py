"""The figure that compares schemes of corruption, and small figures next to answers."""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.evaluation.report.construct import mean_series
from mispair.evaluation.report.series import (
    TOWERS,
    purity_series,
    zeroshot_series,
)
from mispair.evaluation.selection import SELECTION
from mispair.image_text.report.figures_shuffling import curves
from mispair.pairs.corruption.scheme import schemes
from mispair.report import charts, published, small, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables
from mispair.towers.arms import PRETRAINED, WEIGHTED

COLOURS = {name: style.PALETTE[scheme.colour] for name, scheme in schemes().items()}

UNITS = {"acc1": "acc1 (share of images)"}
PANELS = {
    "text": "Text projection: mean |cos|",
    "image": "Image projection: mean |cos|",
    "acc1": "Zero-shot accuracy (acc1), mean of sets",
    "published": "Published (CC3M, text): mean |cos|",
}


def _series(tables: Tables, panel: str) -> pd.DataFrame:
    if panel == "acc1":
        return zeroshot_series(tables, "pretrained", panel)
    return purity_series(tables, "pretrained", panel, "mean_abs_cosine")


def purity_by_scheme(tables: Tables) -> Drawing | Hole:
    """Overlap and accuracy against the nominal share, one line for each scheme."""
    if not tables.study("image_text"):
        return Hole(Note("image_text", "hole_not_run"))
    series_of = {
        (panel, scheme): _series(tables.of_scheme(scheme), panel).dropna()
        for panel in PANELS if panel != "published" for scheme in tables.schemes
    }  # fmt: skip
    runs = pd.concat(
        [values.assign(panel=panel, scheme=scheme) for (panel, scheme), values in series_of.items()]
        or [pd.DataFrame()],
        ignore_index=True,
    )
    # The arm at rate 0 is in every scheme: it alone makes no line.
    swept = {
        scheme for scheme in tables.schemes if (runs[runs["scheme"] == scheme]["rate"] > 0).any()
    }
    if len(swept) < 2:
        return Hole(Note("image_text", "hole_schemes"))
    runs = runs[runs["scheme"].isin(swept)]
    curve = published.purity_by_scheme().rename(
        columns={"shuffle_probability": "rate", "mean_abs_cosine": "value"}
    )[["scheme", "rate", "value"]]
    data = charts.layers(
        runs[["panel", "scheme", "rate", "seed", "value"]],
        ["panel", "scheme", "rate"],
        curve.assign(layer="mean", panel="published"),
    )
    data, left_out = charts.within(data, "rate")
    present = [name for name in PANELS if name in set(data["panel"])]
    panels = [_panel(name, sorted(swept), data) for name in present]
    return Drawing(charts.side_by_side(panels, 2, data), data, left_out, "scheme")


def _panel(name: str, schemes: list[str], data: pd.DataFrame) -> charts.Panel:
    rows = data[data["panel"] == name]
    base = alt.Chart().encode(
        x=charts.x_axis("rate", "Nominal share of pairs corrupted", sorted(rows["rate"].unique())),
        y=charts.y_axis(UNITS.get(name, "Mean |cos| of neuron pairs")),
        color=charts.colour("scheme", "Scheme", COLOURS, schemes),
    )
    tips = charts.tips("scheme:N:scheme", "rate:Q:nominal share", "value:Q:value", "seed:Q:seed",
                       "n:Q:seeds")  # fmt: skip
    dash, shape = ([4, 3], "diamond") if name == "published" else ([1, 0], "circle")
    line = {"strokeDash": dash, "point": {"shape": shape}}
    parts = curves(base, rows, name, tips, 50, line=line)
    layered = alt.layer(*parts).transform_filter(f"datum.panel == '{name}'")
    return layered.properties(width=charts.WIDTH, height=charts.HEIGHT, title=PANELS[name])


# Small figures ---------------------------------------------------------------------------------

X_TITLE = "Share of captions shuffled"
MOST_SCHEMES = 3
"""Schemes that have room in a small figure, the main one first."""


def _small_hole(tables: Tables, reason: Note) -> Hole:
    return Hole(reason if tables.study("image_text") else Note("image_text", "hole_not_run"))


def _small_runs(series: pd.DataFrame, name: str) -> pd.DataFrame:
    return series.dropna().rename(columns={"rate": "x"}).assign(series=name)


def small_overlap(tables: Tables) -> Drawing | Hole:
    """Draw mean |cos| of text neurons against C_m."""
    series = purity_series(tables, PRETRAINED, "text", "mean_abs_cosine").dropna()
    if series.empty:
        return _small_hole(tables, Note("image_text", "hole_fine_tuned"))
    chart, data = small.curves(
        _small_runs(series, PRETRAINED), X_TITLE, "Overlap (mean |cos|)", colours=style.FINE_TUNED
    )
    return Drawing(chart, data)


def small_mixing(tables: Tables) -> Drawing | Hole:
    """Draw mean |r| of neurons with their best feature against C_m, by tower."""
    by_tower = {
        tower: mean_series(tables.of_scheme(), tower, "mean_semantic_purity").dropna()
        for tower in TOWERS
    }
    by_tower = {tower: series for tower, series in by_tower.items() if len(series)}
    if not by_tower:
        return _small_hole(tables, Note("image_text", "hole_truth"))
    runs = pd.concat([_small_runs(series, tower) for tower, series in by_tower.items()])
    chart, data = small.curves(
        runs, X_TITLE, "|r| with best feature", colours=style.TOWERS, least=small.LEAST_FALL
    )
    return Drawing(chart, data)


def small_accuracy(tables: Tables) -> Drawing | Hole:
    """Draw accuracy against the share of captions, one line for each scheme of corruption."""
    by_scheme = {
        scheme: zeroshot_series(tables.of_scheme(scheme), PRETRAINED, "acc1").dropna()
        for scheme in tables.schemes[:MOST_SCHEMES]
    }
    by_scheme = {name: series for name, series in by_scheme.items() if (series["rate"] > 0).any()}
    if not by_scheme:
        return _small_hole(tables, Note("image_text", "hole_metric", metric="acc1"))
    runs = pd.concat([_small_runs(series, name) for name, series in by_scheme.items()])
    chart, data = small.curves(
        runs, "Share of captions corrupted", "Accuracy (share)", colours=COLOURS,
        least=small.LEAST_FALL,
    )  # fmt: skip
    return Drawing(chart, data)


def small_composition(tables: Tables) -> Drawing | Hole:
    """Draw the share of right choices between captions against C_m."""
    series = zeroshot_series(tables, PRETRAINED, SELECTION).dropna()
    if series.empty:
        return _small_hole(tables, Note("image_text", "hole_choice", tuned=False))
    chart, data = small.curves(
        _small_runs(series, PRETRAINED), X_TITLE, "Right choices (share)", colours=style.FINE_TUNED,
        least=small.LEAST_FALL,
    )  # fmt: skip
    return Drawing(chart, data)


def small_weights(tables: Tables) -> Drawing | Hole:
    """Draw accuracy against C_m with and without weighted pairs."""
    by_start = {
        start: zeroshot_series(tables, start, "acc1").dropna() for start in (PRETRAINED, WEIGHTED)
    }
    if any(series.empty for series in by_start.values()):
        return _small_hole(tables, Note("image_text", "hole_weights"))
    runs = pd.concat([_small_runs(series, name) for name, series in by_start.items()])
    labels = {PRETRAINED: "not weighted", WEIGHTED: "weighted"}
    chart, data = small.curves(
        runs, X_TITLE, "Accuracy (share)", colours=style.FINE_TUNED, labels=labels,
        least=small.LEAST_FALL,
    )  # fmt: skip
    return Drawing(chart, data)
