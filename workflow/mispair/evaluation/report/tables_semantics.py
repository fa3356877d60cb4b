"""Tables of the features that neurons represent, on corpora with ground truth."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import count, interval, number, p_value
from mispair.evaluation.report.arm_words import spread, where
from mispair.evaluation.report.protocols import base_arm
from mispair.evaluation.report.series import TOWERS
from mispair.evaluation.semantics import ORIGINAL, ROTATED
from mispair.report.statistics import contrast
from mispair.report.table import Table, effect_text, or_dash
from mispair.report.tables import Tables, records

SECTION = "Definition of purity"
MEASURES = {"semantic_purity": "semantic purity", "selectivity": "selectivity"}
CONFIDENCE, ALPHA = 0.95, 0.05
SEEDS = "Seeds are runs of one model."

LISTED = 10
"""Neurons with the largest semantic purity that the table lists for each tower."""


def measured_arm(tables: Tables) -> pd.DataFrame:
    """Return one arm's rows: those of the untouched model, if it was measured, and one seed."""
    arm = base_arm(tables.semantics)
    seeds = arm["seed"].fillna(0)
    return with_basis(arm[seeds == seeds.min()])


def with_basis(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a name of their basis; a missing name means the neurons' own basis."""
    return table.assign(basis=table["basis"].fillna(ORIGINAL))


def purity_sentence(arm: pd.DataFrame, tower: str) -> str:
    """State for one tower whether pure weights go with pure meaning, also in rotated bases."""
    of_tower = arm[arm["tower"] == tower]
    tests = of_tower[of_tower["metric"] == "semantic_purity_by_overlap"]
    means = of_tower[of_tower["metric"] == "mean_semantic_purity"]
    original = tests[tests["basis"] == ORIGINAL]
    if original.empty or not math.isfinite(original["value"].iloc[0]):
        return f"{tower.capitalize()} tower: no test of semantic against cosine purity."
    rho, p = float(original["value"].iloc[0]), float(original["p"].iloc[0])
    if p > ALPHA:
        sentence = "cosine purity and semantic purity of neurons do not go together beyond chance"
    elif rho < 0:
        sentence = "neurons of lower |cos| follow single features more closely"
    else:
        sentence = "neurons of higher |cos| follow single features more closely, against the idea"
    text = (
        f"{tower.capitalize()} tower: {sentence} (Spearman ρ = {number(rho, 2)}, {p_value(p)}, "
        f"{count(original['n'].iloc[0], 'neuron')})"
    )
    rotated = tests[tests["basis"] != ORIGINAL]["value"].dropna()
    level = means.groupby(means["basis"] == ORIGINAL)["value"].mean()
    if len(rotated):
        text += f"; in randomly rotated bases ρ = {number(rotated.mean(), 2)}"
        if {True, False} <= set(level.index):
            text += f" and mean |r| {number(level[False], 2)} instead of {number(level[True], 2)}"
    return f"{text}."


def mean_series(tables: Tables, tower: str, metric: str) -> pd.DataFrame:
    """Return rate, seed and value of the pre-trained arms in their own basis."""
    table = with_basis(tables.semantics)
    rows = where(table, start="pretrained", tower=tower, metric=metric, basis=ORIGINAL)
    return rows[["rate", "seed", "value"]]


def _ends(tables: Tables) -> Table:
    """Return both measures at the lowest and the highest C_m, with their change and null."""
    table = with_basis(tables.semantics)
    rows = []
    for metric, name in MEASURES.items():
        for tower in TOWERS:
            series = mean_series(tables, tower, f"mean_{metric}")
            if series["rate"].nunique() < 2:
                continue
            ends = series["rate"].min(), series["rate"].max()
            part = where(table, tower=tower, start="pretrained")
            of_test = where(part, metric=f"{metric}_by_overlap", basis=ORIGINAL)
            rows.append((
                f"{name}, {tower} tower", *(spread(series, 3, rate=rate) for rate in ends),
                effect_text(contrast(series, CONFIDENCE), CONFIDENCE, 3),
                *(_null(where(part, rate=rate), f"mean_{metric}") for rate in ends),
                *(spread(of_test, 2, rate=rate) for rate in ends),
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


def _null(value: pd.DataFrame, metric: str) -> str:
    null = where(value, basis=ROTATED, metric=metric)
    low, high = float(null["low"].mean()), float(null["high"].mean())
    return interval(low, high, 3) if math.isfinite(low) else "–"


def semantics(tables: Tables) -> list[Table]:
    """Return means with their controls, and the neurons that follow a feature most closely."""
    arm = measured_arm(tables)
    if arm.empty:
        return []
    rows = []
    for tower in TOWERS:
        of_tower = arm[arm["tower"] == tower]
        rotated = of_tower["basis"] != ORIGINAL
        for metric, name in MEASURES.items():
            mean = of_tower[of_tower["metric"] == f"mean_{metric}"]
            test = of_tower[of_tower["metric"] == f"{metric}_by_overlap"]
            if mean.empty:
                continue
            by_chance = of_tower[(of_tower["metric"] == f"mean_{metric}_shuffled") & ~rotated]
            original = test[test["basis"] == ORIGINAL]
            rows.append((
                f"{name}, {tower} tower", or_dash(_mean(mean[mean["basis"] == ORIGINAL]), 3),
                or_dash(_mean(mean[mean["basis"] != ORIGINAL]), 3),
                or_dash(_mean(by_chance), 3), or_dash(_mean(original), 2, sign=True),
                p_value(float(original["p"].iloc[0])) if len(original) else "–",
                or_dash(_mean(test[test["basis"] != ORIGINAL]), 2, sign=True),
            ))  # fmt: skip
    means = Table(
        "What neurons stand for, where the features of images and captions are known",
        ("measure", "mean over neurons", "in rotated bases", "features shuffled",
         "Spearman ρ with mean |cos|", "p", "ρ in rotated bases"),
        tuple(rows),
        "Semantic purity: the largest |correlation| of a neuron’s activation with a feature. "
        "Selectivity: its square over the sum of the squares over all features. A negative ρ means "
        "that pure weights go with pure meaning.",
        section=SECTION,
    )  # fmt: skip
    return [means, _ends(tables), _best(arm)]


def _mean(rows: pd.DataFrame) -> float:
    return float(rows["value"].mean()) if len(rows) else math.nan


def _best(arm: pd.DataFrame) -> Table:
    best = arm[(arm["metric"] == "best_correlation") & (arm["basis"] == ORIGINAL)]
    best = best.assign(size=best["value"].abs())
    rows = []
    for tower in TOWERS:
        ranked = best[best["tower"] == tower].sort_values("size", ascending=False, kind="stable")
        overlap_rank = ranked["overlap"].rank()
        for row in records(ranked.assign(place=overlap_rank)[:LISTED]):
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
