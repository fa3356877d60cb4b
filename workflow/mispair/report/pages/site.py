"""The site: a landing page, one page for each study, evaluation set and model, methods and run.

It works from disk, without a network. Every page is whole in itself but for the charts, which one
script draws that all pages share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from mispair.evaluation.purity import DEFINITION
from mispair.evaluation.report import model_tables, set_tables
from mispair.report import catalogue, multiplicity, verdicts
from mispair.report.pages import landing, markup, records, study_page
from mispair.report.pages.content import FRONT, Content, study_file
from mispair.report.pages.limits import limits

STUDIES, SETS, MODELS = "Studies", "Evaluation sets", "Models"
"""Groups of pages in the navigation."""


@dataclass(frozen=True)
class Page:
    """A page: its file, its name in full and in the navigation, its template, and what it shows."""

    file: str
    title: str
    short: str
    template: str
    parts: Mapping[str, Any]
    group: str = ""


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
        *(_set(content, name, file) for name, file in content.set_files.items()),
        *(_model(content, name, file) for name, file in content.model_files.items()),
        _methods(content),
        _run(content),
    ]
    return Site(
        front=_html(content, pages, pages[0], here=f"{folder}/", beside=""),
        files={
            **{page.file: _html(content, pages, page, here="", beside="../") for page in pages},
            "assets/vega.js": markup.viewer(),
            "assets/page.js": markup.source("page.js"),
        },
    )


def _html(content: Content, pages: list[Page], page: Page, *, here: str, beside: str) -> str:
    """Return a page as HTML.

    Parameters
    ----------
    here : str
        Where the pages are, from this one.
    beside : str
        Where figures and tables are.
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
        beside=beside,
        place=content.place,
        forms=catalogue.FORMS,
        alpha=f"{1 - content.confidence:g}",
        confidence=f"{100 * content.confidence:g}",
        style=Markup(markup.source("style.css")),
        **page.parts,
    ) + "\n"  # fmt: skip


def _landing(content: Content) -> Page:
    return Page(FRONT, "Answers", "Answers", "landing.html.j2", landing.parts(content))


def _study(content: Content, study: catalogue.Study) -> Page:
    short = study.title.split(":")[0]
    return Page(
        study_file(study.key), study.title, short, "study.html.j2",
        study_page.parts(content, study), STUDIES,
    )  # fmt: skip


def _set(content: Content, name: str, file: str) -> Page:
    figures = [
        "accuracy_by_shuffling", "silhouette_by_shuffling", "pruning_by_set",
        "pruning_silhouette_by_set", "checkpoints",
    ]  # fmt: skip
    parts = {
        "tables": set_tables.of_set(content.tables, content.scores, name),
        "figures": _places(content, figures),
        "on_this_set": [
            (verdict, part)
            for verdict in content.judged
            for part in verdict.parts
            if part.name == name or part.name.endswith(f", {name}")
        ],
    }
    return Page(file, f"Evaluation set {name}", name, "set.html.j2", parts, SETS)


def _model(content: Content, name: str, file: str) -> Page:
    is_main = name == content.main_model
    of = model_tables.of_compared(content.tables, content.scores, name)
    figures = ["checkpoints"] if of else []
    if is_main:
        of = [*model_tables.of_main(content.tables), *of]
        figures += ["purity_by_shuffling", "accuracy_by_shuffling", "pruning", "semantic_purity"]
    parts = {
        "tables": of,
        "figures": _places(content, figures),
        "is_main": is_main,
        "neurons": Markup(content.neurons) if is_main and content.neurons else None,
    }
    return Page(file, f"Model {name}", name, "model.html.j2", parts, MODELS)


def _places(content: Content, names: list[str]) -> list[tuple[str, str]]:
    """Return title and place of those figures that a page has."""
    titles = {figure.name: figure.title for figure in catalogue.figures()}
    return [
        (titles[name], content.place(name))
        for name in names
        if content.place(name) and not content.picture(_figure(name)).hole
    ]


def _figure(name: str) -> catalogue.Figure:
    return next(figure for figure in catalogue.figures() if figure.name == name)


def _methods(content: Content) -> Page:
    used = {verdict.claim.rule for verdict in content.judged}
    parts = {
        "rules": [(name, text) for name, text in verdicts.RULES.items() if name in used],
        "answer_rule": verdicts.ANSWERS,
        "effect_rule": verdicts.EFFECTS,
        "correction_rule": multiplicity.RULE,
        "definition": DEFINITION,
        "limits": limits(content.tables),
    }
    return Page("methods.html", "Methods", "Methods", "methods.html.j2", parts)


def _run(content: Content) -> Page:
    tables = content.tables
    parts = {
        "run_times": records.run_times(content.benchmarks),
        "origin": content.record and records.origin(content.record),
        "versions": records.versions(),
        "fingerprints": records.fingerprints(tables),
        "settings": records.settings_of(tables),
        "tables": [name for name in catalogue.TABLES if name.endswith(".csv")],
    }
    return Page("run.html", "This run", "Run", "run.html.j2", parts)
