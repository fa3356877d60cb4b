"""Scores of pruned models: the arm, its strategies, and the effect of keeping pure neurons.

A ranking of neurons by purity presupposes neurons that differ from arbitrary directions. If the
model's own basis follows the known features no better than its random rotations, such a ranking
orders arbitrary directions, and its result neither supports nor contradicts a claim on pruning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pandas as pd

from mispair.evaluation.semantics import BY_OVERLAP, ORIGINAL, ROTATED
from mispair.image_text.report.arms import AT_CHANCE, TOWERS, at_chance, base_arm
from mispair.report import published
from mispair.report.claims import THIRD, MeasuredClaim, PartEffect
from mispair.report.rules import SUPPORTS, UNMEASURED, decide
from mispair.report.statistics import Effect, effect_of_estimate, unknown_effect
from mispair.report.tables import Tables, mean_by, where

# How closely neurons follow known features, and whether their overlap shows it.
#
# Null hypothesis of both: the model's own basis is one more random rotation of it.

SMALLEST = 0.2
"""Smallest rank correlation of interest. The paper gives no number; if mean |cos| measured purity
without error, ρ would be −1. At −0.2 the purer half of the neurons by |cos| holds 56 % of the
neurons above the median (1/2 + arcsin(0.2)/π): a weaker relation does not rank neurons."""

SMALLEST_GAIN = 0.02
"""Smallest difference of interest in mean |r| with the best feature: from 0.37, say, to 0.39, which
raises the share of a neuron's variance that the feature explains by one and a half points."""

MEASURES = {"semantic_purity": "semantic purity", "selectivity": "selectivity"}
UNIT = "rotated basis"
NO_BASIS = "no basis"
"""Gate of claims that rank neurons of a basis which is no better than a random one."""


def measured_arm(tables: Tables) -> pd.DataFrame:
    """Return one arm's rows: those of the untouched model, if it was measured, and one seed."""
    arm = base_arm(tables.semantics)
    seeds = arm["seed"].fillna(0)
    return with_basis(arm[seeds == seeds.min()])


def with_basis(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a name of their basis; a missing name means the neurons' own basis."""
    return table.assign(basis=table["basis"].fillna(ORIGINAL))


def mean_series(tables: Tables, tower: str, metric: str) -> pd.DataFrame:
    """Return rate, seed and value of the pre-trained arms in their own basis."""
    table = with_basis(tables.semantics)
    rows = where(table, start="pretrained", tower=tower, metric=metric, basis=ORIGINAL)
    return rows[["rate", "seed", "value"]]


def of_arm(tables: Tables, start: str) -> pd.DataFrame:
    """Return the rows of `semantics` of a start at its largest rate."""
    rows = with_basis(tables.of_scheme().semantics)
    rows = rows[rows["start"] == start]
    if start != "untouched":
        rows = rows[rows["rate"] == rows["rate"].max()]
    return rows


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's ρ of neurons between mean |cos| and what is known of them, own − rotated basis.

    It is the mean over semantic purity and selectivity and over both towers. The own basis is
    compared with random rotations, in which the model computes the same: a relation that they
    share is not one of the model's neurons. The error is that of one more rotation,
    ``s sqrt(1 + 1/R)`` with s the standard deviation over R rotations; both measures of a tower are
    taken as fully dependent, the towers as independent. Seeds of one model are averaged and narrow
    nothing.

    Attributes
    ----------
    start : str
        Arm, at its largest rate.
    """

    start: str

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the difference, with that of each measure and tower."""
        rows = of_arm(tables, self.start)
        single = {
            (tower, measure): difference(
                where(rows, tower=tower, metric=f"{measure}{BY_OVERLAP}"), confidence
            )
            for tower in TOWERS
            for measure in MEASURES
        }
        single = {key: found for key, found in single.items() if math.isfinite(found[0].value)}
        if not single:
            return MeasuredClaim()
        towers = {tower for tower, _ in single}
        errors = [
            sum(found[0].error for key, found in single.items() if key[0] == tower)
            / sum(key[0] == tower for key in single)
            for tower in towers
        ]
        value, own, rotated = (
            sum(float(numbers[place]) for numbers in _numbers(single)) / len(single)
            for place in range(3)
        )
        rotations = min(found[0].n for found in single.values())
        effect = effect_of_estimate(
            value, math.hypot(*errors) / len(towers), rotations - 1, rotations, confidence, UNIT
        )
        return MeasuredClaim(
            effect, first=rotated, last=own,
            sets={f"{tower} {MEASURES[name]}": PartEffect(found[0]) for (tower, name), found
                  in single.items()},
        )  # fmt: skip


def _numbers(
    single: dict[tuple[str, str], tuple[Effect, float, float]],
) -> list[tuple[float, float, float]]:
    return [(effect.value, own, rotated) for effect, own, rotated in single.values()]


def difference(rows: pd.DataFrame, confidence: float) -> tuple[Effect, float, float]:
    """Return own − rotated basis of one measure of one tower, and both values.

    Several seeds are averaged: they are runs of one model, and the error stays that of one.
    """
    original, null = (rows[rows["basis"] == basis] for basis in (ORIGINAL, ROTATED))
    if original["value"].isna().all() or null["rotations"].isna().all():
        return unknown_effect(math.nan, 0, UNIT), math.nan, math.nan
    own, rotated = float(original["value"].mean()), float(null["value"].mean())
    n = int(null["rotations"].min())
    error = float(null["deviation"].mean()) * math.sqrt(1 + 1 / n) if n > 1 else math.nan
    return effect_of_estimate(own - rotated, error, n - 1, n, confidence, UNIT), own, rotated


def own_basis_gain(tables: Tables, tower: str, confidence: float) -> Effect:
    """Return how much better the model's own basis follows known features than a random one.

    It is the mean semantic purity of the neurons of a tower, own − rotated basis, of the untouched
    model or the arm at the lowest C_m.
    """
    rows = where(measured_arm(tables), tower=tower, metric="mean_semantic_purity")
    return difference(rows, confidence)[0]


def no_own_basis(tables: Tables, tower: str, confidence: float) -> str:
    """Return `NO_BASIS` if the own basis does not beat random ones by `SMALLEST_GAIN`, or ""."""
    gain = own_basis_gain(tables, tower, confidence)
    outcome = decide("effect", gain, 1, SMALLEST_GAIN, 1 - confidence)[0]
    return "" if outcome in (SUPPORTS, UNMEASURED) or not gain.known else NO_BASIS


MASKED, RENORMALISED = "masked", "renormalised"
"""Embeddings with k neurons: masked as in the authors' code, or normalised again after that."""

BASELINES = {"variance": "activation variance", "norm": "column norm"}
"""Properties that rank neurons instead of purity: strategies high-… and low-…."""


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


@dataclass(frozen=True)
class Spread:
    """The difference of two ways to choose k neurons, with the error of random draws.

    If the choice did not matter, both would be draws of k neurons like the random ones: their
    difference has twice the variance of one draw, with the degrees of freedom of the draws, which
    are the replicates.

    Attributes
    ----------
    metric : str
        "acc1" or "silhouette".
    first, second : str
        The effect is first − second; strategies, of which ``random`` is the mean of all draws.
    ranked_by, basis, normalised : str
        Rows of the table ``pruning``.
    absolute : bool
        Whether only the size of the difference counts.
    by_set : bool
        Whether the difference on each evaluation set is measured as well.
    """

    metric: str
    first: str = "high-purity"
    second: str = "low-purity"
    ranked_by: str = "text"
    basis: str = "original"
    normalised: str = MASKED
    absolute: bool = False
    by_set: bool = False

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the difference under the main scheme and protocol, and on each set."""
        tables = tables.of_scheme().of_protocol()
        arm = kept_below_full(pruned_arm(tables.pruning, self.normalised))
        effect, first, second = self._effect(arm, confidence)
        sets = {
            str(name): PartEffect(self._effect(rows, confidence)[0])
            for name, rows in (arm.groupby("evaluation_set") if self.by_set else ())
        }
        known = _published_means() if self.metric == "acc1" else pd.Series(dtype=float)
        ends = [float(known.get(name, math.nan)) for name in (self.second, self.first)]
        gate = AT_CHANCE if at_chance(tables) else no_own_basis(tables, "text", confidence)
        return MeasuredClaim(
            effect, THIRD * abs(ends[1] - ends[0]), ends[1] - ends[0], first=second, last=first,
            published_first=ends[0], published_last=ends[1], sets=sets, gate=gate,
        )  # fmt: skip

    def _effect(self, arm: pd.DataFrame, confidence: float) -> tuple[Effect, float, float]:
        scores = strategy_scores(arm, self.metric, self.basis, self.ranked_by)
        means = scores.groupby("strategy")["value"].mean()
        first, second = (float(means.get(name, math.nan)) for name in (self.first, self.second))
        draws = scores.loc[scores["strategy"] == "random", "value"].dropna()
        value = abs(first - second) if self.absolute else first - second
        unit = "random draw"
        if len(draws) < 2:
            return (
                unknown_effect(value if len(draws) else math.nan, len(draws), unit),
                first,
                second,
            )
        variances = sum(1 / len(draws) if name == "random" else 1 for name in
                        (self.first, self.second))  # fmt: skip
        error = math.sqrt(variances) * float(draws.std(ddof=1))
        return (
            effect_of_estimate(value, error, len(draws) - 1, len(draws), confidence, unit),
            first,
            second,
        )

    def but(self, **fields: object) -> Spread:
        """Return the same difference on other rows."""
        return replace(self, **fields)  # type: ignore[arg-type]


def _published_means() -> pd.Series:
    means: pd.Series = published.pruning().groupby("strategy")["accuracy"].mean()
    return means
