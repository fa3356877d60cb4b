"""The paper's claims on pruning, judged on a model whose own basis is better than a random one.

A ranking of neurons by purity presupposes neurons that differ from arbitrary directions. If the
model's own basis follows the known features no better than its random rotations, such a ranking
orders arbitrary directions, and its result neither supports nor contradicts the claims on pruning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from mispair.core.words import count, interval, number
from mispair.evaluation.report.claims_construct import (
    SMALLEST_GAIN,
    own_basis_better_than_random,
    own_basis_is_better,
)
from mispair.evaluation.report.protocols import base_arm, named, of_metric, protocol_phrase
from mispair.evaluation.report.series import SMALL, above_chance
from mispair.report import published, verdicts
from mispair.report.corrections import holm
from mispair.report.gaps import gap
from mispair.report.statistics import (
    Effect,
    Interval,
    effect_of_estimate,
    prediction_interval,
    unknown_effect,
)
from mispair.report.tables import Tables, mean_by
from mispair.report.verdicts import Claim, Control, Part, Verdict

MASKED, RENORMALISED = "masked", "renormalised"
"""Embeddings with k neurons: masked as in the authors' code, or normalised again after that."""

BASELINES = {"variance": "activation variance", "norm": "column norm"}
"""Properties that rank neurons instead of purity: strategies high-… and low-…."""

RANKINGS = {"image": "Ranked by the image projection", "both": "Ranked by both projections"}
"""Other rankings by purity, as controls."""

OF_INTEREST = 1 / 3
"""Share of the published difference in accuracy that is the smallest effect of interest."""

SMALLEST_SILHOUETTE = 0.01
"""Smallest effect of interest on silhouettes: the difference from which published and measured
ones count as different. Their order is published in words only."""

REASON = "cannot be tested here"
TOWER = "text"
"""The tower whose neurons the claims rank."""

ACCURACY = Claim(
    "pruning-accuracy", "image_text",
    "Keeping high-purity neurons gives the best accuracy, random ones less, low-purity least.",
    "figures 2(a-c) and 8", "order", "pruning", primary=True,
)  # fmt: skip
SILHOUETTE = Claim(
    "pruning-silhouette", "image_text",
    "Keeping high-purity neurons gives the best silhouette, random ones less, low-purity least.",
    "figures 2(e-g) and 8", "order", "pruning",
)  # fmt: skip


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts under the main scheme and protocol, masked as the authors' code does.

    The silhouette is the same for renormalised embeddings: cosines do not depend on lengths.
    The verdicts are undecided if this model cannot test the claims. They stay if the true features
    are unknown: then the basis cannot be judged.
    """
    pruned = tables.of_scheme().of_protocol()
    judged = [
        _pruning(pruned, ACCURACY, "acc1", confidence),
        _pruning(pruned, SILHOUETTE, "silhouette", confidence),
    ]
    if own_basis_is_better(tables, TOWER, confidence) is not False:
        return judged
    gain = own_basis_better_than_random(tables, TOWER, confidence)
    reason = (
        f"{REASON}: the model’s own basis follows the known features no better than random ones "
        f"(mean |r| with the best feature, own − rotated, {number(gain.value, sign=True)}, "
        f"{interval(gain.low, gain.high, sign=True)}; at least {number(SMALLEST_GAIN, 2)} would "
        "be an advantage), so a ranking by purity orders arbitrary directions"
    )
    return [
        verdict
        if verdict.outcome == verdicts.UNMEASURED
        else replace(verdict, outcome=verdicts.UNDECIDED, reason=reason)
        for verdict in judged
    ]


def pruned_arm(table: pd.DataFrame, normalised: str = MASKED) -> pd.DataFrame:
    """Return the pruned arm that claims are judged on: the untouched model, if it was pruned.

    Its embeddings are masked, or also renormalised.
    """
    table = table[table["normalised"].fillna(MASKED) == normalised]
    return base_arm(table)


def in_own_basis(table: pd.DataFrame) -> pd.Series:
    """Return which rows are of the model's own basis, not of a rotated one."""
    return table["basis"].fillna("original") == "original"


def ranked_by_tower(table: pd.DataFrame, tower: str) -> pd.Series:
    """Return which rows are ranked by a tower, or drawn at random."""
    return (table["ranked_by"] == tower) | (table["strategy"] == "random")


def kept_below_full(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out the largest k if all strategies agree there: then nothing was pruned."""
    if table.empty:
        return table
    largest = table[table["k"] == table["k"].max()]
    spread = largest.groupby(["evaluation_set", "seed", "metric"], dropna=False)["value"]
    nothing_pruned = (spread.max() - spread.min()).fillna(0).max() < 1e-6
    return table[table["k"] < table["k"].max()] if nothing_pruned else table


def strategy_scores(
    table: pd.DataFrame, metric: str, basis: str = "original", ranked_by: str = "text"
) -> pd.DataFrame:
    """Return strategy, draw and mean score over sets, seeds and k, in the own or rotated bases.

    Evaluation sets with a missing score do not count.
    """
    rows = table[table["metric"] == metric]
    rows = rows[in_own_basis(rows) == (basis == "original")]
    rows = rows[ranked_by_tower(rows, ranked_by)]
    gaps = rows.groupby("evaluation_set")["value"].apply(lambda values: values.isna().any())
    rows = rows[~rows["evaluation_set"].isin(gaps.index[gaps.astype(bool)])]
    return mean_by(rows, ["strategy", "draw"])


def order_of(scores: pd.DataFrame, confidence: float) -> tuple[float, float, Interval]:
    """Return the scores of high-purity and low-purity, and the interval of the random draws."""
    means = scores.groupby("strategy")["value"].mean()
    random = prediction_interval(
        scores.loc[scores["strategy"] == "random", "value"].tolist(), confidence
    )
    return means.get("high-purity", math.nan), means.get("low-purity", math.nan), random


def spread(scores: pd.DataFrame, confidence: float) -> Effect:
    """Return high-purity − low-purity, with the error of the difference of two random draws.

    If purity did not matter, the two would be two more draws of k neurons: their difference has
    twice the variance of one draw, with the degrees of freedom of the draws.
    """
    means = scores.groupby("strategy")["value"].mean()
    draws = scores.loc[scores["strategy"] == "random", "value"].dropna()
    value = float(means.get("high-purity", math.nan) - means.get("low-purity", math.nan))
    if len(draws) < 2:
        value = value if len(draws) else math.nan
        return unknown_effect(value, len(draws), "random draw")
    error = math.sqrt(2) * float(draws.std(ddof=1))
    return effect_of_estimate(value, error, len(draws) - 1, len(draws), confidence, "random draw")


def smallest(metric: str) -> float:
    """Return the smallest effect of interest on high-purity − low-purity."""
    return OF_INTEREST * abs(_published_spread()) if metric == "acc1" else SMALLEST_SILHOUETTE


def decide_order(
    scores: pd.DataFrame, metric: str, confidence: float
) -> tuple[verdicts.Outcome, str]:
    """Judge the claimed order high-purity > random > low-purity against the spread of draws."""
    high, low, random = order_of(scores, confidence)
    effect = spread(scores, confidence)
    if not math.isfinite(effect.value):
        return verdicts.UNMEASURED, "one of the three strategies was not measured"
    outcome, reason = verdicts.decide_effect(effect, +1, smallest(metric), 1 - confidence)
    if outcome == verdicts.SUPPORTS and not low < random.value < high:
        return verdicts.UNDECIDED, f"{reason}, but random neurons are not between the two"
    return outcome, reason


def _order_text(high: float, low: float, random: Interval) -> str:
    return f"high-purity {number(high)}, random {number(random.value)}, low-purity {number(low)}"


def _pruning(tables: Tables, claim: Claim, metric: str, confidence: float) -> Verdict:
    table = tables.pruning
    arm = kept_below_full(pruned_arm(table))
    scores = strategy_scores(arm, metric)
    high, low, random = order_of(scores, confidence)
    outcome, reason = decide_order(scores, metric, confidence)
    if outcome == verdicts.UNMEASURED:
        missing = "no arm was pruned" if table.empty else reason
        return Verdict(claim, outcome, missing)
    parts = []
    for name, set_rows in arm.groupby("evaluation_set"):
        of_set = strategy_scores(set_rows, metric)
        part, why = decide_order(of_set, metric, confidence)
        by = f" ({named(of_metric(tables, metric, str(name)))})" if metric == "acc1" else ""
        text = _order_text(*order_of(of_set, confidence))
        parts.append(Part(str(name), part, f"{text}{by}; {why}", spread(of_set, confidence).p))
    outcome, reason = decide_sets(outcome, parts, reason, 1 - confidence)
    if above_chance(tables) is False:
        outcome, reason = verdicts.UNDECIDED, "the model classifies no better than chance"
    effect = spread(scores, confidence)
    draws, ks = random.n, arm["k"].nunique()
    renormalised = strategy_scores(kept_below_full(pruned_arm(table, RENORMALISED)), metric)
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"{_arm_name(arm)}, ranked by the text projection"
        + (f"; {protocol_phrase(tables)}" if metric == "acc1" else ""),
        measured=_order_text(high, low, random),
        published=_published_order() if metric == "acc1" else "in words: the same order",
        sample=f"{count(draws, 'random draw')}, {count(ks, 'value')} of k, "
        f"{count(arm['evaluation_set'].nunique(), 'evaluation set')}, one model",
        test=f"high − low {verdicts.effect_text(effect, confidence)}; "
        f"{100 * confidence:g} % prediction interval of one draw: "
        f"{number(random.low)} to {number(random.high)}",
        effect=effect,
        smallest=smallest(metric),
        controls=(
            *(
                _same_order(
                    name, strategy_scores(arm, metric, ranked_by=tower), metric, outcome, confidence
                )
                for tower, name in RANKINGS.items()
            ),
            _rotated_order(arm, metric, high - low, confidence),
            *(_baseline(arm, metric, high - low, name) for name in BASELINES),
            *(
                [_same_order("Renormalised embeddings", renormalised, metric, outcome, confidence)]
                if metric == "acc1"
                else []
            ),
        ),
        parts=tuple(parts),
        gap=gap(high - low, _published_spread(), "in high − low") if metric == "acc1" else "",
    )


def _arm_name(arm: pd.DataFrame) -> str:
    start = str(arm["start"].iloc[0])
    rate = arm["rate"].iloc[0]
    return "untouched model" if start == "untouched" else f"{start} projections at C_m {rate:g}"


def _published_means() -> pd.Series:
    return published.pruning().groupby("strategy")["accuracy"].mean()


def _published_spread() -> float:
    means = _published_means()
    return float(means["high-purity"] - means["low-purity"])


def _published_order() -> str:
    means = _published_means()
    return (
        f"high-purity {number(means['high-purity'])}, random {number(means['random'])}, "
        f"low-purity {number(means['low-purity'])} (CIFAR-10, one draw)"
    )


def _same_order(
    name: str, scores: pd.DataFrame, metric: str, outcome: verdicts.Outcome, confidence: float
) -> Control:
    """Return the control that judges the claim on other scores."""
    other_outcome, why = decide_order(scores, metric, confidence)
    if other_outcome == verdicts.UNMEASURED:
        return Control(name, "not measured", "This was not measured.")
    text = f"{_order_text(*order_of(scores, confidence))}: {why}."
    return Control(name, "does not limit" if other_outcome == outcome else "limits", text)


def _rotated_order(arm: pd.DataFrame, metric: str, gap: float, confidence: float) -> Control:
    name = "Rotated bases"
    scores = strategy_scores(arm, metric, basis="rotated")
    order = order_of(scores, confidence)
    if decide_order(scores, metric, confidence)[0] == verdicts.UNMEASURED:
        return Control(name, "not measured", "No rotated basis was pruned.")
    high, low, _ = order
    same = (high - low) * gap > 0 and abs(high - low) >= SMALL * abs(gap)
    text = f"In rotated bases: {_order_text(*order)}"
    text += (
        ". The order is the same where neurons are arbitrary directions, so it is no property of "
        "the model's own neurons."
        if same
        else ". The order of the model's own basis is not found there."
    )
    return Control(name, "limits" if same else "does not limit", text)


def _baseline(arm: pd.DataFrame, metric: str, gap: float, baseline: str) -> Control:
    label = BASELINES[baseline]
    name = f"Ranked by {label}"
    means = strategy_scores(arm, metric).groupby("strategy")["value"].mean()
    ends = [f"high-{baseline}", f"low-{baseline}"]
    if not set(ends) <= set(means.index):
        return Control(name, "not measured", f"No ranking by {label} was measured.")
    high, low = (means[end] for end in ends)
    stronger = abs(high - low) >= abs(gap)
    text = (
        f"Keeping the neurons of the highest {label} gives {number(high)}, of the lowest "
        f"{number(low)}"
    )
    text += (
        ": this separates neurons at least as well as purity does."
        if stronger
        else ": this separates neurons less than purity does."
    )
    return Control(name, "limits" if stronger else "does not limit", text)


def decide_sets(
    whole: verdicts.Outcome, parts: Sequence[Part], reason: str, alpha: float = 0.05
) -> tuple[verdicts.Outcome, str]:
    """Add the evaluation sets that contradict a claim on their mean to its reason.

    The claim is on the mean, so no set vetoes it. A set goes against the claim if it contradicts
    it and its p value, corrected by Holm's procedure over the sets, is at most α.
    """
    tested = [part for part in parts if math.isfinite(part.p)]
    corrected = holm([part.p for part in tested])
    against = [
        part.name
        for part, p in zip(tested, corrected, strict=True)
        if part.outcome == verdicts.CONTRADICTS and p <= alpha
    ]
    if not against:
        return whole, reason
    return whole, (
        f"{reason}; the sets differ: {', '.join(against)} goes against the claim "
        f"(corrected for {count(len(tested), 'set')})"
    )
