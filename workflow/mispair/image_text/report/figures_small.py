"""Small figures next to the answers of the image-text study."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from mispair.evaluation.semantics import ORIGINAL
from mispair.image_text.report.arms import COLOURS, TOWERS, purity_series, zeroshot_series
from mispair.image_text.report.construct import mean_series, measured_arm
from mispair.image_text.report.figures_neurons import PURITY, mean_of_sets, no_pruning, no_truth
from mispair.image_text.report.figures_sweeps import SCHEMES, missing
from mispair.image_text.report.pruning import in_own_basis, pruned_arm, ranked_by_tower
from mispair.report import small, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables
from mispair.towers.arms import PRETRAINED

X_TITLE = "Share of captions shuffled"
MOST_SCHEMES = 3
"""Schemes that have room in a small figure, the main one first."""
LABELS = {"high-purity": "little", "random": "random", "low-purity": "much"}
"""Strategies by the overlap of the neurons that are kept."""


def _curves(
    series: Mapping[str, pd.DataFrame], hole: Hole, x_title: str, y_title: str, **more: Any
) -> Drawing | Hole:
    """Draw a line for each series of runs that is not empty."""
    runs = [each.dropna().assign(series=name) for name, each in series.items()]
    if not sum(map(len, runs)):
        return hole
    table = pd.concat(runs, ignore_index=True).rename(columns={"rate": "x"})
    return Drawing(*small.curves(table, x_title, y_title, **more))


def small_overlap(tables: Tables) -> Drawing | Hole:
    """Draw mean |cos| of text neurons against C_m."""
    series = {str(PRETRAINED): purity_series(tables, PRETRAINED, "text", "mean_abs_cosine")}
    hole = missing(tables.purity, Note("image_text", "hole_fine_tuned"))
    return _curves(series, hole, X_TITLE, "Overlap (mean |cos|)", colours=COLOURS)


def small_mixing(tables: Tables) -> Drawing | Hole:
    """Draw mean |r| of neurons with their best feature against C_m, by tower."""
    series = {
        tower: mean_series(tables.of_scheme(), tower, "mean_semantic_purity") for tower in TOWERS
    }
    return _curves(
        series, no_truth(tables), X_TITLE, "|r| with best feature", colours=style.TOWERS,
        least=small.LEAST_FALL,
    )  # fmt: skip


def small_accuracy(tables: Tables) -> Drawing | Hole:
    """Draw accuracy against the share of captions, one line for each scheme of corruption."""
    series = {
        scheme: zeroshot_series(tables.of_scheme(scheme), PRETRAINED, "acc1").dropna()
        for scheme in tables.schemes[:MOST_SCHEMES]
    }
    series = {name: each for name, each in series.items() if (each["rate"] > 0).any()}
    hole = missing(tables.zeroshot, Note("image_text", "hole_metric", metric="acc1"))
    return _curves(
        series, hole, "Share of captions corrupted", "Accuracy (share)", colours=SCHEMES,
        least=small.LEAST_FALL,
    )  # fmt: skip


def small_semantics(tables: Tables) -> Drawing | Hole:
    """Draw |correlation| of each text neuron with its best feature against its mean |cos|."""
    arm = measured_arm(tables)
    rows = arm[(arm["metric"] == "best_correlation") & (arm["basis"] == ORIGINAL)]
    rows = rows[(rows["tower"] == "text") & rows["value"].notna()]
    if rows.empty:
        return no_truth(tables)
    points = rows.assign(x=rows["overlap"], value=rows["value"].abs())[["x", "value"]]
    titles = ("Overlap of the neuron (mean |cos|)", "|r| with best feature")
    points = points.reset_index(drop=True)
    return Drawing(*small.scatter(points, *titles, colour=style.TOWERS["text"]))


def small_pruning(tables: Tables) -> Drawing | Hole:
    """Draw accuracy against k, mean of the sets, neurons ranked by the text projection."""
    arm = pruned_arm(tables.pruning)
    arm = arm[in_own_basis(arm) & ranked_by_tower(arm, "text") & arm["strategy"].isin(PURITY)]
    means = mean_of_sets(arm[(arm["metric"] == "acc1")].assign(panel=""))
    means = means.rename(columns={"k": "rate"})
    series = {str(name): rows[["rate", "value"]] for name, rows in means.groupby("strategy")}
    return _curves(
        series, no_pruning(tables), "Neurons kept", "Accuracy (share)", colours=style.STRATEGIES,
        labels=LABELS, legend="Overlap", least=small.LEAST_FALL,
    )  # fmt: skip
