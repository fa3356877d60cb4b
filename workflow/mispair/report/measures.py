"""Effects that most claims measure: ends of a sweep, two arms, levels, trends and counts.

Each is a `mispair.report.claims.Measure`: called with the tables and the confidence level, it
returns numbers. A control is the same measure on other rows: ``dataclasses.replace`` or
`Rows.but` gives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from mispair.report.claims import THIRD, Measure, MeasuredClaim, PartEffect
from mispair.report.statistics import Effect, contrasts, effect_of_mean, trend, unknown_effect
from mispair.report.tables import ARMS, Tables, mean_by, where

Curve = Callable[[], pd.Series]
"""Returns a published curve: values by the swept variable, sorted."""


@dataclass(frozen=True)
class Rows:
    """A selection from a tidy table: rows with given values, by a swept variable and replicate.

    Attributes
    ----------
    table : str
        Name of the table.
    where : tuple of (str, object)
        Column and value; a tuple of values means any of them. Use `rows` to write it as keywords.
    over, replicate : str
        Columns of the swept variable and of the replicates, over which other columns are averaged.
    balanced : str
        Column of whose values only those count that every point has, such as "evaluation_set".
    scheme : str or None
        Scheme of corruption; by default the main one. Only for tables of arms.
    """

    table: str
    where: tuple[tuple[str, Any], ...] = ()
    over: str = "rate"
    replicate: str = "seed"
    balanced: str = ""
    scheme: str | None = None

    def but(self, **where: Any) -> Rows:
        """Return the same selection with other values of some columns."""
        return replace(self, where=tuple({**dict(self.where), **where}.items()))

    def raw(self, tables: Tables) -> pd.DataFrame:
        """Return the rows as they are in the table, of one scheme and of the main protocol."""
        if self.table in ARMS:
            tables = tables.of_scheme(self.scheme).of_protocol()
        return where(tables.frames[self.table], **dict(self.where))

    def select(self, tables: Tables) -> pd.DataFrame:
        """Return columns ``rate``, ``seed`` and ``value``: a mean for each point and replicate."""
        frame = self.raw(tables).dropna(subset=["value"])
        keys = [self.over, self.replicate]
        if self.balanced and len(frame):
            wide = frame.pivot_table(index=keys, columns=self.balanced, values="value")
            complete = wide.columns[wide.notna().all()]
            frame = frame[frame[self.balanced].isin(complete)]
        means = mean_by(frame, keys)
        return means.rename(columns={self.over: "rate", self.replicate: "seed"})


def rows(table: str, *, over: str = "rate", replicate: str = "seed", balanced: str = "",
         scheme: str | None = None, **where: Any) -> Rows:  # fmt: skip
    """Return a selection whose columns are written as keywords."""
    return Rows(table, tuple(where.items()), over, replicate, balanced, scheme)


Select = Callable[[Tables], pd.DataFrame]
"""Returns columns ``rate``, ``seed`` and ``value``."""


def logged(select: Select) -> Select:
    """Return a selection with natural logs of its values."""

    def select_logs(tables: Tables) -> pd.DataFrame:
        series = select(tables)
        return series.assign(value=np.log(series["value"]))

    return select_logs


def at_rate(series: pd.DataFrame, rate: float) -> float:
    """Return the mean over seeds at a rate; NaN if it was not measured."""
    return float(series.loc[series["rate"] == rate, "value"].mean())


def ends_of(curve: pd.Series | None, low: float, high: float) -> tuple[float, float]:
    """Return a published curve at two values, interpolated; NaN without one, or outside it."""
    if curve is None or not (curve.index.min() <= low < high <= curve.index.max()):
        return math.nan, math.nan
    first, last = np.interp([low, high], curve.index.to_numpy(float), curve.to_numpy(float))
    return float(first), float(last)


def of_sweep(
    by_rate: Mapping[float, Effect],
    low: float,
    *,
    published: pd.Series | None = None,
    share: float = THIRD,
    levels: pd.Series | None = None,
) -> MeasuredClaim:
    """Return the change over a sweep from its effects at each rate against the lowest.

    Parameters
    ----------
    by_rate : mapping of float to Effect
        Value at each rate above the lowest − value at the lowest.
    low : float
        The lowest rate.
    published : Series, optional
        Published values by rate. The bound of each rate is the share of the published change at
        that rate where this has the sign of the whole change, else the bound of the whole change.
        A sweep that leaves the published range has the bound of the whole published curve.
    share : float
        Share of the published change that is the smallest effect of interest.
    levels : Series, optional
        Measured means by rate, for the two values that the effect compares.
    """
    if not by_rate:
        return MeasuredClaim()
    last = max(by_rate)
    published_ends = ends_of(published, low, last)
    change = published_ends[1] - published_ends[0]
    reference = change
    if published is not None and not math.isfinite(change):
        reference = float(published.iloc[-1] - published.iloc[0])

    def bound(rate: float) -> float:
        at_low, at_rate = ends_of(published, low, rate)
        same_way = (at_rate - at_low) * reference > 0
        return share * abs(at_rate - at_low if same_way else reference)

    measured_ends = (math.nan, math.nan)
    if levels is not None:
        measured_ends = (float(levels.get(low, math.nan)), float(levels.get(last, math.nan)))
    return MeasuredClaim(
        by_rate[last], bound(last), change, *measured_ends, *published_ends, at=(low, last),
        rates={rate: PartEffect(effect, bound(rate)) for rate, effect in sorted(by_rate.items())},
    )  # fmt: skip


@dataclass(frozen=True)
class Ends:
    """The change between the ends of a sweep, paired by replicate.

    Attributes
    ----------
    select : callable
        `Rows.select` or a function of its form.
    published : callable or None
        The published curve, a share of whose change is the smallest effect of interest.
    log : bool
        Whether natural logs are compared.
    share : float
        The share of the published change.
    unit : str
        What a replicate is.
    gate : callable or None
        From the tables to the name of a condition that is not met, or "".
    """

    select: Select
    published: Curve | None = None
    log: bool = False
    share: float = THIRD
    unit: str = "seed"
    gate: Callable[[Tables], str] | None = None

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the change with its value at each rate."""
        series = self.select(tables).dropna()
        if series.empty:
            return MeasuredClaim()
        levels = series.groupby("rate")["value"].mean()
        curve = self.published() if self.published else None
        if self.log:
            series = series.assign(value=np.log(series["value"]))
            curve = None if curve is None else curve.map(math.log)
        measured = of_sweep(
            contrasts(series, confidence, self.unit), float(levels.index.min()),
            published=curve, share=self.share, levels=levels,
        )  # fmt: skip
        if self.log:
            measured = replace(
                measured, published_first=math.exp(measured.published_first),
                published_last=math.exp(measured.published_last),
            )  # fmt: skip
        return replace(measured, gate=self.gate(tables) if self.gate else "")


@dataclass(frozen=True)
class Arms:
    """The difference of two arms, second − first, paired by replicate, at every common rate.

    The effect is that at the largest rate, or, with ``averaged``, that of the mean over all rates
    within each replicate.
    """

    first: Select
    second: Select
    published: Curve | None = None
    averaged: bool = False
    share: float = THIRD
    unit: str = "seed"

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the difference with its value at each rate."""
        keys = ["rate", "seed"]
        both = self.first(tables).merge(self.second(tables), on=keys, suffixes=("_1", "_2"))
        both = both.dropna().assign(value=lambda rows: rows["value_2"] - rows["value_1"])
        if not both["value"].any():  # both are the same runs
            return MeasuredClaim()
        if (both["rate"] > 0).any():  # arms share the runs without corruption
            both = both[both["rate"] > 0]
        curve = self.published() if self.published else None
        by_rate = {
            float(str(rate)): effect_of_mean(part["value"].tolist(), confidence, self.unit)
            for rate, part in both.groupby("rate")
        }
        chosen = both if self.averaged else both[both["rate"] == both["rate"].max()]
        effect = effect_of_mean(
            chosen.groupby("seed")["value"].mean().tolist(), confidence, self.unit
        )

        def published_mean(rates: Iterable[float]) -> float:
            published = [
                float(curve[rate]) for rate in rates if curve is not None and rate in curve.index
            ]
            return float(np.mean(published)) if published else math.nan

        whole = published_mean(by_rate if self.averaged else [max(by_rate)])
        return MeasuredClaim(
            effect, self.share * abs(whole), whole,
            first=float(chosen["value_1"].mean()), last=float(chosen["value_2"].mean()),
            at=tuple(by_rate) if self.averaged else (max(by_rate),),
            rates={
                rate: PartEffect(each, self.share * abs(published_mean([rate])))
                for rate, each in by_rate.items()
            },
        )  # fmt: skip


NO_RESPONSE = "no response"
"""Condition of claims on a training: something that was measured answers to the captions."""

NO_TRAINING = "no training"
"""Condition of claims on a training: it changes what it minimises."""


@dataclass(frozen=True)
class Responds:
    """Whether any of several effects is there: a training that changes nothing shows nothing.

    Attributes
    ----------
    measures : tuple of callable
        Each with its smallest effect of interest, NaN if the measurement gives it.
    """

    measures: tuple[tuple[Measure, float], ...]

    def __call__(self, tables: Tables, confidence: float) -> str:
        """Return `NO_RESPONSE`, or "" if an effect is significant and may be large enough."""
        for measure, declared in self.measures:
            measured = measure(tables, confidence)
            for part in measured.parts.values() or (measured,):
                bound = part.bound if math.isfinite(part.bound) else declared
                largest = max(map(abs, part.effect.limits(1 - confidence)))
                if part.effect.p <= 1 - confidence and largest >= bound:
                    return ""
        return NO_RESPONSE


@dataclass(frozen=True)
class Every:
    """The same effect on several parts, such as both towers: the claim needs all of them."""

    parts: Mapping[str, Measure]

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the measurement of every part."""
        parts = {name: measure(tables, confidence) for name, measure in self.parts.items()}
        return MeasuredClaim(parts=parts) if parts else MeasuredClaim()


@dataclass(frozen=True)
class Level:
    """The mean of a value over replicates, optionally at one rate."""

    select: Select
    rate: float | None = None
    unit: str = "seed"
    published: float = math.nan

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the mean; the values of a replicate at several rates are averaged first."""
        series = self.select(tables).dropna(subset=["value"])
        if self.rate is not None:
            series = series[series["rate"] == self.rate]
        values = series.groupby("seed", dropna=False)["value"].mean()
        return MeasuredClaim(
            effect_of_mean(values.tolist(), confidence, self.unit), published=self.published
        )


@dataclass(frozen=True)
class Trend:
    """Spearman's ρ of a value with the swept variable within replicates, by permutation."""

    select: Select
    unit: str = "seed"

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return ρ with its two-sided p value; `n` counts the replicates."""
        series = self.select(tables).dropna(subset=["value"])
        found = trend(series["rate"].tolist(), series["value"].tolist(), series["seed"].tolist())
        effect = unknown_effect(found.rho, found.blocks, self.unit)
        return MeasuredClaim(replace(effect, p=found.p))


def share_of(held: int, of: int, unit: str = "run") -> MeasuredClaim:
    """Return the share of cases that do as claimed, for the rule ``count``."""
    if not of:
        return MeasuredClaim()
    return MeasuredClaim(unknown_effect(held / of, of, unit))
