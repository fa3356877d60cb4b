"""The paper's claim on LaCLIP checkpoints, judged on the tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mispair.core.words import count, interval, number
from mispair.evaluation.report.checkpoints import COLUMNS, METHODS, Pair, pairs
from mispair.evaluation.report.protocols import short
from mispair.report import verdicts
from mispair.report.gaps import gap
from mispair.report.published import checkpoints as published
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Part, Verdict, decide_difference

ACCURACY = Claim(
    "laclip-accuracy", "laclip",
    "LaCLIP models classify better zero-shot than CLIP models of the same data and architecture.",
    "tables 2 and 3", "majority", "checkpoints",
)  # fmt: skip
SILHOUETTE = Claim(
    "laclip-silhouette", "laclip",
    "LaCLIP models separate classes better (silhouette) than CLIP models of the same data and "
    "architecture.",
    "tables 2 and 3", "majority", "checkpoints",
)  # fmt: skip


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts, under the main protocol of the checkpoints."""
    tables = tables.of_protocol()
    return [_judge(tables, ACCURACY, "acc1"), _judge(tables, SILHOUETTE, "silhouette")]


def _judge(tables: Tables, claim: Claim, measure: str) -> Verdict:
    if not tables.study("laclip"):
        return Verdict(claim, verdicts.UNMEASURED, "the LaCLIP study was not run")
    scored_pairs = pairs(tables, measure)
    outcomes = [decide_difference(pair.difference)[0] for pair in scored_pairs]
    outcome, reason = decide_majority(outcomes)
    if outcome == verdicts.UNMEASURED:
        reason = "no CLIP and LaCLIP model of the same pre-training and architecture were measured"
        return Verdict(claim, outcome, reason)
    above, mean = gains(scored_pairs)
    paired = sum(pair.paired for pair in scored_pairs)
    return Verdict(
        claim,
        outcome,
        reason,
        scope=_scope(scored_pairs, measure),
        measured=f"{METHODS[1]} above {METHODS[0]} on {above} of {len(scored_pairs)}, by "
        f"{number(mean, 3, sign=True)} on average",
        published=_published(measure),
        sample=f"{count(len({p.clip.towers for p in scored_pairs}), 'pair')} of models, "
        f"{count(len({p.clip.evaluation_set for p in scored_pairs}), 'evaluation set')}",
        test=f"95 % intervals, {paired} of {len(scored_pairs)} paired by image, the others of "
        "independent numbers",
        parts=tuple(map(_part, scored_pairs, outcomes)),
        gap=_gap(scored_pairs),
    )


def gains(scored_pairs: Sequence[Pair]) -> tuple[int, float]:
    """Return the number of pairs in which LaCLIP is above CLIP, and its mean gain."""
    differences = [pair.difference.value for pair in scored_pairs]
    return sum(value > 0 for value in differences), sum(differences) / len(differences)


def _gap(scored_pairs: list[Pair]) -> str:
    comparable = [pair for pair in scored_pairs if math.isfinite(pair.published)]
    if not comparable:
        return ""
    measured = sum(pair.difference.value for pair in comparable) / len(comparable)
    printed = sum(pair.published for pair in comparable) / len(comparable)
    return gap(measured, printed, f"in the mean gain of the {len(comparable)} that were published")


def _scope(scored_pairs: list[Pair], measure: str) -> str:
    if measure == "silhouette":
        return "images alone, no protocol"
    names = {(pair.clip.protocol, pair.clip.metric) for pair in scored_pairs}
    return "; ".join(sorted(f"{protocol}, {metric}" for protocol, metric in names))


def _part(pair: Pair, outcome: verdicts.Outcome) -> Part:
    change = pair.difference
    hashed = f", {pair.clip.metric} {short(pair.clip.fingerprint)}" if pair.clip.protocol else ""
    text = (
        f"{number(pair.clip.value)} → {number(pair.laclip.value)}{hashed}: "
        f"{number(change.value, 3, sign=True)} ({interval(change.low, change.high, 3, sign=True)})"
    )
    return Part(pair.name, outcome, text)


def _published(measure: str) -> str:
    table = published().pivot_table(
        index=["pretraining", "dataset"], columns="method", values=COLUMNS[measure]
    )
    gaps = (table[METHODS[1]] - table[METHODS[0]]).dropna()
    return (
        f"above on {(gaps > 0).sum()} of {len(gaps)}, by {number(gaps.mean(), 3, sign=True)} on "
        "average"
    )


def decide_majority(outcomes: Sequence[verdicts.Outcome]) -> tuple[verdicts.Outcome, str]:
    """Judge a claim on many comparisons by how many of them support or contradict it."""
    total = len(outcomes)
    if not total:
        return verdicts.UNMEASURED, "nothing was compared"
    above, below = outcomes.count(verdicts.SUPPORTS), outcomes.count(verdicts.CONTRADICTS)
    reason = f"interval above zero on {above} of {total} comparisons, below zero on {below}"
    if 3 * above >= 2 * total:
        return verdicts.SUPPORTS, reason
    return (verdicts.CONTRADICTS if 3 * below >= 2 * total else verdicts.UNDECIDED), reason
