"""A comparison as text for a terminal, and as a page for a browser."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from mispair.core.failures import clean
from mispair.report.table import Cell, Table, aligned, printed

PAGE = Path(__file__).with_name("page.html.j2")

WIDEST = 80
"""Largest number of characters of a cell on a terminal."""


def text_of(tables: Sequence[Table]) -> str:
    """Return tables as aligned text without control characters."""
    return "\n\n".join(map(_text, tables))


def _text(table: Table) -> str:
    remark = [clean(table.remark, len(table.remark))] if table.remark else []
    if not table.rows:
        return "\n".join([f"{table.caption}: no difference", *remark])
    heads, *rows = ([_text_of(cell) for cell in row] for row in (table.heads, *table.rows))
    return "\n".join([table.caption, textwrap.indent(aligned(heads, rows), "  "), *remark])


def _text_of(cell: Cell) -> str:
    shown = clean(printed(cell).replace("\n", " "))
    return shown if len(shown) <= WIDEST else f"{shown[: WIDEST - 1]}…"


def html_of(tables: Sequence[Table], title: str) -> str:
    """Return tables as a page without links to other files."""
    from markupsafe import Markup

    from mispair.report.pages import picture

    template = picture.environment().from_string(PAGE.read_text(encoding="utf-8"))
    style = Markup(picture.source("style.css"))
    return template.render(tables=tables, title=title, style=style) + "\n"
