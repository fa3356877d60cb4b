"""The landing page: answers, and every claim of the paper with what was measured on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mispair.core import failures
from mispair.core.words import listing
from mispair.report import studies, study_modules, verdicts
from mispair.report.pages import claim_rows
from mispair.report.pages.content import Content
from mispair.report.pages.study_pages import Pages


def parts(content: Content) -> dict[str, Any]:
    """Return what the template of the page is given."""
    tables, failed = content.tables, content.failed
    answers = [verdicts.answer(question, content.judged) for question in questions()]
    answers.sort(key=lambda answer: not answer.measured)  # the rest keep the paper's order
    summary = from_all(content, lambda pages: pages.summary)
    return {
        "failed": failed and {
            "heading": failures.heading(failed),
            "failures": [(job, failures.named(job), failures.why(job)) for job in failed["failed"]],
        },
        "warnings": from_all(content, lambda pages: pages.warnings),
        "summary": (
            f"This run: {listing(summary)}." if summary else "Nothing was measured in this run."
        ),
        "answers": [(answer, claim_rows.rows(answer.verdicts)) for answer in answers],
        "drawings": [
            drawing for pages in study_modules.every_pages() for drawing in pages.drawings(tables)
        ],
        "lost": {
            figure.name: content.lost.get((study.key, figure.section), [])
            for study in studies.studies()
            for figure in study.figures
        },
        "not_run": [study for study in studies.studies() if study not in content.studies],
        "limits": limits(content),
        "holes": from_all(content, lambda pages: pages.holes),
    }  # fmt: skip


def questions() -> list[verdicts.Question]:
    """Return the questions that claims answer, in the order of the studies."""
    return verdicts.merged(
        question for pages in study_modules.every_pages() for question in pages.questions
    )


def limits(content: Content) -> list[str]:
    """Return what this run cannot tell for any numbers."""
    return from_all(content, lambda pages: pages.limits)


def from_all(content: Content, sentences: Callable[[Pages], Any]) -> list[str]:
    """Return the sentences of all studies of one kind."""
    return [
        text for pages in study_modules.every_pages() for text in sentences(pages)(content.tables)
    ]
