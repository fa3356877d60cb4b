"""Does accuracy follow overlap? Changes from C_m 0, arm by arm, and the relation that remains.

An arm is a start of the fine-tuning under a scheme of corruption. Arms intervene on overlap: they
raise it by different amounts at the same C_m. If overlap carried the loss of accuracy, arms whose
overlap rises more would lose more accuracy at the same C_m.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from mispair.evaluation.report.series import purity_series, zeroshot_series
from mispair.report import style
from mispair.report.tables import Tables, main_first, remembered

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


def mediated(moved: pd.DataFrame) -> dict[float, tuple[float, float]]:
    """Return, by seed, the loss of accuracy that the rise of overlap accounts for, and the loss.

    Within each C_m the change of accuracy is regressed on the change of overlap over the arms (one
    slope, and an intercept for each C_m that takes up the effect of C_m itself). The slope times
    the rise of overlap in the main arm at the largest C_m is the loss that goes with it.

    Parameters
    ----------
    moved : DataFrame
        `changes`. The main arm is of the start ``pretrained`` and the first scheme of
        `tables.main_first`. Only C_m at which at least `LEAST_ARMS` arms were measured count.

    Returns
    -------
    dict of float to (float, float)
        Seed: loss that goes with overlap, and whole loss, of the main arm. Losses are negative.
    """
    result = {}
    for seed, part in moved.groupby("seed"):
        sizes = part.groupby("rate")["overlap"].transform("size")
        part = part[sizes >= LEAST_ARMS]
        main = part[(part["start"] == "pretrained") & (part["scheme"] == main_scheme(part))]
        if main.empty:
            continue
        inner = part[["overlap", "accuracy"]] - part.groupby("rate")[
            ["overlap", "accuracy"]].transform("mean")  # fmt: skip
        spread = float((inner["overlap"] ** 2).sum())
        if spread == 0:
            continue
        slope = float((inner["overlap"] * inner["accuracy"]).sum()) / spread
        last = main.sort_values("rate").iloc[-1]
        result[float(str(seed))] = (slope * float(last["overlap"]), float(last["accuracy"]))
    return result


def main_scheme(arm_points: pd.DataFrame) -> str:
    """Return the main scheme of corruption among arms, or "" if there are none."""
    return next(iter(main_first(arm_points["scheme"])), "")


def kept(moved: pd.DataFrame) -> pd.DataFrame:
    """Return how much of the main arm's changes every other arm keeps, at each C_m.

    Returns
    -------
    DataFrame
        ``start``, ``scheme``, ``rate``, mean ``overlap`` and ``accuracy`` over seeds, and
        ``rise_kept`` and ``loss_kept``, the shares of the main arm's means at that C_m.
    """
    means = moved.groupby([*ARM, "rate"])[["overlap", "accuracy"]].mean().reset_index()
    main = means[(means["start"] == "pretrained") & (means["scheme"] == main_scheme(means))]
    main = main.set_index("rate")
    for share, name in (("rise_kept", "overlap"), ("loss_kept", "accuracy")):
        reference = means["rate"].map(main[name])
        means[share] = np.where(reference != 0, means[name] / reference, math.nan)
    return means


def within_seed(arm_points: pd.DataFrame) -> pd.DataFrame:
    """Return the rank correlation of accuracy with overlap over C_m, mean of the seeds, by arm."""
    rows = []
    for (start, scheme), part in arm_points.groupby(ARM):
        single = [
            each["overlap"].corr(each["accuracy"], method="spearman")
            for _, each in part.groupby("seed")
            if each["rate"].nunique() > 2 and each["overlap"].nunique() > 1
            and each["accuracy"].nunique() > 1
        ]  # fmt: skip
        rows.append((start, scheme, float(np.mean(single)) if single else math.nan))
    return pd.DataFrame(rows, columns=[*ARM, "rho"])


def label(start: str, scheme: str, schemes: Sequence[str]) -> str:
    """Name an arm: its start in words, and its scheme where there are several."""
    text = style.START_WORDS.get(start, start)
    return f"{text}, {scheme}" if len(schemes) > 1 else text
