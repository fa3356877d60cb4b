"""Content of the pages of a report."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mispair.core import failures
from mispair.report import questions, studies, study_modules
from mispair.report.claims import Claim
from mispair.report.judge import Verdict, judge
from mispair.report.pages import claims_table, missing
from mispair.report.pages.picture import Picture
from mispair.report.study import Figure, Study
from mispair.report.table import Table
from mispair.report.tables import Tables

FRONT, CLAIMS = "index.html", "claims.html"
"""The landing page, and the page of all claims."""


def judged(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on the claims of all studies, those on presets side by side."""
    return [
        judge(claim, of_preset, confidence, preset)
        for pages in study_modules.every_pages()
        for scopes in (pages.scopes(tables),)
        for claim in pages.claims
        for preset, of_preset in scopes or [("", tables)]
    ]


@dataclass(frozen=True)
class Content:
    """What was measured, drawn and recorded.

    Attributes
    ----------
    tables : Tables
        All measurements; empty where a study was not run.
    pictures : mapping of str to Picture
        By figure name.
    pieces : mapping of str to str
        Pieces of HTML by name, their texts already escaped.
    benchmarks : mapping of str to str
        Snakemake's benchmark files by path.
    record : mapping of str to object, or None
        Record of the run (`mispair.core.run_record`).
    title : str
        Heading of the site.
    confidence : float
        Of all intervals and tests, between 0 and 1.
    failed : mapping or None
        Failures of the run, for an incomplete report.
    """

    tables: Tables
    pictures: Mapping[str, Picture]
    pieces: Mapping[str, str]
    benchmarks: Mapping[str, str]
    record: Mapping[str, Any] | None
    title: str
    confidence: float
    failed: failures.Record | None = None

    @functools.cached_property
    def judged(self) -> list[Verdict]:
        """The verdicts on the claims of all studies."""
        return judged(self.tables, self.confidence)

    @functools.cached_property
    def answers(self) -> dict[str, list[questions.Answer]]:
        """The answers to the questions of each study, by its key."""
        return {
            study.key: [
                questions.answered(study.key, question, self.judged, self.tables, self.confidence)
                for question in study_modules.pages(study.key).questions
            ]
            for study in studies.studies()
        }

    @functools.cached_property
    def lost(self) -> dict[tuple[str, str], list[missing.Hole]]:
        """What an incomplete run did not make, by study and section."""
        return missing.holes(self.failed) if self.failed else {}

    @functools.cached_property
    def lost_of_figures(self) -> dict[str, list[missing.Hole]]:
        """What an incomplete run did not make for the section of each figure, by its name."""
        return {
            figure.name: self.lost.get((study.key, figure.section), [])
            for study in studies.studies()
            for figure in study.figures
        }

    @functools.cached_property
    def unmeasured(self) -> list[tuple[Claim, list[missing.Hole]]]:
        """The claims that no preset measured, each with the missing results of its section."""
        return [
            (claim, self.lost_of_figures.get(claim.figure.format(preset="as_run"), []))
            for claim in claims_table.unmeasured(self.judged)
        ]

    @functools.cached_property
    def studies(self) -> list[Study]:
        """The studies with a page: those with a number or a failure."""
        lost = {study for study, _ in self.lost}
        return [
            study
            for study in studies.studies()
            if study.key in lost or any(not self.tables.frames[name].empty for name in study.tables)
        ]

    @functools.cached_property
    def tables_of_studies(self) -> dict[str, list[Table]]:
        """The tables on the page of each study, by its key; those without rows are left out.

        Raises
        ------
        ValueError
            If a table belongs to a section that the page does not have.
        """
        printed = {}
        for study in self.studies:
            of = study_modules.pages(study.key).tables
            tables = of(self.tables, self.confidence)
            printed[study.key] = [table for table in tables if table.rows]
            for table in printed[study.key]:
                study.refuse_unknown_section(table.section, f"the table {table.caption!r}")
        return printed

    def picture(self, figure: Figure) -> Picture:
        """Return a figure with its drawn forms, if it has any."""
        return self.pictures.get(figure.name, Picture(figure, None, None))

    def anchor(self, figure: str) -> str:
        """Return the page and anchor of a figure or of its hole; empty if no page has it."""
        for study in self.studies:
            if figure in {declared.name for declared in study.figures}:
                return f"{study_file(study.key)}#figure-{figure}"
        return ""


def study_file(key: str) -> str:
    """Return the file name of a study's page."""
    return f"{key}.html"
