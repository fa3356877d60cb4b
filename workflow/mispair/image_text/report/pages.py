"""What the study puts on the pages of the report."""

from __future__ import annotations

from markupsafe import Markup

from mispair.evaluation.purity import DEFINITION
from mispair.evaluation.report import (
    clip_benchmark,
    comparison_evaluation,
    comparison_exported,
    comparison_protocols,
)
from mispair.image_text.report import (
    claims,
    curves,
    notes,
    presets,
    reanalysis,
    tables_towers,
)
from mispair.pairs.report import corpus, pairings
from mispair.report import texts
from mispair.report.notes import Note
from mispair.report.pages.content import Content
from mispair.report.pages.study_pages import Pages, Piece
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.towers.report import encoding

PURITY = "Definition of purity"
"""Section of the gallery of neurons."""

SAMPLES = "Sample pairs before and after shuffling"
"""Section of the contact sheet."""

GALLERY = Markup('<h3 id="neurons">What the neurons respond to</h3>\n')


def _tables(tables: Tables, confidence: float) -> list[Table]:
    single = (
        presets.presets(tables),
        reanalysis.table4(tables),
        comparison_protocols.protocols(tables),
        pairings.pairings(tables),
        pairings.effective(tables),
        encoding.encoding(tables),
    )
    return [
        *filter(None, single),
        *comparison_exported.exported(tables),
        *comparison_evaluation.evaluation(tables),
        *tables_towers.replicates(tables),
        *corpus.corpus(tables),
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
    runs=curves.runs,
    results=clip_benchmark.results,
)
