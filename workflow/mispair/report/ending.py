"""The sentences that a run on the command line ends with: those of the report's first page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mispair.core.files import read_json
from mispair.report import texts
from mispair.report.pages import study_pages
from mispair.report.pages.content import Content
from mispair.report.tables import read_csvs


def ending(reports: Path, studies: Iterable[str]) -> list[str]:
    """Return what a written report answers, and the limits of that, as lines.

    Parameters
    ----------
    reports : Path
        The folder of the report.
    studies : iterable of str
        The studies whose answers are returned.
    """
    paths = [path for path in (reports / "tables").glob("*.csv") if path.stem != "claims"]
    confidence = read_json(reports / "run.json")["write_report"]["confidence"]
    content = Content(read_csvs(paths), {}, {}, {}, None, title="", confidence=confidence)
    lines: list[str] = []
    for study in studies:
        if notes := study_pages.pages(study).ending(content.tables):
            lines += map(texts.text, notes)
            continue
        for answer in content.answers[study]:
            if answer.measured:
                lines += [f"{answer.question.text} {answer.sentence}"]
                lines += [f"Limit: {answer.limit}"] if answer.limit else []
    return lines
