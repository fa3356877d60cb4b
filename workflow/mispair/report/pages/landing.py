"""The landing page: for each question of the studies one answer with its limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mispair.core import failures
from mispair.core.words import listing
from mispair.report import questions, study_modules
from mispair.report.pages.content import Content
from mispair.report.pages.picture import Picture
from mispair.report.pages.study_pages import Pages


def parts(content: Content) -> dict[str, Any]:
    """Return the arguments of the page's template."""
    failed = content.failed
    answers = [answer for study in content.studies for answer in content.answers[study.key]]
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
        "answers": [(answer, _picture(content, answer)) for answer in answers if answer.measured],
        "unmeasured": [answer for answer in answers if not answer.measured],
        "limits": limits(content),
        "holes": from_all(content, lambda pages: pages.holes),
    }  # fmt: skip


def _picture(content: Content, answer: questions.Answer) -> Picture | None:
    """Return the small figure of an answer, if it was drawn."""
    picture = content.pictures.get(answer.question.figure)
    return picture if picture is not None and picture.static and not picture.hole else None


def limits(content: Content) -> list[str]:
    """Return what this run cannot tell, whichever numbers it has."""
    return from_all(content, lambda pages: pages.limits)


def from_all(content: Content, sentences: Callable[[Pages], Any]) -> list[str]:
    """Return the sentences of all studies of one kind."""
    return [
        text for pages in study_modules.every_pages() for text in sentences(pages)(content.tables)
    ]
