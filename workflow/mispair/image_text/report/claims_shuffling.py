"""The paper's claims on shuffled captions, judged on the tables."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import count, number
from mispair.evaluation.report.claims_pruning import decide_sets
from mispair.evaluation.report.protocols import named, of_metric, protocol_phrase
from mispair.evaluation.report.series import (
    SMALL,
    above_chance,
    change,
    ends_text,
    purity_series,
    run_trend,
    sample,
    why_missing,
    zeroshot_series,
)
from mispair.image_text.report.contrasts import change_of_score
from mispair.image_text.report.controls_overlap import carried_control, untouched_control
from mispair.image_text.report.controls_overlap import controls as controls_of_overlap
from mispair.report import published, style, verdicts
from mispair.report.gaps import gap_of_change
from mispair.report.statistics import Effect, contrast
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Outcome, Part, Verdict
from mispair.towers.arms import CONVERGED, RANDOM_STARTS

OVERLAP = Claim(
    "overlap-rises", "image_text",
    "Neurons overlap more (their mean |cos| rises) the more captions are shuffled.",
    "figure 2(d), section 5.2", "contrast", "purity_by_shuffling", primary=True,
)  # fmt: skip
ACCURACY = Claim(
    "accuracy-falls", "image_text",
    "Zero-shot accuracy falls the more captions are shuffled.",
    "table 4", "sets", "accuracy_by_shuffling", primary=True,
)  # fmt: skip
SILHOUETTE = Claim(
    "silhouette-falls", "image_text",
    "The silhouette of the classes falls the more captions are shuffled.",
    "table 4", "sets", "silhouette_by_shuffling",
)  # fmt: skip

SHARE_OF_PUBLISHED = 1 / 3
"""The smallest effect of interest, as a share of the published one."""

CONTROLS_OF_SCORES = (CONVERGED, "reinitialised-small", "without-decay")
"""Arms whose accuracy and silhouette are compared with the claim's own."""


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on all claims under the main scheme of corruption and protocol."""
    tables = tables.of_scheme().of_protocol()
    return [
        _overlap(tables, confidence),
        _sets(tables, ACCURACY, "acc1", "accuracy", confidence),
        _sets(tables, SILHOUETTE, "silhouette", "silhouette", confidence),
    ]


def decide(
    tables: Tables, effect: Effect, sign: int, smallest: float, confidence: float
) -> tuple[Outcome, str]:
    """Judge an effect of shuffling by the rule of effects, for a model that is above chance."""
    outcome, reason = verdicts.decide_effect(effect, sign, smallest, 1 - confidence)
    if outcome != verdicts.UNMEASURED and above_chance(tables) is False:
        return verdicts.UNDECIDED, "the model classifies no better than chance at the lowest C_m"
    return outcome, reason


def exists(outcome: Outcome, effect: Effect, alpha: float) -> bool:
    """Return whether there is an effect that controls can keep or remove."""
    return outcome != verdicts.ABSENT and effect.known and effect.p <= alpha


def _overlap(tables: Tables, confidence: float) -> Verdict:
    series = purity_series(tables, "pretrained", "text", "mean_abs_cosine")
    effect = contrast(series, confidence)
    curve = published.purity().set_index("shuffle_probability")["mean_abs_cosine"]
    smallest = SHARE_OF_PUBLISHED * float(curve.iloc[-1] - curve.iloc[0])
    outcome, reason = decide(tables, effect, +1, smallest, confidence)
    if outcome == verdicts.UNMEASURED:
        return Verdict(OVERLAP, outcome, why_missing(tables, "pretrained", reason))
    is_there = exists(outcome, effect, 1 - confidence)
    return Verdict(
        OVERLAP,
        outcome,
        reason,
        scope="text projection, fine-tuned from the pre-trained one, logit scale frozen",
        measured=f"text |cos| {ends_text(series, 4)}",
        published=f"{number(curve.iloc[0], 4)} → {number(curve.iloc[-1], 4)} (CC3M, 512 neurons)",
        sample=sample(series),
        test=f"largest − lowest C_m {verdicts.effect_text(effect, confidence, 4)}; trend: "
        f"{verdicts.trend_text(run_trend(series))}",
        controls=controls_of_overlap(tables, series, confidence) if is_there else (),
        gap=gap_of_change(series.groupby("rate")["value"].mean(), curve, 4),
        effect=effect,
        smallest=smallest,
    )


# Accuracy and silhouette ------------------------------------------------------------------------


def _sets(tables: Tables, claim: Claim, metric: str, column: str, confidence: float) -> Verdict:
    series = zeroshot_series(tables, "pretrained", metric)
    effect = change_of_score(tables, metric, series, confidence)
    table = published.table4()
    means = table.groupby("shuffle_probability")[column].mean()
    smallest = SHARE_OF_PUBLISHED * float(means.iloc[0] - means.iloc[-1])
    whole, reason = decide(tables, effect, -1, smallest, confidence)
    if whole == verdicts.UNMEASURED:
        return Verdict(claim, whole, why_missing(tables, "pretrained", reason))
    rows = tables.zeroshot[tables.zeroshot["start"] == "pretrained"]
    names = sorted(rows.loc[rows["metric"] == metric, "evaluation_set"].dropna().unique())
    parts = []
    for name in names:
        part = zeroshot_series(tables, "pretrained", metric, name)
        of_set = change_of_score(tables, metric, part, confidence, name)
        outcome, why = verdicts.decide_effect(of_set, -1, smallest, 1 - confidence)
        by = f" ({named(of_metric(tables, metric, name))})" if metric == "acc1" else ""
        text = f"{ends_text(part)}{by}; {why}" if math.isfinite(change(part)) else why
        parts.append(Part(name, outcome, text, of_set.p))
    outcome, reason = decide_sets(whole, parts, reason, 1 - confidence)
    is_there = exists(whole, effect, 1 - confidence)
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"mean of {count(len(names), 'evaluation set')}, from pre-trained projections"
        + (f"; {protocol_phrase(tables)}" if metric == "acc1" else ""),
        measured=f"mean of sets {ends_text(series)}",
        published=f"{number(means.iloc[0])} → {number(means.iloc[-1])} "
        f"(mean of {table['dataset'].nunique()} other data sets, CC3M)",
        sample=sample(series),
        test=f"largest − lowest C_m {verdicts.effect_text(effect, confidence)}; trend: "
        f"{verdicts.trend_text(run_trend(series))}",
        controls=_controls_of_scores(tables, series, metric) if is_there else (),
        parts=tuple(parts),
        gap=gap_of_change(series.groupby("rate")["value"].mean(), means),
        effect=effect,
        smallest=smallest,
    )


def _controls_of_scores(tables: Tables, series: pd.DataFrame, metric: str) -> tuple[Control, ...]:
    untouched = zeroshot_series(tables, "untouched", metric)["value"].mean()
    return (
        untouched_control(series, untouched, "it", 3),
        _without_overlap(tables, series, metric),
        *(
            carried_control(
                style.START_WORDS[start].capitalize(), series,
                zeroshot_series(tables, start, metric), 3,
            )
            for start in CONTROLS_OF_SCORES
        ),
    )  # fmt: skip


def _without_overlap(tables: Tables, series: pd.DataFrame, metric: str) -> Control:
    """Return whether the score falls in arms in which the overlap of text neurons does not rise."""
    name = "Arms without a rise of overlap"
    rise = change(purity_series(tables, "pretrained", "text", "mean_abs_cosine"))
    falls: dict[str, float] = {}
    for start in (CONVERGED, *RANDOM_STARTS):
        moved = change(purity_series(tables, start, "text", "mean_abs_cosine"))
        fall = change(zeroshot_series(tables, start, metric))
        if math.isfinite(moved) and math.isfinite(fall) and abs(moved) < SMALL * abs(rise):
            falls[start] = fall
    if not falls:
        return Control(name, "not measured", "No arm keeps the overlap of text neurons.")
    listed = ", ".join(
        f"{style.START_WORDS[start]} {number(fall, 3, sign=True)}" for start, fall in falls.items()
    )
    same = any(fall / change(series) >= SMALL for fall in falls.values())
    text = f"Change of the score where text |cos| keeps below a third of its rise: {listed}."
    if same:
        text += " It falls without a rise of overlap, so it does not need one."
    return Control(name, "limits" if same else "does not limit", text)
