"""The claim on towers trained from scratch: which wrong captions mix features."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from mispair.core.words import listing, number
from mispair.pretraining.names import CLEAN, LINEAR, SCHEMES
from mispair.pretraining.report.runs import (
    BASIS_WORDS,
    MAIN,
    NOT_RUN,
    effects,
    main_rate,
    sample,
    values,
)
from mispair.report import verdicts
from mispair.report.statistics import Effect
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Outcome, Part, Verdict

SMALLEST = 0.02
"""Smallest mixing score of interest, a difference of correlations. Nothing was published. A
correlation of 0.02 explains 0.04 % of the variance of a component."""

SPURIOUS = "spurious"
OTHERS = tuple(name for name in SCHEMES if name != SPURIOUS)

MIXES = Claim(
    "pretraining-mixes", "pretraining",
    "Towers trained from scratch mix the features that spurious captions link; captions of other "
    "pictures and captions without some features do not mix them. Smallest mixing score of "
    f"interest: {SMALLEST:g}.",
    "theorem 4.2", "mixes", "pretraining_mixing",
)  # fmt: skip

ABOVE_CHANCE = 2.0
"""Towers on clean captions classify if their accuracy is at least this many times chance."""


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdict on the claim."""
    table = tables.pretraining
    if table.empty:
        return [Verdict(MIXES, verdicts.UNMEASURED, NOT_RUN)]
    table = table[table["rate"].isin([0.0, main_rate(table)])]
    scores = values(table, "mixing", **MAIN)
    measured = {scheme: effect for (scheme, _), effect in effects(scores, confidence).items()}
    missing = [name for name in (CLEAN, *SCHEMES) if name not in set(scores["scheme"])]
    if missing:
        reason = f"towers on {listing(missing)} captions were not measured"
        return [Verdict(MIXES, verdicts.UNMEASURED, reason)]
    alpha = 1 - confidence
    outcome, reason = decide_mixes(
        measured[SPURIOUS], [measured[name] for name in OTHERS], SMALLEST, alpha
    )
    accuracy, chance = _accuracy(table)
    if not accuracy >= ABOVE_CHANCE * chance:
        outcome = verdicts.UNDECIDED
        reason = (
            f"towers on clean captions classify {number(accuracy)} of the pictures, less than "
            f"{ABOVE_CHANCE:g} times chance ({number(chance)}): they learned too little to mix"
        )
    return [
        Verdict(
            MIXES,
            outcome,
            reason,
            scope=f"{MAIN['tower']} tower, {BASIS_WORDS[MAIN['basis']]}, rate {main_rate(table):g}",
            measured=_scores(scores),
            published="no number",
            sample=sample(scores),
            test=f"{SPURIOUS} − clean {verdicts.effect_text(measured[SPURIOUS], confidence, 4)}",
            parts=tuple(_part(name, effect, alpha, confidence) for name, effect in
                        measured.items()),
            controls=(_readouts(table, outcome, confidence),),
            effect=measured[SPURIOUS],
            smallest=SMALLEST,
        )
    ]  # fmt: skip


def _accuracy(table: pd.DataFrame) -> tuple[float, float]:
    clean = table[(table["metric"] == "acc1") & (table["scheme"] == CLEAN)]
    return float(clean["value"].mean()), float(clean["chance"].mean())


def _scores(scores: pd.DataFrame) -> str:
    means = scores.groupby("scheme")["value"].mean()
    return "mixing score: " + ", ".join(
        f"{name} {number(means[name], 4)}" for name in (CLEAN, *SCHEMES)
    )


def _part(scheme: str, effect: Effect, alpha: float, confidence: float) -> Part:
    outcome, _ = verdicts.decide_effect(effect, +1, SMALLEST, alpha)
    return Part(scheme, outcome, verdicts.effect_text(effect, confidence, 4))


def _readouts(table: pd.DataFrame, outcome: Outcome, confidence: float) -> Control:
    """Return the control whether directions fitted to the true features have the same outcome."""
    name = "Linear readouts"
    effect_of = effects(values(table, "mixing", tower=MAIN["tower"], basis=LINEAR), confidence)
    measured = {scheme: effect for (scheme, _), effect in effect_of.items()}
    if not {*SCHEMES} <= measured.keys():
        return Control(name, "not measured", "No directions were fitted to the true features.")
    linear_outcome, reason = decide_mixes(
        measured[SPURIOUS], [measured[scheme] for scheme in OTHERS], SMALLEST, 1 - confidence
    )
    text = (
        "Mixing of directions that are fitted to each true feature, less that of clean towers: "
        + ", ".join(
            f"{scheme} {verdicts.effect_text(measured[scheme], confidence, 4)}"
            for scheme in SCHEMES
        )
        + f". By the same rule: {linear_outcome} ({reason})."
    )
    return Control(name, "does not limit" if linear_outcome == outcome else "limits", text)


def decide_mixes(
    claimed: Effect, other_effects: Sequence[Effect], smallest: float, alpha: float
) -> tuple[verdicts.Outcome, str]:
    """Judge whether one treatment has an effect above zero and the others have none.

    Parameters
    ----------
    claimed : Effect
        Of the treatment that is claimed to have one.
    other_effects : sequence of Effect
        Of the treatments that are claimed to have none.
    smallest, alpha
        As in `verdicts.decide_effect`.
    """
    outcome, reason = verdicts.decide_effect(claimed, +1, smallest, alpha)
    if outcome != verdicts.SUPPORTS:
        return outcome, reason
    judged = [verdicts.decide_effect(effect, +1, smallest, alpha) for effect in other_effects]
    outcomes = [each for each, _ in judged]
    if verdicts.SUPPORTS in outcomes:
        return verdicts.CONTRADICTS, "treatments that are claimed to have no such effect have it"
    if any(each != verdicts.ABSENT for each in outcomes):
        why = next(text for each, text in judged if each != verdicts.ABSENT)
        return (
            verdicts.UNDECIDED,
            f"{reason}; of another treatment that is claimed to have none: {why}",
        )
    return verdicts.SUPPORTS, f"{reason}; the other treatments have no such effect"
