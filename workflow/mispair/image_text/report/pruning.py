"""Scores of pruned models: the arm, its strategies, and the effect of keeping pure neurons.

A ranking of neurons by purity presupposes neurons that differ from arbitrary directions. If the
model's own basis follows the known features no better than its random rotations, such a ranking
orders arbitrary directions, and its result neither supports nor contradicts a claim on pruning.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pandas as pd

from mispair.image_text.report.arms import AT_CHANCE, at_chance, base_arm
from mispair.image_text.report.construct import no_own_basis
from mispair.report import published
from mispair.report.claims import THIRD, Measured, Part
from mispair.report.statistics import (
    Effect,
    effect_of_estimate,
    unknown_effect,
)
from mispair.report.tables import Tables, mean_by

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

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return the difference under the main scheme and protocol, and on each set."""
        tables = tables.of_scheme().of_protocol()
        arm = kept_below_full(pruned_arm(tables.pruning, self.normalised))
        effect, first, second = self._effect(arm, confidence)
        sets = {
            str(name): Part(self._effect(rows, confidence)[0])
            for name, rows in (arm.groupby("evaluation_set") if self.by_set else ())
        }
        known = _published_means() if self.metric == "acc1" else pd.Series(dtype=float)
        ends = [float(known.get(name, math.nan)) for name in (self.second, self.first)]
        gate = AT_CHANCE if at_chance(tables) else no_own_basis(tables, "text", confidence)
        return Measured(
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
