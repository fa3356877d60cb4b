"""What the audit puts on the pages of the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from mispair.audit.report import claims
from mispair.audit.report.estimates import numbers, shared_by_suspects
from mispair.audit.report.study import SUSPECTS
from mispair.audit.report.tables import audit
from mispair.report import texts
from mispair.report.notes import Note
from mispair.report.pages.study_pages import Pages, Piece
from mispair.report.tables import Tables


def headline(tables: Tables) -> list[Note]:
    """Return what the page begins with; nothing if the audit did not run."""
    found = numbers(tables)
    return [Note("audit", "page_headline", n=found)] if found["rate"] or found["refused"] else []


def _ending(tables: Tables) -> list[Note]:
    """Return the headline and what it holds under; a refusal has no such condition."""
    found = numbers(tables)
    conditions = [Note("audit", "condition", n=found)] if found["rate"] else []
    return [*headline(tables), *conditions]


def _pieces(content: Any) -> Mapping[str, Piece]:
    if not headline(content.tables):
        return {}
    gallery, shared = content.pieces.get("suspects"), shared_by_suspects(content.tables.audit)
    notes = [Note("audit", "suspects_share", s=shared)] if shared else []
    if not gallery:
        notes.append(Note("audit", "piece_no_gallery", failed=bool(content.failed)))
    return {
        "": Piece(texts.text(Note("audit", "page_details", n=numbers(content.tables)))),
        SUSPECTS: Piece(texts.joined(notes), Markup(gallery) if gallery else None),
    }


def _summary(tables: Tables) -> list[Note]:
    # The share stands in the answer, where there is one.
    brief = not tables.audit_calibration.empty
    return [Note("audit", "summary", n=numbers(tables), brief=brief)] if headline(tables) else []


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    answer=headline,
    ending=_ending,
    tables=audit,
    pieces=_pieces,
    summary=_summary,
)
