"""The paper's theorem on mixing and its equations of phase I, judged on the runs of one preset.

`claims_scaling` judges the asymptotic statements of theorems 4.1 to 4.5.
"""

from __future__ import annotations

import pandas as pd

from mispair.core.words import number
from mispair.report.verdicts import Claim, Control, Verdict, decide_effect, decide_level
from mispair.simulation.report import controls_simulation
from mispair.simulation.report.judging import (
    control,
    interval_test,
    judge_difference,
    mean_scope,
    no_control,
    trial_count,
    two_levels,
    unmeasured,
)
from mispair.simulation.report.runs import RUN, by_trial, differences, runs, spurious, where

CLOSE = 0.1
"""Largest relative error of Eq. 34 with which alignments follow it."""

MIXED = 0.1
"""Smallest share of neurons of interest: one in ten. The theorem says all, and gives no number."""

MIXES = Claim(
    "raw-mixes", "simulation",
    "Neurons trained on raw captions mix spuriously correlated features: in more neurons than with "
    "right captions, the second alignment is at least half of the first and belongs to the "
    "spurious partner.",
    "theorem 4.2", "effect", "simulation_mixing",
)  # fmt: skip
UNMIXES = Claim(
    "filtered-unmixes", "simulation",
    "Neurons trained on filtered captions learn one feature each: fewer of them than on raw "
    "captions mix spuriously correlated features.",
    "theorem 4.4", "effect", "simulation_mixing",
)  # fmt: skip
FOLLOW = Claim(
    "alignments-follow", "simulation",
    "Before the thresholds set in, alignments grow by Eq. 34 (here: to a relative error of "
    f"{CLOSE:g}).",
    "Eqs. 34-36", "level", "simulation_alignments",
)  # fmt: skip
CLAIMS = (MIXES, UNMIXES, FOLLOW)

REDRAWN = "whole captions are redrawn here: no feature is spuriously correlated with another"
"""Reason why theorems on spurious pairs do not apply to a run."""


def judge(table: pd.DataFrame, confidence: float) -> list[Verdict]:
    """Return the verdicts on the theorems for the rows of one preset, in the order of `CLAIMS`."""
    return [
        _mixed(
            MIXES, table, "raw", "oracle", +1, confidence, (controls_simulation.covered(table),)
        ),
        _mixed(UNMIXES, table, "filtered", "raw", -1, confidence),
        _alignments(table, confidence),
    ]


def _mixed(
    claim: Claim,
    table: pd.DataFrame,
    arm: str,
    second: str,
    sign: int,
    confidence: float,
    controls: tuple[Control, ...] = (),
) -> Verdict:
    """Judge by how much two arms differ in the share of neurons that mix features."""
    metric = "mixed_neurons"
    if metric not in set(table["metric"]):
        redrawn = set(table["misalignment"].dropna()) == {"caption"}
        reason = REDRAWN if redrawn else "no shares of neurons that mix features were recorded"
        return unmeasured(claim, reason)
    values = spurious(differences(table, metric, arm, second))
    means = runs(table, metric).loc[values.index, [arm, second]]
    levels = means.groupby("spurious_probability").mean().mean()
    missing = "C_s = 0" if second == "oracle" else "both arms at C_s above 0"
    return judge_difference(
        claim,
        values,
        lambda effect: decide_effect(effect, sign, MIXED, 1 - confidence),
        confidence,
        missing=f"no trial has runs at {missing}",
        measured="share of neurons that mix: "
        + two_levels(levels.rename({"oracle": "at C_s = 0"})),
        published="all of them, or none; no number",
        smallest=MIXED,
        controls=controls,
    )


def last_errors(table: pd.DataFrame, source: str) -> pd.Series:
    """Return each run's relative error of an equation at the last step that was recorded."""
    errors = where(table, metric="alignment_error", source=source).dropna(subset=["value"])
    return errors.sort_values("step", kind="stable").groupby(RUN)["value"].last()


def _alignments(table: pd.DataFrame, confidence: float) -> Verdict:
    values = last_errors(table, "eq34")
    if values.empty:
        return unmeasured(
            FOLLOW, "no alignments were followed: Eq. 34 holds for SGD on the spectral loss"
        )
    interval = by_trial(values, confidence)
    outcome, reason = decide_level(interval, CLOSE, -1)
    step = where(table, metric="alignment_error")["step"].max()
    return Verdict(
        FOLLOW,
        outcome,
        reason,
        scope=f"at the last step followed (up to {step:g}), {mean_scope(values)}",
        measured=f"relative error {number(interval.value)}",
        published="an error of lower order",
        sample=trial_count(values),
        test=interval_test(interval, confidence),
        controls=(_printed_solution(last_errors(table, "eq35")),),
    )


def _printed_solution(errors: pd.Series) -> Control:
    name = "Eqs. 35 and 36 as printed"
    if errors.empty:
        text = "They hold for features in pairs (misalignment partner), which was not run here."
        return no_control(name, text)
    text = f"The printed solution errs by {number(errors.mean())}."
    return control(name, errors.mean() > CLOSE, text)
