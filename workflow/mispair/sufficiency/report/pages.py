"""What the study puts on the pages of the report."""

from __future__ import annotations

from collections.abc import Sequence

from mispair.core.words import count
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.report.verdicts import Verdict
from mispair.sufficiency.report.runs import RUN, trained
from mispair.sufficiency.report.tables import sufficiency

RULES = {
    "difference of runs": "The difference of two risks on the same samples, averaged over runs "
    "(trees and seeds), with a t interval, and the rule of effects. The smallest effect of "
    "interest is a third of what the other modality is worth, or of the published difference.",
    "worth": "At each p at which there is a published risk: what the published model loses against "
    "the published Bayes risk, next to what the other modality is worth (our Bayes risk without it "
    "minus that with it). Supports if the model loses less, by the interval of the worth, at all "
    "p, and cannot tell otherwise: a head that underfits loses more with any feature.",
}
"""Rules of its claims in words, as the report prints them."""


def _tables(tables: Tables, judged: Sequence[Verdict], confidence: float) -> list[Table]:
    return sufficiency(tables, confidence)


def _summary(tables: Tables) -> list[str]:
    if tables.sufficiency.empty:
        return []
    runs = trained(tables.sufficiency)[RUN].drop_duplicates()
    return [count(len(runs), "run of the sufficiency study", "runs of the sufficiency study")]


PAGES = Pages(
    claims=(),
    questions=(),
    tables=_tables,
    summary=_summary,
)
