"""Content of the pages of a report, and what an incomplete one lacks."""

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mispair.core import failures
from mispair.core.failures import Failure, Record, named, why
from mispair.core.files import read_json
from mispair.report import questions, studies, texts
from mispair.report.claims import Claim
from mispair.report.judge import Verdict, judge
from mispair.report.pages import claims_table, study_pages
from mispair.report.pages.picture import PageFigure
from mispair.report.studies import Figure, ReportedStudy
from mispair.report.table import Table, without_empty_columns
from mispair.report.tables import Tables, read_csvs
from mispair.report.texts import SHARED, Note

# Missing results of an incomplete report: their sections, and the reasons.


@dataclass(frozen=True)
class MissingResult:
    """A missing result: its step with wildcards, and the reason."""

    what: str
    why: Note


def holes(record: Record) -> dict[tuple[str, str], list[MissingResult]]:
    """Return the results that a run did not make, by study and section of the page."""
    by_section: defaultdict[tuple[str, str], list[MissingResult]] = defaultdict(list)
    failed = record["failed"]
    for job in [*failed, *record["not_run"]]:
        hole = MissingResult(named(job), _why(job, failed))
        for section in sections_of(job["rule"], job["wildcards"]):
            by_section[section].append(hole)
    return dict(by_section)


def sections_of(rule: str, wildcards: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the studies and sections that print the numbers of a job.

    Examples
    --------
    >>> sections_of("simulate", {"condition": "grid~0.02~independent~zero"})
    [('simulation', 'Sensitivity')]
    """
    sections = []
    for study in studies.studies():
        for section in study.sections_of(rule, wildcards):
            study.refuse_unknown_section(section, f"the rule {rule}")
            sections.append((study.key, section))
    return sections


def _why(job: Mapping[str, Any], failed: Sequence[Failure]) -> Note:
    if "lines" in job:
        return Note(SHARED, "failed", why=why(dict(job)))
    if job["because"] is None:
        return Note(SHARED, "stopped")
    cause = failed[job["because"]]
    return Note(SHARED, "not_run", cause=named(cause), why=why(cause))


FRONT, CLAIMS = "index.html", "claims.html"
"""The landing page, and the page of all claims."""


def judged(tables: Tables, confidence: float, of: Iterable[str] = studies.NAMES) -> list[Verdict]:
    """Return the verdicts on the claims of studies, by default all, with presets side by side."""
    return [
        judge(claim, of_preset, confidence, preset)
        for pages in map(study_pages.pages, of)
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
    pictures : mapping of str to PageFigure
        By figure name.
    pieces : mapping of str to str
        Pieces of HTML by name, their texts already escaped.
    benchmarks : mapping of str to str
        benchmark files by path.
    record : mapping of str to object, or None
        Record of the run (`mispair.core.run_record`).
    title : str
        Heading of the site; "" for one by what was measured.
    corpus : str
        Name of the pairs if they are the user's own, otherwise "".
    confidence : float
        Of all intervals and tests, between 0 and 1.
    failed : mapping or None
        Failures of the run, for an incomplete report.
    """

    tables: Tables
    pictures: Mapping[str, PageFigure]
    pieces: Mapping[str, str]
    benchmarks: Mapping[str, str]
    record: Mapping[str, Any] | None
    title: str
    confidence: float
    corpus: str = ""
    failed: failures.Record | None = None

    @functools.cached_property
    def heading(self) -> str:
        """The heading of the site."""
        if self.title:
            return self.title
        if not self.corpus:
            return texts.text(Note(SHARED, "title"))
        declared = (
            note
            for study in self.studies
            for note in study_pages.pages(study.key).title(self.tables, self.corpus)
        )
        return texts.text(next(declared, Note(SHARED, "title_of", corpus=self.corpus)))

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
                for question in study_pages.pages(study.key).questions
            ]
            for study in studies.studies()
        }

    @functools.cached_property
    def lost(self) -> dict[tuple[str, str], list[MissingResult]]:
        """What an incomplete run did not make, by study and section."""
        return holes(self.failed) if self.failed else {}

    @functools.cached_property
    def lost_of_figures(self) -> dict[str, list[MissingResult]]:
        """What an incomplete run did not make for the section of each figure, by its name."""
        return {
            figure.name: self.lost.get((study.key, figure.section), [])
            for study in studies.studies()
            for figure in study.figures
        }

    @functools.cached_property
    def unmeasured(self) -> list[tuple[Claim, list[MissingResult]]]:
        """The claims that no preset measured, each with the missing results of its section.

        In a run on pairs of the user's own only those of its studies: it is not about the paper.
        """
        of = {study.key for study in self.studies} if self.corpus else {*studies.NAMES}
        return [
            (claim, self.lost_of_figures.get(claim.figure.format(preset="as_run"), []))
            for claim in claims_table.unmeasured(self.judged)
            if claim.study in of
        ]

    @functools.cached_property
    def studies(self) -> list[ReportedStudy]:
        """The studies with a page: those with a number or a failure, the most important first."""
        lost = {study for study, _ in self.lost}
        first = studies.OF_DATA if self.corpus else ()
        ordered = dict.fromkeys([*first, *studies.NAMES])
        return [
            study
            for study in map(studies.study, ordered)
            if study.key in lost
            # Statistics of the corpus are there without the study that declares them.
            or any(
                not self.tables.frames[name].empty for name in {*study.tables} - {*study.describing}
            )
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
            of = study_pages.pages(study.key).tables
            tables = of(self.tables, self.confidence)
            printed[study.key] = [without_empty_columns(table) for table in tables if table.rows]
            for table in printed[study.key]:
                study.refuse_unknown_section(table.section, f"the table {table.caption!r}")
        return printed

    def picture(self, figure: Figure) -> PageFigure:
        """Return a figure with its drawn forms, if it has any."""
        return self.pictures.get(figure.name, PageFigure(figure, None, None))

    def anchor(self, figure: str) -> str:
        """Return the page and anchor of a figure or of its hole; empty if no page has it."""
        for study in self.studies:
            if figure in {declared.name for declared in study.figures}:
                return f"{study_file(study.key)}#figure-{figure}"
        return ""


def study_file(key: str) -> str:
    """Return the file name of a study's page."""
    return f"{key}.html"


# The sentences that a run on the command line ends with: those of the report's first page.


def ending(reports: Path, studies: Iterable[str]) -> list[str]:
    """Return what a written report answers, and the limits of that, as lines.

    Parameters
    ----------
    reports : Path
        The folder of the report.
    studies : iterable of str
        The studies whose answers are returned.
    """
    paths = [path for path in (reports / "tables").glob("*.csv") if path.stem != "claims"]
    confidence = read_json(reports / "run.json")["write_report"]["confidence"]
    tables = read_csvs(paths)
    lines: list[str] = []
    for study in studies:
        pages = study_pages.pages(study)
        if notes := pages.ending(tables):
            lines += map(texts.text, notes)
            continue
        verdicts = judged(tables, confidence, [study])
        answers = [
            questions.answered(study, question, verdicts, tables, confidence)
            for question in pages.questions
        ]
        answers = [answer for answer in answers if answer.measured]
        for answer in answers:
            lines += [f"{answer.question.text} {answer.sentence}"]
            lines += [f"Limit: {answer.limit}"] if answer.limit else []
        lines += filter(None, [questions.brackets(answers)])
    return lines
