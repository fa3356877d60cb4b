"""Tables as plain text, for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence

from tabulate import tabulate

from mispair.report.table import Table, printed

WIDTH = 100
"""Characters of a line of words; a table is as wide as its cells."""


def aligned(
    heads: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()
) -> str:
    """Return aligned columns below their heads, without trailing spaces.

    Columns whose numbers are in `right` are aligned to the right.

    Examples
    --------
    >>> print(aligned(("rule", "jobs"), [("simulate", "12")], right={1}))
    rule        jobs
    --------  ------
    simulate      12
    """
    # A space that must not break on a page is an ordinary space here.
    cells = [[cell.replace("\u00a0", " ") for cell in row] for row in (heads, *rows)]
    sides = ["right" if number in right else "left" for number in range(len(heads))]
    text = tabulate(cells[1:], cells[0], "simple", disable_numparse=True, colalign=sides)
    return "\n".join(line.rstrip() for line in text.splitlines())


def plain(table: Table) -> str:
    """Return caption, aligned columns and remark of a table of the report."""
    remark = textwrap.fill(table.remark, WIDTH)
    cells = [[printed(cell) for cell in row] for row in table.rows]
    text = "\n".join([table.caption, "", aligned(table.heads, cells), "", remark])
    return text.rstrip() + "\n"
