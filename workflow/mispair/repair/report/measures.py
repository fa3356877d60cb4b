"""Measures of the arms of the repair, one number for each rule, rate and seed."""

from __future__ import annotations

import math

import pandas as pd

from mispair.repair.rules import RULES
from mispair.report import texts
from mispair.report.notes import Note
from mispair.report.statistics import (
    IMAGE_AND_SEED,
    Effect,
    effect_of_comparison,
    effect_of_mean,
    unknown_effect,
)
from mispair.report.tables import Tables, of_protocol, remembered, where

LABELS = {name: rule.label for name, rule in RULES.items()}

NOT_RIGHT = {"oracle": "own captions, none exchanged"}
"""Rules in other words where it is not known which captions are right."""

FILTERS = tuple(name for name, rule in RULES.items() if rule.filters)
"""Rules that filter; claims on filtering are judged on the first of them that was run."""

ARMS, TOWERS = "repaired_arms", "repaired_towers"
"""Tables of fine-tuned projections, and of towers that were trained from scratch."""

MEASURES: dict[str, dict[str, str]] = {
    "text overlap": {"metric": "mean_abs_cosine", "tower": "text"},
    "image overlap": {"metric": "mean_abs_cosine", "tower": "image"},
    "text directions": {"metric": "participation_ratio", "tower": "text"},
    "image directions": {"metric": "participation_ratio", "tower": "image"},
    "accuracy": {"metric": "acc1"},
    "probe": {"metric": "probe_acc1"},
    "recovery, text": {"metric": "recovery", "tower": "text", "basis": "identified"},
    "recovery, image": {"metric": "recovery", "tower": "image", "basis": "identified"},
}  # fmt: skip
"""Rows of each measure; without a basis those of the model's own. Sets are averaged."""


@remembered
def values(tables: Tables, measure: str, name: str = ARMS) -> pd.DataFrame:
    """Return ``rule``, ``rate``, ``seed`` and ``value`` of a measure in one of the tables."""
    columns = MEASURES[measure]
    table = where(of_protocol(tables.frames[name]), **columns)
    if "basis" not in columns:
        table = table[table["basis"].isna() | (table["basis"] == "original")]
    return table.groupby(["rule", "rate", "seed"])[["value"]].mean().reset_index()


def measures_of(tables: Tables, name: str) -> list[str]:
    """Return the measures that a table has."""
    return [measure for measure in MEASURES if not values(tables, measure, name).empty]


def rules_of(tables: Tables, name: str = ARMS) -> list[str]:
    """Return the rules in a table in the order in which they are shown."""
    present = set(tables.frames[name]["rule"].dropna())
    return [rule for rule in LABELS if rule in present]


def rates_of(tables: Tables, name: str = ARMS) -> list[float]:
    """Return the rates in a table in ascending order."""
    return sorted(tables.frames[name]["rate"].dropna().unique())


def main_filter(tables: Tables, name: str = ARMS) -> str:
    """Return the rule on which claims on filtering are judged."""
    rules = rules_of(tables, name)
    return next((rule for rule in FILTERS if rule in rules), FILTERS[0])


def label_of(tables: Tables, rule: str, name: str = ARMS) -> str:
    """Return a rule in words; the oracle of other than drawn pictures is not known to be right."""
    return LABELS[rule] if truth_is_known(tables, name) else NOT_RIGHT.get(rule, LABELS[rule])


def at_rate(rate: float) -> str:
    """Return a rate in words."""
    return texts.text(Note("repair", "at_rate", rate=rate))


def truth_is_known(tables: Tables, name: str = ARMS) -> bool:
    """Return whether the ledgers have right and wrong captions, as of drawn scenes."""
    table = tables.repairs if name == ARMS else tables.tower_repairs
    states = set(table.loc[table["metric"] == "pairs", "before"].dropna())
    return not states & {"own", "swapped"}


def shares_changed(tables: Tables, rate: float, name: str = ARMS) -> dict[str, float]:
    """Return the share of pairs that each rule replaces or drops at a rate."""
    table = tables.repairs if name == ARMS else tables.tower_repairs
    table = table[table["rate"] == rate]
    counts = table.groupby(["rule", "metric"])["value"].sum()
    return {
        rule: float(sum(counts.get((rule, kind), 0.0) for kind in ("replaced", "dropped")))
        / counts[rule, "read"]
        for rule in LABELS
        if counts.get((rule, "read"), 0.0) > 0
    }


def held_out(tables: Tables) -> tuple[float, float, int] | None:
    """Return the cosines of a trained captioner and of one caption for all, and the pairs."""
    table = tables.repairs[tables.repairs["metric"] == "held_out_cosine"]
    means = table.groupby("captions")[["value", "n"]].mean()
    if not {"captioner", "typical"} <= set(means.index):
        return None
    value = means["value"]
    return float(value["captioner"]), float(value["typical"]), int(means["n"].iloc[0])


def captions_are_right(tables: Tables) -> bool:
    """Return whether all captions are known to be right without corruption, as in drawn scenes."""
    table = tables.repairs
    table = table[(table["metric"] == "pairs") & (table["value"] > 0)]
    states = set(table["before"].dropna())
    return "right" in states and not (table[table["rate"] == 0]["before"] == "wrong").any()


def by_seed(
    table: pd.DataFrame, rule: str, reference: str, rate: float, confidence: float,
    log: bool = False,
) -> Effect:  # fmt: skip
    """Return the difference between two rules in rows of rule, rate, seed and value, by seed."""
    wide = table[table["rate"] == rate].pivot_table(index="seed", columns="rule", values="value")
    if rule not in wide or reference not in wide:
        return unknown_effect(math.nan, 0, "seed")
    if log:
        wide = wide.map(math.log)
    return effect_of_mean((wide[rule] - wide[reference]).tolist(), confidence, "seed")


def accuracy_difference(
    tables: Tables, rule: str, reference: str, rate: float, confidence: float
) -> Effect:
    """Return the difference in accuracy between two rules, paired by image and seed."""
    table = of_protocol(tables.repair_differences)
    rows = where(
        table, metric="acc1_difference_of_all_sets", rule=rule, reference=reference, rate=rate
    )
    if rows.empty:
        return unknown_effect(math.nan, 0, IMAGE_AND_SEED)
    return effect_of_comparison(rows.iloc[0], confidence)


def mean_of(table: pd.DataFrame, rule: str, rate: float) -> float:
    """Return the mean over seeds of a rule in rows of rule, rate, seed and value."""
    return float(where(table, rule=rule, rate=rate)["value"].mean())
