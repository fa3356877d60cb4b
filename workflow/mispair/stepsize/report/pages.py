"""What the study puts on the pages of the report."""

from __future__ import annotations

from mispair.core.words import count
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.stepsize.report import claims
from mispair.stepsize.report.tables import stepsize


def _tables(tables: Tables, confidence: float) -> list[Table]:
    return stepsize(tables)


def _summary(tables: Tables) -> list[str]:
    runs = len(tables.stepsize_runs)
    return [count(runs, "run of the stepsize study", "runs of the stepsize study")] if runs else []


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    tables=_tables,
    summary=_summary,
)
