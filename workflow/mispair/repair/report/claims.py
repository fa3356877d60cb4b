"""Claims on the repair: what filtering and recaptioning give back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mispair.evaluation.report.published_overlap import smallest_overlap
from mispair.repair.report.measures import (
    ARMS,
    TOWERS,
    accuracy_difference,
    by_seed,
    captions_are_right,
    main_filter,
    mean_of,
    rates_of,
    rules_of,
    shares_changed,
    truth_is_known,
    values,
)
from mispair.repair.rules import RULES
from mispair.report.claims import SAME, Claim, Control, Measured, Part
from mispair.report.measures import Every
from mispair.report.questions import Question
from mispair.report.statistics import Effect
from mispair.report.tables import Tables

POINT = 0.01
"""Smallest difference of accuracy of interest, one percentage point. A third of the published fall
(0.028 at rate 0.8) is more than wrong captions cost in small models: there not even right captions
could reach it."""

ABOVE_CHANCE = 2.0
"""Towers on right captions have learned if their accuracy is at least this many times chance."""


@dataclass(frozen=True)
class Gain:
    """The difference of a measure between two rules, at the largest rate of the run.

    The effect at each lower rate above 0 is next to it. Accuracy is paired by image and seed, or
    by seed in towers trained from scratch; other measures by seed.

    Attributes
    ----------
    rule, reference : str
        Both rules; "" is the first of `FILTERS` that was run.
    measure : str
        One of `measures.MEASURES`.
    table : str
        Of fine-tuned projections, or of towers trained from scratch.
    cost : int
        Sign of right less raw captions if wrong ones have a cost. Where right captions were tried
        and are not significantly better, nothing can be given back ("no cost"). 0: not asked.
    log : bool
        Whether natural logs are compared.
    rate : float or None
        Another rate than the largest.
    """

    rule: str = ""
    reference: str = "raw"
    measure: str = "accuracy"
    table: str = ARMS
    cost: int = 1
    log: bool = False
    rate: float | None = None

    def difference(
        self, tables: Tables, rule: str, reference: str, rate: float, confidence: float
    ) -> Effect:
        """Return rule − reference at a rate."""
        if self.measure == "accuracy" and self.table == ARMS:
            return accuracy_difference(tables, rule, reference, rate, confidence)
        table = values(tables, self.measure, self.table)
        return by_seed(table, rule, reference, rate, confidence, self.log)

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return the difference with the means of both rules."""
        rates = rates_of(tables, self.table)
        if not rates or self.rate not in (None, *rates):
            return Measured()
        rate = rates[-1] if self.rate is None else self.rate
        rule = self.rule or main_filter(tables, self.table)
        effects = {
            each: self.difference(tables, rule, self.reference, each, confidence)
            for each in rates
            if each == rate or (self.rate is None and each > 0)
        }
        parts = {each: Part(effect) for each, effect in effects.items()}
        table = values(tables, self.measure, self.table)
        return Measured(
            effects[rate],
            first=mean_of(table, self.reference, rate), last=mean_of(table, rule, rate), at=(rate,),
            rates=parts if len(parts) > 1 else {},
            gate=self.gate(tables, rate, confidence),
        )  # fmt: skip

    def gate(self, tables: Tables, rate: float, confidence: float) -> str:
        """Return why nothing can be given back, or ""."""
        if not self.cost:
            return ""
        if self.table == TOWERS and not _learned(tables, rate):
            return "not learnt"
        if not truth_is_known(tables, self.table):
            return ""  # there is no oracle: the corpus's own captions may be wrong, too
        if "oracle" not in rules_of(tables, self.table):
            return "no cost" if rate == 0 and captions_are_right(tables) else ""
        effect = self.difference(tables, "raw", "oracle", rate, confidence)
        there = effect.p <= 1 - confidence and self.cost * effect.value < 0
        return "" if there else "no cost"


def _learned(tables: Tables, rate: float) -> bool:
    """Return whether towers on right captions classify clearly better than by chance."""
    table = tables.repaired_towers
    right = table[(table["metric"] == "acc1") & (table["rate"] == rate)]
    right = right[right["rule"] == ("oracle" if "oracle" in set(right["rule"]) else "raw")]
    return bool(right["value"].mean() >= ABOVE_CHANCE * right["chance"].mean())


def _harmless(tables: Tables, confidence: float) -> Measured:
    """Return filtered − raw at rate 0; nothing where captions of the corpus may be wrong."""
    if not captions_are_right(tables):
        return Measured()
    return Gain(cost=0, rate=0.0)(tables, confidence)


def _directions(tower: str, rule: str = "") -> Gain:
    return Gain(rule, measure=f"{tower} directions", log=True)


ACCURACY, LEARNED = Gain(), Gain(table=TOWERS)

CLAIMS = (
    Claim(
        "repair-accuracy", "repair",
        "A model that is fine-tuned on filtered captions classifies better than one on raw ones.",
        "section 5.2", "repair_by_rule",
        ACCURACY, bound=POINT, unit="points", needs="studies: [repair]",
        controls=(
            Control("As many captions replaced at random", Gain("random-replaced", cost=0),
                    least=None, most=SAME),
            Control("Trusted pairs alone", Gain("trusted-alone", cost=0), least=None, most=SAME),
        ),
    ),
    Claim(
        "repair-overlap", "repair",
        "Filtering restores the overlap of neurons that wrong captions raise: a model that is "
        "fine-tuned on filtered captions has a larger participation ratio than one on the raw "
        "captions.",
        "section 5.2", "repair_by_rule",
        Every({tower: _directions(tower) for tower in ("text", "image")}),
        bound=smallest_overlap(), unit="log", every="tower", needs="studies: [repair]",
        controls=tuple(
            Control(f"Pairs dropped in place of replaced, {tower} neurons",
                    _directions(tower, "drop"), least=None, most=SAME, of=_directions(tower))
            for tower in ("text", "image")
        ),
    ),
    Claim(
        "repair-replacing", "repair",
        "To replace wrong captions gives back more accuracy than to drop their pairs.",
        "not in the paper", "repair_by_rule",
        Gain("factor", "drop"), bound=POINT, unit="points",
        needs="filter_captions: {rules: [raw, factor, drop]}",
    ),
    Claim(
        "repair-filter-not-worse", "repair",
        "Filtering is at most a point of accuracy worse than replacing all captions.",
        "the public review", "repair_by_rule",
        Gain("factor", "all"), "level", bound=-POINT, unit="points",
        needs="filter_captions: {rules: [raw, factor, all]}",
    ),
    Claim(
        "repair-harmless", "repair",
        "Where all captions are right, filtering costs at most a point of accuracy.",
        "not in the paper", "repair_by_rule",
        _harmless, "level", bound=-POINT, unit="points",
        needs="shards: generated and filter_captions: {rates: [0.0, 0.8]}",
    ),
    Claim(
        "repair-learned-accuracy", "repair",
        "Filtering gives back accuracy to encoders that learn: towers that are trained from "
        "scratch on filtered captions classify better than those on the raw captions.",
        "section 5.2", "repair_from_scratch",
        LEARNED, bound=POINT, unit="points", needs="filter_captions: {trains: [towers]}",
        controls=tuple(
            Control(name, Gain(rule, table=TOWERS, cost=0), least=None, most=SAME)
            for name, rule in (("Pairs dropped in place of replaced", "drop"),
                               ("Trusted pairs alone", "trusted-alone"))
        ),
    ),
)  # fmt: skip


def _numbers(tables: Tables, confidence: float, measure: Gain = ACCURACY) -> Mapping[str, Any]:
    """Return the filter, the gains of other rules, and the gain of right captions.

    ``phrase`` is what the filter gives a model, in words.
    ``others`` are further rules, each with its gain against raw captions. ``cost`` is raw less
    right captions, and ``known`` whether these are known to be right. ``changed`` is the share of
    pairs that each rule replaces or drops. ``learned`` is the gain of replacing over dropping in
    towers that were trained from scratch.
    """
    rules, rate = rules_of(tables, measure.table), rates_of(tables, measure.table)[-1]
    main = main_filter(tables, measure.table)

    def against_raw(rule: str) -> Effect:
        return measure.difference(tables, rule, "raw", rate, confidence)

    effects = {
        rule: against_raw(rule)
        for rule, declared in RULES.items()
        if declared.phrase and rule in rules and rule != main
    }
    cost = measure.difference(tables, "raw", "oracle", rate, confidence)  # raw − right
    learned = Gain("factor", "drop", table=TOWERS, cost=0)(tables, confidence).effect
    return {
        "rate": rate, "filter": main, "phrase": RULES[main].phrase,
        "learned": learned, "cost": cost,
        "changed": shares_changed(tables, rate, measure.table),
        "known": truth_is_known(tables, measure.table),
        "others": {rule: one for rule, one in effects.items() if math.isfinite(one.value)},
    }  # fmt: skip


def _of_learned(tables: Tables, confidence: float) -> Mapping[str, Any]:
    return _numbers(tables, confidence, LEARNED)


QUESTIONS = (
    Question(
        "repair", "What do filtering and recaptioning give back?",
        tuple(claim.key for claim in CLAIMS[:-1]), "small_repair", _numbers,
    ),
    Question(
        "repair-learned",
        "What does filtering give back to encoders that are trained on its captions from scratch?",
        ("repair-learned-accuracy",), "", _of_learned, folded=True,
    ),
)  # fmt: skip
