"""The frame of a verdict: average values over C_s within each trial, decide, print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from mispair.core.words import count, number
from mispair.report.statistics import Effect, Interval, without_p
from mispair.report.verdicts import UNMEASURED, Claim, Control, Outcome, Verdict, effect_text
from mispair.simulation.report.runs import effect_by_trial, listed

Decide = Callable[[Effect], tuple[Outcome, str]]
"""A rule of `mispair.report.verdicts`, with its numbers filled in."""


def unmeasured(claim: Claim, reason: str) -> Verdict:
    """Return the verdict on a claim without a measurement."""
    return Verdict(claim, UNMEASURED, reason)


def control(name: str, limits: bool, text: str) -> Control:
    """Return a measured control, which limits the claim or does not."""
    return Control(name, "limits" if limits else "does not limit", text)


def no_control(name: str, text: str) -> Control:
    """Return a control without a measurement."""
    return Control(name, "not measured", text)


def mean_scope(values: pd.Series) -> str:
    """Print the values of C_s over which values by C_s and trial are averaged."""
    return f"mean over C_s {listed(values.index.get_level_values('spurious_probability'))}"


def trial_count(values: pd.Series) -> str:
    """Print the number of trials of values by C_s and trial."""
    return count(values.index.get_level_values("trial").nunique(), "trial")


def two_levels(means: pd.Series, digits: int = 3) -> str:
    """Print the means of two arms side by side.

    Examples
    --------
    >>> two_levels(pd.Series({"raw": 0.5, "filtered": 0.75}))
    'raw 0.500, filtered 0.750'
    """
    return ", ".join(f"{name} {number(mean, digits)}" for name, mean in means.items())


def interval_test(interval: Interval, confidence: float, digits: int = 3) -> str:
    """Print the interval of a mean over trials."""
    if not interval.known:
        return f"no interval ({count(interval.n, 'trial')})"
    limits = f"{number(interval.low, digits)} to {number(interval.high, digits)}"
    return f"{100 * confidence:g} % interval {limits}"


def judge_difference(
    claim: Claim,
    differences: pd.Series,
    decide: Decide,
    confidence: float,
    *,
    missing: str,
    smallest: float,
    digits: int = 3,
    against_zero: bool = True,
    **printed: Any,
) -> Verdict:
    """Judge a difference of two arms, paired by trial and averaged over C_s within each trial.

    Parameters
    ----------
    claim : Claim
        Claim whose rule `decide` applies.
    differences : Series
        By C_s and trial, without missing values.
    decide : callable
        From the effect over trials to the outcome and its reason.
    confidence : float
        1 − α of the interval.
    missing : str
        Reason of the verdict if there is no difference.
    smallest : float
        Smallest effect of interest.
    digits : int
        Digits of the printed effect.
    against_zero : bool
        Whether the rule tests the effect against zero; only such a p value is corrected.
    **printed
        Further fields of the verdict; ``scope`` and ``sample`` name C_s and trials by default.
    """
    if differences.empty:
        return unmeasured(claim, missing)
    effect = effect_by_trial(differences, confidence)
    outcome, reason = decide(effect)
    effect = effect if against_zero else without_p(effect)
    fields = {"scope": mean_scope(differences), "sample": trial_count(differences), **printed}
    return Verdict(
        claim,
        outcome,
        reason,
        test=f"difference {effect_text(effect, confidence, digits)}",
        effect=effect,
        smallest=smallest,
        **fields,
    )
