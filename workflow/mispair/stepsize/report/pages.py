"""What the study puts on the pages of the report: its tables, and notes for other pages."""

import pandas as pd

from mispair.report import texts
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table, general, or_dash
from mispair.report.tables import Tables
from mispair.report.texts import Note
from mispair.stepsize.report import claims
from mispair.stepsize.report.claims import (
    DATA_SETS,
    SAME_LIST,
    monotone,
    named,
    of_parts,
    oscillates,
)


def _tables(tables: Tables, confidence: float) -> list[Table]:
    if not tables.study("stepsize"):
        return []
    return [_failures(tables.stepsize_runs), _lists(tables.stepsize_runs)]


def _words(name: object) -> str:
    """Return a data set, or an activation, in words."""
    return DATA_SETS.get(str(name), str(name).replace("_", " "))


def _failures(runs: pd.DataFrame) -> Table:
    """Return the runs that never settle or diverge, and those of the sweep that stall."""
    failures = []
    for row in named(oscillates(runs[runs["settled"] != 1])).to_dict("records"):
        fault = Note(
            "stepsize", "cell_fails", stopped=row["diverged"], last=row["transition"] - 1,
            steps=row["steps"],
        )  # fmt: skip
        failures.append((row, fault))
    settled = named(of_parts(runs[runs["settled"] == 1], "sweep", "activations"))
    for row in settled[settled["rises"] > 0].to_dict("records"):
        same = settled[
            (settled["panel"] == row["panel"]) & (settled["part"] == row["part"])
            & (settled["seed"] == row["seed"]) & (settled["stepsize"] < row["stepsize"])
        ]  # fmt: skip
        if len(same) and row["final_risk"] > 5 * same["final_risk"].max():
            failures.append((row, Note("stepsize", "cell_stalls")))
    rows = [
        (row["panel"], row["part"], *(general(row[name]) for name in ("width", "stepsize", "seed")),
         texts.text(fault), or_dash(row["final_risk"], ".2g"))
        for row, fault in failures
    ]  # fmt: skip
    return Table(
        "Runs that never settle, diverge, or stall",
        ("data and activation", "part", "m", "η", "seed", "outcome", "risk at the end"),
        tuple(rows), texts.text(Note("stepsize", "table_failures")), section="Runs that fail",
    )  # fmt: skip


def _lists(runs: pd.DataFrame) -> Table:
    """Return the lists of stepsizes without a monotone run, which have no speed-up."""
    lists = of_parts(runs, "sweep", "onset", "acceleration", "multilayer").groupby(SAME_LIST)
    rows = [
        (str(part), _words(data_set), _words(activation), general(width), general(seed),
         general(group["stepsize"].min()))
        for (part, data_set, activation, width, seed), group in lists
        if monotone(group).empty
    ]  # fmt: skip
    return Table(
        "Lists of stepsizes without a monotone member",
        ("part", "data", "activation", "m", "seed", "smallest η"),
        tuple(rows), texts.text(Note("stepsize", "table_lists")), section="Runs that fail",
    )  # fmt: skip


def _summary(tables: Tables) -> list[Note]:
    runs = len(tables.stepsize_runs)
    return [Note("stepsize", "summary_runs", runs=runs)] if runs else []


PAGES = Pages(claims=claims.CLAIMS, questions=claims.QUESTIONS, tables=_tables, summary=_summary)
