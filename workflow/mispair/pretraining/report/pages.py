"""What the study puts on the pages of the report."""

from __future__ import annotations

from collections.abc import Sequence

from mispair.core.words import count
from mispair.pretraining.report.tables import pretraining
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.report.verdicts import Verdict

RULES = {
    "mixes": "Mixing score of towers on wrong captions less that on clean captions, paired by "
    "seed, with a t interval over seeds. Supports if the rule of effects supports mixing by "
    "spurious captions, and finds no such effect of the others. No such effect if it finds none "
    "of spurious captions. Contradicts if these have the opposite effect, or if it supports mixing "
    "by another kind. Cannot tell otherwise.",
}
"""Rules of its claims in words, as the report prints them."""


def _tables(tables: Tables, judged: Sequence[Verdict], confidence: float) -> list[Table]:
    return pretraining(tables, confidence)


def _summary(tables: Tables) -> list[str]:
    runs = len(tables.pretraining[["scheme", "rate", "seed"]].drop_duplicates())
    nouns = ("run of the pretraining study", "runs of the pretraining study")
    return [count(runs, *nouns)] if runs else []


PAGES = Pages(
    claims=(),
    questions=(),
    tables=_tables,
    summary=_summary,
)
