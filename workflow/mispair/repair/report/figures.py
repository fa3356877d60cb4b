"""Figures of the repair."""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.repair.report.measures import (
    ARMS,
    FILTERS,
    LABELS,
    TOWERS,
    label_of,
    rates_of,
    rules_of,
    truth_is_known,
    values,
)
from mispair.report import charts, small, style, texts
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables

NOT_RUN = {ARMS: Note("repair", "hole_arms"), TOWERS: Note("repair", "hole_towers")}

SHOWN = {
    "text overlap": "Mean |cos| of text neurons",
    "image overlap": "Mean |cos| of image neurons",
    "accuracy": "Accuracy (share of images)",
}

CELLS = {
    ("right", "right"): ("right, stays right", style.BLUE),
    ("wrong", "right"): ("wrong, repaired", style.GREEN),
    ("right", "wrong"): ("right, harmed", style.VIOLET),
    ("wrong", "wrong"): ("wrong, stays wrong", style.ORANGE),
    ("right", "dropped"): ("right, dropped", style.GREY),
    ("wrong", "dropped"): ("wrong, dropped", style.SKY),
    ("own", "own"): ("own, stays", style.BLUE),
    ("swapped", "replaced"): ("exchanged, replaced", style.GREEN),
    ("own", "replaced"): ("own, replaced", style.VIOLET),
    ("swapped", "swapped"): ("exchanged, stays", style.ORANGE),
    ("own", "dropped"): ("own, dropped", style.GREY),
    ("swapped", "dropped"): ("exchanged, dropped", style.SKY),
}
"""Name and colour of captions by their state before and after the repair.

Right and wrong where the pictures are known; else own captions and those that a run exchanged.
"""

OWN_ALONE = {"own, stays": "stays", "own, replaced": "replaced", "own, dropped": "pair dropped"}
"""Names where no caption was exchanged."""


def _title(rate: float) -> str:
    return texts.text(Note("repair", "title_rate", rate=rate))


CHANGED = {
    "judged": ("wrong, repaired", "right, harmed"),
    "exchanged": ("exchanged, replaced", "own, replaced"),
    "own": ("replaced", "pair dropped"),
}
"""Cells that the text of the ledger states, by what is known of the captions."""


def repair_by_rule(tables: Tables) -> Drawing | Hole:
    """Draw overlap and accuracy of each rule at the largest rate."""
    return _of_table(tables, ARMS)


def repair_from_scratch(tables: Tables) -> Drawing | Hole:
    """Draw the same of towers that were trained from scratch."""
    return _of_table(tables, TOWERS)


def _of_table(tables: Tables, name: str) -> Drawing | Hole:
    rates = rates_of(tables, name)
    if not rates:
        return Hole(NOT_RUN[name])
    parts = [values(tables, measure, name).assign(measure=measure) for measure in SHOWN]
    labels = {rule: label_of(tables, rule, name) for rule in rules_of(tables, name)}
    return _by_rule(pd.concat(parts, ignore_index=True), labels, rates[-1])


def _by_rule(data: pd.DataFrame, rules: dict[str, str], rate: float) -> Drawing:
    """Draw ``value`` of each ``measure``, ``rule`` and ``seed`` at a rate."""
    data = data[data["rate"] == rate].assign(label=lambda table: table["rule"].map(rules))
    order = [*rules.values()]
    panels = []
    for number_of_panel, (measure, title) in enumerate(SHOWN.items()):
        axis = alt.Axis(labelLimit=320) if not number_of_panel else alt.Axis(labels=False)
        base = alt.Chart().encode(y=alt.Y("label:N", sort=order, title=None, axis=axis))
        scale = alt.Scale(zero=False, nice=True)
        points = base.mark_point(color=style.BLUE, filled=True, opacity=0.5).encode(
            x=alt.X("value:Q", title=title, scale=scale),
            tooltip=charts.tips("label:N:rule", "seed:Q:seed", "value:Q:value"),
        )
        mean = base.mark_tick(color=style.INK, thickness=3, size=16).encode(
            x=alt.X("mean(value):Q", title=title, scale=scale)
        )
        panels.append(
            alt.layer(points, mean)
            .transform_filter(f"datum.measure == '{measure}'")
            .properties(width=240, height=30 * len(rules))
        )
    means = data.groupby(["measure", "rule"])["value"].mean()
    shown = {
        measure: {
            rule: means[measure, rule]
            for rule in ("raw", *FILTERS, "drop", "oracle")
            if (measure, rule) in means
        }
        for measure in SHOWN
    }
    notes = [Note("repair", "figure_means", rate=rate, means=shown)]
    return Drawing(charts.side_by_side(panels, 3, data, gap=24), data, notes)


def repair_ledger(tables: Tables) -> Drawing | Hole:
    """Draw what became of right and wrong captions, by rule and rate."""
    table = tables.repairs
    cells = table[table["metric"] == "pairs"].dropna(subset=["before"])
    if cells.empty:
        return Hole(NOT_RUN[ARMS])
    keys = ["rule", "rate", "before", "after"]
    draws = cells["seed"].nunique()
    total = float(table[table["metric"] == "read"]["value"].max())
    data = cells.groupby(keys)[["value"]].sum().reset_index()
    data["value"] /= draws * total
    data["cell"] = [CELLS[cell][0] for cell in zip(data["before"], data["after"], strict=True)]
    exchanged = "swapped" in set(cells["before"])
    if not exchanged:
        data["cell"] = data["cell"].replace(OWN_ALONE)
    data = data.groupby(["rule", "rate", "cell"])[["value"]].sum().reset_index()
    data["label"] = data["rule"].map(LABELS)
    colours = {
        name if exchanged else OWN_ALONE.get(name, name): colour for name, colour in CELLS.values()
    }
    present = [name for name in colours if name in set(data["cell"])]
    shown = rules_of(tables) or LABELS
    order = [LABELS[rule] for rule in shown if rule in set(data["rule"])]
    position = {name: number for number, name in enumerate(colours)}
    data["position"] = data["cell"].map(position)
    panels = [
        alt.Chart()
        .transform_filter(f"datum.rate == {rate}")
        .mark_bar()
        .encode(
            x=alt.X("value:Q", title="Share of pairs", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("label:N", sort=order, title=None, axis=alt.Axis(labelLimit=320)),
            color=charts.colour("cell", "Caption", colours, present),
            order="position:Q",
            tooltip=charts.tips("label:N:rule", "cell:N:caption", "value:Q:share of pairs"),
        )
        .properties(width=420, height=26 * len(order), title=_title(rate))
        for rate in sorted(data["rate"].unique())
    ]
    shares = data[data["rate"] == data["rate"].max()].set_index(["rule", "cell"])["value"]
    kind = "exchanged" if exchanged else "own"
    if truth_is_known(tables):
        kind = "judged"
    changed = {
        rule: [float(shares.get((rule, cell), 0.0)) for cell in CHANGED[kind]]
        for rule in (*FILTERS, "drop", "all")
        if rule in shares.index.get_level_values(0) and not (rule == "drop" and exchanged)
    }
    notes = [Note("repair", "figure_ledger", rate=data["rate"].max(), kind=kind, changed=changed)]
    return Drawing(charts.side_by_side(panels, 1, data), data, notes)


IN_SHORT = {
    "raw": "raw captions",
    "factor": "filtered",
    "posterior": "by the audit",
    "pooled": "better of both",
    "share": "best stay",
    "drop": "pairs dropped",
    "all": "all replaced",
    "oracle": "right captions",
}
"""Rules of the small figure."""


def small_repair(tables: Tables) -> Drawing | Hole:
    """Draw the accuracy of a few rules at the largest rate."""
    rates = rates_of(tables)
    if not rates:
        return Hole(NOT_RUN[ARMS])
    table = values(tables, "accuracy")
    table = table[(table["rate"] == rates[-1]) & table["rule"].isin(IN_SHORT)]
    if table.empty:
        return Hole(Note("repair", "hole_accuracy"))
    position = {rule: number_of_rule for number_of_rule, rule in enumerate(IN_SHORT)}
    table = table.sort_values("rule", key=lambda rules: rules.map(position), kind="stable")
    names = IN_SHORT if truth_is_known(tables) else {**IN_SHORT, "oracle": "own captions"}
    runs = table.assign(label=table["rule"].map(names))[["label", "value"]]
    chart, data = small.dots(runs.reset_index(drop=True), "Accuracy (share)", colour=style.BLUE)
    means = runs.groupby("label", sort=False)["value"].mean().to_dict()
    return Drawing(chart, data, [Note("repair", "figure_accuracy", rate=rates[-1], means=means)])
