"""Checks of the sufficiency study: properties that hold whatever a training gives.

They test the programs, and no claim: published risks are met, belief propagation is exact, and no
inequality between measured quantities is broken beyond three standard errors of evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mispair.report import published
from mispair.report.tables import Tables
from mispair.sufficiency.report.claims import (
    MAIN_FLIP,
    RUN,
    TASKS,
    published_trees,
    rows,
    trained,
)
from mispair.sufficiency.sizes import Size

TOLERANCES = {"clip": (0.03, 0.0), "zsc": (0.04, 0.0), "cdm": (0.1, 0.01), "vlm": (0.008, 0.0)}
"""By task: largest distance of a measured Bayes risk from the published one, absolute and relative;
for ten thousand samples in both."""

EXACT = 1e-5
"""Largest error of belief propagation against sums over every configuration."""


@dataclass(frozen=True)
class Check:
    """A check with the number of cases that were checked, and of those that pass."""

    key: str
    text: str
    passed: int
    of: int


def checks(tables: Tables) -> list[Check]:
    """Return all checks; one without a case was not measured."""
    results = []
    for key, (text, cases) in CHECKS.items():
        passed = [bool(case) for case in cases(tables.sufficiency)]
        results.append(Check(key, text, sum(passed), len(passed)))
    return results


def _error(measured: Any) -> Any:
    """Return the standard error behind each row's 95 % interval; of a row, its own."""
    return (measured["high"] - measured["low"]) / (2 * 1.96)


def _anchors(table: pd.DataFrame) -> Iterator[bool]:
    bayes = published_trees(table)
    printed = published.sufficiency_risks()
    for row in printed[printed["model"] == "bayes"].to_dict("records"):
        task, risk = row["task"], row["risk"]
        candidates = {"candidates": 4.0} if task == "clip" else {}
        measured = rows(bayes, task=task, arm="bayes", metric="risk", **candidates)
        absolute, relative = TOLERANCES[task]
        for value in measured.loc[measured["flip"] == row["flip"], "value"]:
            yield abs(value - risk) <= absolute + relative * risk


def _enumerated(table: pd.DataFrame) -> Iterator[bool]:
    yield from rows(table, metric="enumeration_error").groupby("task")["value"].max() <= EXACT


def _floor(table: pd.DataFrame) -> Iterator[bool]:
    excess = table[(table["metric"] == "difference") & (table["reference"] == "bayes")]
    yield from excess["value"] >= -3 * _error(excess)


def _divergence(table: pd.DataFrame) -> Iterator[bool]:
    for _, run in trained(table).groupby(RUN):
        divergences = run[(run["metric"] == "sufficiency") & (run["part"] == "both")]
        for arm, group in divergences.groupby("arm"):
            group = group.sort_values("candidates")
            for k, divergence in zip(group["candidates"], group["value"], strict=True):
                gap = rows(run, task="clip", arm=arm, metric="difference", reference="bayes",
                           candidates=k)  # fmt: skip
                yield from (gap["value"] - divergence).abs() <= 3 * _error(gap)
            yield group["value"].is_monotonic_increasing


def _processed(table: pd.DataFrame) -> Iterator[bool]:
    for (size, *_), run in trained(table).groupby(RUN):
        bounds = run[(run["metric"] == "sufficiency") & (run["part"] == "text_given_image")]
        words = Size.of(str(size)).leaves - 1
        for arm, group in bounds.groupby("arm"):
            bound = group.sort_values("candidates").iloc[-1]
            lost = run[(run["task"] == "zsc") & (run["arm"] == arm) & (run["reference"] == "exact")]
            lost = lost.sort_values("per_class").tail(1)
            yield from lost["value"] <= bound["value"] + 3 * (_error(lost) + _error(bound))
            if arm == "standard":
                head = rows(run, task="vlm", arm="frozen", metric="difference", reference="oracle")
                most = bound["value"] + 3 * (words * _error(head) + _error(bound))
                yield from words * head["value"] <= most


def _shifted(table: pd.DataFrame) -> Iterator[bool]:
    runs = trained(table)
    shifted = runs[runs["shifted"].notna() & (runs["reference"] == "bayes")]
    same = shifted[(shifted["arm"] == "misspecified") & (shifted["test_flip"] == shifted["flip"])]
    yield from same["value"] == 0
    ends = shifted[(shifted["shifted"] == "both") & (shifted["arm"] != "misspecified")]
    ends = ends[(ends["task"] == "clip") & (ends["flip"] == MAIN_FLIP)]
    for _, group in ends.groupby([*RUN, "arm"]):
        by_flip = group.set_index("test_flip")["value"]
        if {0.02, 0.4} <= set(by_flip.index):
            yield by_flip[0.02] < by_flip[0.4]


CHECKS: dict[str, tuple[str, Callable[[pd.DataFrame], Iterator[bool]]]] = {
    "published": (
        "Bayes risks at the published size are the published ones, within "
        + ", ".join(
            f"{absolute:g}{f' + {100 * relative:g} %' if relative else ''} ({task})"
            for task, (absolute, relative) in TOLERANCES.items()
        ),
        _anchors,
    ),
    "exact": (
        "On a tiny tree belief propagation agrees with sums over every configuration to 0.00001",
        _enumerated,
    ),
    "least": ("No risk is below Bayes’ by more than three errors", _floor),
    "divergence": (
        "The divergence is the excess risk to within three errors, and does not fall with K",
        _divergence,
    ),
    "processed": (
        "Data processing: what zero-shot classes lose against the best similarity, and what a "
        "text’s words lose against the oracle feature, is at most the divergence of texts given "
        "images",
        _processed,
    ),
    "shifted": (
        "Misspecified belief propagation is Bayes’ at the p of the training, exactly; models lose "
        "less at p = 0.02 than at 0.4",
        _shifted,
    ),
}

assert {*TOLERANCES} == {*TASKS}
