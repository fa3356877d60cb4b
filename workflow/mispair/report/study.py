"""Declarations of a study for the report.

The folder ``mispair/STUDY/report`` of each study holds four modules: ``study`` (`Study`: names,
tables and figures as data, which the rules read as well), ``rows`` (from results to rows of
tables), ``figures`` (functions that draw), and ``pages`` (`Pages`: claims, printed tables,
sentences).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal


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
class Columns:
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


def columns(names: str, *, compared: bool = True) -> Columns:
    """Return columns from their names, separated by spaces: keys before |, text with *.

    Examples
    --------
    >>> columns("tower* seed | value").types
    {'tower': 'str', 'seed': 'float64', 'value': 'float64'}
    """
    keys, values = (tuple(part.split()) for part in names.split("|"))
    text = frozenset(name.rstrip("*") for name in keys + values if name.endswith("*"))
    bare = [tuple(name.rstrip("*") for name in part) for part in (keys, values)]
    return Columns(bare[0], bare[1], text, compared)


def _nowhere(rule: str, wildcards: Mapping[str, str]) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Study:
    """A study of the report.

    Attributes
    ----------
    key, title : str
        Its name in ``studies`` and of its page's file; the heading of its page.
    about : str
        What is done in it.
    sections : tuple of str
        Of its page, in their order; "" is the first one, which has no name.
    tables : mapping of str to Columns
        Its tidy tables.
    results : mapping of str to str
        Kind of each file of results by the pattern of its path.
    figures : tuple of Figure
        In the order of the page.
    small : tuple of Figure
        Small figures next to the answers of its questions (`mispair.report.small`).
    describing : tuple of str
        Kinds of results that describe data and models, and are no measurement.
    measures : tuple of str
        Tables in which a row means that something was measured; all of them by default.
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
    tables: Mapping[str, Columns]
    results: Mapping[str, str]
    figures: tuple[Figure, ...]
    small: tuple[Figure, ...] = ()
    describing: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    sections_of: Callable[[str, Mapping[str, str]], Iterable[str]] = field(default=_nowhere)

    def __post_init__(self) -> None:
        for figure in self.figures:
            self.refuse_unknown_section(figure.section, f"the figure {figure.name}")

    def refuse_unknown_section(self, section: str, of: str) -> None:
        """Raise a ValueError if the page has no such section; `of` names its content."""
        if section not in self.sections:
            raise ValueError(f"{self.key}: its page has no section {section!r}, as {of} has")
