"""What the study puts on the pages of the report."""

from __future__ import annotations

from mispair.pretraining.report import claims
from mispair.pretraining.report.tables import pretraining
from mispair.report.notes import Note
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table
from mispair.report.tables import Tables


def _tables(tables: Tables, confidence: float) -> list[Table]:
    return pretraining(tables, confidence)


def _summary(tables: Tables) -> list[Note]:
    runs = len(tables.pretraining[["scheme", "rate", "seed"]].drop_duplicates())
    return [Note("pretraining", "summary_runs", runs=runs)] if runs else []


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    tables=_tables,
    summary=_summary,
)
