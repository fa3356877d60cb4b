"""The site: answers, a page for each study, numbers, claims, methods and the run.

It works from disk, without a network. Every page is complete except for its charts, which a shared
script draws.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from mispair.report import multiplicity, questions, studies, study_modules, verdicts
from mispair.report.pages import claims_page, landing, markup, records, study_page
from mispair.report.pages.content import CLAIMS, FRONT, Content, study_file
from mispair.report.pages.study_pages import Page
from mispair.report.study import FORMS, Study


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
        *content.others,
        _claims(content),
        _methods(content),
        _run(content),
    ]
    return Site(
        front=_html(content, pages, pages[0], here=f"{folder}/", root=""),
        files={
            **{page.file: _html(content, pages, page, here="", root="../") for page in pages},
            **{name: text for page in pages for name, text in page.files.items()},
            "assets/vega.js": markup.viewer(),
            "assets/page.js": markup.source("page.js"),
        },
    )


def _html(content: Content, pages: list[Page], page: Page, *, here: str, root: str) -> str:
    """Return a page as HTML: `here` is the path to the pages, `root` to the folder of figures."""

    def link(target: str) -> str:
        """Return the link from this page to a page or an anchor."""
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


def _claims(content: Content) -> Page:
    parts = claims_page.parts(content)
    return Page(CLAIMS, "Every claim and its verdict", "Claims", "claims.html.j2", parts)


def _study(content: Content, study: Study) -> Page:
    short = study.title.split(":")[0]
    return Page(
        study_file(study.key), study.title, short, "study.html.j2",
        study_page.parts(content, study),
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
        "answer_rule": questions.RULE,
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
