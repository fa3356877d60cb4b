"""What the study puts on the pages of the report."""

from __future__ import annotations

from mispair.report.notes import Note
from mispair.report.pages.study_pages import Drawing, Pages
from mispair.report.tables import Tables
from mispair.simulation.report import claims, curves, notes, tables


def _drawings(tables: Tables) -> list[Drawing]:
    """Return the figures of the paper without a claim."""
    return [
        Drawing(
            "figures 3 and 4",
            Note("simulation", "drawing_cosines"),
            Note("simulation", "drawing_distributions"),
            "simulation_cosines",
        )
    ]


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    scopes=claims.scopes,
    tables=tables.simulation,
    summary=notes.summary,
    limits=notes.limits,
    holes=notes.holes,
    drawings=_drawings,
    settings=notes.settings,
    runs=curves.runs,
)
