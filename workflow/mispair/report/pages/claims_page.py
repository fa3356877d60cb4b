"""The page of all claims: by study and question, each with what was measured on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mispair.report import questions, studies, study_modules, verdicts
from mispair.report.pages import claim_rows
from mispair.report.pages.claim_rows import Row
from mispair.report.pages.content import Content


def parts(content: Content) -> dict[str, Any]:
    """Return the arguments of the page's template."""
    run = {study.key for study in content.studies}
    return {
        "studies": [(study, _groups(content.answers[study.key])) for study in content.studies],
        "not_run": [
            (study, len(questions.keys(study_modules.pages(study.key).questions)))
            for study in studies.studies()
            if study.key not in run
        ],
        "outcomes": verdicts.OUTCOMES,
        "drawings": [
            drawing
            for study in content.studies
            for drawing in study_modules.pages(study.key).drawings(content.tables)
        ],
        "lost": {
            figure.name: content.lost.get((study.key, figure.section), [])
            for study in studies.studies()
            for figure in study.figures
        },
    }  # fmt: skip


def _groups(answers: Sequence[questions.Answer]) -> list[tuple[questions.Answer, list[Row]]]:
    """Return each question with the rows of its claims."""
    return [(answer, claim_rows.rows(answer.verdicts)) for answer in answers]
