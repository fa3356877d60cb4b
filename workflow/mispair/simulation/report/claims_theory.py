"""The paper's theorem on mixing and its equations of phase I, judged on the runs of one preset.

What theorems 4.1 to 4.5 state asymptotically is judged in `claims_scaling`.
"""

from __future__ import annotations

import pandas as pd

from mispair.core.words import count, number
from mispair.report import verdicts
from mispair.report.statistics import Interval, effect_of_mean, trial_means
from mispair.report.verdicts import Claim, Control, Verdict
from mispair.simulation.report import controls_simulation
from mispair.simulation.report.runs import by_trial, differences, listed, runs, spurious

CLOSE = 0.1
"""What relative error of Eq. 34 still counts as "the alignments follow it"."""

MIXED = 0.1
"""Smallest share of neurons of interest: one in ten. The theorem says all, and gives no number."""

MIXES = Claim(
    "raw-mixes", "simulation",
    "Neurons trained on raw captions mix spuriously correlated features: of more neurons than with "
    "right captions the second alignment is at least half of the first and belongs to the spurious "
    "partner.",
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
    "Before the thresholds set in, alignments grow as Eq. 34 says (here: to a relative error of "
    f"{CLOSE:g}).",
    "Eqs. 34-36", "level", "simulation_alignments",
)  # fmt: skip
CLAIMS = (MIXES, UNMIXES, FOLLOW)

REDRAWN = "whole captions are redrawn here: no feature is spuriously correlated with another"
"""Why theorems on spurious pairs have nothing to say on a run."""


def judge(table: pd.DataFrame, confidence: float) -> list[Verdict]:
    """Return the verdicts on the theorems for the rows of one preset, in the order of `CLAIMS`."""
    return [
        _mixed(MIXES, table, ("raw", "oracle"), +1, confidence,
               (controls_simulation.covered(table),)),
        _mixed(UNMIXES, table, ("filtered", "raw"), -1, confidence, ()),
        _alignments(table, confidence),
    ]  # fmt: skip


def _mixed(
    claim: Claim, table: pd.DataFrame, arms: tuple[str, str], sign: int, confidence: float,
    controls: tuple[Control, ...],
) -> Verdict:  # fmt: skip
    arm, second = arms
    metric = "mixed_neurons"
    if metric not in set(table["metric"]):
        redrawn = set(table["misalignment"].dropna()) == {"caption"}
        reason = REDRAWN if redrawn else "no shares of neurons that mix features were recorded"
        return Verdict(claim, verdicts.UNMEASURED, reason)
    values = spurious(differences(table, metric, arm, second))
    effect = effect_of_mean(trial_means(values), confidence, "trial")
    outcome, reason = verdicts.decide_effect(effect, sign, MIXED, 1 - confidence)
    if outcome == verdicts.UNMEASURED:
        missing = "C_s = 0" if second == "oracle" else "both arms at C_s above 0"
        return Verdict(claim, outcome, f"no trial has runs at {missing}")
    means = runs(table, metric).loc[values.index, [arm, second]]
    level = means.groupby("spurious_probability").mean().mean()
    name = "at C_s = 0" if second == "oracle" else second
    return Verdict(
        claim,
        outcome,
        reason,
        scope=_scope(values),
        measured=f"share of neurons that mix: {arm} {number(level[arm])}, "
        f"{name} {number(level[second])}",
        published="all of them, or none; no number",
        sample=_trials(values),
        test=f"difference {verdicts.effect_text(effect, confidence)}",
        effect=effect,
        smallest=MIXED,
        controls=controls,
    )


def last_errors(table: pd.DataFrame, source: str) -> pd.Series:
    """Return each run's relative error of an equation at the last step that was recorded."""
    errors = table[(table["metric"] == "alignment_error") & (table["source"] == source)]
    errors = errors.dropna(subset=["value"]).sort_values("step", kind="stable")
    return errors.groupby(["spurious_probability", "trial"])["value"].last()


def _alignments(table: pd.DataFrame, confidence: float) -> Verdict:
    values = last_errors(table, "eq34")
    if values.empty:
        reason = "no alignments were followed: Eq. 34 speaks of SGD on the spectral loss"
        return Verdict(FOLLOW, verdicts.UNMEASURED, reason)
    interval = by_trial(values, confidence)
    outcome, reason = verdicts.decide_level(interval, CLOSE, -1)
    step = table.loc[table["metric"] == "alignment_error", "step"].max()
    return Verdict(
        FOLLOW,
        outcome,
        reason,
        scope=f"at the last step followed (up to {step:g}), {_scope(values)}",
        measured=f"relative error {number(interval.value)}",
        published="an error of lower order",
        sample=_trials(values),
        test=_interval(interval, confidence),
        controls=(_solution(last_errors(table, "eq35")),),
    )


def _solution(errors: pd.Series) -> Control:
    name = "Eqs. 35 and 36 as printed"
    if errors.empty:
        return Control(name, "not measured", "They hold for features in pairs (misalignment "
                       "partner), which was not run here.")  # fmt: skip
    text = f"The printed solution errs by {number(errors.mean())}"
    return Control(name, "limits" if errors.mean() > CLOSE else "does not limit", f"{text}.")


def _words(metric: str) -> str:
    return metric.replace("_", " ")


def _scope(values: pd.Series) -> str:
    return f"mean over C_s {listed(values.index.get_level_values('spurious_probability'))}"


def _trials(values: pd.Series) -> str:
    return count(values.index.get_level_values("trial").nunique(), "trial")


def _interval(interval: Interval, confidence: float) -> str:
    if not interval.known:
        return "no interval (one run)"
    return f"{100 * confidence:g} % interval {number(interval.low)} to {number(interval.high)}"
