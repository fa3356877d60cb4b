"""What the study puts on the pages of the report."""

from __future__ import annotations

from collections.abc import Sequence

from mispair.core.words import count
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table
from mispair.report.tables import Tables
from mispair.report.verdicts import Verdict
from mispair.stepsize.report.tables import stepsize

RULES = {
    "always": "The theory holds for every run under its conditions, so runs are counted. Supports "
    "if it is kept in all checks of at least two runs, contradicts if one breaks it, cannot "
    "tell otherwise; runs that never meet the conditions are named and decide nothing.",
    "settles": "Every run whose risk rises at least once, diverged ones among them. A run settles "
    "if its last rise is within the first 99 % of its steps. Supports if at least two thirds "
    "settle, contradicts if at least two thirds do not, cannot tell otherwise.",
    "sooner": "Every run of the sweep with a stepsize above the largest monotone one of its list, "
    "at the lowest level of risk that this one gets to. Supports if at least two thirds get there "
    "in fewer steps, contradicts if at least two thirds do not (or never get there), cannot "
    "tell otherwise. Lists without a monotone member are named and decide nothing.",
    "slopes": "Slopes of log risk on log T from T = 1,000 on, over at least three T. Supports if "
    "both are within 0.25 of the claimed ones, contradicts if that of the stepsize in "
    "proportion to T is not below that of the fixed one, cannot tell otherwise.",
    "floor": "Runs on the two points whose risk never rises: the least t·L_t over the last nine "
    "tenths of the steps against the least before. Supports if the later one is at least half of "
    "the earlier in all of at least two runs, contradicts if not in one, cannot tell otherwise.",
    "tests": "Test accuracy, mean of all stepsizes of the sweep that oscillate − largest monotone "
    "stepsize, paired by split: the rule of effects, with one point of accuracy as the smallest.",
}
"""Rules of its claims in words, as the report prints them."""


def _tables(tables: Tables, judged: Sequence[Verdict], confidence: float) -> list[Table]:
    return stepsize(tables)


def _summary(tables: Tables) -> list[str]:
    runs = len(tables.stepsize_runs)
    return [count(runs, "run of the stepsize study", "runs of the stepsize study")] if runs else []


PAGES = Pages(
    claims=(),
    questions=(),
    tables=_tables,
    summary=_summary,
)
