"""The modules of a study that the report loads by name: rows and pages."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from mispair.report import studies
from mispair.report.pages.study_pages import Pages


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
