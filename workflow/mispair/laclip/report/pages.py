"""Contents of the study on the pages of the report."""

from __future__ import annotations

from mispair.laclip.report import claims, tables
from mispair.laclip.report.checkpoints import facts
from mispair.report.notes import Note
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table
from mispair.report.tables import Tables


def _tables(measured: Tables, confidence: float) -> list[Table]:
    return tables.checkpoints(measured)


def _summary(measured: Tables) -> list[Note]:
    compared = {*measured.checkpoints["towers"].dropna(), *facts(measured)}
    return [Note("laclip", "summary_models", models=len(compared))] if compared else []


def _limits(measured: Tables) -> list[Note]:
    return [] if measured.study("laclip") else [Note("laclip", "limits_not_run")]


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    tables=_tables,
    summary=_summary,
    limits=_limits,
)
