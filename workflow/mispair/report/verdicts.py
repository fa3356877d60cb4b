"""Verdicts on the paper's claims: explicit rules on what was measured, and nothing typed in.

A claim is decided by a function ``decide_*``, of those below or of its study; the report prints
their rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mispair.core.words import count, interval, number, p_value
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
    """What the paper says, where, by which rule it is judged, and which figure shows it.

    A ``primary`` claim belongs to the few that the report is about: its p value is corrected with
    those of the other primary claims alone.
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
    def limited(self) -> tuple[str, ...]:
        """Names of the controls that limit the claim."""
        return tuple(control.name for control in self.controls if control.finding == "limits")


def decide_effect(effect: Effect, sign: int, smallest: float, alpha: float) -> tuple[Outcome, str]:
    """Judge a claimed effect by its p value, its sign and the smallest effect of interest.

    No such effect, if two one-sided tests at α place it between −smallest and +smallest. Else it
    supports (claimed sign) or contradicts (other sign), if p ≤ α and its estimate is at least the
    smallest effect of interest. Else nothing can be told.

    Parameters
    ----------
    effect : Effect
        What was measured, with intervals at 1 − α and 1 − 2 α.
    sign : int
        +1 for a claimed effect above zero, −1 for one below.
    smallest : float
        Smallest effect of interest, above zero, in the unit of the effect.
    alpha : float
        Level of the two-sided test and of each one-sided test.
    """
    if not smallest > 0:
        raise ValueError(f"the smallest effect of interest must be above 0, not {smallest}")
    if (unknown := _without_interval(effect)) is not None:
        return unknown
    bound = f"{smallest:.3g}"
    if -smallest < effect.inner_low and effect.inner_high < smallest:
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

    Supports if two one-sided tests at α place the effect between −smallest and +smallest;
    contradicts if its interval at 1 − α does not hold zero and its estimate is at least the
    smallest effect of interest. Else nothing can be told.
    """
    if (unknown := _without_interval(effect)) is not None:
        return unknown
    bound = f"{smallest:.3g}"
    if -smallest < effect.inner_low and effect.inner_high < smallest:
        return SUPPORTS, f"they differ by less than {bound}"
    if abs(effect.value) >= smallest and (effect.low > 0 or effect.high < 0):
        return CONTRADICTS, f"they differ, and by at least {bound}"
    return UNDECIDED, f"a difference below {bound} and one above agree with the measurement"


def decide_bound(effect: Effect, bound: float, sign: int = 1) -> tuple[Outcome, str]:
    """Judge a claim that an effect is at least `bound`; with `sign` −1, at most.

    By one-sided tests at α, so by the interval at 1 − 2 α.
    """
    if (unknown := _without_interval(effect)) is not None:
        return unknown
    low, high = (
        (effect.inner_low, effect.inner_high)
        if sign > 0
        else (-effect.inner_high, -effect.inner_low)
    )
    text = f"{bound:.3g}"
    if low >= sign * bound:
        return SUPPORTS, f"it is at {'least' if sign > 0 else 'most'} {text}"
    if high < sign * bound:
        return CONTRADICTS, f"it is {'below' if sign > 0 else 'above'} {text}"
    return UNDECIDED, f"values on both sides of {text} agree with the measurement"


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
    low, high = (measured.low, measured.high) if sign > 0 else (-measured.high, -measured.low)
    if low > 0:
        return SUPPORTS, "the whole interval lies on the claimed side of zero"
    if high < 0:
        return CONTRADICTS, "the whole interval lies on the other side of zero"
    return UNDECIDED, f"the interval of {measured.n} runs holds zero"


def _without_spread(replicates: int) -> str:
    """Say why so many replicates have no interval."""
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
    low, high = (measured.low, measured.high) if sign > 0 else (-measured.high, -measured.low)
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
    """Judge what must hold in every case, by the cases in which it did and did not."""
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
    """Say in words whether a value rises or falls, with the statistic behind it."""
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
    """Return the verdict with controls that say nothing, if it shows no effect to explain."""
    if verdict.effect is None or verdict.outcome in (SUPPORTS, CONTRADICTS):
        return verdict
    text = "The claim shows no effect that a control could keep, remove or explain."
    controls = tuple(Control(control.name, "not measured", text) for control in verdict.controls)
    return replace(verdict, controls=controls)


@dataclass(frozen=True)
class Question:
    """A question of the reader, answered by the verdicts on some claims."""

    text: str
    claims: tuple[str, ...]


MIX = "Do mismatched captions mix features and damage the model?"
REPAIR = "Does recaptioning and filtering repair it?"
"""Questions that claims of several studies answer."""


def merged(questions: Iterable[Question]) -> list[Question]:
    """Return the questions in their order, those of one text as one."""
    claims: dict[str, tuple[str, ...]] = {}
    for question in questions:
        claims[question.text] = claims.get(question.text, ()) + question.claims
    return [Question(text, keys) for text, keys in claims.items()]


ANSWERS = (
    "The answer is the outcome of the question’s primary claims, with their effects: “Yes” if they "
    "are supported, “Yes, with limits” if a control limits one, “No: the opposite” if they are "
    "contradicted, “No such effect”, or “Cannot tell”; where they differ, each is listed. A "
    "question without a measured primary claim is answered by the count of its measured claims: "
    "“Yes” if all are supported, “No such effect” if there is none in all, “No” if one is "
    "contradicted and none supported, “Cannot tell” if none is supported or contradicted; else the "
    "number of supported claims is given."
)

IN_WORDS: dict[Outcome, str] = {
    SUPPORTS: "Yes",
    CONTRADICTS: "No: the opposite",
    ABSENT: "No such effect",
    UNDECIDED: "Cannot tell",
}
"""The answer that a primary claim gives, by its outcome."""


@dataclass(frozen=True)
class Answer:
    """The answer to a question, with the verdicts behind it and what limits the supported ones.

    ``primary`` holds the measured verdicts on primary claims, which give the answer.
    """

    question: str
    short: str
    primary: tuple[Verdict, ...]
    tally: tuple[tuple[Outcome, int], ...]
    limits: tuple[str, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def measured(self) -> bool:
        """Whether anything was measured on the question."""
        return any(verdict.outcome != UNMEASURED for verdict in self.verdicts)


def answer(question: Question, verdicts: Sequence[Verdict]) -> Answer:
    """Sum up the verdicts on a question's claims by the rule `ANSWERS`."""
    members = [verdict for verdict in verdicts if verdict.claim.key in question.claims]
    tally = {name: sum(member.outcome == name for member in members) for name in OUTCOMES}
    measured = [member for member in members if member.outcome != UNMEASURED]
    primary = tuple(member for member in measured if member.claim.primary)
    if not measured:
        short = "Not measured"
    elif primary:
        short = _of_primary(primary)
    else:
        short = _of_tally(tally, measured)
    present = tuple((name, amount) for name, amount in tally.items() if amount)
    limits = tuple(_limits(measured))
    return Answer(question.text, short, primary, present, limits, tuple(members))


def _limits(members: Sequence[Verdict]) -> dict[str, None]:
    """Return the names of the controls that limit supported claims, each once."""
    supported = [member for member in members if member.outcome == SUPPORTS]
    return dict.fromkeys(name for member in supported for name in member.limited)


def _of_primary(primary: Sequence[Verdict]) -> str:
    outcomes = {verdict.outcome for verdict in primary}
    if len(outcomes) > 1:
        return "The primary claims differ"
    (outcome,) = outcomes
    return IN_WORDS[outcome] + (", with limits" if _limits(primary) else "")


def _of_tally(tally: Mapping[Outcome, int], measured: Sequence[Verdict]) -> str:
    supported, number = tally[SUPPORTS], len(measured)
    if supported == number:
        return "Yes, with limits" if _limits(measured) else "Yes"
    if supported:
        return f"{supported} of {count(number, 'claim')} supported"
    if tally[CONTRADICTS]:
        return "No"
    return "No such effect" if tally[ABSENT] == number else "Cannot tell"
