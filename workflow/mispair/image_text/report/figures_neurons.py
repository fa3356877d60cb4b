"""Figures of what neurons stand for, and of models that keep k of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from mispair.evaluation.semantics import ORIGINAL, ROTATED
from mispair.image_text.report.arms import COLOURS, SHOWN, TOWERS, purity_series, zeroshot_series
from mispair.image_text.report.claims import ACCURACY, OVERLAP, of_cosine
from mispair.image_text.report.figures_sweeps import SCHEMES, missing
from mispair.image_text.report.neurons import (
    BASELINES,
    in_own_basis,
    mean_series,
    measured_arm,
    pruned_arm,
    ranked_by_tower,
    with_basis,
)
from mispair.report import charts, small_figures, style
from mispair.report.charts import Drawing, Hole
from mispair.report.claims import THIRD
from mispair.report.judge import PRIMARY
from mispair.report.notes import Note
from mispair.report.rules import decide
from mispair.report.tables import Tables, mean_by
from mispair.towers.arms import PRETRAINED, UNTOUCHED

# Figure of the verdicts as a function of the smallest effect of interest.

SHARES = tuple(round(0.2 + 0.05 * step, 2) for step in range(7))
"""Smallest effects of interest, as shares of the published effect."""

CONFIDENCE = 0.95


def verdict_by_bound(tables: Tables) -> Drawing | Hole:
    """Draw the outcome of the primary claims on shuffling for each smallest effect of interest."""
    measured = {}
    for tower in TOWERS:
        directions = OVERLAP.measure(tables, CONFIDENCE).parts[tower]
        measured[f"directions, {tower}"] = (directions, -1)
        measured[f"mean |cos|, {tower}"] = (of_cosine(tables, CONFIDENCE, tower), 1)
    measured["accuracy"] = (ACCURACY.measure(tables, CONFIDENCE), -1)
    alpha = (1 - CONFIDENCE) / PRIMARY
    rows = [
        {
            "measure": name,
            "share": share,
            "outcome": decide("effect", each.effect, sign, share * each.bound / THIRD, alpha)[0],
            "of_published": abs(each.effect.value) / each.bound * THIRD,
        }
        for name, (each, sign) in measured.items()
        for share in SHARES
        if math.isfinite(each.effect.value)
    ]
    if not rows:
        return Hole(Note("image_text", "hole_bounds"))
    data = pd.DataFrame(rows)
    base = alt.Chart().encode(
        x=alt.X("share:O", title="Smallest effect of interest (share of the published effect)",
                axis=alt.Axis(labelAngle=0)),
        y=alt.Y("measure:N", title="Effect", sort=[*measured]),
    )  # fmt: skip
    present = [name for name in style.OUTCOMES if name in set(data["outcome"])]
    tiles = base.mark_rect(stroke="white").encode(
        color=charts.colour("outcome", "Outcome", style.OUTCOMES, present),
        tooltip=charts.tips("measure:N:measure", "share:Q:bound, share of published",
                            "of_published:Q:effect, share of published", "outcome:N:outcome"),
    )  # fmt: skip
    chart = alt.layer(tiles).properties(width=320, height=30 * data["measure"].nunique())
    return Drawing(charts.side_by_side([chart], 1, data), data)


MOST_NEURONS = 4_000
"""Most neurons in the figure: 1,000 of each tower, and as many of a rotated basis."""

MOST_RATES = 12
"""Most values of C_m in a panel of bases."""

OWN, NULL = "own basis", "95 % of rotated bases"
R = "|r| with the best feature"


def no_truth(tables: Tables) -> Hole:
    """Return a hole for what needs the features of the pictures."""
    return Hole(Note("image_text", "hole_truth", ran=tables.study("image_text")))


def no_pruning(tables: Tables) -> Hole:
    """Return a hole for what needs a pruned arm."""
    return Hole(Note("image_text", "hole_pruning", ran=tables.study("image_text")))


def semantic_purity(tables: Tables) -> Drawing | Hole:
    """|correlation| of each neuron with its best feature against its mean |cos|, by tower."""
    arm = measured_arm(tables)
    rows = arm[(arm["metric"] == "best_correlation") & arm["value"].notna()]
    if rows.empty:
        return no_truth(tables)
    own = rows["basis"] == ORIGINAL
    one = rows["basis"] == rows.loc[~own, "basis"].min()  # one rotated basis represents all
    data = pd.concat([rows[own].assign(where=OWN), rows[one].assign(where="a rotated basis")])
    data = data.assign(semantic=data["value"].abs())
    columns = ["tower", "where", "neuron", "feature", "overlap", "semantic"]
    data, left_out = charts.within(data[columns], "neuron", MOST_NEURONS)
    towers = [tower for tower in TOWERS if tower in set(data["tower"])]
    panels = [_neurons(tower) for tower in towers]
    return Drawing(charts.side_by_side(panels, 2, data), data, left_out, "where")


def _neurons(tower: str) -> charts.Panel:
    colours = {OWN: style.TOWERS[tower], "a rotated basis": style.GREY}
    points = alt.Chart(name=f"{charts.VIEW}semantics_{tower}").mark_circle(size=36)
    scatter = points.encode(
        x=charts.x_axis("overlap", "Mean |cos| with all other neurons"),
        y=alt.Y("semantic:Q", title=R, scale=alt.Scale(domain=[0, 1])),
        color=charts.colour("where", "Neurons of", colours, list(colours)),
        opacity=charts.fade(0.75),
        tooltip=charts.tips("neuron:Q:neuron", "feature:N:best feature", "semantic:Q:|r|",
                            "overlap:Q:mean |cos|", "where:N:in"),
    )  # fmt: skip
    layered = alt.layer(scatter).transform_filter(f"datum.tower == '{tower}'")
    return layered.properties(
        width=charts.WIDTH, height=charts.HEIGHT, title=f"{tower.capitalize()} projection"
    ).resolve_scale(color="independent")


def semantics_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Mean |correlation| with the best feature in the own and rotated bases, by C_m and tower."""
    table = with_basis(tables.semantics[tables.semantics["metric"] == "mean_semantic_purity"])
    table = table[table["start"].isin(SHOWN) & table["value"].notna()]
    arms = [UNTOUCHED if pd.isna(rate) else f"{rate:g}" for rate in table["rate"]]
    table = table.assign(arm=pd.Series(arms, index=table.index, dtype="str"))
    own, null = (table[table["basis"] == basis] for basis in (ORIGINAL, ROTATED))
    if own.empty:
        return no_truth(tables)
    rates = charts.evenly(table["rate"].dropna().unique(), MOST_RATES)
    order = [UNTOUCHED, *(f"{rate:g}" for rate in rates)]
    null = null.rename(columns={"low": "null_low", "high": "null_high"})
    limits = null.dropna(subset=["null_low"]).groupby(["tower", "arm"])[["null_low", "null_high"]]
    data = pd.concat(
        [
            limits.mean().reset_index().assign(layer=NULL),
            own[["tower", "arm", "seed", "value"]].assign(layer=OWN),
        ],
        ignore_index=True,
    )
    data = data[data["arm"].isin(order)]
    towers = [tower for tower in TOWERS if tower in set(data["tower"])]
    panels = [_bases(data[data["tower"] == tower], tower, order) for tower in towers]
    return Drawing(charts.side_by_side(panels, 2, data), data, toggle="layer")


def _bases(rows: pd.DataFrame, tower: str, order: list[str]) -> charts.Panel:
    colours = {OWN: style.BLUE, NULL: style.GREY}
    base = alt.Chart().encode(
        x=alt.X("arm:N", title=style.CM, sort=order, axis=alt.Axis(labelAngle=0)),
        color=charts.colour("layer", "Of", colours, list(colours)),
        tooltip=charts.tips("arm:N:C_m", "value:Q:value", "null_low:Q:from", "null_high:Q:to",
                            "layer:N:of"),
    )  # fmt: skip
    own = charts.only(base, OWN).mark_circle(size=45).properties(name=f"{charts.VIEW}own_{tower}")
    parts = [own.encode(y=charts.y_axis(f"Mean {R}"), opacity=charts.fade(0.9))]
    if (rows["layer"] == NULL).any():
        bars = charts.only(base, NULL).mark_rule(strokeWidth=3)
        parts.insert(0, bars.encode(y="null_low:Q", y2="null_high:Q", opacity=charts.fade(0.5)))
    return (
        alt.layer(*parts)
        .transform_filter(f"datum.tower == '{tower}'")
        .properties(
            width=charts.WIDTH, height=charts.HEIGHT, title=f"{tower.capitalize()} projection"
        )
    )


# Pruning -----------------------------------------------------------------------------------------

PURITY = ("high-purity", "random", "low-purity")
METRICS = {"acc1": "acc1 (share of images)", "silhouette": "Silhouette (cosine)"}
SILHOUETTE = "Ranked by text, silhouette"


def pruning(tables: Tables) -> Drawing | Hole:
    """Mean of the sets against k: by purity of text, image and both, and controls of the order."""
    arm = pruned_arm(tables.pruning)
    own, drawn = in_own_basis(arm), arm["strategy"] == "random"
    text, accuracy = ranked_by_tower(arm, "text"), arm["metric"] == "acc1"
    pure = arm["strategy"].isin(PURITY)
    by_panel = {
        "Ranked by text": own & pure & text & accuracy,
        SILHOUETTE: own & pure & text & (arm["metric"] == "silhouette"),
        "Ranked by image": own & pure & ranked_by_tower(arm, "image") & accuracy,
        "Ranked by both": own & pure & (drawn | (arm["ranked_by"] == "both")) & accuracy,
        "In randomly rotated bases": ~own & pure & text & accuracy,
    }
    for name, words in BASELINES.items():
        ranked = arm["strategy"].isin([f"high-{name}", f"low-{name}"])
        by_panel[f"Ranked by {words}"] = own & text & (ranked | drawn) & accuracy
    means = [mean_of_sets(arm[rows].assign(panel=name)) for name, rows in by_panel.items()
             if (rows & ~drawn & arm["value"].notna()).any()]  # fmt: skip
    if not means:
        return no_pruning(tables)
    data = charts.summary(pd.concat(means, ignore_index=True), ["panel", "strategy", "k"])
    panels = [_kept(data, name) for name in by_panel if name in set(data["panel"])]
    return Drawing(charts.side_by_side(panels, 2, data), data, toggle="strategy")


def mean_of_sets(rows: pd.DataFrame) -> pd.DataFrame:
    """Average scores over evaluation sets and seeds.

    A set with a missing score is left out, unless every set has one.
    """
    gaps = rows["value"].isna().groupby(rows["evaluation_set"]).transform("any")
    complete = rows if gaps.all() else rows[~gaps]
    means = mean_by(complete, ["panel", "strategy", "k", "basis", "draw"])
    return means.dropna(subset=["value"])


def _kept(data: pd.DataFrame, name: str) -> charts.Panel:
    present = [each for each in style.STRATEGIES if each in set(data["strategy"])]
    rows = data[data["panel"] == name]
    base = alt.Chart().encode(
        x=charts.x_axis("k", "Neurons kept k", sorted(rows["k"].unique())),
        y=charts.y_axis(METRICS["silhouette" if name == SILHOUETTE else "acc1"]),
        color=charts.colour("strategy", "Neurons kept", style.STRATEGIES, present),
    )
    tips = charts.tips("strategy:N:kept", "k:Q:k", "value:Q:mean", "low:Q:−1 s.d.",
                       "high:Q:+1 s.d.", "n:Q:draws")  # fmt: skip
    line = base.mark_line(point=alt.OverlayMarkDef(size=40))
    line = line.encode(opacity=charts.fade(1), tooltip=tips)
    parts = [line.properties(name=f"{charts.VIEW}{name.replace(' ', '_').replace(',', '')}")]
    if charts.limited(rows):
        parts.insert(0, charts.band(base, 0.22))
    layered = alt.layer(*parts).transform_filter(alt.FieldEqualPredicate(field="panel", equal=name))
    return layered.properties(width=charts.WIDTH, height=190, title=name)


# Small figures next to the answers of the image-text study.

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
    return Drawing(*small_figures.curves(table, x_title, y_title, **more))


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
        least=small_figures.LEAST_FALL,
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
        least=small_figures.LEAST_FALL,
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
    return Drawing(*small_figures.scatter(points, *titles, colour=style.TOWERS["text"]))


def small_pruning(tables: Tables) -> Drawing | Hole:
    """Draw accuracy against k, mean of the sets, neurons ranked by the text projection."""
    arm = pruned_arm(tables.pruning)
    arm = arm[in_own_basis(arm) & ranked_by_tower(arm, "text") & arm["strategy"].isin(PURITY)]
    means = mean_of_sets(arm[(arm["metric"] == "acc1")].assign(panel=""))
    means = means.rename(columns={"k": "rate"})
    series = {str(name): rows[["rate", "value"]] for name, rows in means.groupby("strategy")}
    return _curves(
        series, no_pruning(tables), "Neurons kept", "Accuracy (share)", colours=style.STRATEGIES,
        labels=LABELS, legend="Overlap", least=small_figures.LEAST_FALL,
    )  # fmt: skip
