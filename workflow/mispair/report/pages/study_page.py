"""The page of one study: figures, tables and missing results by section."""

from __future__ import annotations

from typing import Any

from mispair.report import study_modules
from mispair.report.pages import claim_rows
from mispair.report.pages.content import Content
from mispair.report.pages.picture import Picture
from mispair.report.pages.study_pages import Piece
from mispair.report.study import Study

PICTURES = 250_000
"""Most bytes of pictures on a page; the script alone draws the charts of larger ones."""


def parts(content: Content, study: Study) -> dict[str, Any]:
    """Return the arguments of the page's template."""
    drawn = [content.picture(figure) for figure in study.figures]
    verdicts = [verdict for verdict in content.judged if verdict.claim.study == study.key]
    return {
        "study": study,
        "measured": content.tables.study(study.key),
        "sections": _sections(content, study, drawn),
        "holes": [picture for picture in drawn if picture.hole],
        "answers": [answer for answer in content.answers[study.key] if answer.measured],
        "answer": study_modules.pages(study.key).answer(content.tables),
        "claims": claim_rows.rows(verdicts),
        "with_picture": _with_picture([picture for picture in drawn if not picture.hole]),
    }


def _with_picture(drawn: list[Picture]) -> set[str]:
    """Name the figures with a picture on the page, the smallest first, within the bound."""
    room = PICTURES
    shown = set()
    for picture in sorted(drawn, key=lambda picture: len(picture.static)):
        room -= len(picture.static)
        if picture.static and room >= 0:
            shown.add(picture.figure.name)
    return shown


def _sections(content: Content, study: Study, drawn: list[Picture]) -> list[dict[str, Any]]:
    """Return the content of each section; sections without content and holes are left out."""
    printed = content.tables_of_studies[study.key]
    pieces = study_modules.pages(study.key).pieces(content)
    sections = [
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
        for section in sections
        if section["pictures"] or section["tables"] or section["lost"] or section["title"] in pieces
    ]
