"""The site: answers, a page for each study, claims, methods and the run.

It works from disk, without a network. Every page is complete except for its charts, which a shared
script draws.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from mispair.core import failures
from mispair.report import judge, questions, rules, studies, texts
from mispair.report.claims import THIRD
from mispair.report.pages import claims_table, records, study_pages
from mispair.report.pages.content import CLAIMS, FRONT, Content, study_file
from mispair.report.pages.picture import PageFigure, environment, source, viewer
from mispair.report.pages.study_pages import Notes, Page, Pages, Piece
from mispair.report.studies import FORMS, ReportedStudy
from mispair.report.table import Table
from mispair.report.tables import Tables

PICTURES = 250_000
"""Most bytes of pictures on a study's page; the script alone draws the charts of larger ones."""


MOST_CARDS = 7
"""Most answers on the landing page that are not folded, the most important first."""


@dataclass(frozen=True)
class Site:
    """The landing page for the folder above the pages, and all files of their folder by name."""

    front: str
    files: dict[str, str]


def build(content: Content, folder: str = "pages") -> Site:
    """Return the site, whose pages are in a folder of the given name.

    The landing page exists twice, with other links: above the folder, and in it, so that the folder
    can be moved or sent alone.
    """
    pages = [
        _landing(content),
        *(_study(content, study) for study in content.studies),
        _claims(content),
        _methods(content),
        _run(content),
    ]
    return Site(
        front=_html(content, pages, pages[0], here=f"{folder}/", root=""),
        files={
            **{page.file: _html(content, pages, page, here="", root="../") for page in pages},
            "assets/vega.js": viewer(),
            "assets/page.js": source("page.js"),
        },
    )


def printed(content: Content) -> dict[str, list[Table]]:
    """Return the tables of each page, for exports, by the name of its file without ending.

    Those of the run itself (times, versions) are not among them: ``run.json`` has them.
    """
    settings = _from_all(content, lambda pages: pages.settings)
    return {
        **content.tables_of_studies,
        "claims": claims_table.claims(content.judged),
        "run": [*filter(None, [records.fingerprints(content.tables)]), *settings],
    }


def _html(content: Content, pages: list[Page], page: Page, *, here: str, root: str) -> str:
    """Return a page as HTML: `here` is the path to the pages, `root` to the folder of figures."""

    def link(target: str) -> str:
        """Return the link from this page to a page or an anchor."""
        file, _, anchor = target.partition("#")
        if anchor and file == page.file:
            return f"#{anchor}"
        return target if file == FRONT else here + target

    return environment().get_template(page.template).render(
        page=page,
        title=f"Incomplete: {content.heading}" if content.failed else content.heading,
        pages=pages,
        link=link,
        here=here,
        root=root,
        place=content.anchor,
        forms=FORMS,
        alpha=f"{1 - content.confidence:g}",
        confidence=content.confidence,
        style=Markup(source("style.css")),
        **page.parts,
    ) + "\n"  # fmt: skip


def _landing(content: Content) -> Page:
    """Return the page with an answer, and its limit, to each question of the studies."""
    failed = content.failed
    answers = [
        answer
        for study in content.studies
        for answer in content.answers[study.key]
        if answer.measured
    ]
    answers.sort(key=lambda answer: answer.question.folded)
    shown = sum(not answer.question.folded for answer in answers)
    quoted = questions.strongest(answers, first=bool(content.corpus))
    parts = {
        "failed": failed and {
            "heading": failures.heading(failed),
            "failures": [(job, failures.named(job), failures.why(job)) for job in failed["failed"]],
        },
        "warnings": _notes(content, lambda pages: pages.warnings),
        "summary": _notes(content, lambda pages: pages.summary),
        "quoted": quoted,
        "shown": min(shown or len(answers), MOST_CARDS),
        "strongest_limit": questions.strongest_limit(quoted or answers),
        "brackets": questions.brackets(answers),
        "answers": [(answer, _small(content, answer)) for answer in answers],
        "missing": content.unmeasured,
        "limits": _notes(content, lambda pages: pages.limits),
        "holes": _notes(content, lambda pages: pages.holes),
    }  # fmt: skip
    return Page(FRONT, "Answers", "Answers", "landing.html.j2", parts)


def _from_all(
    content: Content, kind: Callable[[Pages], Callable[[Tables], list[Any]]]
) -> list[Any]:
    """Return the notes, or the tables, of one kind of all studies."""
    return [item for pages in study_pages.every_pages() for item in kind(pages)(content.tables)]


def _notes(content: Content, kind: Callable[[Pages], Notes]) -> list[str]:
    """Return the notes of one kind of all studies, in words."""
    return [texts.text(note) for note in _from_all(content, kind)]


def _small(content: Content, answer: questions.Answer) -> PageFigure | None:
    """Return the small figure of an answer, if it was drawn."""
    picture = content.pictures.get(answer.question.figure)
    return picture if picture is not None and picture.static and not picture.hole else None


def _study(content: Content, study: ReportedStudy) -> Page:
    drawn = [content.picture(figure) for figure in study.figures]
    judged = [verdict for verdict in content.judged if verdict.claim.study == study.key]
    answers = [answer for answer in content.answers[study.key] if answer.measured]
    parts = {
        "study": study,
        "measured": content.tables.study(study.key),
        "sections": _sections(content, study, drawn),
        "holes": [picture for picture in drawn if picture.hole],
        "answers": answers,
        "brackets": questions.brackets(answers),
        "answer": texts.joined(study_pages.pages(study.key).answer(content.tables)),
        "claims": claims_table.rows(judged),
        "with_picture": _with_picture([picture for picture in drawn if not picture.hole]),
    }
    short = study.title.split(":")[0]
    return Page(study_file(study.key), study.title, short, "study.html.j2", parts)


def _with_picture(drawn: list[PageFigure]) -> set[str]:
    """Name the figures with a picture on the page, the smallest first, within the bound."""
    room = PICTURES
    shown = set()
    for picture in sorted(drawn, key=lambda picture: len(picture.static)):
        room -= len(picture.static)
        if picture.static and room >= 0:
            shown.add(picture.figure.name)
    return shown


def _sections(
    content: Content, study: ReportedStudy, drawn: list[PageFigure]
) -> list[dict[str, Any]]:
    """Return the content of each section; sections without content and holes are left out."""
    tables = content.tables_of_studies[study.key]
    pieces = study_pages.pages(study.key).pieces(content)
    sections = [
        {
            "title": title,
            "piece": pieces.get(title, Piece()),
            "pictures": [p for p in drawn if p.figure.section == title and not p.hole],
            "tables": [table for table in tables if table.section == title],
            "lost": content.lost.get((study.key, title), ()),
        }
        for title in study.sections
    ]
    return [
        section
        for section in sections
        if section["pictures"] or section["tables"] or section["lost"] or section["title"] in pieces
    ]


def _claims(content: Content) -> Page:
    """Return the page of all claims: by study and question, each with what was measured on it."""
    groups = {
        key: [(answer, rows) for answer in answers if (rows := claims_table.rows(answer.verdicts))]
        for key, answers in content.answers.items()
    }
    parts = {
        "studies": [(study, groups[study.key]) for study in content.studies],
        "missing": content.unmeasured,
        "outcomes": rules.OUTCOMES[:-1],
        "drawings": [
            drawing
            for study in content.studies
            for drawing in study_pages.pages(study.key).drawings(content.tables)
        ],
        "lost": content.lost_of_figures,
        "has_presets": _has_presets(content),
    }
    return Page(CLAIMS, "Every claim and its verdict", "Claims", "claims.html.j2", parts)


def _has_presets(content: Content) -> bool:
    """Return whether the simulation ran, whose presets need an explanation."""
    return any(verdict.preset for verdict in content.judged)


def _methods(content: Content) -> Page:
    every = [study_pages.pages(study.key) for study in content.studies]
    every = every or study_pages.every_pages()
    parts = {
        "primary": judge.PRIMARY,
        "level": judge.level_of(True, content.confidence),
        "near": judge.NEAR,
        "third": THIRD,
        "has_presets": _has_presets(content),
        "claims": [claim for pages in every for claim in pages.claims],
        "definitions": [item for pages in every for item in pages.definitions.items()],
        "limits": _notes(content, lambda pages: pages.limits),
    }
    return Page("methods.html", "Methods", "Methods", "methods.html.j2", parts)


def _run(content: Content) -> Page:
    tables = content.tables
    parts = {
        "run_times": records.run_times(content.benchmarks),
        "origin": content.record and records.origin(content.record),
        "versions": records.versions(),
        "fingerprints": records.fingerprints(tables),
        "settings": _from_all(content, lambda pages: pages.settings),
        "tables": [*(f"{name}.csv" for name in studies.tables()), "metrics.csv"],
    }
    return Page("run.html", "This run", "Run", "run.html.j2", parts)
