"""Figures of the sufficiency study. A click in a legend singles out arms."""

import altair as alt
import pandas as pd

from mispair.report import charts, recipes, small_figures, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables
from mispair.report.texts import Note
from mispair.sufficiency.report.claims import (
    ENCODERS,
    HEAD_TASKS,
    HEADS,
    TASKS,
    main_flip,
    rows,
    trained,
)

TIPS = (
    "arm:N:arm", "value:Q:value", "low:Q:low", "high:Q:high", "tree:Q:trees", "seed:Q:seed",
)  # fmt: skip
KEPT = ["arm", "flip", "tree", "seed", "value", "low", "high"]


def _hole(runs: pd.DataFrame, reason: Note) -> Hole:
    return Hole(Note("sufficiency", "hole_not_run") if runs.empty else reason)


def _colour(data: pd.DataFrame) -> alt.Color:
    return charts.colour("arm", "Arm", style.colours("predictor"), [*data["arm"].unique()])


def _at(flips: pd.Series) -> pd.Series:
    return flips.map("p = {:g}".format)


def _divergences(runs: pd.DataFrame) -> pd.DataFrame:
    found = runs[(runs["metric"] == "sufficiency")]
    return found[found["arm"].isin([*ENCODERS, "untrained"])].dropna(subset=["value"])


def sufficiency_divergence(tables: Tables) -> Drawing | Hole:
    """Draw the divergence of every variant by K, one panel for each p."""
    runs = trained(tables.sufficiency)
    data = _divergences(runs)[[*KEPT, "candidates"]].sort_values("flip", kind="stable")
    if data.empty:
        return _hole(runs, Note("sufficiency", "hole_encoders"))
    data["panel"] = _at(data["flip"])
    chart = recipes.sweep(
        data, charts.log_x("candidates", "Candidates K (log scale)", ticks=data["candidates"]),
        charts.log_y("value", "Divergence (nats, log scale)"), _colour(data),
        (*TIPS, "candidates:Q:K"), points=True, runs=("tree", "seed"), toggle=True,
    )  # fmt: skip
    return Drawing(chart, data.drop(columns="panel"), toggle="arm")


def sufficiency_prompts(tables: Tables) -> Drawing | Hole:
    """Draw the zero-shot risk against M next to its controls."""
    runs = trained(tables.sufficiency)
    risks = runs[(runs["task"] == "zsc") & (runs["metric"] == "risk")]
    data = risks.loc[risks["flip"] == main_flip(runs), [*KEPT, "per_class"]]
    if data.empty:
        return _hole(runs, Note("sufficiency", "hole_classified"))
    data["panel"] = _at(data["flip"])
    data["layer"] = data["arm"].map({"bayes": "the best possible"}).fillna("trained")
    chart = recipes.sweep(
        data,
        charts.log_x("per_class", "Prompts M for each class (log scale)", ticks=data["per_class"]),
        charts.y_axis("Zero-shot risk (nats)"), _colour(data), (*TIPS, "per_class:Q:M"),
        lines={"trained": recipes.SOLID, "the best possible": recipes.DASHED},
        points=True, runs=("tree", "seed"), toggle=True,
    )  # fmt: skip
    return Drawing(chart, data.drop(columns=["panel", "layer"]), toggle="arm")


UNITS = {"cdm": "squared error, sum over leaves", "vlm": "cross-entropy, nats"}


def sufficiency_transfer(tables: Tables) -> Drawing | Hole:
    """Draw every head's excess over Bayes next to what the other modality is worth."""
    runs = trained(tables.sufficiency)
    at_main = runs[(runs["flip"] == main_flip(runs)) & runs["task"].isin(HEAD_TASKS)]
    measured = rows(at_main, metric="difference")
    if measured.empty:
        return _hole(runs, Note("sufficiency", "hole_heads"))
    data = measured[["task", *KEPT]].sort_values("task", kind="stable")
    data["panel"] = data["task"].map(lambda task: f"{TASKS[task]}: {UNITS[task]}")
    order = [arm for arm in ("unconditional", *HEADS) if arm in set(data["arm"])]
    chart = recipes.forest(
        data, "Excess over Bayes", alt.Y("arm:N", title="Predictor", sort=order), _colour(data),
        TIPS, levels=(("Bayes", 0.0),), toggle=True,
    )  # fmt: skip
    return Drawing(chart, data.drop(columns="panel"), toggle="arm")


def small_sufficiency(tables: Tables) -> Drawing | Hole:
    """Draw the divergence of trained and untrained encoders with the most candidates."""
    runs = trained(tables.sufficiency)
    data = _divergences(runs)
    if data.empty:
        return _hole(runs, Note("sufficiency", "hole_encoders"))
    data = data[
        (data["flip"] == main_flip(runs)) & (data["candidates"] == data["candidates"].max())
    ]
    data["label"] = data["arm"].map({"standard": "trained", "untrained": "untrained"})
    points = data.dropna(subset=["label"]).sort_values("label")[["label", "value"]]
    return Drawing(*small_figures.dots(
        points.reset_index(drop=True), "Divergence from the best (nats)", colour=style.ONLY
    ))  # fmt: skip
