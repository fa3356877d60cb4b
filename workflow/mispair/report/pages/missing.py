"""Missing results of an incomplete report: their sections, and the reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mispair.core.failures import Failure, Record, named, why
from mispair.report import studies
from mispair.report.notes import SHARED, Note


@dataclass(frozen=True)
class Hole:
    """A missing result: its step with wildcards, and the reason."""

    what: str
    why: Note


def holes(record: Record) -> dict[tuple[str, str], list[Hole]]:
    """Return the results that a run did not make, by study and section of the page."""
    by_section: defaultdict[tuple[str, str], list[Hole]] = defaultdict(list)
    failed = record["failed"]
    for job in [*failed, *record["not_run"]]:
        hole = Hole(named(job), _why(job, failed))
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
