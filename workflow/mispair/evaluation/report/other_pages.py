"""Pages of evaluation sets and of models, with what every arm and model does there."""

from __future__ import annotations

from markupsafe import Markup

from mispair.evaluation.report import checkpoints, model_tables, set_tables
from mispair.evaluation.report.checkpoints import Score
from mispair.evaluation.report.compositional import SELECTION
from mispair.report.pages.content import Content
from mispair.report.pages.page_names import file_names
from mispair.report.pages.study_pages import Page

SETS, MODELS = "Evaluation sets", "Models"
"""Groups of pages in the navigation."""

OF_SET = (
    "accuracy_by_shuffling", "silhouette_by_shuffling", "pruning_by_set",
    "pruning_silhouette_by_set", "checkpoints",
)  # fmt: skip
OF_CHOICES = ("compositional_by_shuffling",)
OF_MAIN = ("purity_by_shuffling", "accuracy_by_shuffling", "pruning", "semantic_purity")
OF_COMPARED = ("checkpoints",)
"""Figures that a page refers to."""


def pages(content: Content) -> list[Page]:
    """Return a page for each evaluation set and each model."""
    tables = content.tables
    scores = [*checkpoints.scores(tables, "acc1"), *checkpoints.scores(tables, "silhouette")]
    sets = file_names("set", set_tables.set_names(tables))
    main = model_tables.main_model(tables)
    names = [*([main] if main else []), *model_tables.compared_models(tables)]
    return [
        *(_set(content, scores, name, file) for name, file in sets.items()),
        *(
            _model(content, scores, name, file, is_main=name == main)
            for name, file in file_names("model", names).items()
        ),
    ]


def _set(content: Content, scores: list[Score], name: str, file: str) -> Page:
    tables = set_tables.of_set(content.tables, scores, name)
    parts = {
        "tables": tables,
        "figures": content.figure_links(OF_CHOICES if _has_choices(content, name) else OF_SET),
        "on_this_set": [
            (verdict, part)
            for verdict in content.judged
            for part in verdict.parts
            if part.name == name or part.name.endswith(f", {name}")
        ],
    }
    return Page(file, f"Evaluation set {name}", name, "set.html.j2", parts, SETS, tables)


def _has_choices(content: Content, name: str) -> bool:
    """Tell whether the true caption of an image is to be chosen in a set."""
    table = content.tables.zeroshot
    return bool(((table["evaluation_set"] == name) & (table["metric"] == SELECTION)).any())


def _model(content: Content, scores: list[Score], name: str, file: str, *, is_main: bool) -> Page:
    tables = model_tables.of_compared(content.tables, scores, name)
    figures: tuple[str, ...] = OF_COMPARED if tables else ()
    if is_main:
        tables = [*model_tables.of_main(content.tables), *tables]
        figures += OF_MAIN
    gallery = content.pieces.get("neurons")
    parts = {
        "tables": tables,
        "figures": content.figure_links(figures),
        "is_main": is_main,
        "neurons": Markup(gallery) if is_main and gallery else None,
    }
    return Page(file, f"Model {name}", name, "model.html.j2", parts, MODELS, tables)
