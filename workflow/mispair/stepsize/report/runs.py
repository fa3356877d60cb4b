"""What the stepsize study's claims, tables and figures select from its tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mispair.report.notes import Note
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
SCHEDULES = {
    "monotone": "largest monotone η",
    "one": "η = 1",
    "proportional": "η ∝ T",
}
SAME_LIST = [name for name in RUN if name != "stepsize"]
"""Columns that are equal in runs that differ only in their stepsize."""
START = ["data_set", "seed"]
"""Columns that name a start: equal first weights and data, whatever else differs."""

FIRST_BUDGET = 1000
"""Steps T from which slopes are taken."""


def first_seed(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of seed 0, which every part has."""
    return rows[rows["seed"] == 0]


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


def settled_share(runs: pd.DataFrame) -> Note:
    """Return how many of the runs that oscillate settle."""
    oscillating = oscillates(of_parts(runs, "sweep"))
    settled = int((oscillating["settled"] == 1).sum())
    return Note("stepsize", "figure_settled", runs=len(oscillating), settled=settled)


def onset(tables: Tables) -> pd.DataFrame:
    """Return where oscillation begins in every list of stepsizes that has both kinds.

    Returns
    -------
    DataFrame
        One row for each list: ``monotone`` (largest stepsize below which none rises), ``rising``
        (smallest that does), ``onset`` (their geometric mean) and ``critical``, 2/(m λ_0).
    """
    runs = of_parts(tables.stepsize_runs, "onset", "acceleration", "sharpness", "sweep")
    rows = []
    for key, group in runs.dropna(subset=["critical_stepsize"]).groupby(SAME_LIST):
        first = oscillates(group)["stepsize"].min()
        below = group.loc[group["stepsize"] < first, "stepsize"]
        if below.empty:
            continue
        rows.append({
            **dict(zip(SAME_LIST, key, strict=True)), "monotone": below.max(), "rising": first,
            "onset": float(np.sqrt(below.max() * first)),
            "critical": float(group["critical_stepsize"].iloc[0]),
        })  # fmt: skip
    table = pd.DataFrame(rows, columns=[*SAME_LIST, "monotone", "rising", "onset", "critical"])
    keys = [name for name in SAME_LIST if name != "part"]
    # The finest list of a network and data set is the most exact.
    finest_first = (table["rising"] / table["monotone"]).sort_values(kind="stable").index
    return table.loc[finest_first].drop_duplicates(keys).sort_values(keys, ignore_index=True)


def without_monotone(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the lists of stepsizes without a monotone run, one row each."""
    lists = of_parts(runs, "sweep", "onset", "acceleration", "multilayer").groupby(SAME_LIST)
    rows = [(*key, group["stepsize"].min()) for key, group in lists if monotone(group).empty]
    return pd.DataFrame(rows, columns=[*SAME_LIST, "smallest"])


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


def speedup_span(tables: Tables) -> Note:
    """Return how much sooner larger stepsizes get to the lowest common risk."""
    rows = larger_steps(tables)
    reached = rows["speedup"].dropna()
    if reached.empty:
        return Note("stepsize", "figure_no_speedup")
    never = len(rows) - len(reached)
    return Note("stepsize", "figure_speedup", least=reached.min(), most=reached.max(), never=never)
