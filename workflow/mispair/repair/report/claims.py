"""Claims on the repair: what filtering and recaptioning give back."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mispair.core.words import number
from mispair.repair.report.measures import (
    accuracy_difference,
    by_seed,
    means_text,
    rates_of,
    rules_of,
)
from mispair.report import verdicts
from mispair.report.statistics import Effect, without_p
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Outcome, Verdict

SHARE_OF_COST = 1 / 3
"""The smallest effect of interest, as a share of what wrong captions cost in the same run."""

NOT_RUN = "no projections were fine-tuned on repaired captions"

OVERLAP = Claim(
    "repair-overlap", "repair",
    "Filtering restores the overlap of neurons that wrong captions raise.",
    "section 5.2", "repair", "repair_by_rule",
)  # fmt: skip
ACCURACY = Claim(
    "repair-accuracy", "repair",
    "Filtering gives back the accuracy that wrong captions cost.",
    "section 5.2", "repair", "repair_by_rule",
)  # fmt: skip
REPLACING = Claim(
    "repair-replacing", "repair",
    "To replace wrong captions gives back more accuracy than to drop their pairs.",
    "not in the paper", "repair", "repair_by_rule",
)  # fmt: skip
NOT_WORSE = Claim(
    "repair-filter-not-worse", "repair",
    "Filtering is at least as good as replacing all captions.",
    "the public review", "repair, not worse", "repair_by_rule",
)  # fmt: skip
SECOND = Claim(
    "repair-second-round", "repair",
    "A second round, with captioner and scorer from the first, adds accuracy.",
    "not in the paper", "repair", "repair_by_rule",
)  # fmt: skip
HARMLESS = Claim(
    "repair-harmless", "repair",
    "Where all captions are right, filtering costs no accuracy.",
    "not in the paper", "repair, right captions", "repair_by_rule",
)  # fmt: skip

CLAIMS = (ACCURACY, OVERLAP, REPLACING, NOT_WORSE, SECOND, HARMLESS)

RULES = {
    "repair": "A difference between two rules at the largest rate, with the same pictures, seeds "
    "and number of updates: of overlap paired by seed, of accuracy paired by image and seed. The "
    "smallest effect of interest is a third of what wrong captions cost in the same run (right "
    "captions against raw ones). Where they cost nothing, nothing can be given back: cannot tell.",
    "repair, not worse": "As above; supports if a one-sided test excludes that filtering is worse "
    "by the smallest effect of interest.",
    "repair, right captions": "At rate 0: supports if two one-sided tests place the difference "
    "between minus and plus the smallest effect of interest, which is that at the largest rate.",
}
"""Rules of the claims in words, as the report prints them."""


@dataclass(frozen=True)
class Cost:
    """What wrong captions cost at a rate: an effect, and a third of it if it is significant."""

    effect: Effect
    sign: int
    alpha: float

    @property
    def there(self) -> bool:
        """Whether wrong captions have a significant cost."""
        return self.effect.p <= self.alpha and self.sign * self.effect.value > 0

    @property
    def smallest(self) -> float:
        """A third of the cost; NaN without one."""
        return SHARE_OF_COST * abs(self.effect.value) if self.there else math.nan


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on the claims."""
    rates = rates_of(tables.repaired_arms)
    if not rates:
        return [Verdict(claim, verdicts.UNMEASURED, NOT_RUN) for claim in CLAIMS]
    rate, alpha = rates[-1], 1 - confidence
    # Raw − oracle: overlap rises, accuracy falls.
    accuracy = Cost(accuracy_difference(tables, "raw", "oracle", rate, confidence), -1, alpha)
    return [
        _overlap(tables, rate, confidence),
        _gain(
            tables,
            ACCURACY,
            "factor",
            "raw",
            rate,
            accuracy,
            confidence,
            controls=tuple(
                _without_the_rule(tables, rule, name, rate, confidence)
                for rule, name in WITHOUT_THE_RULE.items()
            ),
        ),
        _gain(tables, REPLACING, "factor", "drop", rate, accuracy, confidence),
        _not_worse(tables, rate, accuracy, confidence),
        _gain(tables, SECOND, "second-round", "factor", rate, accuracy, confidence),
        _harmless(tables, accuracy, confidence),
    ]


def _missing(tables: Tables, claim: Claim, *rules: str) -> Verdict | None:
    """Return a verdict without a measurement if a rule that the claim needs was not run."""
    absent = [rule for rule in rules if rule not in rules_of(tables.repaired_arms)]
    if not absent:
        return None
    reason = f"filter_captions.rules does not list {', '.join(absent)}"
    return Verdict(claim, verdicts.UNMEASURED, reason)


def _overlap(tables: Tables, rate: float, confidence: float) -> Verdict:
    if (missing := _missing(tables, OVERLAP, "factor", "raw", "oracle")) is not None:
        return missing
    costs = {
        tower: Cost(
            by_seed(tables, f"{tower} overlap", "raw", "oracle", rate, confidence),
            +1, 1 - confidence,
        )
        for tower in ("text", "image")
    }  # fmt: skip
    effects = {
        tower: by_seed(tables, f"{tower} overlap", "factor", "raw", rate, confidence)
        for tower in costs
    }
    return _verdict(
        tables, OVERLAP, effects["text"], -1, costs["text"], rate, confidence,
        measures=("text overlap", "image overlap"),
        controls=(
            _of_image(effects["image"], costs["image"], confidence),
            _dropped(tables, rate, confidence),
        ),
        scope="text neurons; scored by the model that was fine-tuned on the raw captions",
    )  # fmt: skip


def _of_image(effect: Effect, cost: Cost, confidence: float) -> Control:
    name = "Image neurons"
    if not cost.there:
        return Control(name, "not measured", "Wrong captions do not raise their overlap here.")
    outcome, reason = verdicts.decide_effect(effect, -1, cost.smallest, 1 - confidence)
    agrees = outcome == verdicts.SUPPORTS
    text = f"factor − raw {verdicts.effect_text(effect, confidence, 4)}: {reason}."
    return Control(name, "does not limit" if agrees else "limits", text)


def _dropped(tables: Tables, rate: float, confidence: float) -> Control:
    """Return the control whether dropping pairs restores overlap as much as new captions."""
    name = "Pairs dropped in place of replaced"
    effect = by_seed(tables, "text overlap", "drop", "raw", rate, confidence)
    replaced = by_seed(tables, "text overlap", "factor", "raw", rate, confidence)
    if not (effect.known and replaced.known):
        return Control(name, "not measured", "The rule drop was not run.")
    as_much = effect.value <= (1 - SHARE_OF_COST) * replaced.value
    text = (
        f"drop − raw {verdicts.effect_text(effect, confidence, 4)}, factor − raw "
        f"{number(replaced.value, 4, sign=True)}: "
        + ("new captions are not needed for this." if as_much else "dropping restores less.")
    )
    return Control(name, "limits" if as_much else "does not limit", text)


WITHOUT_THE_RULE = {
    "random-replaced": "As many captions replaced at random",
    "trusted-alone": "Trusted pairs alone",
}
"""Rules whose gain in accuracy does not need the choice of the filter, and their names."""


def _without_the_rule(
    tables: Tables, rule: str, name: str, rate: float, confidence: float
) -> Control:
    """Return the control whether a rule that does not use cosines raises accuracy as much."""
    if rule not in rules_of(tables.repaired_arms):
        return Control(name, "not measured", f"The rule {rule} was not run.")
    effect, other = (
        accuracy_difference(tables, one, "raw", rate, confidence) for one in (rule, "factor")
    )
    as_much = effect.value >= (1 - SHARE_OF_COST) * max(other.value, 0.0)
    text = (
        f"{rule} − raw {verdicts.effect_text(effect, confidence, 4)}, factor − raw "
        f"{number(other.value, 4, sign=True)}: "
        + ("the choice of the filter is not needed for this." if as_much else "it gains less.")
    )
    return Control(name, "limits" if as_much else "does not limit", text)


def _gain(
    tables: Tables, claim: Claim, rule: str, reference: str, rate: float, cost: Cost,
    confidence: float, controls: tuple[Control, ...] = (),
) -> Verdict:  # fmt: skip
    if (missing := _missing(tables, claim, rule, reference, "oracle")) is not None:
        return missing
    effect = accuracy_difference(tables, rule, reference, rate, confidence)
    return _verdict(
        tables, claim, effect, +1, cost, rate, confidence, measures=("accuracy",),
        rules=(rule, reference), controls=controls,
    )  # fmt: skip


def _not_worse(tables: Tables, rate: float, cost: Cost, confidence: float) -> Verdict:
    if (missing := _missing(tables, NOT_WORSE, "factor", "all", "oracle")) is not None:
        return missing
    effect = accuracy_difference(tables, "factor", "all", rate, confidence)
    verdict = _verdict(
        tables, NOT_WORSE, effect, +1, cost, rate, confidence, measures=("accuracy",),
        rules=("factor", "all"),
    )  # fmt: skip
    if not cost.there:
        return verdict
    return _against_a_bound(verdict, verdicts.decide_bound(effect, -cost.smallest))


def _harmless(tables: Tables, cost: Cost, confidence: float) -> Verdict:
    if (missing := _missing(tables, HARMLESS, "factor", "raw")) is not None:
        return missing
    if 0.0 not in rates_of(tables.repaired_arms):
        reason = "filter_captions.rates has no rate 0"
        return Verdict(HARMLESS, verdicts.UNMEASURED, reason)
    effect = accuracy_difference(tables, "factor", "raw", 0.0, confidence)
    verdict = _verdict(
        tables, HARMLESS, effect, +1, cost, 0.0, confidence, measures=("accuracy",),
        rules=("factor", "raw"),
    )  # fmt: skip
    if not cost.there:
        return verdict
    return _against_a_bound(verdict, verdicts.decide_equal(effect, cost.smallest))


def decide(effect: Effect, sign: int, cost: Cost) -> tuple[Outcome, str]:
    """Judge a claimed effect of a rule by what wrong captions cost."""
    if not cost.there:
        return verdicts.UNDECIDED, "wrong captions cost nothing here that could be given back"
    outcome, reason = verdicts.decide_effect(effect, sign, cost.smallest, cost.alpha)
    share = f"a third of what wrong captions cost, {number(abs(cost.effect.value), 4)}"
    return outcome, f"{reason} ({share})"


def _against_a_bound(verdict: Verdict, decided: tuple[Outcome, str]) -> Verdict:
    """Return the verdict of a rule that does not test against zero, without the p value."""
    assert verdict.effect is not None
    outcome, reason = decided
    return replace(verdict, outcome=outcome, reason=reason, effect=without_p(verdict.effect))


def _verdict(
    tables: Tables, claim: Claim, effect: Effect, sign: int, cost: Cost, rate: float,
    confidence: float, *, measures: tuple[str, ...], rules: tuple[str, ...] = ("factor", "raw"),
    controls: tuple[Control, ...] = (), scope: str = "mean of the evaluation sets",
) -> Verdict:  # fmt: skip
    outcome, reason = decide(effect, sign, cost)
    shown = tuple(dict.fromkeys((*rules, "raw", "oracle")))
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"{scope}; captions with rate {rate:g} of corruption, trusted pairs right",
        measured="; ".join(means_text(tables, measure, shown, rate) for measure in measures),
        published="no number",
        sample=f"{effect.replicates}; one captioner, one model",
        test=f"{rules[0]} − {rules[1]}, {verdicts.effect_text(effect, confidence, 4)}",
        controls=controls,
        effect=effect,
        smallest=cost.smallest,
    )
