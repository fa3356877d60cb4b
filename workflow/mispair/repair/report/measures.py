"""Measures of the arms of the repair, one number for each rule, rate and seed."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import MISSING, number
from mispair.report.statistics import (
    IMAGE_AND_SEED,
    Effect,
    effect_of_estimate,
    effect_of_mean,
    unknown_effect,
)
from mispair.report.tables import Tables, of_protocol, remembered

LABELS = {
    "raw": "raw captions",
    "factor": "filtered: new caption if clearly better",
    "factor-untouched": "filtered, scored by the untouched model",
    "pooled": "filtered: better of both above a cut",
    "share": "filtered: best captions stay, others replaced",
    "posterior": "filtered: replaced where the audit says wrong",
    "second-round": "filtered twice",
    "drop": "dropped in place of replaced",
    "all": "all captions replaced",
    "trusted-alone": "trusted pairs alone",
    "random-replaced": "as many replaced at random",
    "random-dropped": "as many dropped at random",
    "oracle": "right captions",
}
"""Rules in words, in the order in which they are shown."""

MEASURES = {
    "text overlap": ("mean_abs_cosine", "text"),
    "image overlap": ("mean_abs_cosine", "image"),
    "accuracy": ("acc1", ""),
    "recall@1": ("image_recall@1", ""),
    "silhouette": ("silhouette", ""),
    "right choices": ("selection_acc", ""),
    "probe": ("probe_acc1", ""),
    "text semantic purity": ("mean_semantic_purity", "text"),
    "image semantic purity": ("mean_semantic_purity", "image"),
}
"""Metric and tower of each measure; without a tower the mean over evaluation sets."""


@remembered
def values(tables: Tables, measure: str) -> pd.DataFrame:
    """Return ``rule``, ``rate``, ``seed`` and ``value`` of a measure."""
    metric, tower = MEASURES[measure]
    table = of_protocol(tables.repaired_arms)
    rows = table[table["metric"] == metric]
    if tower:
        rows = rows[rows["tower"] == tower]
        rows = rows[rows["basis"].isna() | (rows["basis"] == "original")]
    return rows.groupby(["rule", "rate", "seed"])[["value"]].mean().reset_index()


def rules_of(table: pd.DataFrame) -> list[str]:
    """Return the rules in a table in the order in which they are shown."""
    present = set(table["rule"].dropna())
    return [rule for rule in LABELS if rule in present]


def rates_of(table: pd.DataFrame) -> list[float]:
    """Return the rates in a table in ascending order."""
    return sorted(table["rate"].dropna().unique())


def by_seed(
    tables: Tables, measure: str, rule: str, reference: str, rate: float, confidence: float
) -> Effect:
    """Return the difference of a measure between two rules, paired by seed."""
    return paired_by_seed(values(tables, measure), rule, reference, rate, confidence)


def paired_by_seed(
    table: pd.DataFrame, rule: str, reference: str, rate: float, confidence: float
) -> Effect:
    """Return the difference between two rules in a table of rule, rate, seed and value."""
    wide = table[table["rate"] == rate].pivot_table(index="seed", columns="rule", values="value")
    if rule not in wide or reference not in wide:
        return unknown_effect(math.nan, 0, "seed")
    return effect_of_mean((wide[rule] - wide[reference]).tolist(), confidence, "seed")


def accuracy_difference(
    tables: Tables, rule: str, reference: str, rate: float, confidence: float
) -> Effect:
    """Return the difference in accuracy between two rules, paired by image and seed."""
    table = of_protocol(tables.repair_differences)
    rows = table[
        (table["metric"] == "acc1_difference_of_all_sets")
        & (table["rule"] == rule)
        & (table["reference"] == reference)
        & (table["rate"] == rate)
    ]
    if rows.empty:
        return unknown_effect(math.nan, 0, IMAGE_AND_SEED)
    row = rows.iloc[0]
    return effect_of_estimate(
        float(row["value"]), float(row["error"]), float(row["freedom"]), int(row["n"]),
        confidence, IMAGE_AND_SEED,
    )  # fmt: skip


def means_text(tables: Tables, measure: str, rules: tuple[str, ...], rate: float) -> str:
    """Return the mean of a measure for several rules as text."""
    return means_of(values(tables, measure), measure, rules, rate)


def means_of(table: pd.DataFrame, measure: str, rules: tuple[str, ...], rate: float) -> str:
    """Return the mean for several rules in a table of rule, rate, seed and value as text."""
    means = table[table["rate"] == rate].groupby("rule")["value"].mean()
    texts = [f"{rule} {number(means[rule], 4) if rule in means else MISSING}" for rule in rules]
    return f"{measure}: {', '.join(texts)}"
