"""Contents of the study on the pages of the report."""

from __future__ import annotations

from mispair.laclip.report import claims
from mispair.laclip.report.tables import checkpoints
from mispair.report.notes import Note
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table
from mispair.report.tables import Tables


def _tables(tables: Tables, confidence: float) -> list[Table]:
    return checkpoints(tables)


def _limits(tables: Tables) -> list[Note]:
    return [] if tables.study("laclip") else [Note("laclip", "limits_not_run")]


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    tables=_tables,
    limits=_limits,
)
