"""Effect of each rule on towers that are trained from scratch on its captions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from mispair.core.words import number
from mispair.repair.report.claims import SHARE_OF_COST, Cost, decide
from mispair.repair.report.measures import LABELS, means_of, paired_by_seed, rates_of, rules_of
from mispair.repair.report.study import LEARNED
from mispair.report import verdicts
from mispair.report.statistics import Effect
from mispair.report.table import Table, mean_and_spread
from mispair.report.tables import Tables, remembered
from mispair.report.verdicts import Claim, Control, Verdict

NOT_RUN = "no towers were trained on repaired captions: add towers to filter_captions.trains"

ABOVE_CHANCE = 2.0
"""Towers on right captions have learned if their accuracy is at least this many times chance."""

MEASURES: dict[str, dict[str, str]] = {
    "text overlap": {"metric": "mean_abs_cosine", "tower": "text"},
    "image overlap": {"metric": "mean_abs_cosine", "tower": "image"},
    "accuracy": {"metric": "acc1"},
    "text neurons follow features": {
        "metric": "followed_correlation", "tower": "text", "basis": "neurons",
    },
    "image neurons follow features": {
        "metric": "followed_correlation", "tower": "image", "basis": "neurons",
    },
    "recovery, text": {"metric": "recovery", "tower": "text", "basis": "identified"},
    "recovery, image": {"metric": "recovery", "tower": "image", "basis": "identified"},
}  # fmt: skip
"""Rows of each measure; of accuracy the mean over evaluation sets."""

OVERLAP = Claim(
    "repair-learned-overlap", "repair",
    "Filtering lowers the overlap of neurons of encoders that learn from wrong captions.",
    "section 5.2", "repair, encoders that learn", "repair_from_scratch",
)  # fmt: skip
ACCURACY = Claim(
    "repair-learned-accuracy", "repair",
    "Filtering gives back the accuracy that wrong captions cost encoders that learn from them.",
    "section 5.2", "repair, encoders that learn", "repair_from_scratch",
)  # fmt: skip

CLAIMS = (ACCURACY, OVERLAP)

RULES = {
    "repair, encoders that learn": "Filtered less raw captions at the largest rate, paired by "
    "seed, with a t interval over seeds: towers trained from scratch with the same pictures, seeds "
    "and number of updates. The smallest effect of interest is a third of the difference of raw "
    "and right captions in the same run, of overlap in either direction. Without such a "
    "difference, and where towers on right captions classify less than twice chance: cannot tell.",
}
"""Rule of the claims in words, as the report prints it."""


@remembered
def values(tables: Tables, measure: str) -> pd.DataFrame:
    """Return ``rule``, ``rate``, ``seed`` and ``value`` of a measure."""
    table = tables.repaired_towers
    for column, value in MEASURES[measure].items():
        table = table[table[column] == value]
    return table.groupby(["rule", "rate", "seed"])[["value"]].mean().reset_index()


def difference(
    tables: Tables, measure: str, rule: str, reference: str, rate: float, confidence: float
) -> Effect:
    """Return the difference of a measure between two rules, paired by seed."""
    return paired_by_seed(values(tables, measure), rule, reference, rate, confidence)


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on the claims."""
    rates = rates_of(tables.repaired_towers)
    if not rates:
        return [Verdict(claim, verdicts.UNMEASURED, NOT_RUN) for claim in CLAIMS]
    rules = rules_of(tables.repaired_towers)
    missing = [rule for rule in ("raw", "factor", "oracle") if rule not in rules]
    if missing:
        reason = f"filter_captions.rules does not list {', '.join(missing)}"
        return [Verdict(claim, verdicts.UNMEASURED, reason) for claim in CLAIMS]
    rate = rates[-1]
    return [
        _verdict(tables, ACCURACY, "accuracy", +1, rate, confidence),
        _verdict(tables, OVERLAP, "text overlap", -1, rate, confidence),
    ]


def _cost(tables: Tables, measure: str, rate: float, confidence: float) -> Cost:
    """Return raw − right captions; of overlap a difference in either direction is a cost."""
    effect = difference(tables, measure, "raw", "oracle", rate, confidence)
    sign = -1 if measure == "accuracy" or effect.value < 0 else 1
    return Cost(effect, sign, 1 - confidence)


def _verdict(
    tables: Tables, claim: Claim, measure: str, sign: int, rate: float, confidence: float
) -> Verdict:
    effect = difference(tables, measure, "factor", "raw", rate, confidence)
    cost = _cost(tables, measure, rate, confidence)
    outcome, reason = decide(effect, sign, cost)
    if measure != "accuracy" and not cost.there:
        reason = "raw and right captions do not differ in it here, so nothing can be restored"
    elif measure != "accuracy" and cost.effect.value < 0:
        reason += "; wrong captions lower the overlap here"
    learned, chance = _accuracy(tables, rate)
    if not learned >= ABOVE_CHANCE * chance:
        outcome = verdicts.UNDECIDED
        reason = (
            f"towers on right captions classify {number(learned)} of the pictures, less than "
            f"{ABOVE_CHANCE:g} times chance ({number(chance)}): they learned too little"
        )
    controls = [_without_new(tables, measure, rule, rate, confidence)
                for rule in ("drop", "trusted-alone")]  # fmt: skip
    if measure == "text overlap":
        controls.insert(0, _of_image(tables, rate, confidence))
    shown = tuple(rules_of(tables.repaired_towers))
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"small towers from scratch; captions with rate {rate:g} of corruption, trusted "
        "pairs right; captioner and scorer of towers trained on the raw captions",
        measured=means_of(values(tables, measure), measure, shown, rate),
        published="no number",
        sample=f"{effect.replicates}; one corpus, one architecture",
        test=f"factor − raw, {verdicts.effect_text(effect, confidence, 4)}",
        controls=tuple(controls),
        effect=effect,
        smallest=cost.smallest,
    )


def _accuracy(tables: Tables, rate: float) -> tuple[float, float]:
    """Return the accuracy of towers on right captions, and that of chance."""
    table = tables.repaired_towers
    right = table[(table["rule"] == "oracle") & (table["metric"] == "acc1")]
    right = right[right["rate"] == rate]
    return float(right["value"].mean()), float(right["chance"].mean())


def _of_image(tables: Tables, rate: float, confidence: float) -> Control:
    name, measure = "Image neurons", "image overlap"
    effect = difference(tables, measure, "factor", "raw", rate, confidence)
    outcome, reason = decide(effect, -1, _cost(tables, measure, rate, confidence))
    text = f"factor − raw {verdicts.effect_text(effect, confidence, 4)}: {outcome} ({reason})."
    return Control(name, "does not limit" if outcome == verdicts.SUPPORTS else "limits", text)


def _without_new(
    tables: Tables, measure: str, rule: str, rate: float, confidence: float
) -> Control:
    """Return the control whether a rule without new captions changes as much as filtering."""
    name = LABELS[rule].capitalize()
    effect = difference(tables, measure, rule, "raw", rate, confidence)
    filtered = difference(tables, measure, "factor", "raw", rate, confidence)
    if not (np.isfinite(effect.value) and np.isfinite(filtered.value)):
        return Control(name, "not measured", f"The rule {rule} was not run.")
    as_much = effect.value / filtered.value >= 1 - SHARE_OF_COST if filtered.value else False
    text = (
        f"{rule} − raw {verdicts.effect_text(effect, confidence, 4)}, factor − raw "
        f"{number(filtered.value, 4, sign=True)}: "
        + ("new captions are not needed for this." if as_much else "it changes less.")
    )
    return Control(name, "limits" if as_much else "does not limit", text)


def printed(tables: Tables, confidence: float) -> list[Table]:
    """Return the tables of the section, two for each rate."""
    both_tables = []
    for rate in rates_of(tables.repaired_towers):
        rows, apart = [], []
        for rule in rules_of(tables.repaired_towers):
            of_rule = [_of_rule(values(tables, measure), rule, rate) for measure in MEASURES]
            if all(series.empty for series in of_rule):
                continue
            cells = (mean_and_spread(series, 4, counted=False) for series in of_rule)
            rows.append((LABELS[rule], *cells))
            if rule != "raw":
                effects = (difference(tables, measure, rule, "raw", rate, confidence)
                           for measure in MEASURES)  # fmt: skip
                apart.append((LABELS[rule], *_texts([*effects], confidence)))
        both_tables += [
            Table(
                f"Towers trained from scratch, at rate {rate:g}",
                ("captions", *MEASURES),
                tuple(rows),
                "Mean ± standard deviation over seeds. Neurons follow features: mean over true "
                "features of the correlation with the neuron that follows each best. Recovery: the "
                "same of components that varimax finds. Both on pairs that were not trained on.",
                section=LEARNED,
            ),
            Table(
                f"Less raw captions, paired by seed, at rate {rate:g}",
                ("captions", *MEASURES),
                tuple(apart),
                "t intervals over seeds. Every arm has as many updates as the raw one; an arm with "
                "fewer pairs sees each more often.",
                section=LEARNED,
            ),
        ]
    return both_tables


def _of_rule(table: pd.DataFrame, rule: str, rate: float) -> pd.Series:
    return table[(table["rule"] == rule) & (table["rate"] == rate)]["value"]


def _texts(effects: Sequence[Effect], confidence: float) -> list[str]:
    return [verdicts.effect_text(effect, confidence, 4) for effect in effects]


def answer(tables: Tables) -> str:
    """Return a sentence on accuracy; none if no towers were trained."""
    rates = rates_of(tables.repaired_towers)
    if not rates:
        return ""
    table = values(tables, "accuracy")
    parts = [
        f"{number(_of_rule(table, rule, rates[-1]).mean())} with {LABELS[rule]}"
        for rule in rules_of(tables.repaired_towers)
    ]
    return f"Accuracy of towers trained from scratch at rate {rates[-1]:g}: {', '.join(parts)}."
