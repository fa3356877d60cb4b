"""What the study puts on the pages of the report."""

from __future__ import annotations

from mispair.report.notes import Note
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.stepsize.report import claims
from mispair.stepsize.report.tables import stepsize


def _tables(tables: Tables, confidence: float) -> list[Table]:
    return stepsize(tables)


def _summary(tables: Tables) -> list[Note]:
    runs = len(tables.stepsize_runs)
    return [Note("stepsize", "summary_runs", runs=runs)] if runs else []


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    tables=_tables,
    summary=_summary,
)
