"""Figures of the repair."""

from textwrap import wrap

import altair as alt
import pandas as pd

from mispair.repair.report.claims import (
    ARMS,
    TOWERS,
    at_rate,
    label_of,
    rates_of,
    rules_of,
    truth_is_known,
    values,
)
from mispair.repair.rules import RULES
from mispair.report import charts, recipes, small_figures, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables
from mispair.report.texts import Note

NOT_RUN = {ARMS: Note("repair", "hole_arms"), TOWERS: Note("repair", "hole_towers")}

LONGEST_LINE = 24
"""Characters of a line of an axis title, of which two are side by side in print."""

SHOWN = {
    "text directions": "Directions of text neurons",
    "image directions": "Directions of image neurons",
    "accuracy": "Accuracy (share of images)",
}


def repair_by_rule(tables: Tables) -> Drawing | Hole:
    """Draw directions of neurons and accuracy of each rule at the largest rate."""
    return _of_table(tables, ARMS)


def repair_from_scratch(tables: Tables) -> Drawing | Hole:
    """Draw the same of towers that were trained from scratch."""
    return _of_table(tables, TOWERS)


def _of_table(tables: Tables, name: str) -> Drawing | Hole:
    rates = rates_of(tables, name)
    if not rates:
        return Hole(NOT_RUN[name])
    parts = [
        values(tables, measure, name).assign(measure=measure, panel=title)
        for measure, title in SHOWN.items()
    ]
    runs = pd.concat(parts, ignore_index=True)
    runs = runs[runs["rate"] == rates[-1]]
    data = charts.layers(runs, ["measure", "panel", "rule", "rate"])
    order = {rule: label_of(tables, rule, name) for rule in rules_of(tables, name)}
    data["label"] = data["rule"].map(order)
    words = at_rate(rates[-1])
    chart = recipes.forest(
        data, wrap(words[:1].upper() + words[1:], LONGEST_LINE),
        alt.Y("label:N", title="Captions", sort=[*order.values()]), alt.value(style.ONLY),
        ("label:N:captions", "seed:Q:seed", "value:Q:value"),
    )  # fmt: skip
    return Drawing(chart, data.drop(columns="panel"))


def small_repair(tables: Tables) -> Drawing | Hole:
    """Draw the accuracy of a few rules at the largest rate."""
    rates = rates_of(tables)
    if not rates:
        return Hole(NOT_RUN[ARMS])
    names = {name: rule.short for name, rule in RULES.items() if rule.short}
    if not truth_is_known(tables):
        names["oracle"] = "own captions"
    table = values(tables, "accuracy")
    table = table[(table["rate"] == rates[-1]) & table["rule"].isin(names)]
    if table.empty:
        return Hole(Note("repair", "hole_accuracy"))
    runs = table.assign(label=pd.Categorical(table["rule"].map(names), [*names.values()]))
    runs = runs.sort_values("label", kind="stable")[["label", "value"]].astype({"label": str})
    return Drawing(
        *small_figures.dots(runs.reset_index(drop=True), "Accuracy (share)", colour=style.ONLY)
    )
