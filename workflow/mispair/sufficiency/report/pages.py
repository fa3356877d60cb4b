"""What the study puts on the pages of the report: published numbers next to ours."""

import math

import pandas as pd

from mispair.report import published, texts
from mispair.report.pages.study_pages import Pages
from mispair.report.statistics import mean_interval
from mispair.report.table import Cell, Number, Table, general, or_dash
from mispair.report.tables import Tables
from mispair.report.texts import Note
from mispair.sufficiency.report import claims
from mispair.sufficiency.report.claims import (
    ENCODERS,
    HEAD_TASKS,
    RUN,
    TASKS,
    main_flip,
    published_risks,
    published_trees,
    rows,
    trained,
)

DIGITS = {"clip": 3, "zsc": 3, "cdm": 3, "vlm": 4}


def _tables(tables: Tables, confidence: float) -> list[Table]:
    table = tables.sufficiency
    if table.empty:
        return []
    return [_classes(table, confidence), _published(table)]


def _cell(measured: pd.DataFrame, confidence: float, digits: int = 3, sign: bool = False) -> Cell:
    """Return the mean over runs with the t interval of their spread.

    The limits of a row come from the samples of one run, and do not hold the spread of seeds. They
    are the limits of a single run.
    """
    if measured.empty:
        return None
    value, low, high = (float(measured[name].iloc[0]) for name in ("value", "low", "high"))
    if len(measured) > 1:
        mean = mean_interval(measured["value"].astype(float).tolist(), confidence)
        value, low, high = mean.value, mean.low, mean.high
    return Number(value, digits, sign, low=low, high=high)


def _classes(table: pd.DataFrame, confidence: float) -> Table:
    """Return the zero-shot risk by the number of prompts, at the p that claims are judged at."""
    runs = trained(table, main_flip(table))
    runs = runs[(runs["task"] == "zsc")]
    printed = published.sufficiency_prompts().set_index(["model", "per_class"])["risk"]
    arms = [arm for arm in ("bayes", "exact", *ENCODERS, "untrained") if arm in set(runs["arm"])]
    cells = [
        (general(m),
         *(_cell(rows(runs, arm=arm, metric="risk", per_class=m), confidence) for arm in arms),
         or_dash(printed.get(("standard", m)), 3))
        for m in sorted(runs["per_class"].dropna().unique())
    ]  # fmt: skip
    return Table(
        f"Zero-shot risk by prompts for each class, p = {main_flip(table):g}",
        ("M", *arms, "published, standard (4x3x10)"), tuple(cells),
        texts.text(Note("sufficiency", "table_classes")), section="Zero-shot classes",
    )  # fmt: skip


def _published(table: pd.DataFrame) -> Table:
    """Return Bayes' risks at the published size, and what published heads lose of the worth."""
    bayes = published_trees(table)
    results = []
    for flip in sorted(bayes["flip"].unique()):
        at_flip = bayes[bayes["flip"] == flip]
        risks = {task: published_risks(task, flip) for task in TASKS}
        cells: list[Cell] = []
        for task, digits in DIGITS.items():
            ours = at_flip[(at_flip["task"] == task) & (at_flip["arm"] == "bayes")]
            ours = ours[ours["metric"] == "risk"]
            cells += [_cell(ours, 0.95, digits), or_dash(risks[task].get("bayes"), digits)]
        for task in HEAD_TASKS:
            worth = rows(at_flip, task=task, arm="unconditional", metric="difference")  # fmt: skip
            lost = risks[task].get("frozen", math.nan) - risks[task].get("bayes", math.nan)
            cells += [_cell(worth, 0.95, DIGITS[task]), or_dash(lost, DIGITS[task])]
        results.append((general(flip), *cells))
    heads = [head for name in TASKS.values() for head in (name, "published")]
    heads += [head for what in ("text", "image") for head in (f"worth of the {what}", "head loses")]
    return Table(
        "Least possible risks, at the published size and trees", ("p", *heads), tuple(results),
        texts.text(Note("sufficiency", "table_published")), section="At the published size",
    )  # fmt: skip


def _summary(tables: Tables) -> list[Note]:
    if tables.sufficiency.empty:
        return []
    runs = len(trained(tables.sufficiency)[RUN].drop_duplicates())
    return [Note("sufficiency", "summary_runs", runs=runs)]


PAGES = Pages(claims=claims.CLAIMS, questions=claims.QUESTIONS, tables=_tables, summary=_summary)
