"""The figure and table of what neurons stand for, where the truth is known."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from mispair.core.words import count, interval, listing, number, p_value
from mispair.evaluation.report.figures_nulls import TOWERS, against_null, null_panels
from mispair.evaluation.report.protocols import base_arm
from mispair.report import charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.statistics import contrast
from mispair.report.table import Table, mean_and_spread, or_dash
from mispair.report.tables import Tables, records
from mispair.report.verdicts import effect_text

SECTION = "Purity, said precisely"
ORIGINAL, ROTATED = "original", "rotated"
MEASURES = {"semantic_purity": "semantic purity", "selectivity": "selectivity"}
CONFIDENCE = 0.95
SEEDS = "Seeds are runs of one model."
ALPHA = 0.05
MOST = 4_000
"""Neurons that are drawn: 1,000 of either tower, and as many of a rotated basis."""
LISTED = 10
"""Neurons with the largest semantic purity that the table lists for each tower."""


def _arm(tables: Tables) -> pd.DataFrame:
    """Return one arm's rows: those of the untouched model, if it was measured, and one seed."""
    arm = base_arm(tables.semantics)
    return arm[arm["seed"].fillna(0) == arm["seed"].fillna(0).min()]


def semantic_purity(tables: Tables) -> Drawing | Hole:
    """|correlation| of each neuron with its best feature against its mean |cos|, by tower."""
    arm = _arm(tables)
    own = arm[(arm["metric"] == "best_correlation") & arm["value"].notna()]
    if own.empty:
        reason = "no ground truth of the features was measured; corpus: scenes has it"
        return Hole(reason if tables.study("image_text") else "the image-text study was not run")
    own = own.assign(semantic=own["value"].abs())
    original = own[own["basis"].fillna(ORIGINAL) == ORIGINAL].assign(where="own basis")
    rotated = own[own["basis"].fillna(ORIGINAL) != ORIGINAL]
    if not rotated.empty:  # one rotated basis is as good as another
        rotated = rotated[rotated["basis"] == rotated["basis"].min()]
    data = pd.concat([original, rotated.assign(where="a rotated basis")], ignore_index=True)
    data = data[["tower", "where", "neuron", "feature", "overlap", "semantic"]]
    data, left_out = charts.within(data, "neuron", MOST)
    panels = [_panel(tower, data) for tower in TOWERS if tower in set(data["tower"])]
    sentence = " ".join(words(arm, tower) for tower in TOWERS if tower in set(data["tower"]))
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data, sentence + left_out, "where")


def _panel(tower: str, data: pd.DataFrame) -> charts.Panel:
    colours = {"own basis": style.TOWERS[tower], "a rotated basis": style.GREY}
    points = alt.Chart(name=f"{charts.VIEW}semantics_{tower}").mark_circle(size=36)
    scatter = points.encode(
        x=charts.x_axis("overlap", "Mean |cos| with all other neurons"),
        y=alt.Y("semantic:Q", title="|r| with the best feature",
                scale=alt.Scale(domain=[0, 1])),
        color=charts.colour("where", "Neurons of", colours, list(colours)),
        opacity=charts.fade(0.75),
        tooltip=charts.tips("neuron:Q:neuron", "feature:N:best feature", "semantic:Q:|r|",
                            "overlap:Q:mean |cos|", "where:N:in"),
    )  # fmt: skip
    layered = alt.layer(scatter).transform_filter(f"datum.tower == '{tower}'")
    return layered.properties(
        width=charts.WIDTH, height=charts.HEIGHT + 20, title=f"{tower.capitalize()} projection"
    ).resolve_scale(color="independent")


def words(arm: pd.DataFrame, tower: str) -> str:
    """Say for one tower whether pure weights go with pure meaning, and the same when rotated."""
    own = arm[arm["tower"] == tower]
    own = own.assign(basis=own["basis"].fillna(ORIGINAL))
    tests = own[own["metric"] == "semantic_purity_by_overlap"]
    means = own[own["metric"] == "mean_semantic_purity"]
    original = tests[tests["basis"] == ORIGINAL]
    if original.empty or not math.isfinite(original["value"].iloc[0]):
        return f"{tower.capitalize()} tower: no test of semantic against cosine purity."
    rho, p = float(original["value"].iloc[0]), float(original["p"].iloc[0])
    if p > ALPHA:
        said = "cosine purity and semantic purity of neurons do not go together beyond chance"
    elif rho < 0:
        said = "neurons of lower |cos| follow single features more closely"
    else:
        said = "neurons of higher |cos| follow single features more closely, against the idea"
    text = (
        f"{tower.capitalize()} tower: {said} (Spearman ρ = {number(rho, 2)}, {p_value(p)}, "
        f"{count(original['n'].iloc[0], 'neuron')})"
    )
    rotated = tests[tests["basis"] != ORIGINAL]["value"].dropna()
    level = means.groupby(means["basis"] == ORIGINAL)["value"].mean()
    if len(rotated):
        text += f"; in randomly rotated bases ρ = {number(rotated.mean(), 2)}"
        if {True, False} <= set(level.index):
            text += f" and mean |r| {number(level[False], 2)} instead of {number(level[True], 2)}"
    return f"{text}."


def semantics_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Mean |correlation| with the best feature at both ends of C_m, by tower."""
    table = tables.semantics[tables.semantics["metric"] == "mean_semantic_purity"]
    basis = table["basis"].fillna(ORIGINAL)
    data = against_null(table[basis == ORIGINAL], table[basis == ROTATED])
    if data.empty:
        reason = "no ground truth of the features was measured; corpus: scenes has it"
        return Hole(reason if tables.study("image_text") else "the image-text study was not run")
    moved = []
    for tower in TOWERS:
        effect = contrast(_series(tables, tower, "mean_semantic_purity"), CONFIDENCE)
        if math.isfinite(effect.value):
            moved.append(f"{tower} {effect_text(effect, CONFIDENCE, 3)}")
    sentence = (
        f"From the lowest to the highest C_m, mean |r| with the best feature changes: "
        f"{listing(moved)}. {SEEDS}"
        if moved
        else "Only one C_m was measured."
    )
    return Drawing(null_panels(data, "Mean |r| with the best feature"), data, sentence, "layer")


def _series(tables: Tables, tower: str, metric: str) -> pd.DataFrame:
    """Return rate, seed and value of the pre-trained arms in their own basis."""
    table = tables.semantics
    own = table[(table["start"] == "pretrained") & (table["tower"] == tower)
                & (table["metric"] == metric)
                & (table["basis"].fillna(ORIGINAL) == ORIGINAL)]  # fmt: skip
    return own[["rate", "seed", "value"]]


def _ends(tables: Tables) -> Table:
    """Return both measures at every C_m that was measured, with their change and null."""
    table = tables.semantics
    table = table.assign(basis=table["basis"].fillna(ORIGINAL))
    rows = []
    for metric, name in MEASURES.items():
        for tower in TOWERS:
            series = _series(tables, tower, f"mean_{metric}")
            if series["rate"].nunique() < 2:
                continue
            low, high = series["rate"].min(), series["rate"].max()
            own = table[(table["tower"] == tower) & (table["start"] == "pretrained")]
            effect = contrast(series, CONFIDENCE)
            rows.append((
                f"{name}, {tower} tower",
                *(mean_and_spread(series.loc[series["rate"] == rate, "value"], 3, False)
                  for rate in (low, high)),
                effect_text(effect, CONFIDENCE, 3),
                *(_null(own[own["rate"] == rate], f"mean_{metric}") for rate in (low, high)),
                *(mean_and_spread(own.loc[
                    (own["rate"] == rate) & (own["metric"] == f"{metric}_by_overlap")
                    & (own["basis"] == ORIGINAL), "value"], 2, False) for rate in (low, high)),
            ))  # fmt: skip
    return Table(
        "What neurons stand for at both ends of C_m",
        ("measure", "at the lowest C_m", "at the highest C_m", "highest − lowest",
         "rotated bases, lowest", "rotated bases, highest", "ρ with |cos|, lowest",
         "ρ with |cos|, highest"),
        tuple(rows),
        "Fine-tuned from the pre-trained projections; mean ± 1 standard deviation over seeds, "
        f"paired by seed. Rotated bases: their central 95 %. {SEEDS}",
        section=SECTION,
    )  # fmt: skip


def _null(own: pd.DataFrame, metric: str) -> str:
    null = own[(own["basis"] == ROTATED) & (own["metric"] == metric)]
    low, high = float(null["low"].mean()), float(null["high"].mean())
    return interval(low, high, 3) if math.isfinite(low) else "–"


def semantics(tables: Tables) -> list[Table]:
    """Return means with their controls, and the neurons that follow a feature most closely."""
    arm = _arm(tables)
    if arm.empty:
        return []
    arm = arm.assign(basis=arm["basis"].fillna(ORIGINAL))
    rows = []
    for tower in TOWERS:
        own = arm[arm["tower"] == tower]
        rotated = own["basis"] != ORIGINAL
        for metric, name in MEASURES.items():
            mean = own[own["metric"] == f"mean_{metric}"]
            test = own[own["metric"] == f"{metric}_by_overlap"]
            if mean.empty:
                continue
            by_chance = own[(own["metric"] == f"mean_{metric}_shuffled") & ~rotated]
            here = test[test["basis"] == ORIGINAL]
            rows.append((
                f"{name}, {tower} tower", or_dash(_mean(mean[mean["basis"] == ORIGINAL]), 3),
                or_dash(_mean(mean[mean["basis"] != ORIGINAL]), 3),
                or_dash(_mean(by_chance), 3), or_dash(_mean(here), 2, sign=True),
                p_value(float(here["p"].iloc[0])) if len(here) else "–",
                or_dash(_mean(test[test["basis"] != ORIGINAL]), 2, sign=True),
            ))  # fmt: skip
    means = Table(
        "What neurons stand for, where the features of images and captions are known",
        ("measure", "mean over neurons", "in rotated bases", "features shuffled",
         "Spearman ρ with mean |cos|", "p", "ρ in rotated bases"),
        tuple(rows),
        "Semantic purity: the largest |correlation| of a neuron’s activation with a feature. "
        "Selectivity: its square over the sum of the squares over all features. A negative ρ says "
        "that pure weights go with pure meaning.",
        section=SECTION,
    )  # fmt: skip
    found = [means, _ends(tables), _best(arm)]
    return [table for table in found if table.rows]


def _mean(rows: pd.DataFrame) -> float:
    return float(rows["value"].mean()) if len(rows) else math.nan


def _best(arm: pd.DataFrame) -> Table:
    own = arm[(arm["metric"] == "best_correlation") & (arm["basis"] == ORIGINAL)]
    own = own.assign(size=own["value"].abs())
    rows = []
    for tower in TOWERS:
        ranked = own[own["tower"] == tower].sort_values("size", ascending=False, kind="stable")
        place = ranked["overlap"].rank()
        for row in records(ranked.assign(place=place)[:LISTED]):
            rows.append((
                f"{tower} {row['neuron']:.0f}", str(row["feature"]),
                number(row["value"], 3, sign=True), number(row["overlap"], 4),
                f"{row['place']:.0f} of {len(ranked)}",
            ))  # fmt: skip
    return Table(
        f"The {LISTED} neurons of each tower that follow a feature most closely",
        ("neuron", "best feature", "correlation", "mean |cos|", "place by |cos|, purest first"),
        tuple(rows),
        section=SECTION,
        folded=True,
    )
