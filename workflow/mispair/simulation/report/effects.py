"""Effects of the simulation: arms compared within trials, and points of figure 1 that come out."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import pandas as pd

from mispair.report import published, style
from mispair.report.claims import THIRD, Measure, MeasuredClaim, PartEffect
from mispair.report.measures import Arms, share_of
from mispair.report.statistics import mean_interval, trial_means
from mispair.report.tables import Tables, remembered, where
from mispair.simulation.report.runs import (
    FEATURES,
    PAIR,
    PRESETS,
    RUN,
    Point,
    neighbour,
    of_preset,
    points,
    runs,
    spurious,
)
from mispair.simulation.study import PRESETS as SETTINGS

Pick = Callable[[pd.DataFrame], pd.DataFrame]
"""Chooses rows of the table of one preset."""


def figure1(table: pd.DataFrame) -> pd.DataFrame:
    """Choose the runs of the preset itself: nothing of the bridge, nothing of the grid."""
    return where(table, kind="preset")


def clean(table: pd.DataFrame) -> pd.DataFrame:
    """Choose the preset's runs without a wrong caption."""
    return where(figure1(table), spurious_probability=0.0)


def other_definition(table: pd.DataFrame) -> pd.DataFrame:
    """Choose the preset's runs, measured by the definition that is not the main one."""
    rows = figure1(table)
    rows = rows[rows["definition"].notna() & (rows["definition"] != rows["definition_main"])]
    return rows.assign(definition_main=rows["definition"])


def protocol(prompts: str, bias: str) -> Pick:
    """Choose the preset's accuracies with these prompts and biases, at the preset's margin."""

    def pick(table: pd.DataFrame) -> pd.DataFrame:
        rows = where(figure1(table), prompts=prompts, bias=bias)
        margins = {name: settings["test_margin"] for name, settings in SETTINGS.items()}
        return rows[rows["margin"] == rows["preset"].map(margins)]

    return pick


def other_encoder(table: pd.DataFrame) -> pd.DataFrame:
    """Choose the bridge's runs with the encoders of the other preset."""
    return where(table, condition="bridge~encoder")


def low_noise(table: pd.DataFrame) -> pd.DataFrame:
    """Choose the cells of the grid with the lowest of several noises."""
    cells = where(table, kind="grid", bias_schedule="practical")
    variances = cells["image_noise_variance"]
    return cells[variances == variances.min()] if variances.nunique() > 1 else cells[:0]


def without_thresholds(table: pd.DataFrame) -> pd.DataFrame:
    """Choose the cells of the grid whose encoders were trained without thresholds."""
    return where(table, kind="grid", bias_schedule="zero")


@dataclass(frozen=True)
class ArmMeasure:
    """Selects a measure of an arm by C_s (``rate``) and trial (``seed``).

    Attributes
    ----------
    metric, name : str
        The measure, and the arm: a column of `mispair.simulation.report.runs.runs`.
    beside : str
        Another arm that a run must have as well.
    pick : callable
        Rows to choose from. Several conditions are averaged.
    zero : bool
        Whether C_s = 0 counts. Without it only trials that have the most C_s count, so that a mean
        over C_s is over the same ones in each trial.
    """

    metric: str
    name: str
    beside: str = ""
    pick: Pick = figure1
    zero: bool = False

    def __call__(self, tables: Tables) -> pd.DataFrame:
        """Return columns ``rate``, ``seed`` and ``value``."""
        every = _of_arms(tables, self.pick, self.metric)
        if every.empty:
            return pd.DataFrame(columns=["rate", "seed", "value"], dtype="float64")
        needed = [self.name, *([self.beside] if self.beside else [])]
        values = every[needed].dropna()[self.name].groupby(RUN).mean()
        if not self.zero:
            values = spurious(values)
            sizes = values.groupby("trial").transform("size")
            values = values[sizes == sizes.max()]
        frame = values.rename("value").reset_index()
        return frame.rename(columns={"spurious_probability": "rate", "trial": "seed"})


@remembered
def _of_arms(tables: Tables, pick: Pick, metric: str) -> pd.DataFrame:
    """Return a measure of every chosen run, with a column for each arm (`runs`)."""
    conditions = pick(tables.simulation).groupby("condition", dropna=False)
    cells = [runs(rows, metric) for _, rows in conditions]
    return pd.concat(cells) if cells else pd.DataFrame()


def difference(
    metric: str = "accuracy", arm: str = "filtered", baseline: str = "raw",
    pick: Pick = figure1, zero: bool = False, curves: bool = False,
) -> Arms:  # fmt: skip
    """Return the measure arm − baseline, averaged over C_s > 0 within each trial.

    A trial has the same data at every C_s, so it counts once. With `curves` the smallest effect
    of interest is a third of the difference published for these arms at these C_s.
    """

    def published_gain() -> pd.Series:
        return gain_of_curves(metric)

    return Arms(
        ArmMeasure(metric, baseline, arm, pick, zero),
        ArmMeasure(metric, arm, baseline, pick, zero),
        published=published_gain if curves else None,
        averaged=True,
        unit="trial",
    )


def gains(tables: Tables) -> pd.DataFrame:
    """Select the gain in accuracy by filtering, at every C_s."""
    raw, filtered = (
        ArmMeasure("accuracy", *arms, zero=True)(tables).set_index(["rate", "seed"])["value"]
        for arms in (PAIR, PAIR[::-1])
    )
    return (filtered - raw).rename("value").reset_index()


def gain_of_curves(metric: str) -> pd.Series:
    """Return the published gain by filtering, by C_s."""
    filtered, raw = (published.figure1_curve(metric, arm) for arm in ("filtered", "raw"))
    return filtered - raw


def extended(curve: pd.Series) -> pd.Series:
    """Return a curve that stays at its last value up to C_s = 1.

    So the change over a sweep that goes beyond the published one is compared with the change over
    all of it.
    """
    return pd.concat([curve, pd.Series([curve.iloc[-1]], [1.0])])


@dataclass(frozen=True)
class Sized:
    """A measure whose published numbers are scaled to the number of features of the runs.

    Attributes
    ----------
    measure : callable
        The measure, with what was published for `FEATURES` features.
    bound : float
        Smallest effect of interest if nothing was published at the measured C_s.
    """

    measure: Measure
    bound: float = math.nan

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the measurement."""
        measured = self.measure(tables, confidence)
        features = float(figure1(tables.simulation)["features"].max())
        factor = features / FEATURES if features > 0 else 1.0
        bound = measured.bound if math.isfinite(measured.bound) else self.bound
        return replace(
            measured,
            bound=factor * bound,
            published=factor * measured.published,
            published_first=factor * measured.published_first,
            published_last=factor * measured.published_last,
            rates={
                rate: replace(part, bound=factor * part.bound)
                for rate, part in measured.rates.items()
            },
        )


def third_of_gain(metric: str) -> float:
    """Return a third of the published gain by filtering, averaged over all C_s above 0."""
    curve = gain_of_curves(metric)
    return THIRD * abs(float(curve[curve.index > 0].mean()))


Shown = Literal["all", "best", "neighbour"]
"""What is compared with a published point: the mean of all runs, that of the best two thirds of
them, or the published value at the next C_s, which is wrong there."""

SHOWN: tuple[Shown, ...] = get_args(Shown)


@dataclass(frozen=True)
class Reproduced:
    """The share of the curves of figure 1 that come out again.

    Points of a curve come from the same trials, so the curve, a measure of an arm, is the unit: it
    comes out if all its measured points are within the tolerance of the measure. The curves have
    trials in common too, so the binomial test treats as independent what is only less dependent.
    ``rates`` has the share of the points at each C_s. Only points count that have `beside` as well.
    """

    what: Shown = "all"
    beside: Shown = "all"

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the share of curves."""
        within: dict[tuple[str, str], list[bool]] = {}
        by_rate: dict[float, list[bool]] = {}
        for point in points(figure1(tables.simulation)):
            value = shown(point, self.what)
            if math.isfinite(value + shown(point, self.beside)):
                near = point.within(value)
                within.setdefault((point.metric, point.trained_on), []).append(near)
                by_rate.setdefault(point.spurious_probability, []).append(near)
        whole = share_of(sum(map(all, within.values())), len(within), "curve")
        rates = {
            rate: PartEffect(share_of(sum(near), len(near), "point").effect)
            for rate, near in sorted(by_rate.items())
        }
        return replace(whole, rates=rates)


def shown(point: Point, what: Shown) -> float:
    """Return what is compared with a published point; NaN if there is none."""
    if what == "neighbour":
        return neighbour(point.metric, point.trained_on, point.spurious_probability)
    return point.mean if what == "all" else point.best


FAR_END = "all of them"
"""Name of the far end of the bridge: the other preset itself."""


def bridge_changes(tables: Tables, confidence: float = 0.95) -> pd.DataFrame:
    """Compare every condition of the bridge with its base, at the same C_s and in the same trials.

    Returns
    -------
    DataFrame
        One row for each switch (and `FAR_END`), ``trained_on`` (raw, filtered, and gain =
        filtered − raw) and measure, with the mean of condition − base, the t interval of its spread
        over trials (``low``, ``high``) and the number of pairs. Each condition is measured in its
        main definition. Empty without a bridge.
    """
    table = tables.simulation
    bridge = where(table, kind="bridge")
    sides = dict(iter(bridge.groupby("switch")))
    base = next(iter(bridge["preset"]), "")
    for opposite in PRESETS:
        far = of_preset(table, opposite)
        if sides and opposite != base and not far.empty:
            sides[FAR_END] = far.merge(bridge[RUN].drop_duplicates(), on=RUN)
    rows = []
    for metric, (switch, of_switch) in itertools.product(style.MEASURES, sides.items()):
        change = _with_gain(of_switch, metric) - _with_gain(of_preset(table, base), metric)
        for name, values in change.items():
            mean = mean_interval(trial_means(values), confidence)
            if mean.n:
                rows.append((switch, name, metric, mean.value, mean.low, mean.high, mean.n))
    columns = ["switch", "trained_on", "metric", "value", "low", "high", "n"]
    return pd.DataFrame(rows, columns=columns)


def _with_gain(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return raw, filtered and their difference (gain) of every run of one condition."""
    wide = runs(table, metric)[list(PAIR)]
    return wide.assign(gain=wide["filtered"] - wide["raw"])
