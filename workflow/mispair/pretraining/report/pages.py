"""What the study puts on the pages of the report: its table, and a note for the landing page."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from mispair.pretraining.names import IDENTIFIED, LINEAR, TOWERS
from mispair.pretraining.report import claims
from mispair.pretraining.report.claims import captions, conditions, effects, values
from mispair.report import texts
from mispair.report.notes import Note
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Cell, Table, effect_cell, mean_and_spread
from mispair.report.tables import Tables, where


def _tables(tables: Tables, confidence: float) -> list[Table]:
    """Return the table of what the figure does not show; none without a measurement."""
    table = tables.pretraining
    if table.empty:
        return []
    measures = {"accuracy, mean of the sets": ({"metric": "acc1"}, 3)}
    for tower in TOWERS:
        measures |= {
            f"recovery of features, {tower}, {name}":
                ({"metric": "recovery", "basis": basis, "tower": tower}, 3)
            for name, basis in (("varimax", IDENTIFIED), ("linear readouts", LINEAR))
        }  # fmt: skip
        overlap = {"metric": "mean_abs_cosine", "tower": tower}
        measures[f"mean |cos| of neurons, {tower}"] = (overlap, 4)
    rows = [
        (name, *cells)
        for name, (columns, digits) in measures.items()
        for cells in _conditions(table, values(table, **columns), confidence, digits)
    ]
    return [
        Table(
            "Accuracy, recovery of true features and overlap",
            ("measure", "captions", "mean ± standard deviation", "less clean, paired by seed"),
            tuple(rows), texts.text(Note("pretraining", "table_measures")),
            section="Accuracy and overlap",
        )
    ]  # fmt: skip


def _conditions(
    table: pd.DataFrame, measured: pd.DataFrame, confidence: float, digits: int
) -> Iterator[tuple[Cell, ...]]:
    """Yield captions, mean with spread, and effect against clean captions, of each condition."""
    apart = effects(measured, confidence)
    for scheme, rate in conditions(table):
        effect = apart.get((scheme, rate))
        yield (
            captions(scheme, rate),
            mean_and_spread(where(measured, scheme=scheme, rate=rate)["value"], digits),
            None if effect is None else effect_cell(effect.value, effect.low, effect.high),
        )


def _summary(tables: Tables) -> list[Note]:
    runs = len(tables.pretraining[["scheme", "rate", "seed"]].drop_duplicates())
    return [Note("pretraining", "summary_runs", runs=runs)] if runs else []


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    tables=_tables,
    summary=_summary,
)
