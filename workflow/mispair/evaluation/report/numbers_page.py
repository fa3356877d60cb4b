"""The page of numbers: one table of all with filters, and facts of the sets and models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from mispair.core.words import listing
from mispair.evaluation.report import checkpoints, numbers
from mispair.report.pages.content import Content
from mispair.report.pages.study_pages import Page
from mispair.report.table import Table
from mispair.report.tables import Tables, records

LONGEST = 5_000
"""Most rows on the page; `numbers.csv` next to it has all."""

KINDS = {
    numbers.MEASURE: "measures that are no headline",
    numbers.CHANGE: "changes against a reference",
    numbers.PART: "classes, groups and categories",
}
"""Kinds of rows that the page may leave out."""

REMARK = (
    "Shares and cosines are between 0 and 1. Value: the mean over runs (seeds), ± 1 standard "
    "deviation; of one run, its 95 % interval. A metric with “difference” in its name is a change "
    "against the reference in column part, paired by image. Classes, groups and categories: the "
    "untouched model and both ends of C_m, by the main protocol; zeroshot.csv has every arm. "
    "Published: table 4 for arms (another model: compare shapes, not levels), tables 2 and 3 for "
    "models, OpenAI’s ViT-B/32 for SugarCrepe."
)


def pages(content: Content) -> list[Page]:
    """Return the page, if anything was measured on a set or a model."""
    every = numbers.numbers(content.tables)
    described = [*_sets(content), *_models(content.tables)]
    if every.empty and not described:
        return []
    shown, left_out = within(every, LONGEST)
    rows = tuple(numbers.cells(row) for row in records(shown))
    parts = {
        "table": Table("Numbers of arms and models", numbers.HEADS, rows, REMARK),
        "left_out": left_out,
        "total": len(every),
        "about": described,
    }
    csv = every.drop(columns="kind").to_csv(index=False, float_format="%.6g", lineterminator="\n")
    return [
        Page("numbers.html", "Numbers of every set and model", "Numbers", "numbers.html.j2", parts,
             {"numbers.csv": csv})
    ]  # fmt: skip


def within(every: pd.DataFrame, limit: int) -> tuple[pd.DataFrame, str]:
    """Return the rows on a page of at most `limit` rows, and the kinds that it leaves out."""
    last = numbers.PART
    while last and (every["kind"] <= last).sum() > limit:
        last -= 1
    shown = every[every["kind"] <= last]
    left_out = [KINDS[kind] for kind in KINDS if kind > last and (every["kind"] == kind).any()]
    left_out += ["the last sets"] * (len(shown) > limit)
    return shown[:limit], listing(left_out) if left_out else ""


def _about(kind: str, name: str, tables: list[Table], judged: Any = ()) -> dict[str, Any]:
    tables = [table for table in tables if table.rows]
    return {"kind": kind, "name": name, "tables": tables, "judged": judged}


def _sets(content: Content) -> Iterator[dict[str, Any]]:
    """Yield the protocols of each evaluation set, and the claims on it alone."""
    both = pd.concat([content.tables.zeroshot, content.tables.checkpoints])
    for name in numbers.set_names(content.tables):
        judged = [
            (verdict, part)
            for verdict in content.judged
            for part in verdict.sets
            if part.name == name
        ]
        yield _about("set", name, [_asked(both[both["evaluation_set"] == name], name)], judged)


def _asked(of_set: pd.DataFrame, name: str) -> Table:
    rows = []
    for protocol, group in of_set.dropna(subset=["protocol"]).groupby("protocol"):
        classes = group.loc[group["metric"] == "class_recall", "classname"].nunique()
        headlines, prints = (
            ", ".join(sorted(group[name].dropna().unique())) for name in ("headline", "fingerprint")
        )
        rows.append((str(protocol), headlines or "–", f"{classes:,}" if classes else "–", prints))
    return Table(
        f"Protocols of {name}",
        ("protocol", "headline metric", "classes with images", "hash of classes and prompts"),
        tuple(rows),
    )


def _models(tables: Tables) -> Iterator[dict[str, Any]]:
    """Yield the recorded facts of each model, and the recipe of the one that is fine-tuned."""
    facts, main = checkpoints.facts(tables), numbers.main_model(tables)
    for name in dict.fromkeys(filter(None, [main, *numbers.compared_models(tables)])):
        recorded = [(_words(key), text) for key, text in facts.get(name, {}).items()]
        origin = Table(f"Facts of {name}", ("what", "which"), tuple(recorded))
        yield _about("model", name, [origin, *([_recipe(tables)] if name == main else [])])


def _words(key: str) -> str:
    return key.replace("_", " ").replace(".", ", ")


def _recipe(tables: Tables) -> Table:
    """Return the settings of the fine-tuning, as every arm records them."""
    rows = tables.provenance[tables.provenance["key"] == "projection.training"]
    values_of: dict[str, dict[str, None]] = {}
    for text in rows.loc[rows["artefact"].isin(["purity", "zeroshot", "pruning"]), "text"].dropna():
        for key, value in json.loads(text).items():
            values_of.setdefault(_words(key), {})[str(value)] = None
    return Table(
        "Recipe of the fine-tuning", ("setting", "value"),
        tuple((key, "; ".join(values)) for key, values in sorted(values_of.items())),
        "The two final projections of the frozen towers. If arms differ, all values are listed.",
    )  # fmt: skip
