"""Print measured numbers of CLIP and LaCLIP checkpoints next to the published ones, as text."""

from __future__ import annotations

from pathlib import Path

from mispair.core import settings


class Settings(settings.Settings):
    """`laclip` has no settings: the models are `models`, the rest is that of the report."""


def run(settings: Settings, *, tables: list[Path], text: Path) -> None:
    """Write and print the tables of the study as plain text, in the order of the report."""
    from mispair.core import files
    from mispair.laclip.report.pages import checkpoints
    from mispair.report.table import plain
    from mispair.report.tables import read_csvs

    every = checkpoints(read_csvs(tables))
    printed = "\n\n".join(plain(table) for table in every if table.rows)
    files.write_text(text, printed)
    print(printed)
