"""Overlap of neurons in CLIP and LaCLIP checkpoints; the paper predicts less in LaCLIP."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mispair.core.words import count, number
from mispair.evaluation.report.checkpoints import METHODS
from mispair.evaluation.set_names import canonical
from mispair.image_text.report.claims_schemes import effect_text
from mispair.report import published, verdicts
from mispair.report.statistics import Effect, effect_of_mean
from mispair.report.table import Table, or_dash
from mispair.report.tables import Tables, records
from mispair.report.verdicts import Claim, Control, Part, Verdict

OVERLAP = Claim(
    "laclip-overlap", "laclip",
    "The neurons of LaCLIP models overlap less (lower mean |cos|) than those of CLIP models of the "
    "same data and architecture.",
    "sections 1 and 5.2", "pairs of models", "checkpoints",
)  # fmt: skip
SECTION = "Overlap of neurons"
TOWERS = ("text", "image")


@dataclass(frozen=True)
class OverlapPair:
    """Mean |cos| of a tower of a CLIP and of a LaCLIP model of the same data and architecture."""

    name: str
    tower: str
    clip: float
    laclip: float

    @property
    def difference(self) -> float:
        """LaCLIP − CLIP."""
        return self.laclip - self.clip


def overlaps(tables: Tables, metric: str = "mean_abs_cosine") -> dict[tuple[str, str], float]:
    """Return a measure of overlap of every checkpoint by its name and tower."""
    rows = tables.checkpoints[tables.checkpoints["metric"] == metric].dropna(subset=["tower"])
    return {(str(row["towers"]), str(row["tower"])): float(row["value"]) for row in records(rows)}


def overlap_pairs(tables: Tables, tower: str) -> list[OverlapPair]:
    """Return every CLIP model next to the LaCLIP model of the same data and architecture."""
    table = tables.checkpoints
    rows = table[(table["metric"] == "mean_abs_cosine") & (table["tower"] == tower)]
    by_kind: dict[tuple[str, str], dict[str, float]] = {}
    for row in records(rows.sort_values("towers", kind="stable")):
        kind = (_words(row["pretraining"]), _words(row["architecture"]))
        method = canonical(_words(row["method"]))
        by_kind.setdefault(kind, {}).setdefault(method, float(row["value"]))
    clip, laclip = map(canonical, METHODS)
    return [
        OverlapPair(" ".join(kind), tower, values[clip], values[laclip])
        for kind, values in sorted(by_kind.items())
        if clip in values and laclip in values
    ]


def _words(value: object) -> str:
    return value if isinstance(value, str) else "not stated"


def smallest_effect() -> float:
    """Return a third of the published rise of mean |cos| from C_m 0 to 0.1."""
    curve = published.purity()["mean_abs_cosine"]
    return float(curve.iloc[1] - curve.iloc[0]) / 3


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdict on the overlap of LaCLIP's neurons, over pairs of models."""
    if not tables.study("laclip"):
        return [Verdict(OVERLAP, verdicts.UNMEASURED, "the LaCLIP study was not run")]
    pairs = overlap_pairs(tables, "text")
    if not pairs:
        reason = "no CLIP and LaCLIP model of the same pre-training and architecture were measured"
        return [Verdict(OVERLAP, verdicts.UNMEASURED, reason)]
    effect = _effect(pairs, confidence)
    smallest = smallest_effect()
    outcome, reason = verdicts.decide_effect(effect, -1, smallest, 1 - confidence)
    below = sum(pair.difference < 0 for pair in pairs)
    parts = tuple(
        Part(pair.name, _direction(pair, smallest),
             f"{number(pair.clip, 4)} → {number(pair.laclip, 4)}: "
             f"{number(pair.difference, 4, sign=True)}")
        for pair in pairs
    )  # fmt: skip
    return [
        Verdict(
            OVERLAP, outcome, reason,
            scope="text projection",
            measured=f"{METHODS[1]} below {METHODS[0]} in {below} of {len(pairs)}, by "
            f"{number(-effect.value, 4, sign=True)} on average",
            published="predicted, not measured",
            sample=f"{count(len(pairs), 'pair')} of models, one training of each",
            test=f"LaCLIP − CLIP {effect_text(effect, 4)}",
            controls=(_image(tables, confidence),),
            parts=parts, effect=effect, smallest=smallest,
        )
    ]  # fmt: skip


def _effect(pairs: list[OverlapPair], confidence: float) -> Effect:
    return effect_of_mean([pair.difference for pair in pairs], confidence, "pair of models")


def _direction(pair: OverlapPair, smallest: float) -> verdicts.Outcome:
    """Judge one pair by its direction alone: measurements are exact, but trainings vary."""
    if abs(pair.difference) < smallest:
        return verdicts.ABSENT
    return verdicts.SUPPORTS if pair.difference < 0 else verdicts.CONTRADICTS


def _image(tables: Tables, confidence: float) -> Control:
    name = "The other tower"
    pairs = overlap_pairs(tables, "image")
    if not pairs:
        return Control(name, "not measured", "No image projection was measured.")
    effect = _effect(pairs, confidence)
    text = f"Image projection: LaCLIP − CLIP {effect_text(effect, 4)}."
    return Control(name, "does not limit" if effect.value < 0 else "limits", text)


def table(tables: Tables) -> Table:
    """Return mean |cos| of both towers of every checkpoint next to that of random directions."""
    labels = tables.checkpoints.drop_duplicates("towers").set_index("towers")
    measured, random, rank = (
        overlaps(tables, metric)
        for metric in ("mean_abs_cosine", "random_reference", "participation_ratio")
    )
    names = sorted({name for name, _ in measured})
    columns = ((measured, 4), (random, 4), (rank, 1))
    rows = tuple(
        (
            name,
            *(
                _words(labels.loc[name, label])
                for label in ("pretraining", "method", "architecture")
            ),
            *(
                or_dash(values.get((name, tower), math.nan), digits)
                for tower in TOWERS
                for values, digits in columns
            ),
        )
        for name in names
    )
    return Table(
        "Overlap of neurons in the checkpoints’ own projections",
        ("name", "pre-training", "method", "architecture", "text: mean |cos|",
         "of random directions", "participation ratio", "image: mean |cos|", "of random directions",
         "participation ratio"),
        rows,
        "Neurons are the columns of the final projections. The paper predicts lower values for "
        "LaCLIP. A low mean |cos| means a flat spectrum of the projection, not that single neurons "
        "follow single features.",
        section=SECTION,
    )  # fmt: skip
