"""Verdicts on the paper's claims, by explicit rules on what was measured.

A function ``decide_*``, of this module or of a study, decides a claim; the report prints its rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from mispair.core.words import count, interval, number, p_value
from mispair.report.gaps import Gap
from mispair.report.statistics import Effect, Interval, Trend

Outcome = Literal["supports", "contradicts", "no such effect", "cannot tell", "not measured"]
Limit = Literal["limits", "does not limit", "not measured"]

SUPPORTS: Outcome = "supports"
CONTRADICTS: Outcome = "contradicts"
ABSENT: Outcome = "no such effect"
UNDECIDED: Outcome = "cannot tell"
UNMEASURED: Outcome = "not measured"

OUTCOMES: tuple[Outcome, ...] = (SUPPORTS, CONTRADICTS, ABSENT, UNDECIDED, UNMEASURED)
"""All outcomes, in the order in which they are counted and shown."""

LEAST_RUNS = 2
"""Fewer seeds or trials decide nothing."""

RULES = {
    "trend": "Spearman's rank correlation with the swept probability within each seed or trial, "
    "averaged over them, against permutations of the values within each. Supports if it has the "
    "claimed sign and its two-sided p value is at most α; contradicts if the same "
    "holds for the other sign; cannot tell otherwise, and always with fewer than two seeds or "
    "three probabilities.",
    "level": "The mean with its t interval over trials; the interval of a count of features is at "
    "least Wilson’s of all features of all trials. Supports if the whole interval reaches the "
    "claimed level (or, where a level is claimed that is not exceeded, keeps below it), "
    "contradicts if the whole interval lies on the other side of it, cannot tell otherwise, and "
    "always with fewer than two trials, or fewer than five trials without a spread.",
}
"""Rules of several studies in words, as the report prints them; each study has its own as well."""

EFFECTS = (
    "A claim on an effect names the smallest effect of interest: a third of the published effect, "
    "or the number that its text gives where nothing was published. No such effect: two one-sided "
    "tests at α place the effect between minus and plus this number. Supports: the two-sided p "
    "value is at most α, the effect has the claimed sign, and its estimate is at least this "
    "number. Contradicts: the same with the other sign. Cannot tell otherwise, and always without "
    "two replicates whose values differ."
)
"""The rule of `decide_effect` in words, as the report prints it."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, its place there, the rule that decides it, and its figure.

    The report is about the few ``primary`` claims. Their p values are corrected separately.
    """

    key: str
    study: str
    text: str
    paper: str
    rule: str
    figure: str
    primary: bool = False


@dataclass(frozen=True)
class Control:
    """A measurement next to a claim that may limit what the claim means."""

    name: str
    finding: Limit
    text: str


@dataclass(frozen=True)
class Part:
    """The same rule on a part of the data, such as one evaluation set, with its p value."""

    name: str
    outcome: Outcome
    text: str
    p: float = math.nan


@dataclass(frozen=True)
class Verdict:
    """A claim with what was measured on it.

    Attributes
    ----------
    outcome : Outcome
        By the claim's rule.
    measured, published : str
        The numbers, side by side.
    sample : str
        What was repeated how often.
    test : str
        Statistic with its interval or p value.
    scope : str
        What part of the data the claim was judged on.
    reason : str
        Why the outcome is what it is.
    preset : str
        The preset of the simulation that it was judged on, if there is one.
    gap : str
        Measured − published, of the number that the claim is about; empty without such a number.
    effect : Effect or None
        The number that the claim is about, with its interval and p value.
    smallest : float
        The smallest effect of interest, in the unit of the effect; NaN without one.
    adjusted_p : float
        The p value of the effect, corrected for the number of claims; NaN before correction.
    """

    claim: Claim
    outcome: Outcome
    reason: str
    scope: str = ""
    measured: str = ""
    published: str = ""
    sample: str = ""
    test: str = ""
    controls: tuple[Control, ...] = field(default=())
    parts: tuple[Part, ...] = field(default=())
    preset: str = ""
    gap: str = ""
    effect: Effect | None = None
    smallest: float = math.nan
    adjusted_p: float = math.nan

    @property
    def anchor(self) -> str:
        """Name of its place on the page."""
        return "-".join(filter(None, ("claim", self.claim.key, self.preset)))

    @property
    def numbers(self) -> tuple[float, float]:
        """The measured and the published number that the gap compares; NaN if there is none.

        Without a published number, the measured one is the effect.
        """
        if isinstance(self.gap, Gap):
            return self.gap.measured, self.gap.published
        return (self.effect.value if self.effect else math.nan), math.nan

    @property
    def limited(self) -> tuple[str, ...]:
        """Names of the controls that limit the claim."""
        return tuple(control.name for control in self.controls if control.finding == "limits")


def decide_effect(effect: Effect, sign: int, smallest: float, alpha: float) -> tuple[Outcome, str]:
    """Judge a claimed effect by its p value, its sign and the smallest effect of interest.

    See `EFFECTS`. The effect has intervals at 1 − α and 1 − 2 α; `sign` is +1 for a claimed effect
    above zero and −1 for one below; `smallest`, above zero, is in the unit of the effect.
    """
    if not smallest > 0:
        raise ValueError(f"the smallest effect of interest must be above 0, not {smallest}")
    if (unknown := _without_interval(effect)) is not None:
        return unknown
    bound = f"{smallest:.3g}"
    if -smallest < effect.limits(0.05)[0] and effect.limits(0.05)[1] < smallest:
        return ABSENT, f"the effect is smaller than {bound}, the smallest effect of interest"
    significant = effect.p <= alpha
    if significant and abs(effect.value) >= smallest:
        if sign * effect.value > 0:
            return SUPPORTS, f"the effect is as claimed, and at least {bound}"
        return CONTRADICTS, f"the effect is opposite to the claim, and at least {bound}"
    if significant:
        way = "as claimed" if sign * effect.value > 0 else "opposite to the claim"
        return UNDECIDED, (
            f"there is an effect, {way}, but it may be smaller than {bound}, the smallest effect "
            "of interest"
        )
    return UNDECIDED, "an effect of either sign, and none, agree with the measurement"


def decide_equal(effect: Effect, smallest: float) -> tuple[Outcome, str]:
    """Judge a claim that two things are the same, up to the smallest effect of interest.

    Supports if two one-sided tests at α place the effect between −smallest and +smallest.
    Contradicts if its interval at 1 − α does not hold zero and its estimate is at least smallest.
    """
    if (unknown := _without_interval(effect)) is not None:
        return unknown
    bound = f"{smallest:.3g}"
    if -smallest < effect.limits(0.05)[0] and effect.limits(0.05)[1] < smallest:
        return SUPPORTS, f"they differ by less than {bound}"
    if abs(effect.value) >= smallest and (effect.low > 0 or effect.high < 0):
        return CONTRADICTS, f"they differ, and by at least {bound}"
    return UNDECIDED, f"a difference below {bound} and one above agree with the measurement"


def decide_bound(effect: Effect, bound: float, sign: int = 1) -> tuple[Outcome, str]:
    """Judge whether an effect is at least `bound` (sign −1: at most), by one-sided tests at α."""
    if (unknown := _without_interval(effect)) is not None:
        return unknown
    low, high = _signed(effect.limits(0.05)[0], effect.limits(0.05)[1], sign)
    text = f"{bound:.3g}"
    if low >= sign * bound:
        return SUPPORTS, f"it is at {'least' if sign > 0 else 'most'} {text}"
    if high < sign * bound:
        return CONTRADICTS, f"it is {'below' if sign > 0 else 'above'} {text}"
    return UNDECIDED, f"values on both sides of {text} agree with the measurement"


def _signed(low: float, high: float, sign: int) -> tuple[float, float]:
    """Return an interval, mirrored at zero if the sign is negative."""
    return (low, high) if sign > 0 else (-high, -low)


def _without_interval(effect: Effect) -> tuple[Outcome, str] | None:
    if not math.isfinite(effect.value):
        return UNMEASURED, "it was not measured"
    if effect.known:
        return None
    if effect.n < LEAST_RUNS:
        return UNDECIDED, f"{effect.replicates} cannot show its own spread"
    return UNDECIDED, f"{effect.replicates} with equal values show no spread"


def decide_trend(measured: Trend, sign: int, alpha: float) -> tuple[Outcome, str]:
    """Judge a claimed trend; `sign` is +1 for a claimed rise and −1 for a fall."""
    if not math.isfinite(measured.rho):
        return UNMEASURED, "fewer than three probabilities were measured"
    if measured.blocks < LEAST_RUNS:
        return UNDECIDED, "one seed or trial alone decides nothing"
    rises, falls = 2 * measured.p_rise <= alpha, 2 * measured.p_fall <= alpha
    agree, oppose = (rises, falls) if sign > 0 else (falls, rises)
    directions = ("rises", "falls") if sign > 0 else ("falls", "rises")
    if agree:
        return SUPPORTS, f"it {directions[0]}, as claimed"
    if oppose:
        return CONTRADICTS, f"it {directions[1]}, where the paper claims that it {directions[0]}"
    return UNDECIDED, "neither a rise nor a fall stands out from chance"


def decide_difference(measured: Interval, sign: int = 1) -> tuple[Outcome, str]:
    """Judge a claimed sign of a difference by its interval."""
    if not math.isfinite(measured.value):
        return UNMEASURED, "no pair of raw and filtered runs was measured"
    if not measured.known:
        return UNDECIDED, _without_spread(measured.n)
    low, high = _signed(measured.low, measured.high, sign)
    if low > 0:
        return SUPPORTS, "the whole interval lies on the claimed side of zero"
    if high < 0:
        return CONTRADICTS, "the whole interval lies on the other side of zero"
    return UNDECIDED, f"the interval of {measured.n} runs holds zero"


def _without_spread(replicates: int) -> str:
    """Return the reason why so many replicates have no interval."""
    if replicates < LEAST_RUNS:
        return "one run alone decides nothing"
    return f"{count(replicates, 'run')} with equal values show no spread"


def decide_level(measured: Interval, level: float, sign: int = 1) -> tuple[Outcome, str]:
    """Judge whether a mean reaches a claimed level; with `sign` −1, whether it keeps below."""
    if not math.isfinite(measured.value):
        return UNMEASURED, "no run was measured there"
    if not measured.known:
        return UNDECIDED, _without_spread(measured.n)
    text = f"{level:.3g}"
    low, high = _signed(measured.low, measured.high, sign)
    if low >= sign * level:
        return SUPPORTS, f"the whole interval {'reaches' if sign > 0 else 'keeps below'} {text}"
    if high < sign * level:
        return CONTRADICTS, f"the whole interval lies {'below' if sign > 0 else 'above'} {text}"
    return UNDECIDED, f"the interval of {measured.n} runs holds {text}"


def decide_both(first: tuple[Outcome, str], second: tuple[Outcome, str]) -> tuple[Outcome, str]:
    """Judge a claim of two parts: supported if both are, contradicted or absent if one is."""
    reason = f"{first[1]}; {second[1]}"
    for outcome in (UNMEASURED, CONTRADICTS, ABSENT, UNDECIDED):
        if outcome in (first[0], second[0]):
            return outcome, reason
    return SUPPORTS, reason


def decide_always(held: int, failed: int) -> tuple[Outcome, str]:
    """Judge a claim that must hold in every case, by the cases in which it did and did not."""
    if held + failed == 0:
        return UNMEASURED, "no run meets its conditions"
    if failed:
        return CONTRADICTS, f"broken in {failed} of {held + failed} checks"
    if held < LEAST_RUNS:
        return UNDECIDED, "one run alone decides nothing"
    return SUPPORTS, f"kept in all {held} checks"


def decide_two_thirds(
    yes: int, no: int, agrees: str = "does", opposes: str = "does not"
) -> tuple[Outcome, str]:
    """Judge a claim on many runs by how many do as claimed."""
    total = yes + no
    if total == 0:
        return UNMEASURED, "no run meets its conditions"
    if total < LEAST_RUNS:
        return UNDECIDED, "one run alone decides nothing"
    reason = f"{yes} of {total} {agrees}, {no} {opposes}"
    if 3 * yes >= 2 * total:
        return SUPPORTS, reason
    return (CONTRADICTS if 3 * no >= 2 * total else UNDECIDED), reason


def trend_text(measured: Trend) -> str:
    """Print a trend's statistic with its two-sided p value."""
    if not math.isfinite(measured.rho):
        return "no test"
    return f"Spearman ρ = {number(measured.rho, 2)}, {p_value(measured.p)} (permutation, two-sided)"


def trend_words(measured: Trend, alpha: float) -> str:
    """Return in words whether a value rises or falls, with its statistic."""
    if not math.isfinite(measured.rho):
        return "no test: fewer than three probabilities"
    if 2 * measured.p_rise <= alpha:
        word = "rises"
    elif 2 * measured.p_fall <= alpha:
        word = "falls"
    else:
        word = "no trend stands out from chance"
    if measured.blocks < LEAST_RUNS:
        word += " (one seed alone)"
    return f"{word}: {trend_text(measured)}"


def interval_text(measured: Interval, confidence: float, digits: int = 3) -> str:
    """Print a difference with its interval."""
    if not measured.known:
        return f"{number(measured.value, digits, sign=True)}, no interval (one run)"
    limits = interval(measured.low, measured.high, digits, sign=True)
    return f"{number(measured.value, digits, sign=True)} ({100 * confidence:g} % interval {limits})"


def effect_text(effect: Effect, confidence: float, digits: int = 3) -> str:
    """Print an effect with its interval and p value."""
    value = number(effect.value, digits, sign=True)
    if not effect.known:
        return f"{value}, no interval ({effect.replicates})"
    limits = interval(effect.low, effect.high, digits, sign=True)
    return f"{value} ({100 * confidence:g} % interval {limits}, {p_value(effect.p)})"


def silenced(verdict: Verdict) -> Verdict:
    """Return the verdict with controls marked as not measured, if it has no effect to explain."""
    if verdict.effect is None or verdict.outcome in (SUPPORTS, CONTRADICTS):
        return verdict
    text = "The claim shows no effect that a control could keep, remove or explain."
    controls = tuple(Control(control.name, "not measured", text) for control in verdict.controls)
    return replace(verdict, controls=controls)
