"""Contributions of a study to the pages of the report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from markupsafe import Markup

from mispair.report import studies
from mispair.report.claims import Claim
from mispair.report.curves import TrainingCurves
from mispair.report.questions import Question
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.report.texts import Note

Scopes = Callable[[Tables], list[tuple[str, Tables]]]
"""Returns the presets on which claims are judged, each with its tables."""

Printed = Callable[[Tables, float], list[Table]]
"""Returns tables from all measurements and the confidence level."""

Notes = Callable[[Tables], list[Note]]
"""Returns notes from all measurements."""


@dataclass(frozen=True)
class Piece:
    """Content of a section besides figures and tables: a text first, and HTML last."""

    text: str = ""
    html: Markup | None = None


@dataclass(frozen=True)
class FigureWithoutClaim:
    """A figure of the paper without a claim: what it shows, and the counterpart in this run."""

    paper: str
    text: Note
    here: Note
    figure: str = ""


@dataclass(frozen=True)
class Page:
    """A page: file, full title, title in the navigation, template and its arguments."""

    file: str
    title: str
    short: str
    template: str
    parts: Mapping[str, Any]


def _none(*_: Any) -> list[Any]:
    return []


def _whole(tables: Tables) -> list[tuple[str, Tables]]:
    return [("", tables)]


def _nothing(*_: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Pages:
    """Claims, printed tables and notes of a study.

    Attributes
    ----------
    claims : tuple of Claim
        Its claims, in the order of the pages.
    questions : tuple of Question
        Questions that its claims answer.
    title : callable
        The heading of a report on a corpus of the user's own, from the tables and its name.
    answer : callable
        The sentences that its page begins with.
    ending : callable
        What a run on the command line ends with; by default its answers.
    tables : callable
        The tables of its page, each in a section of the page.
    scopes : callable
        The presets on which its claims are judged, each with its tables; by default one without a
        name. Without any, nothing was measured.
    definitions : mapping of str to str
        What is measured, by name, for the page of methods.
    summary, warnings, limits, holes : callables
        Notes for the landing page: what the run is, what makes its results hard to compare,
        what it cannot tell, and which values are missing where others are there.
    drawings : callable
        Figures of the paper without a claim.
    pieces : callable
        Texts and HTML for sections of its page, from `mispair.report.pages.content.Content`.
    settings : callable
        Tables of settings, for the page of the run.
    runs : callable
        Curves for TensorBoard, from the tables, the files of trainings (by kind) and
        the largest number of points.
    """

    claims: tuple[Claim, ...]
    questions: tuple[Question, ...]
    tables: Printed
    title: Callable[[Tables, str], list[Note]] = _none
    answer: Notes = _none
    ending: Notes = _none
    scopes: Scopes = _whole
    definitions: Mapping[str, str] = field(default_factory=dict)
    summary: Notes = _none
    warnings: Notes = _none
    limits: Notes = _none
    holes: Notes = _none
    drawings: Callable[[Tables], list[FigureWithoutClaim]] = _none
    pieces: Callable[[Any], Mapping[str, Piece]] = _nothing
    settings: Callable[[Tables], list[Table]] = _none
    runs: Callable[[Tables, Mapping[str, Sequence[Path]], int], list[TrainingCurves]] = _none


# The modules of a study that the report loads by name: rows and pages.


def _module(study: str, part: str) -> ModuleType:
    return import_module(studies.module_name(study, part))


def rows(name: str) -> ModuleType:
    """Return the module that makes rows of the study's tables from results."""
    return _module(name, "rows")


def every_pages() -> list[Pages]:
    """Return the `pages` of every study, in the order of their pages."""
    return [pages(name) for name in studies.NAMES]


def pages(name: str) -> Pages:
    """Return the claims and printed tables of a study, and its sentences for other pages."""
    declared: Pages = _module(name, "pages").PAGES
    return declared
