"""The site: a landing page, one page for each study, evaluation set and model, methods and run.

It works from disk, without a network. Every page is whole in itself but for the charts, which one
script draws that all pages share.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from mispair.report import multiplicity, studies, study_modules, verdicts
from mispair.report.pages import landing, markup, records, study_page
from mispair.report.pages.content import FRONT, Content, study_file
from mispair.report.pages.study_pages import Page
from mispair.report.study import FORMS, Study

STUDIES = "Studies"
"""Group of pages in the navigation."""


@dataclass(frozen=True)
class Site:
    """The landing page for the folder above the pages, and all files of their folder by name."""

    front: str
    files: dict[str, str]


def build(content: Content, folder: str = "pages") -> Site:
    """Return the site.

    The landing page is there twice, alike but for its links: in the folder of the pages, which can
    so be moved or sent alone, and above it.

    Parameters
    ----------
    content : Content
        All that was measured.
    folder : str
        Name of the folder of the pages.
    """
    pages = [
        _landing(content),
        *(_study(content, study) for study in content.studies),
        *content.others,
        _methods(content),
        _run(content),
    ]
    return Site(
        front=_html(content, pages, pages[0], here=f"{folder}/", root=""),
        files={
            **{page.file: _html(content, pages, page, here="", root="../") for page in pages},
            "assets/vega.js": markup.viewer(),
            "assets/page.js": markup.source("page.js"),
        },
    )


def _html(content: Content, pages: list[Page], page: Page, *, here: str, root: str) -> str:
    """Return a page as HTML.

    Parameters
    ----------
    here : str
        Where the pages are, from this one.
    root : str
        Path from this page to the folder of figures and tables.
    """

    def link(target: str) -> str:
        """Return where a page is from this one; an anchor of this page needs no name."""
        file, _, anchor = target.partition("#")
        if anchor and file == page.file:
            return f"#{anchor}"
        return target if file == FRONT else here + target

    environment = markup.environment()
    return environment.get_template(page.template).render(
        page=page,
        title=f"Incomplete: {content.title}" if content.failed else content.title,
        pages=pages,
        link=link,
        here=here,
        root=root,
        place=content.anchor,
        forms=FORMS,
        alpha=f"{1 - content.confidence:g}",
        confidence=f"{100 * content.confidence:g}",
        style=Markup(markup.source("style.css")),
        **page.parts,
    ) + "\n"  # fmt: skip


def _landing(content: Content) -> Page:
    return Page(FRONT, "Answers", "Answers", "landing.html.j2", landing.parts(content))


def _study(content: Content, study: Study) -> Page:
    short = study.title.split(":")[0]
    return Page(
        study_file(study.key), study.title, short, "study.html.j2",
        study_page.parts(content, study), STUDIES,
    )  # fmt: skip


def _methods(content: Content) -> Page:
    used = {verdict.claim.rule for verdict in content.judged}
    every = study_modules.every_pages()
    rules = {
        **verdicts.RULES,
        **{name: text for pages in every for name, text in pages.rules.items()},
    }
    parts = {
        "rules": [(name, text) for name, text in rules.items() if name in used],
        "answer_rule": verdicts.ANSWERS,
        "effect_rule": verdicts.EFFECTS,
        "correction_rule": multiplicity.RULE,
        "definitions": [item for pages in every for item in pages.definitions.items()],
        "limits": landing.limits(content),
    }
    return Page("methods.html", "Methods", "Methods", "methods.html.j2", parts)


def _run(content: Content) -> Page:
    tables = content.tables
    parts = {
        "run_times": records.run_times(content.benchmarks),
        "origin": content.record and records.origin(content.record),
        "versions": records.versions(),
        "fingerprints": records.fingerprints(tables),
        "settings": [
            table for pages in study_modules.every_pages() for table in pages.settings(tables)
        ],
        "tables": [*(f"{name}.csv" for name in studies.tables()), "metrics.csv"],
    }
    return Page("run.html", "This run", "Run", "run.html.j2", parts)
