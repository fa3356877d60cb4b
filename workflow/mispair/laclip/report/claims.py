"""The paper's claims on LaCLIP checkpoints, judged on the tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mispair.core.words import count, interval, number
from mispair.evaluation.report.checkpoints import COLUMNS, METHODS, Pair, pairs, stated
from mispair.evaluation.report.protocols import short
from mispair.evaluation.set_names import canonical
from mispair.image_text.report.claims_schemes import effect_text
from mispair.report import published, verdicts
from mispair.report.gaps import gap
from mispair.report.statistics import Effect, effect_of_mean
from mispair.report.tables import Tables, records
from mispair.report.verdicts import Claim, Control, Part, Verdict, decide_difference

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
OVERLAP = Claim(
    "laclip-overlap", "laclip",
    "The neurons of LaCLIP models overlap less (lower mean |cos|) than those of CLIP models of the "
    "same data and architecture.",
    "sections 1 and 5.2", "pairs of models", "checkpoints",
)  # fmt: skip


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts: on scores under the main protocol of the checkpoints, and on overlap."""
    scored = tables.of_protocol()
    return [
        _scores(scored, ACCURACY, "acc1"),
        _scores(scored, SILHOUETTE, "silhouette"),
        _overlap(tables, confidence),
    ]


def _unmeasured(tables: Tables, claim: Claim) -> Verdict:
    reason = "no CLIP and LaCLIP model of the same pre-training and architecture were measured"
    if not tables.study("laclip"):
        reason = "the LaCLIP study was not run"
    return Verdict(claim, verdicts.UNMEASURED, reason)


def _scores(tables: Tables, claim: Claim, measure: str) -> Verdict:
    scored_pairs = pairs(tables, measure)
    if not scored_pairs:
        return _unmeasured(tables, claim)
    outcomes = [decide_difference(pair.difference)[0] for pair in scored_pairs]
    outcome, reason = decide_majority(outcomes)
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
    table = published.checkpoints().pivot_table(
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


@dataclass(frozen=True)
class OverlapPair:
    """Mean |cos| of a tower of a CLIP and of a LaCLIP model of the same data and architecture."""

    name: str
    clip: float
    laclip: float

    @property
    def difference(self) -> float:
        """LaCLIP − CLIP."""
        return self.laclip - self.clip


def overlap_pairs(tables: Tables, tower: str) -> list[OverlapPair]:
    """Return every CLIP model next to the LaCLIP model of the same data and architecture."""
    table = tables.checkpoints
    rows = table[(table["metric"] == "mean_abs_cosine") & (table["tower"] == tower)]
    by_kind: dict[tuple[str, str], dict[str, float]] = {}
    for row in records(rows.sort_values("towers", kind="stable")):
        kind = (stated(row["pretraining"]), stated(row["architecture"]))
        method = canonical(stated(row["method"]))
        by_kind.setdefault(kind, {}).setdefault(method, float(row["value"]))
    clip, laclip = map(canonical, METHODS)
    return [
        OverlapPair(" ".join(kind), values[clip], values[laclip])
        for kind, values in sorted(by_kind.items())
        if clip in values and laclip in values
    ]


def _overlap(tables: Tables, confidence: float) -> Verdict:
    """Judge the overlap of LaCLIP's neurons, over pairs of models."""
    model_pairs = overlap_pairs(tables, "text")
    if not model_pairs:
        return _unmeasured(tables, OVERLAP)
    effect = _effect(model_pairs, confidence)
    curve = published.purity()["mean_abs_cosine"]
    smallest = float(curve.iloc[1] - curve.iloc[0]) / 3  # of the rise from C_m 0 to 0.1
    outcome, reason = verdicts.decide_effect(effect, -1, smallest, 1 - confidence)
    below = sum(pair.difference < 0 for pair in model_pairs)
    parts = tuple(
        Part(pair.name, _direction(pair, smallest),
             f"{number(pair.clip, 4)} → {number(pair.laclip, 4)}: "
             f"{number(pair.difference, 4, sign=True)}")
        for pair in model_pairs
    )  # fmt: skip
    return Verdict(
        OVERLAP, outcome, reason,
        scope="text projection",
        measured=f"{METHODS[1]} below {METHODS[0]} in {below} of {len(model_pairs)}, by "
        f"{number(-effect.value, 4, sign=True)} on average",
        published="predicted, not measured",
        sample=f"{count(len(model_pairs), 'pair')} of models, one training of each",
        test=f"LaCLIP − CLIP {effect_text(effect, 4)}",
        controls=(_image(tables, confidence),),
        parts=parts, effect=effect, smallest=smallest,
    )  # fmt: skip


def _effect(model_pairs: list[OverlapPair], confidence: float) -> Effect:
    return effect_of_mean([pair.difference for pair in model_pairs], confidence, "pair of models")


def _direction(pair: OverlapPair, smallest: float) -> verdicts.Outcome:
    """Judge one pair by its direction alone: measurements are exact, but trainings vary."""
    if abs(pair.difference) < smallest:
        return verdicts.ABSENT
    return verdicts.SUPPORTS if pair.difference < 0 else verdicts.CONTRADICTS


def _image(tables: Tables, confidence: float) -> Control:
    name = "The other tower"
    model_pairs = overlap_pairs(tables, "image")
    if not model_pairs:
        return Control(name, "not measured", "No image projection was measured.")
    effect = _effect(model_pairs, confidence)
    text = f"Image projection: LaCLIP − CLIP {effect_text(effect, 4)}."
    return Control(name, "does not limit" if effect.value < 0 else "limits", text)
