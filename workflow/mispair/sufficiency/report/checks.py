"""Ten checks of the sufficiency study, each passed or failed by a rule on what was measured.

A check passes if it passes in every run. Errors are standard errors of evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from mispair.core.words import number
from mispair.report import published
from mispair.report.tables import Tables
from mispair.sufficiency.report.runs import (
    ENCODERS,
    MAIN_FLIP,
    RUN,
    TASKS,
    error,
    published_trees,
    rows,
    trained,
)
from mispair.sufficiency.sizes import Size

Result = Literal["passes", "fails", "noted", "not measured"]
Single = tuple[bool, str]
"""Whether a check passes on one number, and the number in words."""

TOLERANCES = {"clip": (0.03, 0.0), "zsc": (0.04, 0.0), "cdm": (0.1, 0.01), "vlm": (0.008, 0.0)}
"""By task: largest distance of a measured Bayes risk from the published one, absolute and relative;
for ten thousand samples in both."""

EXACT = 1e-5
LARGEST_EXCESS, LARGEST_SHARE = 0.12, 0.06
LARGEST_ZERO_SHOT = 0.05
HEAD_ERRORS = {"cdm": 0.1, "vlm": 0.005}
LEVELS = (
    "The levels of checks 4, 6 and 7 are those of the setting `standard` (2000 steps of encoders, "
    "1000 of heads, at p = 0.2): shorter trainings miss them."
)


@dataclass(frozen=True)
class Check:
    """One check: its number, its rule, its result and the numbers behind it."""

    number: int
    text: str
    result: Result
    measured: str


def checks(tables: Tables) -> list[Check]:
    """Return all ten, in order."""
    table = tables.sufficiency
    return [
        _check(place, text, list(singles(table)), noted=place == 8)
        for place, (text, singles) in enumerate(CHECKS, start=1)
    ]


def _check(place: int, text: str, results: list[Single], noted: bool) -> Check:
    if not results:
        return Check(place, text, "not measured", "–")
    total = len(results)
    failed = [sentence for passed, sentence in results if not passed]
    if failed:
        rest = f"; {len(failed) - 3} more" if len(failed) > 3 else ""
        sentence = f"{len(failed)} of {total}: {'; '.join(failed[:3])}{rest}"
        return Check(place, text, "noted" if noted else "fails", sentence)
    ends = " … ".join(sentence for _, sentence in results[:: max(1, total - 1)])
    return Check(place, text, "passes", f"{total} of {total}: {ends}")


def _power(value: float) -> str:
    return f"{value:.0e}".replace("e-0", "e-")


def _anchors(table: pd.DataFrame) -> Iterator[Single]:
    bayes = published_trees(table)
    printed = published.sufficiency_risks()
    for row in printed[printed["model"] == "bayes"].to_dict("records"):
        task, flip, risk = row["task"], row["flip"], row["risk"]
        candidates = {"candidates": 4.0} if task == "clip" else {}
        measured = rows(bayes, task=task, arm="bayes", metric="risk", **candidates)
        absolute, relative = TOLERANCES[task]
        for value in measured.loc[measured["flip"] == flip, "value"]:
            near = abs(value - risk) <= absolute + relative * risk
            yield near, f"{task} at p = {flip:g}: {number(value)} ({number(risk)})"


def _enumerated(table: pd.DataFrame) -> Iterator[Single]:
    errors = rows(table, metric="enumeration_error")
    for task, of_task in errors.groupby("task"):
        largest = of_task["value"].max()
        yield bool(largest <= EXACT), f"{task}: {_power(largest)}"


def _floor(table: pd.DataFrame) -> Iterator[Single]:
    excess = table[(table["metric"] == "difference") & (table["reference"] == "bayes")]
    for _, row in excess.iterrows():
        sentence = f"{row['task']} {row['arm']}: {number(row['value'], 4, sign=True)}"
        yield not row["value"] < -3 * error(row), sentence


def _matching(table: pd.DataFrame) -> Iterator[Single]:
    runs = trained(table, MAIN_FLIP)
    excess = rows(runs, task="clip", metric="difference", reference="bayes", candidates=4.0)
    for _, run in excess.groupby(RUN):
        by_arm = run.set_index("arm")["value"]
        if not {"standard", "untrained"} <= set(by_arm.index):
            continue
        standard, untrained = by_arm["standard"], by_arm["untrained"]
        small = standard < LARGEST_EXCESS and standard < LARGEST_SHARE * untrained
        share = 100 * standard / untrained
        yield bool(small), f"excess {number(standard)}, {share:.1f} % of untrained"
        present = [arm for arm in ENCODERS if arm in by_arm]
        if len(present) > 1:
            values = [float(by_arm[arm]) for arm in present]
            sentence = " < ".join(f"{arm} {number(by_arm[arm])}" for arm in present)
            yield values == sorted(values), sentence


def _divergence(table: pd.DataFrame) -> Iterator[Single]:
    for _, run in trained(table).groupby(RUN):
        divergences = run[(run["metric"] == "sufficiency") & (run["part"] == "both")]
        for arm, group in divergences.groupby("arm"):
            group = group.sort_values("candidates")
            for k, divergence in zip(group["candidates"], group["value"], strict=True):
                gap = rows(run, task="clip", arm=arm, metric="difference", reference="bayes",
                           candidates=k)  # fmt: skip
                for _, row in gap.iterrows():
                    near = abs(row["value"] - divergence) <= 3 * error(row)
                    numbers = f"KL {number(divergence)}, excess {number(row['value'])}"
                    yield bool(near), f"{arm}, K = {k:g}: {numbers}"
            values = " ≤ ".join(number(value) for value in group["value"])
            yield bool(group["value"].is_monotonic_increasing), f"{arm}: {values}"


def _classes(table: pd.DataFrame) -> Iterator[Single]:
    runs = trained(table, MAIN_FLIP)
    runs = runs[(runs["task"] == "zsc") & runs["shifted"].isna() & (runs["arm"] == "standard")]
    gaps = runs[(runs["metric"] == "difference") & (runs["reference"] == "bayes")]
    for _, run in gaps.groupby(RUN):
        run = run.sort_values("per_class")
        last = run.iloc[-1]
        sentence = f"excess {number(last['value'])} at M = {last['per_class']:g}"
        yield bool(last["value"] < LARGEST_ZERO_SHOT), sentence
        falling = run[run["per_class"] >= 5]["value"]
        yield bool(falling.is_monotonic_decreasing), "falls from M = 5 on"


def _transfer(table: pd.DataFrame) -> Iterator[Single]:
    runs = trained(table, MAIN_FLIP)
    for task, limit in HEAD_ERRORS.items():
        for reference in ("unconditional", "untrained", "oracle"):
            for _, row in _frozen(runs, task, reference).iterrows():
                if reference == "oracle":
                    passed = row["value"] <= limit
                else:
                    times = 10 if reference == "untrained" else 0
                    passed = row["value"] < -times * error(row)
                value = number(row["value"], 4, sign=True)
                yield bool(passed), f"{task}: frozen − {reference} {value}"


def _frozen(runs: pd.DataFrame, task: str, reference: str) -> pd.DataFrame:
    """Return the differences of heads on the frozen feature from a reference."""
    return rows(runs, task=task, arm="frozen", metric="difference", reference=reference)


def _joint(table: pd.DataFrame) -> Iterator[Single]:
    runs = trained(table)
    for task in HEAD_ERRORS:
        for _, row in _frozen(runs, task, "joint").iterrows():
            sentence = f"{task}: frozen − joint {number(row['value'], 4, sign=True)}"
            yield bool(row["value"] <= 3 * error(row)), sentence


def _processed(table: pd.DataFrame) -> Iterator[Single]:
    for (size, *_), run in trained(table).groupby(RUN):
        bounds = run[(run["metric"] == "sufficiency") & (run["part"] == "text_given_image")]
        words = Size.of(str(size)).leaves - 1
        for arm, group in bounds.groupby("arm"):
            bound = group.sort_values("candidates").iloc[-1]
            limit = number(bound["value"])
            lost = run[(run["task"] == "zsc") & (run["arm"] == arm) & (run["reference"] == "exact")]
            for _, row in lost.sort_values("per_class").tail(1).iterrows():
                most = bound["value"] + 3 * (error(row) + error(bound))
                yield bool(row["value"] <= most), f"zsc {arm}: {number(row['value'])} ≤ {limit}"
            if arm == "standard":
                for _, row in _frozen(run, "vlm", "oracle").iterrows():
                    value = words * row["value"]
                    most = bound["value"] + 3 * (words * error(row) + error(bound))
                    yield bool(value <= most), f"vlm: {number(value)} of a text ≤ {limit}"


def _shifted(table: pd.DataFrame) -> Iterator[Single]:
    runs = trained(table)
    shifted = runs[runs["shifted"].notna() & (runs["reference"] == "bayes")]
    same = shifted[(shifted["arm"] == "misspecified") & (shifted["test_flip"] == shifted["flip"])]
    for _, row in same.iterrows():
        value = number(row["value"], 4, sign=True)
        yield row["value"] == 0, f"{row['task']}: misspecified − Bayes {value} at its p"
    ends = shifted[(shifted["shifted"] == "both") & (shifted["arm"] != "misspecified")]
    ends = ends[(ends["task"] == "clip") & (ends["flip"] == MAIN_FLIP)]
    for (*_, arm), group in ends.groupby([*RUN, "arm"]):
        by_flip = group.set_index("test_flip")["value"]
        if {0.02, 0.4} <= set(by_flip.index):
            low, high = float(by_flip[0.02]), float(by_flip[0.4])
            yield low < high, f"clip {arm}: {number(low)} at p = 0.02, {number(high)} at 0.4"


CHECKS: tuple[tuple[str, Callable[[pd.DataFrame], Iterator[Single]]], ...] = (
    (
        "Bayes risks at the published size are the published ones (in brackets), within "
        + ", ".join(
            f"{absolute:g}{f' + {100 * relative:g} %' if relative else ''} ({task})"
            for task, (absolute, relative) in TOLERANCES.items()
        ),
        _anchors,
    ),
    (
        "On a tiny tree belief propagation agrees with sums over every configuration to "
        f"{_power(EXACT)}",
        _enumerated,
    ),
    ("No risk is below Bayes' by more than three errors", _floor),
    (
        f"Encoders at p = {MAIN_FLIP:g}, K = 4: excess below {LARGEST_EXCESS:g} and "
        f"{100 * LARGEST_SHARE:g} % of the untrained one; guided < standard < shallow",
        _matching,
    ),
    (
        "The divergence is the excess risk to within three errors, and does not fall with K",
        _divergence,
    ),
    (
        f"Zero-shot at p = {MAIN_FLIP:g}: excess below {LARGEST_ZERO_SHOT:g} with the most "
        "prompts, falling from M = 5 on",
        _classes,
    ),
    (
        "Frozen feature: below Bayes without the other modality, below the untrained feature by "
        "ten errors, and within "
        + ", ".join(f"{limit:g} ({task})" for task, limit in HEAD_ERRORS.items())
        + " of the oracle feature",
        _transfer,
    ),
    (
        "Joint training is not better than the frozen feature by more than three errors (noted if "
        "it is)",
        _joint,
    ),
    (
        "Data processing: what zero-shot classes lose against the best similarity, and what a "
        "text's words lose against the oracle feature, is at most the divergence of texts given "
        "images",
        _processed,
    ),
    (
        "Misspecified belief propagation is Bayes' at the p of the training, exactly; models lose "
        "less at p = 0.02 than at 0.4",
        _shifted,
    ),
)

assert {*TOLERANCES} == {*TASKS}
