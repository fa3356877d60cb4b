"""Effects of shuffled captions that need arithmetic of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import stats

from mispair.evaluation.report.series import AT_CHANCE, purity_series, scale_series
from mispair.evaluation.selection import BLIND, OF_CATEGORY, SELECTION
from mispair.image_text.report.contrasts import cost
from mispair.image_text.report.mediation import LEAST_ARMS, changes, main_scheme, points
from mispair.report import published
from mispair.report.claims import Measured, Part
from mispair.report.measures import Ends, Rows, at_rate
from mispair.report.statistics import (
    Effect,
    effect_of_estimate,
    effect_of_mean,
    unknown_effect,
)
from mispair.report.tables import Tables
from mispair.towers.arms import PRETRAINED, UNTOUCHED

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
    """A sweep of the arm with a solved logit scale; nothing where a scale has not converged."""

    ends: Ends
    start: str

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return the change between the ends of the sweep."""
        arms = tables.of_scheme()
        flags = scale_series(arms, self.start, "logit_scale_converged")
        rates = set(purity_series(arms, self.start, "text", "mean_abs_cosine")["rate"].dropna())
        if not rates <= set(flags.loc[flags["value"] >= 1, "rate"]) or (flags["value"] < 1).any():
            return Measured()
        return self.ends(tables, confidence)


@dataclass(frozen=True)
class FineTuningAlone:
    """What fine-tuning on unshuffled captions changes: C_m 0 − untouched model, of logs."""

    rows: Rows

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return the difference over the seeds of C_m 0; the untouched model has one value."""
        tuned = self.rows.select(tables)
        untouched = self.rows.but(start=UNTOUCHED).raw(tables)["value"].mean()
        if not untouched > 0 or math.isnan(at_rate(tuned, 0.0)):
            return Measured()
        logs = np.log(tuned.loc[tuned["rate"] == 0, "value"] / untouched)
        return Measured(effect_of_mean(logs.tolist(), confidence, "seed"))


def mediated(tables: Tables, confidence: float, tower: str = "text") -> Measured:
    """Return the loss of accuracy that goes with overlap over arms at the largest C_m.

    The change of accuracy from C_m 0 is regressed on that of mean |cos| over arms, each the mean of
    its seeds, with an intercept: it takes up what C_m does by itself. The slope times the rise of
    overlap in the main arm is the loss that goes with it. Arms are the replicates; the error is
    that of the slope, with two degrees of freedom less than arms.
    """
    moved = changes(points(tables.of_protocol(), tower))
    if moved.empty:
        return Measured()
    last = moved[moved["rate"] == moved["rate"].max()]
    main = last[(last["start"] == PRETRAINED) & (last["scheme"] == main_scheme(moved))]
    arms = last.groupby(["start", "scheme"])[["overlap", "accuracy"]].mean()
    if main.empty or len(arms) < LEAST_ARMS or arms["overlap"].nunique() < 2:
        return Measured()
    rise, loss = (float(main[name].mean()) for name in ("overlap", "accuracy"))
    line = stats.linregress(arms["overlap"], arms["accuracy"])
    value, error = float(line.slope) * rise, abs(float(line.stderr) * rise)
    effect = effect_of_estimate(value, error, len(arms) - 2, len(arms), confidence, "arm")
    gate = no_cost(tables, confidence)
    return Measured(effect, first=0.0, last=loss, at=(float(last["rate"].iloc[0]),), gate=gate)


def mediated_by_image(tables: Tables, confidence: float) -> Measured:
    """Return `mediated` with the overlap of image neurons."""
    return mediated(tables, confidence, "image")


@dataclass(frozen=True)
class BySet:
    """An effect on the mean of the evaluation sets, with the same on each set."""

    whole: Ends
    rows: Rows

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return the effect; sets have the bound of the whole."""
        measured = self.whole(tables, confidence)
        names = self.rows.raw(tables)["evaluation_set"].dropna().unique()
        single = {
            str(name): replace(self.whole, select=self.rows.but(evaluation_set=name).select)
            for name in sorted(names)
        }
        found = {name: each(tables, confidence).effect for name, each in single.items()}
        sets = {name: Part(effect) for name, effect in found.items() if math.isfinite(effect.value)}
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


def categories_above_chance(tables: Tables, confidence: float) -> Measured:
    """Return the share of categories that are answered better than by chance."""
    above = _can_fall(tables)
    share = float(above.mean()) if len(above) else math.nan
    return Measured(unknown_effect(share, len(above), "category"))


def one(tables: Tables, confidence: float) -> Measured:
    """Return 1: the whole of a share."""
    return Measured(unknown_effect(1.0, 1, ""))


@dataclass(frozen=True)
class AboveChance:
    """How far right choices exceed chance without corruption, with each image or without it."""

    blind: bool = False

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return the mean over sets and seeds."""
        rows = tables.of_scheme().of_protocol().zeroshot_of(
            PRETRAINED, BLIND if self.blind else SELECTION
        )  # fmt: skip
        rows = rows.dropna(subset=["value", "chance"])
        rows = rows[rows["rate"] == rows["rate"].min()]
        above = float((rows["value"] - rows["chance"]).mean())
        return Measured(Effect(above, math.nan, math.nan, math.nan, len(rows), "set"))


def no_cost(tables: Tables, confidence: float = 0.95) -> str:
    """Return `NO_COST` unless shuffled captions cost accuracy significantly, or ""."""
    whole = cost(tables, confidence)
    return "" if whole.known and whole.high < 0 else NO_COST
