"""The companion paper's claims on large stepsizes, and the question that they answer.

A replicate is a *start*: a data set with a seed, which draws the first weights and the noise or
split of the data. Stepsizes, activations and widths of one start are not independent, so each start
gives one number.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from mispair.report.claims import SAME, THIRD, Claim, Control, MeasuredClaim
from mispair.report.measures import NO_TRAINING, Every, share_of
from mispair.report.questions import Question
from mispair.report.statistics import effect_of_mean
from mispair.report.tables import Tables
from mispair.stepsize.report.study import STUDY

RUN = STUDY.tables["stepsize_runs"].keys
"""Columns that name a run."""
DATA_SETS = {
    "xor4": "XOR, four corners",
    "xor_noise": "XOR with noise",
    "digits_parity": "digits, even or odd",
    "digits_3v8": "digits, 3 or 8",
    "two_point": "two points",
    "five_point": "five points",
    "cifar2": "CIFAR-10, airplane or automobile",
}
SCHEDULES = {"monotone": "largest monotone η", "one": "η = 1", "proportional": "η ∝ T"}
SAME_LIST = [name for name in RUN if name != "stepsize"]
"""Columns that are equal in runs that differ only in their stepsize."""
START = ["data_set", "seed"]
"""Columns that name a start: equal first weights and data, whatever else differs."""

FIRST_BUDGET = 1000
"""Steps T from which slopes are taken."""

MOST, ALL = 0.5, 1.0
"""Share of the runs of a start that must do as claimed."""

ROUNDING = 1e-9
"""By how much a ratio to a bound may exceed 1 without breaking it."""

ABOVE_CHANCE = 0.1
"""Test accuracy above chance, at least, of networks that have learned."""

ACCURACY = 0.01
"""Smallest effect of interest on test accuracy, one point, as no number is published."""


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """Add ``panel``: data set with activation in words; rows go in the order of the data sets."""
    panel = rows["data_set"].map(DATA_SETS) + ", " + rows["activation"].str.replace("_", " ")
    panel = panel.where(rows["part"] != "multilayer", rows["data_set"].map(DATA_SETS)
                        + ", four layers")  # fmt: skip
    order = rows["data_set"].map({name: k for k, name in enumerate(DATA_SETS)})
    out = rows.assign(panel=panel, _order=order)
    return out.sort_values(["_order", "panel"], kind="stable").drop(columns="_order")


def of_parts(rows: pd.DataFrame, *parts: str) -> pd.DataFrame:
    """Return the rows of some parts of the study."""
    return rows[rows["part"].isin(parts)]


def oscillates(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs whose risk rose at least once, diverged ones among them."""
    return runs[(runs["rises"] > 0) | (runs["diverged"] >= 0)]


def monotone(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs whose risk never rose."""
    return runs.drop(oscillates(runs).index)


def slopes(points: pd.DataFrame) -> dict[str, float]:
    """Return the slope of log risk on log T of each schedule, from T = `FIRST_BUDGET` on.

    Schedules with fewer than three numbers of steps have none. Seeds are averaged.
    """
    points = points[(points["budget"] >= FIRST_BUDGET) & (points["risk"] > 0)]
    fitted = {}
    for name in SCHEDULES:
        rows = points[points["schedule"] == name].groupby("budget")["risk"].mean()
        if len(rows) >= 3:
            log_t, log_risk = np.log(rows.index.to_numpy()), np.log(rows.to_numpy())
            fitted[name] = float(np.polyfit(log_t, log_risk, 1)[0])
    return fitted


def larger_steps(tables: Tables) -> pd.DataFrame:
    """Return runs of the sweep beyond the largest monotone stepsize, at the lowest common risk.

    That is the lowest risk that the monotone run of the same list gets to. ``speedup`` is NaN where
    the larger stepsize never gets there.
    """
    every = tables.stepsize_speedups
    every = every[(every["part"] == "sweep") & every["monotone_stepsize"].notna()]
    results = []
    for _, group in every.groupby(SAME_LIST):
        monotone = group[
            (group["stepsize"] == group["monotone_stepsize"]) & group["speedup"].notna()
        ]
        if not monotone.empty:
            level = monotone["level"].min()
            beyond = group["stepsize"] > group["monotone_stepsize"]
            results.append(group[beyond & (group["level"] == level)])
    return pd.concat(results, ignore_index=True) if results else every.iloc[:0]


def _starts(runs: pd.DataFrame, held: pd.Series, share: float) -> MeasuredClaim:
    """Return the share of the starts in which at least a share of the runs do as claimed."""
    shares = held.groupby([runs[name] for name in START]).mean()
    return share_of(int((shares >= share).sum()), len(shares), "start")


def settled(tables: Tables, confidence: float, share: float) -> MeasuredClaim:
    """Count the starts whose oscillating runs settle; runs that diverge do not."""
    moving = oscillates(tables.stepsize_runs)
    return _starts(moving, moving["settled"] == 1, share)


def sooner(tables: Tables, confidence: float, share: float) -> MeasuredClaim:
    """Count the starts whose stepsizes beyond the largest monotone one are quicker.

    Quicker: fewer steps to the lowest risk that the largest monotone stepsize of the same list gets
    to. A stepsize that never gets there is not. Lists without a monotone stepsize have no
    reference, and are named in a table.
    """
    rows = larger_steps(tables)
    return _starts(rows, rows["speedup"] > 1, share)


def worst(
    tables: Tables, confidence: float, ratio: Callable[[pd.DataFrame], pd.Series]
) -> MeasuredClaim:
    """Return the largest ratio of a quantity to its bound in theory: mean over starts.

    A theorem has no exceptions. So the level of 1 is tested on the largest ratio of each start,
    and one run above 1, beyond rounding, is enough that the claim cannot be supported. Runs outside
    the conditions of the theorem have no ratio.
    """
    runs = tables.stepsize_runs
    runs = runs[runs["part"] != "multilayer"]
    largest = ratio(runs).groupby([runs[name] for name in START]).max().dropna()
    effect = effect_of_mean(largest.tolist(), confidence, "start")
    return MeasuredClaim(effect, gate="broken" if (largest > 1 + ROUNDING).any() else "")


def _stable(runs: pd.DataFrame) -> pd.Series:
    """T1: no rise begins below the stable threshold."""
    return 1 / runs["conservatism"]


def _margin(runs: pd.DataFrame) -> pd.Series:
    """T2: both sides of the rate of the risk; infinite where what must grow falls."""
    ratio = pd.concat([runs["rate_lower"], np.exp(runs["rate_upper_log"])], axis=1).max(axis=1)
    falls = (runs[["norm_falls", "modified_falls", "order_breaks"]] > 0).any(axis=1)
    return ratio.mask(falls, np.inf)


def _separable(runs: pd.DataFrame) -> pd.Series:
    """T3 and T4, on separable data, over their bounds.

    T3: averages of the risk and of the gradient potential. T4: steps to the second threshold, and
    the risk after it; a threshold that is not reached breaks it only if the run is as long as τ.
    Few data sets reach that threshold, so T4 alone would have one start.
    """
    reached = runs["settled_step"] >= 0
    steps = (runs["settled_step"] / runs["transition_bound"]).where(reached)
    steps = steps.mask(~reached & (runs["steps"] >= runs["transition_bound"]), np.inf)
    others = runs[["average_ratio", "potential_ratio", "stable_ratio"]]
    return pd.concat([steps, others], axis=1).max(axis=1)


THEOREMS = {
    "T1 (no rise below a threshold)": _stable,
    "T2 (margin and rate below a second threshold)": _margin,
    "T3, T4 (averages, and time to the second threshold)": _separable,
}
"""Theorems 2.2(a), 2.2(b) with lemma A.14, 3.2 with lemma C.3, and 4.1, as ratios to bounds."""


def acceleration(tables: Tables, confidence: float) -> MeasuredClaim:
    """Return the slope of log risk on log T with η ∝ T minus that with a fixed stepsize.

    Fixed: the largest monotone stepsize. In theory the slopes are −2 and −1.
    """
    by_start = [slopes(points) for _, points in tables.stepsize_acceleration.groupby(START)]
    pairs = np.array([
        (found["monotone"], found["proportional"])
        for found in by_start if {"monotone", "proportional"} <= found.keys()
    ]).reshape(-1, 2)  # fmt: skip
    if not len(pairs):
        return MeasuredClaim()
    effect = effect_of_mean((pairs[:, 1] - pairs[:, 0]).tolist(), confidence, "start")
    fixed, proportional = pairs.mean(axis=0).tolist()
    return MeasuredClaim(
        effect, THIRD, -1.0, first=fixed, last=proportional,
        published_first=-1.0, published_last=-2.0,
    )  # fmt: skip


def accuracy(tables: Tables, confidence: float, part: str) -> MeasuredClaim:
    """Return test accuracy, mean of stepsizes that oscillate − largest monotone one, by start."""
    gaps, seeds = [], []
    for _, same in (
        of_parts(tables.stepsize_runs, part).dropna(subset="accuracy").groupby(SAME_LIST)
    ):
        calm, larger = monotone(same), same[same["rises"] > 0]
        if len(calm) and len(larger):
            reference = calm.sort_values("stepsize")["accuracy"].iloc[-1]
            gaps.append(float(larger["accuracy"].mean() - reference))
            seeds.append(tuple(same[START].iloc[0]))
    means = pd.Series(gaps, dtype=float).groupby(pd.Series(seeds, dtype=object)).mean()
    return MeasuredClaim(effect_of_mean(means.tolist(), confidence, "start"))


def _falls(tables: Tables, confidence: float) -> str:
    """Return `NO_TRAINING` if the risk of a fixed stepsize hardly falls with the steps."""
    fits = [slopes(points) for _, points in tables.stepsize_acceleration.groupby(START)]
    fixed = [fit["monotone"] for fit in fits if "monotone" in fit]
    return "" if fixed and np.mean(fixed) <= -THIRD else NO_TRAINING


def _classifies(tables: Tables, confidence: float) -> str:
    """Return `NO_TRAINING` if networks classify test points hardly better than chance."""
    accuracy = of_parts(tables.stepsize_runs, "sweep")["accuracy"].mean()  # of two classes
    return "" if accuracy >= 0.5 + ABOVE_CHANCE else NO_TRAINING


SWEEP = "train_two_layer: {grid: [{part: sweep, seeds: 5}]}"

CLAIMS = (
    Claim(
        "stepsize-sooner", "stepsize",
        "Most stepsizes that are too large for a monotone risk reach a low risk sooner.",
        "abstract", "stepsize_speedup", partial(sooner, share=MOST),
        rule="count", bound=SAME,
        controls=(Control("all larger stepsizes of a start", partial(sooner, share=ALL), SAME),),
        needs=SWEEP,
    ),
    Claim(
        "stepsize-phases", "stepsize",
        "With a large stepsize the risk oscillates at first, and from some step on it falls.",
        "abstract, figure 2(a)", "stepsize_risk", partial(settled, share=MOST),
        rule="count", bound=SAME,
        controls=(Control("all runs of a start", partial(settled, share=ALL), SAME),),
        needs=SWEEP,
    ),
    Claim(
        "stepsize-theorems", "stepsize",
        "Thresholds, margins, averages and the time to the second threshold keep their bounds, "
        "whether the risk oscillates or not (T1 to T4).",
        "theorems 2.2, 3.2 and 4.1", "stepsize_bounds",
        Every({name: partial(worst, ratio=ratio) for name, ratio in THEOREMS.items()}),
        rule="level", sign=-1, bound=1.0, every="theorem",
        needs="train_two_layer: {grid: [{part: sweep, seeds: 5}, {part: bounds, seeds: 3}]}",
    ),
    Claim(
        "stepsize-acceleration", "stepsize",
        "With a stepsize in proportion to the number of steps T the risk falls as 1/T², with a "
        "fixed one as 1/T (T5).",
        "corollary 4.2", "stepsize_acceleration", acceleration,
        sign=-1, needs="train_two_layer: {grid: [{part: acceleration, seeds: 3}]}",
        power=_falls,
    ),
    Claim(
        "stepsize-tests", "stepsize",
        "Networks trained with steps that oscillate classify test points better than those of the "
        "largest monotone stepsize.",
        "figure 1(c)", "stepsize_accuracy", partial(accuracy, part="sweep"),
        bound=ACCURACY, unit="points", power=_classifies,
        controls=(Control("four layers", partial(accuracy, part="multilayer")),),
        needs="train_two_layer: {grid: [{part: sweep, data_set: digits_parity, seeds: 4}]}",
    ),
)  # fmt: skip


def _numbers(tables: Tables, confidence: float) -> Mapping[str, Any]:
    """Return the speed-ups of single runs at the lowest common risk."""
    rows = larger_steps(tables)
    reached = rows["speedup"].dropna()
    return {"median": float(reached.median()), "runs": len(rows), "reached": len(reached)}


QUESTIONS = (
    Question(
        "sooner", "Do stepsizes at which the risk oscillates train sooner?",
        tuple(claim.key for claim in CLAIMS), "small_stepsize", _numbers,
    ),
)  # fmt: skip
