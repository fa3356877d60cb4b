"""The page of one study: figures and tables by section, and what is missing where it would be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from mispair.evaluation.purity import DEFINITION
from mispair.evaluation.report import figures_semantics
from mispair.report import catalogue, studies
from mispair.report.pages import claim_rows
from mispair.report.pages.content import Content
from mispair.report.pages.picture import Picture

PICTURES = 250_000
"""Bytes of pictures on a page; the charts of larger ones are drawn by the script alone."""


@dataclass(frozen=True)
class Piece:
    """What a section holds besides figures and tables: a text first, and HTML last."""

    text: str = ""
    html: Markup | None = None


def parts(content: Content, study: catalogue.Study) -> dict[str, Any]:
    """Return what the template of the page is given."""
    drawn = [content.picture(figure) for figure in catalogue.figures(study.key)]
    own = [verdict for verdict in content.judged if verdict.claim.study == study.key]
    return {
        "study": study,
        "measured": content.tables.study(study.key),
        "sections": _sections(content, study, drawn),
        "holes": [picture for picture in drawn if picture.hole],
        "claims": claim_rows.rows(own),
        "with_picture": _with_picture([picture for picture in drawn if not picture.hole]),
        "sheet": _contact_sheet(content) if study.key == "image_text" else None,
    }


def _contact_sheet(content: Content) -> Piece:
    if content.contact_sheet is not None:
        return Piece(html=Markup(content.contact_sheet))
    return Piece(
        "it could not be made from what there is" if content.failed else "it was not drawn"
    )


def _with_picture(drawn: list[Picture]) -> set[str]:
    """Name the figures whose picture stands on the page itself, until their chart is drawn.

    The smallest first, as far as there is room; the others are drawn by the script alone.
    """
    room = PICTURES
    found = set()
    for picture in sorted(drawn, key=lambda picture: len(picture.static)):
        room -= len(picture.static)
        if picture.static and room >= 0:
            found.add(picture.figure.name)
    return found


def _sections(
    content: Content, study: catalogue.Study, drawn: list[Picture]
) -> list[dict[str, Any]]:
    """Put all where it belongs; sections without anything, and without a hole, are left out."""
    printed = studies.PARTS[study.key].tables(content.tables, content.judged, content.confidence)
    pieces = _pieces(content, study.key)
    found = [
        {
            "title": title,
            "piece": pieces.get(title, Piece()),
            "pictures": [p for p in drawn if p.figure.section == title and not p.hole],
            "tables": [table for table in printed if table.section == title],
            "lost": content.lost.get((study.key, title), ()),
        }
        for title in study.sections
    ]
    return [
        section
        for section in found
        if section["pictures"] or section["tables"] or section["lost"] or section["title"] in pieces
    ]


def _pieces(content: Content, study: str) -> dict[str, Piece]:
    """Return the definition of purity, where purity was measured."""
    if study != "image_text" or content.tables.purity.empty:
        return {}
    return {figures_semantics.SECTION: Piece(DEFINITION)}
