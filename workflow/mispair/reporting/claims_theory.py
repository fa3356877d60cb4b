"""The paper's theorems (section 4), judged on the runs of one preset."""

from __future__ import annotations

import pandas as pd

from mispair.reporting import controls_simulation, verdicts
from mispair.reporting.simulation_runs import (
    by_trial,
    caption_runs,
    differences,
    listed,
    runs,
    spurious,
)
from mispair.reporting.statistics import Interval
from mispair.reporting.verdicts import Claim, Control, Verdict
from mispair.reporting.words import count, number

NEAR_OPTIMAL = 0.05
"""What "o(1)" is taken to mean for the relative gap to the optimal loss."""

CLOSE = 0.1
"""What relative error of Eq. 34 still counts as "the alignments follow it"."""

SUCCEEDS = 0.95
"""What "with probability 1 − o(1)" is taken to mean."""

MIXES = Claim(
    "raw-mixes", "simulation",
    "Neurons trained on raw captions mix spuriously correlated features: their second alignment "
    "is larger than with right captions.",
    "theorem 4.2", "oracle", "simulation_mixing",
)  # fmt: skip
FAILS = Claim(
    "raw-fails", "simulation",
    "Encoders trained on raw captions fail with a constant probability: they classify worse than "
    "with right captions.",
    "theorem 4.5", "oracle", "simulation_figure1_as_run",
)  # fmt: skip
CAPTIONS = Claim(
    "captions-repaired", "simulation",
    "Generated captions keep an image’s features with probability 1 − Θ(1/d) and hold wrong ones "
    "with probability Θ(1/d).",
    "theorem 4.3", "order 1/d", "simulation_captions",
)  # fmt: skip
UNMIXES = Claim(
    "filtered-unmixes", "simulation",
    "Neurons trained on filtered captions learn one feature each: their second alignment is "
    "smaller than on raw captions.",
    "theorem 4.4", "difference", "simulation_mixing",
)  # fmt: skip
SUCCEED = Claim(
    "filtered-succeeds", "simulation",
    "Encoders trained on filtered captions classify correctly with probability 1 − o(1) (here: "
    f"{SUCCEEDS:g}).",
    "theorem 4.5", "level", "simulation_figure1_as_run",
)  # fmt: skip
OPTIMAL = Claim(
    "loss-near-optimal", "simulation",
    f"Training ends near the optimal loss: the relative gap is o(1) (here: {NEAR_OPTIMAL:g}).",
    "theorem 4.1", "level", "simulation_alignments",
)  # fmt: skip
FOLLOW = Claim(
    "alignments-follow", "simulation",
    "Before the thresholds set in, alignments grow as Eq. 34 says (here: to a relative error of "
    f"{CLOSE:g}).",
    "Eqs. 34-36", "level", "simulation_alignments",
)  # fmt: skip
CLAIMS = (MIXES, FAILS, CAPTIONS, UNMIXES, SUCCEED, OPTIMAL, FOLLOW)


def judge(table: pd.DataFrame, confidence: float) -> list[Verdict]:
    """Return the verdicts on the theorems for the rows of one preset, in the order of `CLAIMS`."""
    return [
        _compared(MIXES, table, "second_alignment", ("raw", "oracle"), +1, confidence,
                  (controls_simulation.residual(table, "raw", "residual_share"),
                   controls_simulation.covered(table))),
        _compared(FAILS, table, "accuracy", ("raw", "oracle"), -1, confidence, ()),
        _captions(table, confidence),
        _compared(UNMIXES, table, "second_alignment", ("filtered", "raw"), -1, confidence,
                  (controls_simulation.residual(table, "filtered", "residual_share_pure"),)),
        _succeeds(table, confidence),
        _loss(table, confidence),
        _alignments(table, confidence),
    ]  # fmt: skip


def _compared(
    claim: Claim, table: pd.DataFrame, metric: str, arms: tuple[str, str], sign: int,
    confidence: float, controls: tuple[Control, ...],
) -> Verdict:  # fmt: skip
    arm, other = arms
    values = spurious(differences(table, metric, arm, other))
    found = by_trial(values, confidence)
    outcome, reason = verdicts.decide_difference(found, sign)
    if outcome == verdicts.UNMEASURED:
        missing = "no trial has a run at C_s = 0" if other == "oracle" else reason
        recorded = metric in set(table["metric"])
        return Verdict(claim, outcome, missing if recorded else f"no {_words(metric)} was recorded")
    means = runs(table, metric).loc[values.index, [arm, other]]
    level = means.groupby("spurious_probability").mean().mean()
    name = "at C_s = 0" if other == "oracle" else other
    return Verdict(
        claim,
        outcome,
        reason,
        scope=_scope(values),
        measured=f"{_words(metric)}: {arm} {number(level[arm])}, {name} {number(level[other])}",
        published="a sign, no number",
        sample=_trials(values),
        test=f"difference {verdicts.interval_text(found, confidence)}",
        controls=controls,
    )


def _captions(table: pd.DataFrame, confidence: float) -> Verdict:
    true = caption_runs(table, "caption_true")
    wrong = caption_runs(table, "caption_spurious")
    features = table["features"].max()
    if true.empty or not features > 0:
        return Verdict(CAPTIONS, verdicts.UNMEASURED, "no generated captions were measured")
    if wrong.empty:
        reason = "whole captions are redrawn here: no feature is spuriously correlated with another"
        return Verdict(CAPTIONS, verdicts.UNMEASURED, reason)
    kept, added = by_trial(true, confidence), by_trial(wrong, confidence)
    level = 1 / float(features)
    outcome, reason = verdicts.decide_both(
        verdicts.decide_level(kept, 1 - level), verdicts.decide_level(added, level, -1)
    )
    constant = features * max(1 - kept.value, added.value)
    return Verdict(
        CAPTIONS,
        outcome,
        reason,
        scope=_scope(true),
        measured=f"right features kept {number(kept.value)}, wrong ones added "
        f"{number(added.value)}: within c/d for c = {number(constant, 1)}",
        published=f"1 − Θ(1/d) and Θ(1/d); with the constant 1, {number(1 - level)} and "
        f"{number(level)}",
        sample=_trials(true),
        test=f"{_interval(kept, confidence)}; {_interval(added, confidence)}",
        controls=(
            controls_simulation.generated_against_raw(table, confidence),
            controls_simulation.at_their_own_length(table, level),
        ),
    )


def _succeeds(table: pd.DataFrame, confidence: float) -> Verdict:
    wide = runs(table, "accuracy")
    values = spurious(wide["filtered"].dropna())
    found = by_trial(values, confidence)
    outcome, reason = verdicts.decide_level(found, SUCCEEDS)
    if outcome == verdicts.UNMEASURED:
        return Verdict(SUCCEED, outcome, "no filtered run at C_s above 0 was measured")
    return Verdict(
        SUCCEED,
        outcome,
        reason,
        scope=_scope(values),
        measured=f"accuracy {number(found.value)}",
        published="1 − o(1)",
        sample=_trials(values),
        test=_interval(found, confidence),
        controls=(_reachable(wide.loc[values.index, "oracle"]),),
    )


def _reachable(oracle: pd.Series) -> Control:
    name = "With right captions"
    oracle = oracle.dropna()
    if oracle.empty:
        return Control(name, "not measured", "C_s = 0 was not run in these trials.")
    text = f"With right captions the accuracy is {number(oracle.mean())}"
    if oracle.mean() < SUCCEEDS:
        return Control(
            name, "limits", f"{text}: the level cannot be reached here by repairing captions."
        )
    return Control(name, "does not limit", f"{text}.")


def _loss(table: pd.DataFrame, confidence: float) -> Verdict:
    own = table[(table["metric"] == "loss_gap") & table["trained_on"].isin(["raw", "filtered"])]
    own = own.dropna(subset=["value"])
    if own.empty:
        return Verdict(OPTIMAL, verdicts.UNMEASURED, "no loss of longer training was measured")
    values = own.groupby(["spurious_probability", "trial"])["value"].mean()
    found = by_trial(values, confidence)
    outcome, reason = verdicts.decide_level(found, NEAR_OPTIMAL, -1)
    return Verdict(
        OPTIMAL,
        outcome,
        reason,
        scope=f"raw and filtered, {_scope(values)}",
        measured=f"relative gap {number(found.value)} to the loss of longer training",
        published="o(1)",
        sample=_trials(values),
        test=_interval(found, confidence),
    )


def last_errors(table: pd.DataFrame, source: str) -> pd.Series:
    """Return each run's relative error of an equation at the last step that was recorded."""
    own = table[(table["metric"] == "alignment_error") & (table["source"] == source)]
    own = own.dropna(subset=["value"]).sort_values("step", kind="stable")
    return own.groupby(["spurious_probability", "trial"])["value"].last()


def _alignments(table: pd.DataFrame, confidence: float) -> Verdict:
    values = last_errors(table, "eq34")
    if values.empty:
        reason = "no alignments were followed: Eq. 34 speaks of SGD on the spectral loss"
        return Verdict(FOLLOW, verdicts.UNMEASURED, reason)
    found = by_trial(values, confidence)
    outcome, reason = verdicts.decide_level(found, CLOSE, -1)
    step = table.loc[table["metric"] == "alignment_error", "step"].max()
    return Verdict(
        FOLLOW,
        outcome,
        reason,
        scope=f"at the last step followed (up to {step:g}), {_scope(values)}",
        measured=f"relative error {number(found.value)}",
        published="an error of lower order",
        sample=_trials(values),
        test=_interval(found, confidence),
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


def _interval(found: Interval, confidence: float) -> str:
    if not found.known:
        return "no interval (one run)"
    return f"{100 * confidence:g} % interval {number(found.low)} to {number(found.high)}"
