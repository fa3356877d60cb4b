"""The five rules that decide every claim: effect, equivalence, level, trend, count.

Each rule maps an effect with its uncertainty, a claimed sign and a bound to an outcome and a
reason. All tests are at the level ``alpha``, which the caller divides by the number of primary
claims where the claim is a primary one.
"""

import math
from typing import Literal, get_args

from mispair.core.distributions import binomial_at_least, binomial_at_most, t_tail
from mispair.report.statistics import Effect

Outcome = Literal[
    "supports", "direction only", "contradicts", "no such effect", "cannot tell", "not measured"
]
SUPPORTS: Outcome = "supports"
DIRECTION: Outcome = "direction only"
CONTRADICTS: Outcome = "contradicts"
ABSENT: Outcome = "no such effect"
UNDECIDED: Outcome = "cannot tell"
UNMEASURED: Outcome = "not measured"
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""All outcomes, in the order in which they are counted and shown."""

Reason = Literal[
    "size shown",  # the lower limit reaches the bound
    "smaller",  # the claimed sign, and smaller than the bound
    "size open",  # the claimed sign; sizes on both sides of the bound agree with the measurement
    "equivalent",  # between minus and plus the bound
    "opposite",  # the opposite sign, and at least as large as the bound
    "opposite, size open",  # the opposite sign; its size is open
    "either sign",  # both signs agree with the measurement
    "as claimed",  # a trend, a level or a count as claimed
    "against",  # a trend, a level or a count against the claim
    "open",  # both sides of a level, of a needed share or of a difference agree
    "one replicate",
    "no spread",
    "a rate goes the other way",
    "most sets go the other way",
    "gate",  # a condition of the claim is not met: see `Verdict.gate`
    "not measured",
]

Rule = Literal["effect", "equivalence", "level", "trend", "count"]

LEAST_RUNS = 2
"""Fewer replicates decide nothing."""

Decision = tuple[Outcome, Reason]


def decide(rule: Rule, effect: Effect, sign: int, bound: float, alpha: float) -> Decision:
    """Return the outcome of a rule and its reason.

    Parameters
    ----------
    rule : Rule
        Name of the rule.
    effect : Effect
        What was measured. For ``trend``, Spearman's ρ with its permutation p; for ``count``, the
        share of ``n`` runs that do as claimed.
    sign : int
        +1 or −1, the claimed sign; for ``level``, +1 if at least the bound is claimed.
    bound : float
        Smallest effect of interest, largest difference that counts as none, claimed level, or
        needed share of the runs; not used by ``trend``.
    alpha : float
        Level of each test.
    """
    if not math.isfinite(effect.value):
        return UNMEASURED, "not measured"
    if rule == "trend":
        return _trend(effect, sign, alpha)
    if rule == "count":
        return _count(effect, bound, alpha)
    if not effect.known:
        return UNDECIDED, "one replicate" if effect.n < LEAST_RUNS else "no spread"
    if rule == "level":
        return _level(effect, sign, bound, alpha)
    if not bound > 0:
        raise ValueError(f"the bound of a claim must be above 0, not {bound}")
    if rule == "equivalence":
        return _equivalence(effect, bound, alpha)
    return _effect(effect, sign, bound, alpha)


def _effect(effect: Effect, sign: int, bound: float, alpha: float) -> Decision:
    low, high = _claimed(effect, sign, alpha)
    significant, claimed = effect.p <= alpha, sign * effect.value > 0
    if significant and claimed:
        if low >= bound:
            return SUPPORTS, "size shown"
        return DIRECTION, "smaller" if high < bound else "size open"
    if -bound < low and high < bound:
        return ABSENT, "equivalent"
    if significant:
        return (CONTRADICTS, "opposite") if high <= -bound else (UNDECIDED, "opposite, size open")
    return UNDECIDED, "either sign"


def _equivalence(effect: Effect, bound: float, alpha: float) -> Decision:
    low, high = effect.limits(alpha)
    if -bound < low and high < bound:
        return SUPPORTS, "equivalent"
    if effect.p <= alpha and (low >= bound or high <= -bound):
        return CONTRADICTS, "opposite"
    return UNDECIDED, "open"


def _level(effect: Effect, sign: int, level: float, alpha: float) -> Decision:
    low, high = _claimed(effect, sign, alpha)
    if low >= sign * level:
        return SUPPORTS, "as claimed"
    if high < sign * level:
        return CONTRADICTS, "against"
    return UNDECIDED, "open"


def _trend(effect: Effect, sign: int, alpha: float) -> Decision:
    if effect.n < LEAST_RUNS:
        return UNDECIDED, "one replicate"
    if not effect.p <= alpha:
        return UNDECIDED, "either sign"
    return (SUPPORTS, "as claimed") if sign * effect.value > 0 else (CONTRADICTS, "against")


def _count(effect: Effect, needed: float, alpha: float) -> Decision:
    """Decide by exact binomial tests of the share of runs against the needed share."""
    if effect.n < LEAST_RUNS:
        return UNDECIDED, "one replicate"
    held = round(effect.value * effect.n)
    if binomial_at_least(held, effect.n, needed) <= alpha:
        return SUPPORTS, "as claimed"
    if binomial_at_most(held, effect.n, needed) <= alpha:
        return CONTRADICTS, "against"
    return UNDECIDED, "open"


def _claimed(effect: Effect, sign: int, alpha: float) -> tuple[float, float]:
    """Return the one-sided limits at alpha, mirrored at zero if the claimed sign is negative."""
    low, high = effect.limits(alpha)
    return (low, high) if sign > 0 else (-high, -low)


def p_of(rule: Rule, effect: Effect, sign: int, bound: float) -> float:
    """Return the p value of the test that a rule makes; NaN where there is none.

    ``effect`` and ``trend``: two-sided, against zero. ``equivalence``: the larger of the two
    one-sided tests. ``level`` and ``count``: one-sided, in the direction that was measured.
    """
    if rule in ("effect", "trend"):
        return effect.p
    if rule == "count":
        if effect.n < LEAST_RUNS:
            return math.nan
        held = round(effect.value * effect.n)
        return min(tail(held, effect.n, bound) for tail in (binomial_at_least, binomial_at_most))
    if not effect.known:
        return math.nan
    if rule == "level":
        return _tail(effect, bound)
    inside = -bound < effect.value < bound
    return max(_tail(effect, end) for end in (-bound, bound)) if inside else 1.0


def _tail(effect: Effect, value: float) -> float:
    """Return the one-sided p value of an effect against a value."""
    error = effect.error
    if effect.value < value and math.isfinite(effect.error_above):
        error = effect.error_above
    apart = abs(effect.value - value)
    if effect.fisher:
        apart = abs(math.atanh(effect.value) - math.atanh(value)) if abs(value) < 1 else math.inf
    return t_tail(apart / error, effect.freedom)


def opposite(effect: Effect, sign: int, alpha: float) -> bool:
    """Return whether an effect has significantly the opposite of the claimed sign."""
    return effect.p <= alpha and sign * effect.value < 0
