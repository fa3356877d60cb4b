"""What the study puts on the pages of the report."""

from __future__ import annotations

from markupsafe import Markup

from mispair.evaluation.purity import DEFINITION
from mispair.image_text.report import claims, exports, notes, tables_towers
from mispair.image_text.report import tables as of_models
from mispair.image_text.report.study import PURITY, SAMPLES
from mispair.pairs.report import corpus
from mispair.report import texts
from mispair.report.notes import Note
from mispair.report.pages.content import Content
from mispair.report.pages.study_pages import Pages, Piece
from mispair.report.table import Table
from mispair.report.tables import Tables

GALLERY = Markup('<h3 id="neurons">What the neurons respond to</h3>\n')


def _tables(tables: Tables, confidence: float) -> list[Table]:
    return [
        *of_models.of_arms(tables),
        *tables_towers.replicates(tables),
        *corpus.tables_of(tables),
    ]


def _pieces(content: Content) -> dict[str, Piece]:
    sheet = content.pieces.get("contact_sheet")
    no_sheet = texts.text(Note("image_text", "piece_no_sheet", failed=bool(content.failed)))
    pieces = {SAMPLES: Piece(html=Markup(sheet)) if sheet else Piece(no_sheet)}
    gallery = content.pieces.get("neurons")
    if gallery:
        pieces[PURITY] = Piece(DEFINITION, GALLERY + Markup(gallery))
    elif not content.tables.purity.empty:
        pieces[PURITY] = Piece(f"{DEFINITION} {texts.text(Note('image_text', 'piece_no_gallery'))}")
    return pieces


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    tables=_tables,
    definitions={"Overlap and purity of neurons": DEFINITION},
    summary=notes.summary,
    warnings=notes.warnings,
    limits=notes.limits,
    holes=notes.holes,
    drawings=notes.drawings,
    pieces=_pieces,
    runs=exports.runs,
    results=exports.results,
)
