"""The page of benchmarks: each bench has a block in it, which ``make bench`` writes anew."""

import re
from collections.abc import Sequence
from datetime import date

Row = tuple[str, str, str, str]
COLUMNS = ("what", "measured", "against", "ratio or share")


def block(rows: Sequence[Row], day: date, machine: str) -> str:
    """Return day, machine and table of a bench, as Markdown."""
    lines = [f"{day.day} {day:%B %Y}, {machine}:", "", "| " + " | ".join(COLUMNS) + " |"]
    lines += ["| --- " * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def names(page: str) -> list[str]:
    """Return the benches that a page has blocks of, in their order."""
    return re.findall(r"^<!-- bench: (\w+) -->$", page, re.MULTILINE)
