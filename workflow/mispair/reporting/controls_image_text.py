"""What carries the effects of shuffling: the same change in every control of the fine-tuning."""

from __future__ import annotations

import math
from typing import Literal

import pandas as pd

from mispair.reporting import style
from mispair.reporting.comparison import Table, or_dash
from mispair.reporting.protocols import said
from mispair.reporting.series import (
    LARGE,
    SMALL,
    change,
    ends,
    purity_series,
    run_trend,
    zeroshot_series,
)
from mispair.reporting.tables import Tables
from mispair.reporting.verdicts import trend_words
from mispair.reporting.words import listing, number

SECTION = "What carries the effect"

Carried = Literal["keeps", "weakens", "removes", "reverses", "not measured"]

TESTED = {
    "scale-converged": "the frozen logit scale",
    "reinitialised": "the pre-trained start",
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
    ("text", "participation_ratio", 1), ("image", "participation_ratio", 1),
)  # fmt: skip

EFFECTS = {"overlap": ("overlap of text neurons", 4), "accuracy": ("accuracy", 3)}
"""What shuffling changes, with the digits that it is printed with."""

RULE = (
    "A control keeps an effect that changes in the same direction by at least two thirds of the "
    "pre-trained arms’ change, removes one below a third, reverses one of a third or more the "
    "other way, and weakens one in between."
)


def carried(own: float, there: float) -> Carried:
    """Tell what a control leaves of an effect.

    Examples
    --------
    >>> carried(0.03, 0.03), carried(0.03, 0.015), carried(0.03, 0.001), carried(0.03, -0.02)
    ('keeps', 'weakens', 'removes', 'reverses')
    """
    if not (math.isfinite(own) and math.isfinite(there)) or own == 0:
        return "not measured"
    share = there / own
    if share >= LARGE:
        return "keeps"
    if share <= -SMALL:
        return "reverses"
    return "weakens" if share >= SMALL else "removes"


def _effect(tables: Tables, start: str, effect: str) -> pd.DataFrame:
    if effect == "accuracy":
        return zeroshot_series(tables, start, "acc1")
    return purity_series(tables, start, "text", "mean_abs_cosine")


def controls(tables: Tables, alpha: float) -> Table | None:
    """Return the change with C_m of overlap, participation ratio and accuracy in every control."""
    tables = tables.of_scheme().of_protocol()
    own = {effect: change(_effect(tables, "pretrained", effect)) for effect in EFFECTS}
    if not any(math.isfinite(value) for value in own.values()):
        return None
    rows = [_row(tables, start, own, alpha) for start in (*style.FINE_TUNED, *style.SCALES)]
    rows += [_rotated(tables, own["overlap"]), _fine_tuning_alone(tables)]
    low, high, *_ = ends(_effect(tables, "pretrained", "overlap"))
    swept = f" from C_m {low:g} to {high:g}" if math.isfinite(low) else ""
    return Table(
        f"Change{swept} in every control arm",
        ("arm", "text |cos|", "image |cos|", "participation ratio, text",
         "participation ratio, image", "accuracy", "text |cos|: trend", "accuracy: trend",
         "text |cos|: the control …", "accuracy: the control …"),
        tuple(rows),
        f"{' '.join(sentences(tables, alpha))} {RULE} Accuracy: {said(tables)}; mean of sets.",
        section=SECTION,
    )  # fmt: skip


def _row(tables: Tables, start: str, own: dict[str, float], alpha: float) -> tuple[str, ...]:
    moved = [
        or_dash(change(purity_series(tables, start, tower, metric)), digits, sign=True)
        for tower, metric, digits in MEASURES
    ]
    series = {effect: _effect(tables, start, effect) for effect in EFFECTS}
    left = [
        "(the effect)" if start == "pretrained" else carried(own[effect], change(series[effect]))
        for effect in EFFECTS
    ]
    return (
        style.START_WORDS[start], *moved, or_dash(change(series["accuracy"]), 3, sign=True),
        *(trend_words(run_trend(series[effect]), alpha) for effect in EFFECTS), *left,
    )  # fmt: skip


def _rotated(tables: Tables, own: float) -> tuple[str, ...]:
    moved = [
        (change(purity_series(tables, "pretrained", tower, f"{metric}_rotated")), digits)
        for tower, metric, digits in MEASURES
    ]
    return (
        "from pre-trained, in randomly rotated bases",
        *(or_dash(value, digits, sign=True) for value, digits in moved),
        "the same", "–", "–", carried(own, moved[0][0]), "–",
    )  # fmt: skip


def _fine_tuning_alone(tables: Tables) -> tuple[str, ...]:
    """Return what as many steps on unshuffled captions do to the untouched model."""
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
    return (name, *moved, or_dash(accuracy, 3, sign=True), "–", "–", "–", "–")


def _from_untouched(untouched: pd.DataFrame, tuned: pd.DataFrame) -> float:
    low, _, first, _ = ends(tuned)
    return first - untouched["value"].mean() if low == 0 else math.nan


def sentences(tables: Tables, alpha: float) -> list[str]:
    """Return for both effects which controls keep, weaken, remove or reverse it."""
    found = []
    for effect, (words, digits) in EFFECTS.items():
        series = _effect(tables, "pretrained", effect)
        own, trend = change(series), run_trend(series)
        if not math.isfinite(own):
            continue
        if not min(trend.p_rise, trend.p_fall) <= alpha:
            found.append(
                f"The {words} shows no trend with C_m from pre-trained projections, so no control "
                "has an effect to carry."
            )
            continue
        by_fate: dict[str, list[str]] = {}
        for start, what in TESTED.items():
            fate = carried(own, change(_effect(tables, start, effect)))
            by_fate.setdefault(fate, []).append(what)
        clauses = [f"{MEANS[fate]} {listing(by_fate[fate])}" for fate in MEANS if fate in by_fate]
        if missing := by_fate.get("not measured"):
            clauses.append(f"was not tested for {listing(missing)}")
        direction = "rise" if own > 0 else "fall"
        found.append(
            f"The {direction} of the {words} ({number(own, digits, sign=True)}) "
            f"{'; it '.join(clauses)}."
        )
    return found
