"""Claims on the repair: what filtering and recaptioning give back."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from mispair.evaluation.report.rows import smallest_overlap
from mispair.repair.rules import RULES
from mispair.report import texts
from mispair.report.claims import SAME, Claim, Control, MeasuredClaim, PartEffect
from mispair.report.measures import Every, Responds
from mispair.report.questions import Question
from mispair.report.statistics import (
    IMAGE_AND_SEED,
    Effect,
    effect_of_comparison,
    effect_of_mean,
    unknown_effect,
)
from mispair.report.tables import Tables, of_protocol, remembered, where
from mispair.report.texts import Note

# Measures of the arms of the repair, one number for each rule, rate and seed.

LABELS = {name: rule.label for name, rule in RULES.items()}

NOT_RIGHT = {"oracle": "own captions, none exchanged"}
"""Rules in other words where it is not known which captions are right."""

FILTERS = tuple(name for name, rule in RULES.items() if rule.filters)
"""Rules that filter; claims on filtering are judged on the first of them that was run."""

ARMS, TOWERS = "repaired_arms", "repaired_towers"
"""Tables of fine-tuned projections, and of towers that were trained from scratch."""

MEASURES: dict[str, dict[str, str]] = {
    "text overlap": {"metric": "mean_abs_cosine", "tower": "text"},
    "image overlap": {"metric": "mean_abs_cosine", "tower": "image"},
    "text directions": {"metric": "participation_ratio", "tower": "text"},
    "image directions": {"metric": "participation_ratio", "tower": "image"},
    "accuracy": {"metric": "acc1"},
    "probe": {"metric": "probe_acc1"},
    "recovery, text": {"metric": "recovery", "tower": "text", "basis": "identified"},
    "recovery, image": {"metric": "recovery", "tower": "image", "basis": "identified"},
}  # fmt: skip
"""Rows of each measure; without a basis those of the model's own. Sets are averaged."""


@remembered
def values(tables: Tables, measure: str, name: str = ARMS) -> pd.DataFrame:
    """Return ``rule``, ``rate``, ``seed`` and ``value`` of a measure in one of the tables."""
    columns = MEASURES[measure]
    table = where(of_protocol(tables.frames[name]), **columns)
    if "basis" not in columns:
        table = table[table["basis"].isna() | (table["basis"] == "original")]
    return table.groupby(["rule", "rate", "seed"])[["value"]].mean().reset_index()


def measures_of(tables: Tables, name: str) -> list[str]:
    """Return the measures that a table has."""
    return [measure for measure in MEASURES if not values(tables, measure, name).empty]


def rules_of(tables: Tables, name: str = ARMS) -> list[str]:
    """Return the rules in a table in the order in which they are shown."""
    present = set(tables.frames[name]["rule"].dropna())
    return [rule for rule in LABELS if rule in present]


def rates_of(tables: Tables, name: str = ARMS) -> list[float]:
    """Return the rates in a table in ascending order."""
    return sorted(tables.frames[name]["rate"].dropna().unique())


def main_filter(tables: Tables, name: str = ARMS) -> str:
    """Return the rule on which claims on filtering are judged."""
    rules = rules_of(tables, name)
    return next((rule for rule in FILTERS if rule in rules), FILTERS[0])


def label_of(tables: Tables, rule: str, name: str = ARMS) -> str:
    """Return a rule in words; the oracle of other than drawn pictures is not known to be right."""
    return LABELS[rule] if truth_is_known(tables, name) else NOT_RIGHT.get(rule, LABELS[rule])


def at_rate(rate: float) -> str:
    """Return a rate in words."""
    return texts.text(Note("repair", "at_rate", rate=rate))


def truth_is_known(tables: Tables, name: str = ARMS) -> bool:
    """Return whether the ledgers have right and wrong captions, as of drawn scenes."""
    table = tables.repairs if name == ARMS else tables.tower_repairs
    states = set(table.loc[table["metric"] == "pairs", "before"].dropna())
    return not states & {"own", "swapped"}


def shares_changed(tables: Tables, rate: float, name: str = ARMS) -> dict[str, float]:
    """Return the share of pairs that each rule replaces or drops at a rate."""
    table = tables.repairs if name == ARMS else tables.tower_repairs
    table = table[table["rate"] == rate]
    counts = table.groupby(["rule", "metric"])["value"].sum()
    return {
        rule: float(sum(counts.get((rule, kind), 0.0) for kind in ("replaced", "dropped")))
        / counts[rule, "read"]
        for rule in LABELS
        if counts.get((rule, "read"), 0.0) > 0
    }


def share_untrue(tables: Tables, rate: float, rule: str, name: str = ARMS) -> float:
    """Return the share of new captions that do not put a true one in the place of a wrong one.

    NaN where it is not known which captions are true.
    """
    table = tables.repairs if name == ARMS else tables.tower_repairs
    rows = where(table, rate=rate, rule=rule)
    replaced = rows.loc[rows["metric"] == "replaced", "value"].sum()
    repaired = where(rows, metric="pairs", before="wrong", after="right")["value"]
    return float(1 - repaired.sum() / replaced) if len(repaired) and replaced else math.nan


def held_out(tables: Tables) -> tuple[float, float, int] | None:
    """Return the cosines of a trained captioner and of one caption for all, and the pairs."""
    table = tables.repairs[tables.repairs["metric"] == "held_out_cosine"]
    means = table.groupby("captions")[["value", "n"]].mean()
    if not {"captioner", "typical"} <= set(means.index):
        return None
    value = means["value"]
    return float(value["captioner"]), float(value["typical"]), int(means["n"].iloc[0])


def captions_are_right(tables: Tables) -> bool:
    """Return whether all captions are known to be right without corruption, as in drawn scenes."""
    table = tables.repairs
    table = table[(table["metric"] == "pairs") & (table["value"] > 0)]
    states = set(table["before"].dropna())
    return "right" in states and not (table[table["rate"] == 0]["before"] == "wrong").any()


def by_seed(
    table: pd.DataFrame, rule: str, reference: str, rate: float, confidence: float,
    log: bool = False,
) -> Effect:  # fmt: skip
    """Return the difference between two rules in rows of rule, rate, seed and value, by seed."""
    wide = table[table["rate"] == rate].pivot_table(index="seed", columns="rule", values="value")
    if rule not in wide or reference not in wide:
        return unknown_effect(math.nan, 0, "seed")
    if log:
        wide = wide.map(math.log)
    return effect_of_mean((wide[rule] - wide[reference]).tolist(), confidence, "seed")


def accuracy_difference(
    tables: Tables, rule: str, reference: str, rate: float, confidence: float
) -> Effect:
    """Return the difference in accuracy between two rules, paired by image and seed."""
    table = of_protocol(tables.repair_differences)
    rows = where(
        table, metric="acc1_difference_of_all_sets", rule=rule, reference=reference, rate=rate
    )
    if rows.empty:
        return unknown_effect(math.nan, 0, IMAGE_AND_SEED)
    return effect_of_comparison(rows.iloc[0], confidence)


def mean_of(table: pd.DataFrame, rule: str, rate: float) -> float:
    """Return the mean over seeds of a rule in rows of rule, rate, seed and value."""
    return float(where(table, rule=rule, rate=rate)["value"].mean())


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
        One of `MEASURES`.
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

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the difference with the means of both rules."""
        rates = rates_of(tables, self.table)
        if not rates or self.rate not in (None, *rates):
            return MeasuredClaim()
        rate = rates[-1] if self.rate is None else self.rate
        rule = self.rule or main_filter(tables, self.table)
        effects = {
            each: self.difference(tables, rule, self.reference, each, confidence)
            for each in rates
            if each == rate or (self.rate is None and each > 0)
        }
        parts = {each: PartEffect(effect) for each, effect in effects.items()}
        table = values(tables, self.measure, self.table)
        return MeasuredClaim(
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


def _harmless(tables: Tables, confidence: float) -> MeasuredClaim:
    """Return filtered − raw at rate 0; nothing where captions of the corpus may be wrong."""
    if not captions_are_right(tables):
        return MeasuredClaim()
    return Gain(cost=0, rate=0.0)(tables, confidence)


def _directions(tower: str, rule: str = "") -> Gain:
    return Gain(rule, measure=f"{tower} directions", log=True)


def _responds(tables: Tables, confidence: float) -> str:
    """Return the condition of small effects: some rule changes accuracy or neurons."""
    rules = [rule for rule in rules_of(tables, ARMS) if rule != "raw"]
    accuracies = [(Gain(rule, cost=0), POINT) for rule in rules]
    directions = [
        (replace(_directions(tower, rule), cost=0), smallest_overlap())
        for rule in rules
        for tower in ("text", "image")
    ]
    return Responds((*accuracies, *directions))(tables, confidence)


ACCURACY, LEARNED = Gain(), Gain(table=TOWERS)

CLAIMS = (
    Claim(
        "repair-accuracy", "repair",
        "A model that is fine-tuned on filtered captions classifies better than one on raw ones.",
        "section 5.2", "repair_by_rule",
        ACCURACY, bound=POINT, unit="points", needs="studies: [repair]", power=_responds,
        controls=(
            Control("As many captions replaced at random", Gain("random-replaced", cost=0),
                    least=None, most=SAME),
            Control("Trusted pairs alone", Gain("trusted-alone", cost=0), least=None, most=SAME),
            Control("Pairs dropped in place of replaced", Gain("drop", cost=0), least=None,
                    most=SAME),
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
        power=_responds,
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
        needs="filter_captions: {rules: [raw, factor, drop]}", power=_responds,
    ),
    Claim(
        "repair-filter-not-worse", "repair",
        "Filtering is at most a point of accuracy worse than replacing all captions.",
        "the public review", "repair_by_rule",
        Gain("factor", "all"), "level", bound=-POINT, unit="points",
        needs="filter_captions: {rules: [raw, factor, all]}", power=_responds,
    ),
    Claim(
        "repair-harmless", "repair",
        "Where all captions are right, filtering costs at most a point of accuracy.",
        "not in the paper", "repair_by_rule",
        _harmless, "level", bound=-POINT, unit="points",
        needs="shards: generated and filter_captions: {rates: [0.0, 0.8]}", power=_responds,
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
    pairs that each rule replaces or drops, ``untrue`` that of `share_untrue`. ``learned`` is
    the gain of replacing over dropping in towers that were trained from scratch.
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
        "untrue": share_untrue(tables, rate, main, measure.table),
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
