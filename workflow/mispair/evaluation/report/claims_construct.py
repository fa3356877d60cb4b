"""The claim behind all others: neurons of low mean |cos| follow one known feature."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
from scipy import stats

from mispair.core import seeds
from mispair.core.words import count, interval, listing, number
from mispair.evaluation.report.arm_words import where
from mispair.evaluation.report.series import TOWERS, why_missing
from mispair.evaluation.report.tables_semantics import MEASURES, measured_arm
from mispair.evaluation.semantics import ORIGINAL, ROTATED
from mispair.report import verdicts
from mispair.report.statistics import Effect, effect_of_estimate, unknown_effect
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Part, Verdict

SMALLEST = 0.2
"""Smallest rank correlation of interest. The paper gives no number; if mean |cos| measured purity
without error, ρ would be −1. At −0.2 the purer half of the neurons by |cos| holds 56 % of the
neurons above the median (1/2 + arcsin(0.2)/π): a weaker relation does not rank neurons."""

SMALLEST_GAIN = 0.02
"""Smallest advantage of interest of the model's own basis in mean |r| with the best feature: from
0.37, say, to 0.39, which raises the share of a neuron's variance that the feature explains by one
and a half points."""

RESAMPLES = 1_000
"""Bootstrap samples of the neurons."""

CONSTRUCT = Claim(
    "construct-validity", "image_text",
    "Neurons of low mean |cos| follow one feature: the lower it is, the more semantic purity and "
    "selectivity.",
    "sections 1 and 4", "construct", "semantic_purity", primary=True,
)  # fmt: skip


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdict on the claim, on the untouched model or the lowest C_m."""
    arm = measured_arm(tables)
    neurons = _neurons(arm)
    alpha = 1 - confidence
    effect = mean_rank_correlation(neurons, confidence)
    outcome, reason = verdicts.decide_effect(effect, -1, SMALLEST, alpha)
    if outcome == verdicts.UNMEASURED:
        reason = "no ground truth of the features was measured; `corpus: scenes` has it"
        return [Verdict(CONSTRUCT, outcome, why_missing(tables, "untouched", reason))]
    parts = []
    for (tower, measure), rho in neurons_by_part(neurons).items():
        part = fisher(rho, len(neurons), confidence)
        name = f"{MEASURES[measure]}, {tower} tower"
        part_outcome, why = verdicts.decide_effect(part, -1, SMALLEST, alpha)
        text = f"ρ = {number(rho, 2, sign=True)} ({interval(part.low, part.high, 2, sign=True)})"
        parts.append(Part(name, part_outcome, f"{text}; {why}"))
    return [
        Verdict(
            CONSTRUCT,
            outcome,
            reason,
            scope="one model, its own basis; mean of two measures and two towers",
            measured=f"mean Spearman ρ with |cos| {number(effect.value, 2, sign=True)}",
            published="assumed, without a number. At the smallest effect of interest, "
            f"ρ = −{SMALLEST:g}, the purer half by |cos| holds 56 % of the neurons above the "
            "median",
            sample=f"{count(effect.n, 'neuron')} of one model; other models are not tested",
            test=verdicts.effect_text(effect, confidence, 2),
            controls=(_rotated(arm), *_own_basis(tables, confidence)),
            parts=tuple(parts),
            effect=effect,
            smallest=SMALLEST,
        )
    ]


def _neurons(arm: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each neuron: overlap and both measures, by tower."""
    of_basis = arm[(arm["basis"] == ORIGINAL) & arm["neuron"].notna()]
    names = {"best_correlation": "semantic_purity", "selectivity": "selectivity"}
    of_basis = of_basis[of_basis["metric"].isin(names)]
    of_basis = of_basis.assign(metric=of_basis["metric"].map(names), value=of_basis["value"].abs())
    measured = of_basis.pivot_table(index="neuron", columns=["tower", "metric"], values="value")
    overlap = of_basis.pivot_table(index="neuron", columns="tower", values="overlap")
    overlap.columns = pd.MultiIndex.from_product([overlap.columns, ["overlap"]])
    return pd.concat([measured, overlap], axis=1).dropna()


def _pairs(neurons: pd.DataFrame) -> list[tuple[str, str]]:
    return [pair for pair in product(TOWERS, MEASURES) if pair in neurons.columns]


def neurons_by_part(neurons: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Return Spearman's ρ of overlap and measure by tower and measure."""
    ranks = {pair: stats.rankdata(neurons[pair].to_numpy()) for pair in [*neurons.columns]}
    return {
        (tower, measure): float(_correlation(ranks[tower, "overlap"], ranks[tower, measure]))
        for tower, measure in _pairs(neurons)
    }


def _correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return Pearson's correlation along the last axis; NaN where a side is constant."""
    a, b = (side - side.mean(axis=-1, keepdims=True) for side in (a, b))
    scale = np.sqrt((a**2).sum(axis=-1) * (b**2).sum(axis=-1))
    return np.where(scale > 0, (a * b).sum(axis=-1) / np.where(scale > 0, scale, 1), np.nan)


def mean_rank_correlation(neurons: pd.DataFrame, confidence: float) -> Effect:
    """Return the mean of Spearman's ρ over measures and towers, with neurons resampled.

    `neurons` has a row for each neuron, columns (tower, ``overlap``) and (tower, measure).
    Intervals are normal, with the bootstrap's standard error, on Fisher's z of the mean.
    """
    pairs, n = _pairs(neurons), len(neurons)
    values = [*neurons_by_part(neurons).values()]
    if n < 4 or not pairs or not np.isfinite(values).all():
        return unknown_effect(float(np.mean(values)) if pairs and n > 1 else math.nan, n, "neuron")
    draws = seeds.generator(0, "reporting", "construct").integers(n, size=(RESAMPLES, n))
    ranks = {
        pair: stats.rankdata(neurons[pair].to_numpy()[draws], axis=1) for pair in [*neurons.columns]
    }
    resampled = np.mean(
        [_correlation(ranks[tower, "overlap"], ranks[tower, name]) for tower, name in pairs], axis=0
    )
    spread = float(np.nanstd(np.arctanh(np.clip(resampled, -0.999999, 0.999999)), ddof=1))
    return _on_fisher_scale(float(np.mean(values)), spread, n, confidence)


def fisher(rho: float, n: int, confidence: float) -> Effect:
    """Return a single Spearman's ρ with intervals on Fisher's scale.

    The standard error is ``sqrt(1.06 / (n - 3))`` (Fieller, Hartley and Pearson 1957, Biometrika
    44, 470).
    """
    if n < 4 or not math.isfinite(rho):
        return unknown_effect(rho, n, "neuron")
    return _on_fisher_scale(rho, math.sqrt(1.06 / (n - 3)), n, confidence)


def _on_fisher_scale(rho: float, error: float, n: int, confidence: float) -> Effect:
    if not error > 0 or abs(rho) >= 1:
        return unknown_effect(rho, n, "neuron")
    p = float(2 * stats.norm.sf(abs(math.atanh(rho)) / error))
    return Effect(rho, error, math.inf, p, n, "neuron", confidence, fisher=True)


def _rotated(arm: pd.DataFrame) -> Control:
    """Return the control of whether the same relation holds in randomly rotated bases."""
    name = "Rotated bases"
    null = arm[(arm["basis"] == ROTATED) & arm["metric"].str.endswith("_by_overlap")]
    null = null.dropna(subset=["value"])
    if null.empty:
        return Control(name, "not measured", "No rotated basis was measured.")
    mean, rotations = float(null["value"].mean()), int(null["rotations"].max())
    inside = (null["below"] > 0.025) & (null["below"] < 0.975)
    text = (
        f"In {count(rotations, 'randomly rotated basis', 'randomly rotated bases')} the mean ρ is "
        f"{number(mean, 2, sign=True)}; the own basis is inside the central 95 % of them in "
        f"{int(inside.sum())} of {len(null)} correlations"
    )
    same = bool(inside.all())
    text += ": the relation is not one of the model’s own neurons." if same else "."
    return Control(name, "limits" if same else "does not limit", text)


def own_basis_better_than_random(tables: Tables, tower: str, confidence: float) -> Effect:
    """Return how much better the model's own basis follows known features than a random one.

    It is the mean semantic purity of the neurons of a tower, in the own basis − the mean over
    rotated bases. Under the null hypothesis the own basis is one more random rotation, so the
    error is that of a prediction, ``s sqrt(1 + 1/R)`` with s the standard deviation over the R
    rotations, with R − 1 degrees of freedom. It is NaN without ground truth, and has no interval if
    fewer than two rotations were measured. `SMALLEST_GAIN` is the smallest effect of interest.
    """
    arm = measured_arm(tables)
    original, null = (
        where(arm, tower=tower, metric="mean_semantic_purity", basis=basis)
        for basis in (ORIGINAL, ROTATED)
    )
    unit = "rotated basis"
    if original.empty or null.empty:
        return unknown_effect(math.nan, 0, unit)
    middle, deviation, rotations = (
        float(null[name].iloc[0]) for name in ("value", "deviation", "rotations")
    )
    value, n = float(original["value"].iloc[0]) - middle, int(rotations)
    error = deviation * math.sqrt(1 + 1 / n) if n > 1 else math.nan
    return effect_of_estimate(value, error, n - 1, n, confidence, unit)


def own_basis_is_better(tables: Tables, tower: str, confidence: float = 0.95) -> bool | None:
    """Return whether the own basis beats random ones by `SMALLEST_GAIN`; None if unmeasured."""
    effect = own_basis_better_than_random(tables, tower, confidence)
    outcome, _ = verdicts.decide_effect(effect, +1, SMALLEST_GAIN, 1 - confidence)
    if outcome == verdicts.UNMEASURED or not effect.known:
        return None
    return outcome == verdicts.SUPPORTS


def _own_basis(tables: Tables, confidence: float) -> list[Control]:
    name = "Own basis against random ones"
    texts, outcomes = [], []
    for tower in TOWERS:
        effect = own_basis_better_than_random(tables, tower, confidence)
        if not math.isfinite(effect.value):
            continue
        outcome, why = verdicts.decide_effect(effect, +1, SMALLEST_GAIN, 1 - confidence)
        outcomes.append(outcome)
        limits = interval(effect.low, effect.high, 3, sign=True)
        texts.append(f"{tower} {number(effect.value, 3, sign=True)} ({limits}; {why})")
    if not texts:
        return []
    text = f"Mean |r| with the best feature, own basis − rotated bases: {listing(texts)}."
    if set(outcomes) <= {verdicts.ABSENT, verdicts.CONTRADICTS}:
        text += " The model has no basis of its own in which neurons could be purer."
    limit: verdicts.Limit = "limits"
    if set(outcomes) == {verdicts.SUPPORTS}:
        limit = "does not limit"
    return [Control(name, limit, text)]
