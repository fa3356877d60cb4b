"""The studies of the report. A new one is a folder, a file of rules, and its name here."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

from mispair.core.files import UserError
from mispair.core.paths import pattern

# Declarations of a study for the report.
#
# The folder ``mispair/STUDY/report`` of each study holds four modules: ``study`` (`ReportedStudy`:
# names, tables and figures as data, which the rules read as well), ``rows`` (from results to rows
# of tables), ``figures`` (functions that draw), and ``pages`` (`Pages`: claims, printed tables,
# sentences).


@dataclass(frozen=True)
class Figure:
    """A figure: its file name without ending, title, caption, place in the paper, and section.

    A small figure has neither caption nor section.

    Only a figure of ``every_scheme`` gets more than the main scheme of corruption.
    """

    name: str
    title: str
    about: str = ""
    paper: str = ""
    section: str = ""
    every_scheme: bool = False


PICTURES = ("svg", "pdf", "png")
FORMS = (*PICTURES, "csv", "vl.json")
"""Each figure is written as pictures, as the numbers in it, and as an interactive chart."""


@dataclass(frozen=True)
class TidyColumns:
    """The columns of a tidy table: keys, by which it is sorted, and values.

    Columns in ``text`` hold text, all others numbers. `mispair compare` skips a table that is not
    ``compared``, such as one of curves.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    text: frozenset[str]
    compared: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """All columns in their order."""
        return self.keys + self.values

    @property
    def types(self) -> dict[str, Literal["str", "float64"]]:
        """The type of each column in pandas."""
        return {name: "str" if name in self.text else "float64" for name in self.names}


def columns(names: str, *, compared: bool = True) -> TidyColumns:
    """Return columns from their names, separated by spaces: keys before |, text with *.

    Examples
    --------
    >>> columns("tower* seed | value").types
    {'tower': 'str', 'seed': 'float64', 'value': 'float64'}
    """
    keys, values = (tuple(part.split()) for part in names.split("|"))
    text = frozenset(name.rstrip("*") for name in keys + values if name.endswith("*"))
    bare = [tuple(name.rstrip("*") for name in part) for part in (keys, values)]
    return TidyColumns(bare[0], bare[1], text, compared)


def _nowhere(rule: str, wildcards: Mapping[str, str]) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class ReportedStudy:
    """A study of the report.

    Attributes
    ----------
    key, title : str
        Its name in ``studies`` and of its page's file; the heading of its page.
    about : str
        What is done in it.
    sections : tuple of str
        Of its page, in their order; "" is the first one, which has no name.
    tables : mapping of str to TidyColumns
        Its tidy tables.
    results : mapping of str to str
        Kind of each file of results by the template of its path (`mispair.core.paths`).
    figures : tuple of Figure
        In the order of the page.
    small : tuple of Figure
        Small figures next to the answers of its questions (`mispair.report.small_figures`).
    describing : tuple of str
        Kinds of results that describe data and models, and are no measurement.
    measures : tuple of str
        Tables in which a row means that something was measured; all of them by default.
    main : mapping of str to str
        Value of a column, such as ``scheme``, that claims and figures are of if a run has several.
    sections_of : callable
        Given a rule and the wildcards of a job, the sections that print its numbers.

    Raises
    ------
    ValueError
        If a figure belongs to a section that the page does not have.
    """

    key: str
    title: str
    about: str
    sections: tuple[str, ...]
    tables: Mapping[str, TidyColumns]
    results: Mapping[str, str]
    figures: tuple[Figure, ...]
    small: tuple[Figure, ...] = ()
    describing: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    main: Mapping[str, str] = field(default_factory=dict)
    sections_of: Callable[[str, Mapping[str, str]], Iterable[str]] = field(default=_nowhere)

    def __post_init__(self) -> None:
        for figure in self.figures:
            self.refuse_unknown_section(figure.section, f"the figure {figure.name}")

    def refuse_unknown_section(self, section: str, of: str) -> None:
        """Raise a ValueError if the page has no such section; `of` names its content."""
        if section not in self.sections:
            raise ValueError(f"{self.key}: its page has no section {section!r}, as {of} has")


Name = Literal[
    "image_text",
    "repair",
    "audit",
    "laclip",
    "pretraining",
    "sufficiency",
    "stepsize",
    "simulation",
]
"""Packages of the studies, in the order of their pages: the paper first, its simulation last."""

NAMES: tuple[Name, ...] = get_args(Name)

OF_DATA: tuple[Name, ...] = ("audit", "repair")
"""Those that are about the data, which come first if the pairs are a user's own."""

PROVENANCE = columns("artefact* condition* start* scheme* rate key* text* |", compared=False)
"""Columns of the table ``provenance``, which all studies share."""


def module_name(study: str, part: str) -> str:
    """Return the name of a module of a study's report: study, rows, figures or pages."""
    return f"mispair.{study}.report.{part}"


def modules(*parts: str, of: Iterable[str] = NAMES) -> list[str]:
    """Return the names of such modules of some studies, by default of all.

    `mispair.core.provenance.code_version` needs them: they are imported by name.
    """
    return [module_name(name, part) for part in parts for name in of]


@cache
def study(name: str) -> ReportedStudy:
    """Return the declaration of a study."""
    declared: ReportedStudy = import_module(module_name(name, "study")).STUDY
    return declared


def studies() -> list[ReportedStudy]:
    """Return all studies, in the order of their pages."""
    return [study(name) for name in NAMES]


def figures(name: str | None = None) -> list[Figure]:
    """Return the figures of a study, or of all."""
    of = studies() if name is None else [study(name)]
    return [figure for declared in of for figure in declared.figures]


def drawn(name: str | None = None) -> list[Figure]:
    """Return all figures of a study, or of all studies: those of its page and the small ones."""
    of = studies() if name is None else [study(name)]
    return [figure for declared in of for figure in (*declared.figures, *declared.small)]


@cache
def tables() -> dict[str, TidyColumns]:
    """Return the columns of all tidy tables by name."""
    of_studies = {name: table for declared in studies() for name, table in declared.tables.items()}
    return {**of_studies, "provenance": PROVENANCE}


@cache
def main(column: str) -> str:
    """Return the value of a column that comes first, which a study declares as its main one."""
    return next(declared.main[column] for declared in studies() if column in declared.main)


@cache
def _patterns() -> list[tuple[re.Pattern[str], ReportedStudy, str]]:
    """Return the patterns of all results, the fewest wildcards first, then the longest."""
    every = [
        (pattern(template), declared, kind)
        for declared in studies()
        for template, kind in declared.results.items()
    ]
    every.sort(key=lambda known: (known[0].count("*"), -len(known[0])))
    return [
        (re.compile("(.*/)?" + "[^/]*".join(map(re.escape, path.split("*")))), declared, kind)
        for path, declared, kind in every
    ]


def of_result(path: str) -> tuple[ReportedStudy, str]:
    """Return the study of a file of results and its kind, by the first pattern that fits.

    Raises
    ------
    UserError
        If it belongs to no study.
    """
    for compiled, declared, kind in _patterns():
        if compiled.fullmatch(path):
            return declared, kind
    raise UserError(f"{path}: is a result of no study. Leave it out of --results.")


def is_measurement(path: str) -> bool:
    """Return whether a file of results holds a measurement, not only a description."""
    declared, kind = of_result(path)
    return kind not in declared.describing


def by_study(paths: Iterable[Path]) -> dict[str, dict[str, list[Path]]]:
    """Return files of results by the name of their study and their kind."""
    paths_of: dict[str, dict[str, list[Path]]] = {name: {} for name in NAMES}
    for path in paths:
        declared, kind = of_result(path.as_posix())
        paths_of[declared.key].setdefault(kind, []).append(path)
    return paths_of
