"""All that the pages of a report are made of."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mispair.core import failures
from mispair.evaluation.report import checkpoints, model_tables, set_tables
from mispair.report import catalogue, studies
from mispair.report.pages import missing
from mispair.report.pages.page_names import file_names
from mispair.report.pages.picture import Picture
from mispair.report.tables import Tables
from mispair.report.verdicts import Verdict

FRONT = "index.html"
"""The landing page."""


@dataclass(frozen=True)
class Content:
    """What was measured, drawn and recorded.

    Attributes
    ----------
    tables : Tables
        All measurements; empty where a study was not run.
    pictures : mapping of str to Picture
        By figure name.
    contact_sheet, neurons : str or None
        Pieces of HTML of `mispair.pairs.report.contact_sheet` and
        `mispair.evaluation.report.neurons`, their texts already escaped.
    benchmarks : mapping of str to str
        Snakemake's benchmark files by path.
    record : mapping of str to object, or None
        What the run was made with (`mispair.core.run_record`).
    title : str
        Heading of the site.
    confidence : float
        Of all intervals and tests, between 0 and 1.
    failed : mapping or None
        Failures of the run, of an incomplete report.
    """

    tables: Tables
    pictures: Mapping[str, Picture]
    contact_sheet: str | None
    neurons: str | None
    benchmarks: Mapping[str, str]
    record: Mapping[str, Any] | None
    title: str
    confidence: float
    failed: failures.Record | None = None

    @functools.cached_property
    def judged(self) -> list[Verdict]:
        """The verdicts on the claims of all studies."""
        return studies.judge(self.tables, self.confidence)

    @functools.cached_property
    def lost(self) -> dict[tuple[str, str], list[missing.Hole]]:
        """What an incomplete run did not make, by study and section."""
        return missing.holes(self.failed) if self.failed else {}

    @functools.cached_property
    def studies(self) -> list[catalogue.Study]:
        """The studies with a page: those in which something was measured, or failed.

        The corpus is shown even if no arm gave a result.
        """
        other = {study for study, _ in self.lost}
        if not self.tables.corpus.empty:
            other.add("image_text")
        return [
            study
            for study in catalogue.STUDIES
            if self.tables.study(study.key) or study.key in other
        ]

    @functools.cached_property
    def scores(self) -> list[checkpoints.Score]:
        """The headline numbers and silhouettes of the models that are compared as they are."""
        return [*checkpoints.scores(self.tables, "acc1"),
                *checkpoints.scores(self.tables, "silhouette")]  # fmt: skip

    @functools.cached_property
    def set_files(self) -> dict[str, str]:
        """The file names of the pages of the evaluation sets."""
        return file_names("set", set_tables.set_names(self.tables))

    @functools.cached_property
    def main_model(self) -> str:
        """The name of the model that is fine-tuned; empty if none is."""
        return model_tables.main_model(self.tables)

    @functools.cached_property
    def model_files(self) -> dict[str, str]:
        """The file names of the pages of the models."""
        main = [self.main_model] if self.main_model else []
        return file_names("model", [*main, *model_tables.compared_models(self.tables)])

    def picture(self, figure: catalogue.Figure) -> Picture:
        """Return a figure with its drawn forms, if it has any."""
        return self.pictures.get(figure.name, Picture(figure, None, None))

    def place(self, figure: str) -> str:
        """Return where a figure stands, or is said to be missing; empty if no page has it."""
        for study in self.studies:
            if figure in {own.name for own in catalogue.figures(study.key)}:
                return f"{study_file(study.key)}#figure-{figure}"
        return ""


def study_file(key: str) -> str:
    """Return the file name of a study's page."""
    return f"{key}.html"
