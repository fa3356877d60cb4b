"""The judge: from a claim and the tables to a verdict, which is numbers.

What was measured is decided by the claim's rule, part by part (a tower, a preset), with the same
rule at each rate and on each set next to it. Conditions, rates and sets may leave a part undecided.
The weakest part is the verdict. Then follow its p value, its controls, and what it would be alone.

Each of the `PRIMARY` primary claims is tested at α / `PRIMARY`, whatever else a run contains; so
the probability that any of them errs is at most α. The other claims are tested at α each. All
intervals of a verdict are at the level of its tests (`level_of`), so pages and tables show them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mispair.report.claims import Claim, Control, MeasuredClaim, PartEffect
from mispair.report.rules import (
    ABSENT,
    CONTRADICTS,
    DIRECTION,
    SUPPORTS,
    UNDECIDED,
    UNMEASURED,
    Decision,
    Outcome,
    Reason,
    Rule,
    decide,
    opposite,
    p_of,
)
from mispair.report.statistics import Effect
from mispair.report.tables import Tables, remembered

PRIMARY = 5
"""Number of primary claims of all studies, whether they were measured or not."""

NEAR = 0.2
"""An estimate or a deciding limit within this share of the bound is close to another verdict."""

OPEN: tuple[Reason, ...] = ("either sign", "opposite, size open", "open")
"""Reasons why limits decide nothing; a condition, a rate or the sets are others."""

Finding = Literal["limits", "does not limit", "cannot tell", "not measured"]

SHOWN: tuple[Outcome, ...] = (SUPPORTS, DIRECTION, CONTRADICTS)
"""Outcomes that show an effect, of which something can remain or go."""

STRENGTH: tuple[Outcome, ...] = (
    "not measured", "contradicts", "no such effect", "cannot tell", "direction only", "supports",
)  # fmt: skip
"""Outcomes from the weakest to the strongest: a claim on every part has its weakest outcome."""


@dataclass(frozen=True)
class PartVerdict:
    """The outcome of the claim's rule on a part of the data."""

    name: float | str
    effect: Effect
    bound: float
    outcome: Outcome


@dataclass(frozen=True)
class ControlVerdict:
    """What a control shows: its effect, the share of the claim's effect, and its finding.

    ``parts`` are its effects on the claim's parts, of which ``effect`` is the one that decides, and
    ``shares`` their shares of the claim's effects, on the parts that have one.
    """

    control: Control
    effect: Effect
    share: float
    finding: Finding
    parts: Mapping[str, Effect] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def taken(self) -> float:
        """Share of the claim's effect that goes with the control, or that a placebo has, too.

        Of several parts the one that loses least counts: a limit holds for all of them.
        """
        shares = [self.share, *self.shares.values()]
        return min(shares) if self.control.least is None else 1 - max(shares)


@dataclass(frozen=True)
class Verdict:
    """A claim with what was measured on it and what follows.

    Attributes
    ----------
    outcome, reason : str
        By the claim's rule.
    near : bool
        Whether it is close to another verdict: a corrected p value between α / 2 and 2 α, or an
        estimate, a one-sided limit of a decided claim, or the outer one of an open claim, within
        `NEAR` of the bound. The p value of *level* and *count* is that of the bound itself, so
        once these are decided it alone counts.
    bound : float
        The smallest effect of interest, level or share that was applied.
    p, corrected_p : float
        The p value of the rule's test (`mispair.report.rules.p_of`), and the same times the
        number of primary claims, for a primary one.
    rates, parts, sets : tuple of PartVerdict
        The same rule at each rate, on each part, on each evaluation set.
    controls : tuple of ControlVerdict
        In the order of the declaration.
    alone : str
        The outcome if the claim were the only one that is tested: without the correction.
    decided_by : str
        The part with the weakest outcome, if the claim has parts.
    preset : str
        The preset of the simulation that it was judged on, if there is one.
    """

    claim: Claim
    outcome: Outcome
    reason: Reason
    measured: MeasuredClaim
    bound: float = math.nan
    p: float = math.nan
    corrected_p: float = math.nan
    near: bool = False
    rates: tuple[PartVerdict, ...] = ()
    parts: tuple[PartVerdict, ...] = ()
    sets: tuple[PartVerdict, ...] = ()
    controls: tuple[ControlVerdict, ...] = ()
    alone: Outcome = UNMEASURED
    decided_by: str = ""
    preset: str = ""

    @property
    def effect(self) -> Effect:
        """The number that the claim is about."""
        return self.measured.effect

    @property
    def anchor(self) -> str:
        """Name of its place on the page."""
        return "-".join(filter(None, ("claim", self.claim.key, self.preset)))

    @property
    def figure(self) -> str:
        """Name of the figure that shows it."""
        return self.claim.figure.format(preset=self.preset.replace("-", "_"))

    @property
    def limited(self) -> tuple[str, ...]:
        """Names of the controls that limit the claim."""
        return tuple(found.control.key for found in self.controls if found.finding == "limits")

    @property
    def strongest(self) -> ControlVerdict | None:
        """The limiting control that takes most of the effect, of those on its own measure."""
        own = [f for f in self.controls if f.finding == "limits" and f.control.of is None]
        return max(own, key=lambda found: found.taken, default=None)

    def control(self, key: str) -> ControlVerdict | None:
        """Return what the control of a name shows, or None without such a control."""
        return next((found for found in self.controls if found.control.key == key), None)


def level_of(primary: bool, confidence: float) -> float:
    """Return the confidence of the intervals of a claim: 1 − the α of each of its tests.

    Examples
    --------
    >>> level_of(False, 0.95), round(level_of(True, 0.95), 9)
    (0.95, 0.99)
    """
    return 1 - (1 - confidence) / PRIMARY if primary else confidence


def _at_level(measured: MeasuredClaim, level: float) -> MeasuredClaim:
    """Return what was measured, with all intervals at a confidence level."""

    def of(parts: Mapping[Any, PartEffect]) -> dict[Any, PartEffect]:
        return {
            name: replace(part, effect=replace(part.effect, confidence=level))
            for name, part in parts.items()
        }

    return replace(
        measured,
        effect=replace(measured.effect, confidence=level),
        rates=of(measured.rates),
        parts={name: _at_level(part, level) for name, part in measured.parts.items()},
        sets=of(measured.sets),
    )


def judge(claim: Claim, tables: Tables, confidence: float, preset: str = "") -> Verdict:
    """Return the verdict on a claim.

    The effect decides by the claim's rule. With parts (`Claim.every`) the part with the weakest
    outcome decides, of several the one with the least room to its bound. A rate of the sweep with a
    significant effect of the opposite sign, or as many such evaluation sets as half of all, forbids
    *supports*, *direction only* and *contradicts*. A run without the claim's power decides nothing
    by a small effect.
    """
    measured = _at_level(claim.measure(tables, confidence), level_of(claim.primary, confidence))
    tests = PRIMARY if claim.primary else 1
    alpha = (1 - confidence) / tests

    def on_parts(alpha: float) -> dict[str, Verdict]:
        # Without parts, the whole is the only part, and has no name.
        parts = measured.parts or {"": measured}
        found = {name: _on_part(claim, part, alpha, len(parts)) for name, part in parts.items()}
        return {name: _with_power(part, tables, confidence) for name, part in found.items()}

    found = on_parts(alpha)
    weakest = min(found, key=lambda name: _strength(found[name], alpha))
    parts = tuple(
        PartVerdict(name, each.effect, each.bound, each.outcome)
        for name, each in found.items()
        if measured.parts
    )
    verdict = replace(found[weakest], decided_by=weakest, preset=preset, parts=parts)
    if verdict.outcome == UNMEASURED:
        return verdict
    p = p_of(claim.rule, verdict.effect, claim.sign, verdict.bound)
    corrected_p = p if math.isnan(p) else min(1.0, p * tests)
    verdict = replace(verdict, p=p, corrected_p=corrected_p)
    return replace(
        verdict,
        near=_near(verdict, 1 - confidence, alpha),
        controls=tuple(_control(each, verdict, tables, confidence) for each in claim.controls),
        alone=min((v.outcome for v in on_parts(1 - confidence).values()), key=STRENGTH.index),
    )


def _strength(part: Verdict, alpha: float) -> tuple[int, float]:
    """Return the order of a part among parts: by its outcome, then by its room to the bound."""
    rule, sign, bound = part.claim.rule, part.claim.sign, part.bound
    low, high = part.effect.limits(alpha)
    room = {
        "effect": (low if sign > 0 else -high) - bound,
        "level": low - bound if sign > 0 else bound - high,
        "equivalence": bound - max(abs(low), abs(high)),
    }.get(rule, -part.effect.p)
    return STRENGTH.index(part.outcome), room if math.isfinite(room) else -math.inf


# One part: its decision, and what may leave it undecided.


def _on_part(claim: Claim, measured: MeasuredClaim, alpha: float, parts: int) -> Verdict:
    """Return the verdict on one of several parts, without its power and controls."""
    bound = _first_finite(measured.bound, claim.bound)

    def alike(others: Mapping[Any, PartEffect]) -> tuple[PartVerdict, ...]:
        """Decide at each rate, or on each set, by the same rule."""
        bounds = {name: _first_finite(other.bound, bound) for name, other in others.items()}
        return tuple(
            PartVerdict(
                name, other.effect, bounds[name],
                decide(claim.rule, other.effect, claim.sign, bounds[name], alpha)[0],
            )
            for name, other in others.items()
        )  # fmt: skip

    outcome, reason = _decision(claim, measured.effect, bound, alpha, parts)
    rates, sets = alike(measured.rates), alike(measured.sets)
    verdict = Verdict(claim, outcome, reason, measured, bound, rates=rates, sets=sets)
    # Measured values whose effect a condition leaves unknown are not decided; others are missing.
    if outcome == UNMEASURED and not (measured.gate and measured.effect.n):
        return verdict
    outcome, reason = _forbidden(verdict, alpha) or (outcome, reason)
    return replace(verdict, outcome=outcome, reason=reason)


def _first_finite(first: float, second: float) -> float:
    return first if math.isfinite(first) else second


def _decision(claim: Claim, effect: Effect, bound: float, alpha: float, parts: int) -> Decision:
    """Return the decision on one of several parts by the rule alone.

    A claim on every part is supported by all of them, so each is tested at α. Any of them can
    weaken it, so what weakens it is tested at α / parts.
    """
    outcome, reason = decide(claim.rule, effect, claim.sign, bound, alpha)
    if outcome not in (CONTRADICTS, ABSENT) and reason != "smaller":
        return outcome, reason
    strict = decide(claim.rule, effect, claim.sign, bound, alpha / parts)
    if reason != "smaller":
        return strict
    # Only the size is tested at α / parts: strictly the sign may be open, and the size small.
    return DIRECTION, reason if strict[1] in (reason, "equivalent") else "size open"


def _forbidden(verdict: Verdict, alpha: float) -> Decision | None:
    """Return what takes the place of a verdict that a condition, a rate or the sets forbid."""
    if verdict.measured.gate:
        return UNDECIDED, "gate"
    if verdict.outcome in (ABSENT, UNDECIDED) or verdict.claim.rule != "effect":
        return None
    sign = verdict.claim.sign * (-1 if verdict.outcome == CONTRADICTS else 1)
    if any(opposite(part.effect, sign, alpha) for part in verdict.rates):
        return UNDECIDED, "a rate goes the other way"
    against = sum(opposite(part.effect, sign, alpha) for part in verdict.sets)
    if verdict.sets and 2 * against >= len(verdict.sets):
        return UNDECIDED, "most sets go the other way"
    return None


SMALL: Mapping[Rule, tuple[Outcome, ...]] = {
    "effect": (ABSENT,), "equivalence": (SUPPORTS,), "level": (SUPPORTS, CONTRADICTS)
}  # fmt: skip
"""Outcomes that a training which changes nothing may give too, by the rule."""


def _with_power(part: Verdict, tables: Tables, confidence: float) -> Verdict:
    """Return the verdict on a part, undecided if a training that changes nothing gives it too.

    So are the outcomes at each rate and on each set.
    """
    small, power = SMALL.get(part.claim.rule, ()), part.claim.power
    outcomes = {part.outcome, *(each.outcome for each in (*part.rates, *part.sets))}
    if power is None or outcomes.isdisjoint(small):
        return part
    if not (gate := remembered(power)(tables, confidence)):
        return part

    def without(parts: tuple[PartVerdict, ...]) -> tuple[PartVerdict, ...]:
        return tuple(
            replace(each, outcome=UNDECIDED) if each.outcome in small else each for each in parts
        )

    part = replace(part, rates=without(part.rates), sets=without(part.sets))
    if part.outcome not in small:
        return part
    measured = replace(part.measured, gate=gate)
    return replace(part, outcome=UNDECIDED, reason="gate", measured=measured)


# The verdict: whether it is close to another one, and its controls.


def _near(verdict: Verdict, family_alpha: float, alpha: float) -> bool:
    if family_alpha / 2 <= verdict.corrected_p <= 2 * family_alpha:
        return True
    if verdict.claim.rule in ("level", "count"):
        apart = abs(verdict.effect.value - verdict.bound)
        return verdict.outcome == UNDECIDED and apart <= NEAR * abs(verdict.bound)
    if verdict.claim.rule == "trend" or not verdict.effect.known:
        return False
    values = [verdict.effect.value]
    limits = verdict.effect.limits(alpha)
    if verdict.outcome != UNDECIDED:  # the limits that decided
        values += limits
    elif verdict.reason in OPEN:  # the one that left equivalence open
        values.append(max(limits, key=abs))
    return any(abs(abs(value) - verdict.bound) <= NEAR * verdict.bound for value in values)


def _control(
    control: Control, verdict: Verdict, tables: Tables, confidence: float
) -> ControlVerdict:
    """Compare the effect of a control with the claim's own.

    The control is judged by the interval at 1 − 2 α of its effect minus the share of the claim's
    effect, in the claim's direction. If the claim itself has no significant effect, nothing can
    remain or go, and the finding is *cannot tell*. Of a control with parts, the one that decides
    the claim counts.
    """

    def effect_of(measured: MeasuredClaim) -> Effect:
        return measured.parts.get(verdict.decided_by, measured).effect

    shown = _at_level(
        control.measure(tables, confidence), level_of(verdict.claim.primary, confidence)
    )
    found = effect_of(shown)
    whole = effect_of(control.of(tables, confidence)) if control.of else verdict.effect
    if not math.isfinite(found.value + whole.value) or whole.value == 0:
        return ControlVerdict(control, found, math.nan, "not measured")
    is_placebo = control.least is None
    needed = control.most if control.least is None else control.least
    assert needed is not None
    decided = control.of is not None or verdict.outcome in SHOWN
    rest = math.copysign(1.0, whole.value) * (found.value - needed * whole.value)
    below, above = _half_widths(found, whole, needed, 1 - confidence)
    finding: Finding = "cannot tell"
    if decided and (rest >= below or rest < -above):
        remains = rest >= below
        finding = "limits" if remains == is_placebo else "does not limit"
    parts = {name: part.effect for name, part in shown.parts.items()}
    shares = {
        part.name: parts[part.name].value / part.effect.value
        for part in verdict.parts
        if control.of is None and part.outcome in SHOWN and part.name in parts
    }
    return ControlVerdict(control, found, found.value / whole.value, finding, parts, shares)


def _half_widths(found: Effect, whole: Effect, needed: float, alpha: float) -> tuple[float, float]:
    """Return how far the difference of a control and a share may be below and above its value.

    Both are in the direction of the whole effect. The limits of the two effects are added in
    quadrature, as if they were independent: paired replicates make the true limits narrower. An
    effect without an interval adds nothing.
    """

    def sides(effect: Effect) -> tuple[float, float]:
        """Return how far an effect may be below and above its value, along `whole`."""
        if not effect.known:
            return 0.0, 0.0
        low, high = effect.limits(alpha)
        both = effect.value - low, high - effect.value
        return both if whole.value > 0 else both[::-1]

    (found_below, found_above), (whole_below, whole_above) = sides(found), sides(whole)
    below = math.hypot(found_below, needed * whole_above)
    return below, math.hypot(found_above, needed * whole_below)
