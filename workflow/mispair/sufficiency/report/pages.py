"""What the study puts on the pages of the report."""

from __future__ import annotations

from mispair.report.notes import Note
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.sufficiency.report import claims
from mispair.sufficiency.report.runs import RUN, trained
from mispair.sufficiency.report.tables import sufficiency


def _tables(tables: Tables, confidence: float) -> list[Table]:
    return sufficiency(tables, confidence)


def _summary(tables: Tables) -> list[Note]:
    if tables.sufficiency.empty:
        return []
    runs = len(trained(tables.sufficiency)[RUN].drop_duplicates())
    return [Note("sufficiency", "summary_runs", runs=runs)]


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    tables=_tables,
    summary=_summary,
)
