"""Verdicts on the paper's claims: explicit rules on what was measured, and nothing typed in.

A claim is decided only by the functions ``decide_*`` below; the report prints their rules. The
studies' claims lie in `claims_image_text` and `claims_simulation`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mispair.core.words import count, interval, number, p_value
from mispair.report.corrections import holm
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
    "construct": "Spearman's rank correlation over the neurons of one model between mean |cos| and "
    "what is known of each neuron, its semantic purity and its selectivity, in both towers. The "
    "effect is the mean of the four, claimed below zero; a replicate is a neuron, resampled with "
    "its columns in both towers. Judged by the rule of effects.",
    "contrast": "The value at the largest C_m − the value at the lowest, paired by seed, judged by "
    "the rule of effects; each seed has its own swaps, pairs and batches. Cannot tell where the "
    "model classifies no better than chance at the lowest C_m. The trend over all C_m is printed, "
    "and decides nothing.",
    "sets": "The rule of effects on the change of the mean of all evaluation sets. Sets that go "
    "against the claim, by p values corrected for the number of sets, are named; no set takes "
    "back what the mean shows. Cannot tell where the model is no better than chance at C_m 0.",
    "difference": "The difference of two arms, such as filtered − raw, paired by trial and "
    "averaged over all C_s > 0 within each trial: a trial has the same data at every C_s, so it "
    "counts once. A t interval over trials, and the rule of effects.",
    "change": "The value at the largest probability − at the smallest, paired by trial or seed, "
    "with a t interval over them, and the rule of effects. The rank trend over all probabilities "
    "is shown next to it, and decides nothing.",
    "order": "Scores averaged over the evaluation sets and all numbers k of kept neurons below the "
    "full width: high-purity − low-purity, with the error of the difference of two random draws "
    "of neurons, and the rule of effects. Supports only if random neurons are between the two.",
    "rates": "Similar − random at each C_m above 0, paired by seed, each by the rule of effects; "
    "the smallest effect of interest is a third of what was published at that C_m (for accuracy, "
    "of the published fall from C_m 0). Supports if all C_m do, contradicts if one does and none "
    "supports, no such effect if there is none at any C_m, cannot tell otherwise. Nothing is "
    "averaged over C_m, because the curves may cross.",
    "pairs of models": "Mean |cos| of a LaCLIP model − that of the CLIP model of the same data and "
    "architecture, one number for each pair of models, by the rule of effects, claimed below zero; "
    "the smallest effect of interest is a third of the published rise from C_m 0 to 0.1.",
    "published": "The change of accuracy in table 4 from C_m 0.1 to 0.8, one for each data set, by "
    "the rule of effects; the smallest effect of interest is a third of the published fall from "
    "C_m 0 to 0.8.",
    "mediation": "The change of accuracy from C_m 0 is regressed on that of overlap over all arms, "
    "within C_m; the slope times the rise of overlap in the main arm at the largest C_m is the "
    "loss that goes with overlap. One number for each seed, by the rule of effects, claimed below "
    "zero; the smallest effect of interest is a third of the loss. Cannot tell without a loss.",
    "alike": "Accuracy under similar − under random captions at the same |cos|, which is "
    "interpolated between the C_m of random, at each C_m of similar. Supports if two one-sided "
    "tests place all differences within the smallest effect of interest, a third of the published "
    "fall; contradicts if one is significant and at least as large; cannot tell otherwise.",
    "level": "The mean with its t interval over trials; the interval of a count of features is at "
    "least Wilson’s of all features of all trials. Supports if the whole interval reaches the "
    "claimed level (or, where a level is claimed that is not exceeded, keeps below it), "
    "contradicts if the whole interval lies on the other side of it, cannot tell otherwise, and "
    "always with fewer than two trials, or fewer than five trials without a spread.",
    "effect": "The rule of effects on the difference that the claim names, paired by trial and "
    "averaged over all C_s > 0 within a trial. Right captions are the raw arm of the same trial at "
    "C_s = 0.",
    "slope": "The slope of log(mean over trials) on log(d), over at least three numbers of "
    "features d, with an interval from the spread of trials at each d. The rule of effects on the "
    "slope, with 0.25 as the smallest slope of interest; of two slopes, on the larger one.",
    "slope of zero": "The same slope, claimed to be zero. Supports if two one-sided tests place it "
    "between −0.25 and 0.25, contradicts if it lies beyond with an interval without zero, cannot "
    "tell otherwise.",
    "slope of the order": "The same slope, claimed to be −1 or less: Θ(1/d) bounds from above. "
    "Supports if one-sided tests keep it at most −0.75, contradicts if they keep it above, cannot "
    "tell otherwise. Of two slopes both are to be so.",
    "not worse": "The difference that the claim names, paired by trial and averaged over all C_s > "
    "0. Supports if a one-sided test keeps it above minus the margin that the claim names, "
    "contradicts if one keeps it below, cannot tell otherwise.",
    "the same": "The difference that the claim names, paired by trial. Supports if two one-sided "
    "tests keep it within the margin that the claim names, contradicts if it is at least the "
    "margin with an interval without zero, cannot tell otherwise.",
    "majority": "Every pair of models on every evaluation set, each by the rule of differences on "
    "the interval of its difference. Supports if it supports on at least two thirds of them, "
    "contradicts if it contradicts on at least two thirds, cannot tell otherwise.",
    "difference of runs": "The difference of two risks on the same samples, averaged over runs "
    "(trees and seeds), with a t interval, and the rule of effects. The smallest effect of "
    "interest is a third of what the other modality is worth, or of the published difference.",
    "worth": "At each p at which there is a published risk: what the published model loses against "
    "our Bayes risk, beside what the other modality is worth (Bayes without it minus Bayes with "
    "it). Supports if the model loses less, by the interval of the worth, at all p, and "
    "cannot tell otherwise: a head that underfits loses more, whatever its feature holds.",
    "points": "Published points of figure 1 at which at least three trials were run, against the "
    "mean of the best two thirds of the runs. A point is reproduced if it lies within the "
    "tolerance of its measure: 3 features, 0.04 of magnitude, 0.03 of accuracy, 0.012 of "
    "silhouette. Supports if all points are, contradicts if fewer than half are, cannot "
    "tell otherwise.",
    "always": "The theory says it of every run under its conditions, so runs are counted. Supports "
    "if it is kept in all checks of at least two runs, contradicts if one breaks it, cannot "
    "tell otherwise; runs that never meet the conditions are named and decide nothing.",
    "settles": "Every run whose risk rises at least once, diverged ones among them. A run settles "
    "if its last rise lies within the first 99 % of its steps. Supports if at least two thirds "
    "settle, contradicts if at least two thirds do not, cannot tell otherwise.",
    "sooner": "Every run of the sweep with a stepsize above the largest monotone one of its list, "
    "at the lowest level of risk that this one gets to. Supports if at least two thirds get there "
    "in fewer steps, contradicts if at least two thirds do not (or never get there), cannot "
    "tell otherwise. Lists without a monotone member are named and decide nothing.",
    "slopes": "Slopes of log risk on log T from T = 1,000 on, over at least three T. Supports if "
    "both lie within 0.25 of the claimed ones, contradicts if that of the stepsize in "
    "proportion to T is not below that of the fixed one, cannot tell otherwise.",
    "floor": "Runs on the two points whose risk never rises: the least t·L_t over the last nine "
    "tenths of the steps against the least before. Supports if it keeps at least half of it in "
    "all of at least two runs, contradicts if one does not, cannot tell otherwise.",
    "mixes": "Mixing score of towers on wrong captions less that on clean captions, paired by "
    "seed, with a t interval over seeds. Supports if the rule of effects supports mixing by "
    "spurious captions, and finds no such effect of the others. No such effect if it finds none "
    "of spurious captions. Contradicts if these have the opposite effect, or if it supports mixing "
    "by another kind. Cannot tell otherwise.",
    "tests": "Test accuracy, mean of all stepsizes of the sweep that oscillate − largest monotone "
    "stepsize, paired by split: the rule of effects, with one point of accuracy as the smallest.",
}
"""The rules in words, as the report prints them."""

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
    """A measurement beside a claim that may limit what the claim means."""

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


def decide_mixes(
    claimed: Effect, others: Sequence[Effect], smallest: float, alpha: float
) -> tuple[Outcome, str]:
    """Judge whether one treatment has an effect above zero and the others have none.

    Parameters
    ----------
    claimed : Effect
        Of the treatment that is claimed to have one.
    others : sequence of Effect
        Of the treatments that are claimed to have none.
    smallest, alpha
        As in `decide_effect`.
    """
    outcome, reason = decide_effect(claimed, +1, smallest, alpha)
    if outcome != SUPPORTS:
        return outcome, reason
    judged = [decide_effect(other, +1, smallest, alpha) for other in others]
    outcomes = [each for each, _ in judged]
    if SUPPORTS in outcomes:
        return CONTRADICTS, "treatments that are claimed to have no such effect have it"
    if any(each != ABSENT for each in outcomes):
        why = next(text for each, text in judged if each != ABSENT)
        return UNDECIDED, f"{reason}; of another treatment that is claimed to have none: {why}"
    return SUPPORTS, f"{reason}; the other treatments have no such effect"


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


def decide_trend(found: Trend, sign: int, alpha: float) -> tuple[Outcome, str]:
    """Judge a claimed trend; `sign` is +1 for a claimed rise and −1 for a fall."""
    if not math.isfinite(found.rho):
        return UNMEASURED, "fewer than three probabilities were measured"
    if found.blocks < LEAST_RUNS:
        return UNDECIDED, "one seed or trial alone decides nothing"
    rises, falls = 2 * found.p_rise <= alpha, 2 * found.p_fall <= alpha
    agree, oppose = (rises, falls) if sign > 0 else (falls, rises)
    words = ("rises", "falls") if sign > 0 else ("falls", "rises")
    if agree:
        return SUPPORTS, f"it {words[0]}, as claimed"
    if oppose:
        return CONTRADICTS, f"it {words[1]}, where the paper claims that it {words[0]}"
    return UNDECIDED, "neither a rise nor a fall stands out from chance"


def decide_difference(found: Interval, sign: int = 1) -> tuple[Outcome, str]:
    """Judge a claimed sign of a difference by its interval."""
    if not math.isfinite(found.value):
        return UNMEASURED, "no pair of raw and filtered runs was measured"
    if not found.known:
        return UNDECIDED, _without_spread(found.n)
    low, high = (found.low, found.high) if sign > 0 else (-found.high, -found.low)
    if low > 0:
        return SUPPORTS, "the whole interval lies on the claimed side of zero"
    if high < 0:
        return CONTRADICTS, "the whole interval lies on the other side of zero"
    return UNDECIDED, f"the interval of {found.n} runs holds zero"


def _without_spread(replicates: int) -> str:
    """Say why so many replicates have no interval."""
    if replicates < LEAST_RUNS:
        return "one run alone decides nothing"
    return f"{count(replicates, 'run')} with equal values show no spread"


def decide_level(found: Interval, level: float, sign: int = 1) -> tuple[Outcome, str]:
    """Judge whether a mean reaches a claimed level; with `sign` −1, whether it keeps below."""
    if not math.isfinite(found.value):
        return UNMEASURED, "no run was measured there"
    if not found.known:
        return UNDECIDED, _without_spread(found.n)
    text = f"{level:.3g}"
    low, high = (found.low, found.high) if sign > 0 else (-found.high, -found.low)
    if low >= sign * level:
        return SUPPORTS, f"the whole interval {'reaches' if sign > 0 else 'keeps below'} {text}"
    if high < sign * level:
        return CONTRADICTS, f"the whole interval lies {'below' if sign > 0 else 'above'} {text}"
    return UNDECIDED, f"the interval of {found.n} runs holds {text}"


def decide_both(first: tuple[Outcome, str], second: tuple[Outcome, str]) -> tuple[Outcome, str]:
    """Judge a claim of two parts: supported if both are, contradicted or absent if one is."""
    reason = f"{first[1]}; {second[1]}"
    for outcome in (UNMEASURED, CONTRADICTS, ABSENT, UNDECIDED):
        if outcome in (first[0], second[0]):
            return outcome, reason
    return SUPPORTS, reason


def decide_points(within: int, measured: int) -> tuple[Outcome, str]:
    """Judge whether the points of a figure were reproduced, by how many were."""
    if measured == 0:
        return UNMEASURED, "no published point has the three trials that a selection needs"
    reason = f"{within} of {measured} points lie within their tolerance"
    if within == measured:
        return SUPPORTS, reason
    return (CONTRADICTS if within < measured / 2 else UNDECIDED), reason


def decide_worth(below: int, measured: int) -> tuple[Outcome, str]:
    """Judge whether models lose less than the other modality is worth, by where they do."""
    if measured == 0:
        return UNMEASURED, "what the other modality is worth was not measured at the published size"
    reason = f"at {below} of {measured} p the model loses less than the other modality is worth"
    if below == measured:
        return SUPPORTS, reason
    return UNDECIDED, f"{reason}; a head that underfits loses more whatever its feature holds"


def decide_sets(
    whole: Outcome, parts: Sequence[Part], reason: str, alpha: float = 0.05
) -> tuple[Outcome, str]:
    """Add the evaluation sets that go against a claim on their mean to its reason.

    The claim is on the mean, so no set vetoes it. A set goes against the claim if it contradicts
    it and its p value, corrected by Holm's procedure over the sets, is at most α.
    """
    tested = [part for part in parts if math.isfinite(part.p)]
    corrected = holm([part.p for part in tested])
    against = [
        part.name
        for part, p in zip(tested, corrected, strict=True)
        if part.outcome == CONTRADICTS and p <= alpha
    ]
    if not against:
        return whole, reason
    return whole, (
        f"{reason}; the sets differ: {', '.join(against)} goes against the claim "
        f"(corrected for {count(len(tested), 'set')})"
    )


def decide_majority(outcomes: Sequence[Outcome]) -> tuple[Outcome, str]:
    """Judge a claim on many comparisons by how many of them support or contradict it."""
    total = len(outcomes)
    if not total:
        return UNMEASURED, "nothing was compared"
    above, below = outcomes.count(SUPPORTS), outcomes.count(CONTRADICTS)
    reason = f"beyond its interval above on {above} of {total} comparisons, below on {below}"
    if 3 * above >= 2 * total:
        return SUPPORTS, reason
    return (CONTRADICTS if 3 * below >= 2 * total else UNDECIDED), reason


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


SLOPES, SLOPE_TOLERANCE = (-2.0, -1.0), 0.25
"""Claimed slopes with a stepsize in proportion to the steps, and with a fixed one."""


def decide_slopes(proportional: float, fixed: float) -> tuple[Outcome, str]:
    """Judge the claimed acceleration by the slopes of log risk on log T."""
    if not (math.isfinite(proportional) and math.isfinite(fixed)):
        return UNMEASURED, "fewer than three numbers of steps with both kinds of stepsize"
    if proportional >= fixed:
        return CONTRADICTS, "the risk falls no faster where the stepsize grows"
    gaps = [
        abs(found - claimed) for found, claimed in zip((proportional, fixed), SLOPES, strict=True)
    ]
    if max(gaps) <= SLOPE_TOLERANCE:
        return SUPPORTS, f"both slopes lie within {SLOPE_TOLERANCE} of the claimed ones"
    return UNDECIDED, f"steeper, but a slope is {number(max(gaps), 2)} off the claimed one"


def trend_text(found: Trend) -> str:
    """Print a trend's statistic with its two-sided p value."""
    if not math.isfinite(found.rho):
        return "no test"
    return f"Spearman ρ = {number(found.rho, 2)}, {p_value(found.p)} (permutation, two-sided)"


def trend_words(found: Trend, alpha: float) -> str:
    """Say in words whether a value rises or falls, with the statistic behind it."""
    if not math.isfinite(found.rho):
        return "no test: fewer than three probabilities"
    if 2 * found.p_rise <= alpha:
        word = "rises"
    elif 2 * found.p_fall <= alpha:
        word = "falls"
    else:
        word = "no trend stands out from chance"
    if found.blocks < LEAST_RUNS:
        word += " (one seed alone)"
    return f"{word}: {trend_text(found)}"


def interval_text(found: Interval, confidence: float, digits: int = 3) -> str:
    """Print a difference with its interval."""
    if not found.known:
        return f"{number(found.value, digits, sign=True)}, no interval (one run)"
    limits = interval(found.low, found.high, digits, sign=True)
    return f"{number(found.value, digits, sign=True)} ({100 * confidence:g} % interval {limits})"


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


QUESTIONS = (
    Question("Does mean |cos| tell which neurons follow one feature?", ("construct-validity",)),
    Question(
        "Do mismatched captions mix features and damage the model?",
        (
            "overlap-rises",
            "similar-less",
            "similar-harms-less",
            "accuracy-follows-overlap",
            "overlap-fixes-accuracy",
            "published-accuracy-falls",
            "accuracy-falls",
            "silhouette-falls",
            "raw-degrades",
            "raw-mixes",
            "raw-residual",
            "raw-fails",
            "pretraining-mixes",
        ),
    ),
    Question("Do purer neurons classify better?", ("pruning-accuracy", "pruning-silhouette")),
    Question(
        "Does recaptioning and filtering repair it?",
        (
            "filtered-purified_features",
            "filtered-purified_magnitude",
            "filtered-accuracy",
            "filtered-silhouette",
            "gap-widens",
            "nearly-all",
            "captions-repaired",
            "filtered-unmixes",
            "text-concentrates",
            "image-concentrates",
            "tsne-separates",
            "filtered-residual",
            "filtered-succeeds",
            "filtering-not-worse",
            "high-quality-alone",
            "group-size",
            "plain-relu",
            "low-noise",
            "laclip-overlap",
            "laclip-accuracy",
            "laclip-silhouette",
        ),
    ),
    Question(
        "Do figure 1’s numbers and the theory’s account of training come out again?",
        ("figure1-reproduced", "loss-near-optimal", "alignments-follow"),
    ),
    Question(
        "Is contrastive pre-training approximately sufficient, and does it transfer?",
        (
            "sufficient",
            "zero-shot-near",
            "prompts-help",
            "denoising-transfers",
            "next-word-transfers",
            "guided-closer",
            "published-next-word",
        ),
    ),
    Question(
        "Do large stepsizes train sooner, through a phase in which the risk oscillates?",
        (
            "stepsize-phases",
            "stepsize-sooner",
            "stepsize-stable",
            "stepsize-margin",
            "stepsize-average",
            "stepsize-transition",
            "stepsize-acceleration",
            "stepsize-lower-bound",
            "stepsize-tests",
        ),
    ),
)

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
