"""What carries the effects of shuffling: the same change in every control of the fine-tuning."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import listing, number
from mispair.evaluation.report.protocols import protocol_phrase
from mispair.evaluation.report.series import (
    Carried,
    carried,
    change,
    ends,
    purity_series,
    run_trend,
    scale_series,
    zeroshot_series,
)
from mispair.image_text.report.contrasts import change_of_score
from mispair.report import style
from mispair.report.table import Table, or_dash
from mispair.report.tables import Tables
from mispair.report.verdicts import trend_words
from mispair.towers.arms import RANDOM_STARTS

SECTION = "What carries the effect"

TESTED = {
    "scale-converged": "the frozen logit scale",
    "reinitialised-small": "the pre-trained start",
    "without-decay": "weight decay",
}
"""What each control takes away."""

MEANS = {
    "keeps": "does not need",
    "weakens": "rests in part on",
    "removes": "rests on",
    "reverses": "turns round without",
}

MEASURES = (
    ("text", "mean_abs_cosine", 4), ("image", "mean_abs_cosine", 4),
    ("text", "mean_abs_correlation", 4), ("image", "mean_abs_correlation", 4),
    ("text", "participation_ratio", 1), ("image", "participation_ratio", 1),
)  # fmt: skip

EFFECTS = {"overlap": ("overlap of text neurons", 4), "accuracy": ("accuracy", 3)}
"""What shuffling changes, with the digits that it is printed with."""

RULE = (
    "A control keeps an effect that changes in the same direction by at least two thirds of the "
    "pre-trained arms’ change, removes one below a third, reverses one of a third or more the "
    "other way, and weakens one in between. A random start is judged by |cos| or |correlation|, "
    "whichever keeps more."
)


def _effect(tables: Tables, start: str, effect: str) -> pd.DataFrame:
    if effect == "accuracy":
        return zeroshot_series(tables, start, "acc1")
    return purity_series(tables, start, "text", "mean_abs_cosine")


def controls(tables: Tables, alpha: float) -> Table | None:
    """Return the change with C_m of overlap, participation ratio and accuracy in every control."""
    tables = tables.of_scheme().of_protocol()
    main_changes = {effect: change(_effect(tables, "pretrained", effect)) for effect in EFFECTS}
    if not any(math.isfinite(value) for value in main_changes.values()):
        return None
    run = {*tables.purity["start"], *tables.zeroshot["start"]}
    starts = [start for start in (*style.FINE_TUNED, *style.SCALES) if start in run]
    rows = [_row(tables, start, alpha) for start in starts]
    rows += [_rotated(tables, main_changes["overlap"], alpha), _fine_tuning_alone(tables)]
    low, high, *_ = ends(_effect(tables, "pretrained", "overlap"))
    swept = f" from C_m {low:g} to {high:g}" if math.isfinite(low) else ""
    return Table(
        f"Change{swept} in every control arm",
        ("arm", "text |cos|", "image |cos|", "text |correlation|", "image |correlation|",
         "participation ratio, text", "participation ratio, image", "accuracy",
         "logit scale at the highest C_m", "cosine gap × scale there", "text |cos|: trend",
         "accuracy: trend", "text |cos|: the control …", "accuracy: the control …"),
        tuple(rows),
        f"{' '.join(sentences(tables, alpha))} {RULE} "
        f"Accuracy: {protocol_phrase(tables)}; mean of sets.",
        section=SECTION,
    )  # fmt: skip


def exists(tables: Tables, effect: str, alpha: float) -> bool:
    """Return whether shuffling changes something from pre-trained projections: p ≤ α."""
    metric = "acc1" if effect == "accuracy" else effect
    moved = change_of_score(tables, metric, _effect(tables, "pretrained", effect), 1 - alpha)
    return moved.known and moved.p <= alpha


def fate(tables: Tables, start: str, effect: str) -> Carried:
    """Return what a control leaves of an effect of shuffling.

    For a random start, the larger of the shares in columns and in activations counts, because
    columns also hold what is left of the start.
    """
    main, moved = (change(_effect(tables, arm, effect)) for arm in ("pretrained", start))
    if effect == "overlap" and start in RANDOM_STARTS and main:
        by_activations = [
            change(purity_series(tables, arm, "text", "mean_abs_correlation"))
            for arm in ("pretrained", start)
        ]
        if all(math.isfinite(value) and value for value in by_activations):
            moved = main * max(moved / main, by_activations[1] / by_activations[0])
    return carried(main, moved)


def _row(tables: Tables, start: str, alpha: float) -> tuple[str, ...]:
    moved = [
        or_dash(change(purity_series(tables, start, tower, metric)), digits, sign=True)
        for tower, metric, digits in MEASURES
    ]
    series = {effect: _effect(tables, start, effect) for effect in EFFECTS}
    existing = {effect: exists(tables, effect, alpha) for effect in EFFECTS}
    left = [
        "(the effect)"
        if start == "pretrained" and existing[effect]
        else fate(tables, start, effect)
        if existing[effect]
        else "–"
        for effect in EFFECTS
    ]
    scale = scale_series(tables, start, "logit_scale")
    product = scale_series(tables, start, "gap_times_scale")
    return (
        style.START_WORDS[start], *moved, or_dash(change(series["accuracy"]), 3, sign=True),
        or_dash(ends(scale)[3], 1), or_dash(ends(product)[3], 2),
        *(trend_words(run_trend(series[effect]), alpha) for effect in EFFECTS), *left,
    )  # fmt: skip


def _rotated(tables: Tables, main_change: float, alpha: float) -> tuple[str, ...]:
    moved = [
        (change(purity_series(tables, "pretrained", tower, f"{metric}_rotated")), digits)
        for tower, metric, digits in MEASURES
    ]
    return (
        "from pre-trained, in randomly rotated bases",
        *(or_dash(value, digits, sign=True) for value, digits in moved),
        "the same", "the same", "the same", "–", "–",
        carried(main_change, moved[0][0]) if exists(tables, "overlap", alpha) else "–", "–",
    )  # fmt: skip


def _fine_tuning_alone(tables: Tables) -> tuple[str, ...]:
    """Return the effect of as many steps on unshuffled captions on the untouched model."""
    moved = [
        or_dash(_from_untouched(
            purity_series(tables, "untouched", tower, metric),
            purity_series(tables, "pretrained", tower, metric),
        ), digits, sign=True)
        for tower, metric, digits in MEASURES
    ]  # fmt: skip
    accuracy = _from_untouched(*(_effect(tables, start, "accuracy")
                                 for start in ("untouched", "pretrained")))  # fmt: skip
    name = "as many steps on unshuffled captions: C_m 0 − untouched"
    return (name, *moved, or_dash(accuracy, 3, sign=True), *"––––––")


def _from_untouched(untouched: pd.DataFrame, tuned: pd.DataFrame) -> float:
    low, _, first, _ = ends(tuned)
    return first - untouched["value"].mean() if low == 0 else math.nan


def sentences(tables: Tables, alpha: float) -> list[str]:
    """Return for both effects which controls keep, weaken, remove or reverse it."""
    texts = []
    for effect, (label, digits) in EFFECTS.items():
        main_change = change(_effect(tables, "pretrained", effect))
        if not math.isfinite(main_change):
            continue
        if not exists(tables, effect, alpha):
            texts.append(
                f"The {label} does not change beyond chance from pre-trained projections, so no "
                "control has an effect to carry."
            )
            continue
        by_fate: dict[str, list[str]] = {}
        for start, what in TESTED.items():
            by_fate.setdefault(fate(tables, start, effect), []).append(what)
        clauses = [f"{MEANS[left]} {listing(by_fate[left])}" for left in MEANS if left in by_fate]
        if missing := by_fate.get("not measured"):
            clauses.append(f"was not tested for {listing(missing)}")
        direction = "rise" if main_change > 0 else "fall"
        texts.append(
            f"The {direction} of the {label} ({number(main_change, digits, sign=True)}) "
            f"{'; it '.join(clauses)}."
        )
    return texts
