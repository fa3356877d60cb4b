"""Effects of shuffled captions: contrasts with rate 0, accuracy against overlap, and gates.

Does accuracy follow overlap? An arm is a start of the fine-tuning under a scheme of corruption.
Arms intervene on overlap: they raise it by different amounts at the same C_m. If overlap carried
the loss of accuracy, arms whose overlap rises more would lose more accuracy at the same C_m.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from mispair.core.distributions import line
from mispair.evaluation.arm_comparison import OF_ALL_SETS, OF_ONE_SET
from mispair.evaluation.retrieval import BLIND, OF_CATEGORY, SELECTION
from mispair.image_text.report.arms import AT_CHANCE, purity_series, scale_series, zeroshot_series
from mispair.report import published
from mispair.report.claims import MeasuredClaim, PartEffect
from mispair.report.measures import Curve, Ends, Rows, at_rate, of_sweep, rows
from mispair.report.statistics import (
    Effect,
    contrasts,
    effect_of_comparison,
    effect_of_estimate,
    effect_of_mean,
    unknown_effect,
)
from mispair.report.tables import Tables, main_first, of_protocol, remembered
from mispair.towers.arms import PRETRAINED, UNTOUCHED

AT_RATE_0 = "rate 0"
"""The reference that is the same start, fine-tuned on unshuffled captions."""

SAME_CAPTIONS = "not weighted"
"""The reference of weighted pairs: the pretrained start, fine-tuned on the same captions."""


def accuracy_contrasts(
    tables: Tables,
    start: str,
    confidence: float,
    evaluation_set: str | None = None,
    reference: str = AT_RATE_0,
    metric: str = OF_ALL_SETS,
) -> dict[float, Effect]:
    """Return the difference in accuracy from the reference at each rate, under the main protocol.

    By rate, in ascending order, for tables of one scheme (`Tables.of_scheme`). Replicates are
    images within each set and seeds in all sets: see `mispair.evaluation.arm_comparison`.

    Parameters
    ----------
    evaluation_set : str, optional
        One set; by default the unweighted mean over all sets of the protocol.
    reference : str
        ``rate 0``, ``untouched``, ``not weighted`` or one by `AGAINST_SCHEME`.
    metric : str
        `SELECTION_OF_ALL_SETS` in place of the accuracy over all sets.
    """
    table = of_protocol(tables.comparisons)
    found = table[(table["start"] == start) & (table["reference"] == reference)]
    if evaluation_set is None:
        found = found[found["metric"] == metric]
    else:
        found = found[(found["metric"] == OF_ONE_SET) & (found["evaluation_set"] == evaluation_set)]
    found = found.dropna(subset=["rate"]).sort_values("rate")
    return {
        float(row["rate"]): effect_of_comparison(row, confidence) for _, row in found.iterrows()
    }


@dataclass(frozen=True)
class Compared:
    """The change of a score against a reference at the largest rate, paired by image and seed.

    Attributes
    ----------
    start : str
        The arm.
    reference : str
        ``rate 0``, ``untouched``, ``not weighted`` or one by `AGAINST_SCHEME`.
    metric : str
        As in `accuracy_contrasts`.
    scheme : str or None
        The scheme of the arm; by default the main one.
    levels : Rows or None
        The rows whose means at the two ends are the compared values.
    published : callable or None
        The published curve whose change is compared.
    by_set : bool
        Whether each evaluation set is judged as well.
    gate : callable or None
        From the tables to the name of a condition that is not met, or "".
    """

    start: str = PRETRAINED
    reference: str = AT_RATE_0
    metric: str = OF_ALL_SETS
    scheme: str | None = None
    levels: Rows | None = None
    published: Curve | None = None
    by_set: bool = False
    gate: Callable[[Tables], str] | None = None

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the change with its value at each rate and on each set."""
        tables = tables.of_scheme(self.scheme).of_protocol()
        by_rate = accuracy_contrasts(
            tables, self.start, confidence, None, self.reference, self.metric
        )
        by_rate = {rate: effect for rate, effect in by_rate.items() if rate > 0}
        curve = self.published() if self.published else None
        levels = None
        if self.levels is not None:
            series = self.levels.but(start=self.start).select(tables)
            levels = series.groupby("rate")["value"].mean()
            if not by_rate:  # arms were not compared by image: over seeds alone
                by_rate = contrasts(series, confidence)
        if not by_rate:
            return MeasuredClaim()
        measured = of_sweep(by_rate, 0.0, published=curve, levels=levels)
        sets = {
            name: PartEffect(effect) for name, effect in self._by_set(tables, confidence).items()
        }
        return replace(measured, sets=sets, gate=self.gate(tables) if self.gate else "")

    def _by_set(self, tables: Tables, confidence: float) -> dict[str, Effect]:
        if not self.by_set:
            return {}
        names = tables.comparisons.loc[tables.comparisons["start"] == self.start, "evaluation_set"]
        found = {}
        for name in sorted(names.dropna().unique()):
            effects = accuracy_contrasts(tables, self.start, confidence, name, self.reference)
            if effects and math.isfinite(effects[max(effects)].value):
                found[str(name)] = effects[max(effects)]
        return found


ACCURACY = rows("zeroshot", balanced="evaluation_set", start=PRETRAINED, metric="acc1")
"""Accuracy of the pre-trained start, mean of the sets that every arm has."""


def cost(tables: Tables, confidence: float) -> Effect:
    """Return what the largest share of shuffled captions costs: the change of accuracy."""
    return Compared(levels=ACCURACY)(tables, confidence).effect


# Accuracy against overlap

LEAST_ARMS = 3
"""Fewer arms leave no relation to measure at a C_m."""

ARM = ["start", "scheme"]


@remembered
def points(tables: Tables, tower: str) -> pd.DataFrame:
    """Return overlap and accuracy of every fine-tuned arm at every C_m.

    Returns
    -------
    DataFrame
        Columns ``start``, ``scheme``, ``rate``, ``seed``, ``overlap`` (mean |cos| of the tower's
        neurons) and ``accuracy`` (mean of the sets). The arm at rate 0 of a start is in each of
        its schemes.
    """
    parts = []
    for scheme in tables.schemes:
        arms = tables.of_scheme(scheme)
        for start in sorted(set(arms.purity["start"].dropna()) - {"untouched"}):
            overlap = purity_series(arms, start, tower, "mean_abs_cosine").dropna()
            scores = zeroshot_series(arms, start, "acc1").dropna()
            both = overlap.merge(scores, on=["rate", "seed"], suffixes=("_x", "_y"))
            if (both["rate"] > 0).any() and (both["rate"] == 0).any():
                both = both.rename(columns={"value_x": "overlap", "value_y": "accuracy"})
                parts.append(both.assign(start=start, scheme=scheme))
    columns = [*ARM, "rate", "seed", "overlap", "accuracy"]
    if not parts:
        return pd.DataFrame(columns=columns, dtype=float)
    return pd.concat(parts, ignore_index=True)[columns]


def changes(arm_points: pd.DataFrame) -> pd.DataFrame:
    """Return `points` above rate 0 less the same arm and seed at rate 0."""
    start = arm_points[arm_points["rate"] == 0].set_index([*ARM, "seed"])[["overlap", "accuracy"]]
    moved = arm_points[arm_points["rate"] > 0].set_index([*ARM, "seed"])
    moved = moved[moved.index.isin(start.index)]
    for name in start.columns:
        moved[name] = moved[name] - start[name].reindex(moved.index)
    return moved.reset_index()


def main_scheme(arm_points: pd.DataFrame) -> str:
    """Return the main scheme of corruption among arms, or "" if there are none."""
    return next(iter(main_first(arm_points["scheme"])), "")


# Effects with arithmetic of their own

SIZES_ABOVE_CHANCE = 3.0
"""Standard errors by which a category has to exceed chance, so that it can fall."""

NO_COST = "no cost"
"""Gate of claims on what gives back a loss that is not there."""


def published_accuracy() -> pd.Series:
    """Return the mean published accuracy of the data sets of table 4, by C_m."""
    means: pd.Series = published.table4().groupby("shuffle_probability")["accuracy"].mean()
    return means


def published_silhouette() -> pd.Series:
    """Return the mean published silhouette of the data sets of table 4, by C_m."""
    means: pd.Series = published.table4().groupby("shuffle_probability")["silhouette"].mean()
    return means


@dataclass(frozen=True)
class Converged:
    """A sweep of the arm with the logit scale at its optimum, where all scales converged."""

    ends: Ends
    start: str

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the change between the ends of the sweep."""
        arms = tables.of_scheme()
        flags = scale_series(arms, self.start, "logit_scale_converged")
        rates = set(purity_series(arms, self.start, "text", "mean_abs_cosine")["rate"].dropna())
        if not rates <= set(flags.loc[flags["value"] >= 1, "rate"]) or (flags["value"] < 1).any():
            return MeasuredClaim()
        return self.ends(tables, confidence)


@dataclass(frozen=True)
class FineTuningAlone:
    """What fine-tuning on unshuffled captions changes: C_m 0 − untouched model, of logs."""

    rows: Rows

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the difference over the seeds of C_m 0; the untouched model has one value."""
        tuned = self.rows.select(tables)
        untouched = self.rows.but(start=UNTOUCHED).raw(tables)["value"].mean()
        if not untouched > 0 or math.isnan(at_rate(tuned, 0.0)):
            return MeasuredClaim()
        logs = np.log(tuned.loc[tuned["rate"] == 0, "value"] / untouched)
        return MeasuredClaim(effect_of_mean(logs.tolist(), confidence, "seed"))


def mediated(tables: Tables, confidence: float, tower: str = "text") -> MeasuredClaim:
    """Return the loss of accuracy that goes with overlap over arms at the largest C_m.

    The change of accuracy from C_m 0 is regressed on that of mean |cos| over arms, each the mean of
    its seeds, with an intercept: it takes up what C_m does by itself. The slope times the rise of
    overlap in the main arm is the loss that goes with it. Arms are the replicates; the error is
    that of the slope, with two degrees of freedom less than arms.
    """
    moved = changes(points(tables.of_protocol(), tower))
    if moved.empty:
        return MeasuredClaim()
    last = moved[moved["rate"] == moved["rate"].max()]
    main = last[(last["start"] == PRETRAINED) & (last["scheme"] == main_scheme(moved))]
    arms = last.groupby(["start", "scheme"])[["overlap", "accuracy"]].mean()
    if main.empty or len(arms) < LEAST_ARMS or arms["overlap"].nunique() < 2:
        return MeasuredClaim()
    rise, loss = (float(main[name].mean()) for name in ("overlap", "accuracy"))
    slope, error_of_slope = line(arms["overlap"], arms["accuracy"])
    value, error = slope * rise, abs(error_of_slope * rise)
    effect = effect_of_estimate(value, error, len(arms) - 2, len(arms), confidence, "arm")
    gate = no_cost(tables, confidence)
    return MeasuredClaim(effect, first=0.0, last=loss, at=(float(last["rate"].iloc[0]),), gate=gate)


def mediated_by_image(tables: Tables, confidence: float) -> MeasuredClaim:
    """Return `mediated` with the overlap of image neurons."""
    return mediated(tables, confidence, "image")


@dataclass(frozen=True)
class BySet:
    """An effect on the mean of the evaluation sets, with the same on each set."""

    whole: Ends
    rows: Rows

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the effect; sets have the bound of the whole."""
        measured = self.whole(tables, confidence)
        names = self.rows.raw(tables)["evaluation_set"].dropna().unique()
        single = {
            str(name): replace(self.whole, select=self.rows.but(evaluation_set=name).select)
            for name in sorted(names)
        }
        found = {name: each(tables, confidence).effect for name, each in single.items()}
        sets = {
            name: PartEffect(effect)
            for name, effect in found.items()
            if math.isfinite(effect.value)
        }
        return replace(measured, sets=sets)


# The choice of a caption ----------------------------------------------------------------------


def _can_fall(tables: Tables) -> pd.Series:
    """Return whether each category is answered better than by chance at the lowest rate."""
    arms = tables.of_scheme().of_protocol()
    rows = arms.zeroshot_of(PRETRAINED, OF_CATEGORY).dropna(subset=["value", "chance"])
    rows = rows[rows["rate"] == rows["rate"].min()]
    means = rows.groupby(["evaluation_set", "classname"])[["value", "chance", "n"]].mean()
    error = (means["chance"] * (1 - means["chance"]) / means["n"]) ** 0.5
    above: pd.Series = means["value"] - means["chance"] > SIZES_ABOVE_CHANCE * error
    return above


def no_category_can_fall(tables: Tables) -> str:
    """Return `AT_CHANCE` if every category is answered no better than by chance, or ""."""
    above = _can_fall(tables)
    return AT_CHANCE if len(above) and not above.any() else ""


def categories_above_chance(tables: Tables, confidence: float) -> MeasuredClaim:
    """Return the share of categories that are answered better than by chance."""
    above = _can_fall(tables)
    share = float(above.mean()) if len(above) else math.nan
    return MeasuredClaim(unknown_effect(share, len(above), "category"))


def one(tables: Tables, confidence: float) -> MeasuredClaim:
    """Return 1: the whole of a share."""
    return MeasuredClaim(unknown_effect(1.0, 1, ""))


@dataclass(frozen=True)
class AboveChance:
    """How far right choices exceed chance without corruption, with each image or without it."""

    blind: bool = False

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the mean over sets and seeds."""
        rows = tables.of_scheme().of_protocol().zeroshot_of(
            PRETRAINED, BLIND if self.blind else SELECTION
        )  # fmt: skip
        rows = rows.dropna(subset=["value", "chance"])
        rows = rows[rows["rate"] == rows["rate"].min()]
        above = float((rows["value"] - rows["chance"]).mean())
        return MeasuredClaim(Effect(above, math.nan, math.nan, math.nan, len(rows), "set"))


def no_cost(tables: Tables, confidence: float = 0.95) -> str:
    """Return `NO_COST` unless shuffled captions cost accuracy significantly, or ""."""
    whole = cost(tables, confidence)
    return "" if whole.known and whole.high < 0 else NO_COST
