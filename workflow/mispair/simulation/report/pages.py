"""What the study puts on the pages of the report."""

from __future__ import annotations

from mispair.report.pages.study_pages import Pages
from mispair.simulation.report import claims, curves, notes, tables

PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    scopes=claims.scopes,
    tables=tables.simulation,
    summary=notes.summary,
    limits=notes.limits,
    holes=notes.holes,
    settings=notes.settings,
    runs=curves.runs,
)
