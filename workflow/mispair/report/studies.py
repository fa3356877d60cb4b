"""The studies of the report. A new one is a folder, a file of rules, and its name here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

from mispair.core.files import UserError
from mispair.report.study import Columns, Figure, Study, columns

Name = Literal[
    "image_text",
    "audit",
    "repair",
    "simulation",
    "laclip",
    "sufficiency",
    "stepsize",
    "pretraining",
]
"""Packages of the studies, in the order of their pages."""

NAMES: tuple[Name, ...] = get_args(Name)

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
def study(name: str) -> Study:
    """Return the declaration of a study."""
    declared: Study = import_module(module_name(name, "study")).STUDY
    return declared


def studies() -> list[Study]:
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
def tables() -> dict[str, Columns]:
    """Return the columns of all tidy tables by name."""
    of_studies = {name: table for declared in studies() for name, table in declared.tables.items()}
    return {**of_studies, "provenance": PROVENANCE}


@cache
def _patterns() -> list[tuple[re.Pattern[str], Study, str]]:
    """Return the patterns of all results, the fewest wildcards first, then the longest."""
    every = [
        (pattern, declared, kind)
        for declared in studies()
        for pattern, kind in declared.results.items()
    ]
    every.sort(key=lambda declaration: (declaration[0].count("*"), -len(declaration[0])))
    return [
        (re.compile("(.*/)?" + "[^/]*".join(map(re.escape, pattern.split("*")))), declared, kind)
        for pattern, declared, kind in every
    ]


def of_result(path: str) -> tuple[Study, str]:
    """Return the study of a file of results and its kind, by the first pattern that fits.

    Raises
    ------
    UserError
        If it belongs to no study.
    """
    for pattern, declared, kind in _patterns():
        if pattern.fullmatch(path):
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
