"""Contents of the study on the pages of the report."""

from __future__ import annotations

from collections.abc import Sequence

from mispair.laclip.report.tables import checkpoints
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.report.verdicts import Verdict

RULES = {
    "pairs of models": "Mean |cos| of a LaCLIP model − that of the CLIP model of the same data and "
    "architecture, one number for each pair of models, by the rule of effects, claimed below zero; "
    "the smallest effect of interest is a third of the published rise from C_m 0 to 0.1.",
    "majority": "Every pair of models on every evaluation set, each by the rule of differences on "
    "the interval of its difference. Supports if it supports on at least two thirds of them, "
    "contradicts if it contradicts on at least two thirds, cannot tell otherwise.",
}
"""Rules of its claims in words, as the report prints them."""


def _tables(tables: Tables, judged: Sequence[Verdict], confidence: float) -> list[Table]:
    return checkpoints(tables)


def _limits(tables: Tables) -> list[str]:
    if tables.study("laclip"):
        return []
    return [
        "Tables 2 and 3 (LaCLIP checkpoints on public data sets) are not tested in this report."
    ]


PAGES = Pages(
    claims=(),
    questions=(),
    tables=_tables,
    limits=_limits,
)
