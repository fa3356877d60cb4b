"""A table of the report as plain text, for a terminal."""

from __future__ import annotations

import textwrap

from mispair.report.table import Table

WIDTH = 100
"""Characters of a line of words; a table is as wide as its cells."""


def plain(table: Table) -> str:
    """Return caption, aligned columns and remark, each line without trailing spaces."""
    # Spaces that must not break on a page are spaces like others here.
    lines = [[cell.replace("\u00a0", " ") for cell in row] for row in (table.heads, *table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    rule = "  ".join("-" * width for width in widths)
    remark = textwrap.fill(table.remark, WIDTH)
    return "\n".join([table.caption, "", padded[0], rule, *padded[1:], "", remark]).rstrip() + "\n"
