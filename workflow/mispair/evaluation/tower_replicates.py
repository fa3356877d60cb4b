"""Measures of each pair of towers, and intervals in which a pair of towers is the replicate.

Seeds of the fine-tuning repeat a run of one pair of towers, so their intervals are about these
towers alone. Here each pair gives one number, the mean over its seeds, and a t interval over pairs
is about towers that the same recipe makes from other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mispair.core.metrics import Row, read_metrics
from mispair.evaluation.report.rows import PARTS
from mispair.evaluation.selection import SELECTION
from mispair.evaluation.semantics import BY_OVERLAP, ORIGINAL, ROTATED
from mispair.report.rows import arm
from mispair.report.statistics import Effect, contrasts, effect_of_mean

UNIT = "pair of towers"
LEVEL, CHANGE = "level", "change"
"""Quantities: the value of an arm, and its difference from the lowest rate of the same start."""

LOG_PARTICIPATION = "log_participation_ratio"
RANK_CORRELATION = "mean_rank_correlation"
"""Mean of Spearman's ρ of mean |cos| with semantic purity and selectivity, over both towers."""

OVER_ROTATED = "mean_rank_correlation_over_rotated"
"""The same − its mean over randomly rotated bases, in which the model computes the same."""

SEMANTIC_PURITY = "mean_semantic_purity"
ARM = ["start", "scheme", "rate"]
KEYS = ["towers", *ARM, "metric", "tower"]
"""Columns that identify a measure of a pair of towers."""


def values(
    purity: Sequence[Path], zeroshot: Sequence[Path], semantics: Sequence[Path]
) -> pd.DataFrame:
    """Return one row for each pair of towers, arm and measure: `KEYS` and ``value``.

    Parameters
    ----------
    purity, zeroshot, semantics : sequences of Path
        Metrics of arms, in folders ``TOWERS/ARM``.

    Returns
    -------
    DataFrame
        A value is the mean over the seeds of the arm. Accuracy (``acc1``) and the share of right
        choices (`SELECTION`) are means over the evaluation sets, under the first protocol.
    """
    rows = [
        *_of_files(purity, _purity),
        *_of_files(zeroshot, _zeroshot),
        *_of_files(semantics, _semantics),
    ]
    table = pd.DataFrame(rows, columns=[*KEYS, "value"])
    return table.sort_values(KEYS, kind="stable", ignore_index=True)


def _of_files(paths: Sequence[Path], measures: Any) -> Iterator[Row]:
    for path in paths:
        rows, provenance = read_metrics(path)
        keys = {"towers": path.parent.parent.name, **arm(provenance)}
        for measure in measures(pd.DataFrame(rows)):
            yield {**keys, **measure}


def _purity(rows: pd.DataFrame) -> Iterator[Row]:
    whole = rows[rows[[*PARTS.intersection(rows.columns)]].isna().all(axis=1)]
    for tower, of_tower in whole.dropna(subset=["tower"]).groupby("tower"):
        measured = of_tower.set_index("metric")["value"]
        cosine, ratio = measured["mean_abs_cosine"], measured["participation_ratio"]
        yield {"metric": "mean_abs_cosine", "tower": tower, "value": float(np.mean(cosine))}
        yield {
            "metric": LOG_PARTICIPATION, "tower": tower, "value": float(np.mean(np.log(ratio))),
        }  # fmt: skip


def _zeroshot(rows: pd.DataFrame) -> Iterator[Row]:
    for metric in ("acc1", SELECTION):
        of_metric = rows[rows["metric"] == metric]
        of_sets = [
            of_set.loc[of_set["protocol"] == of_set["protocol"].iloc[0], "value"].mean()
            for _, of_set in of_metric.groupby("evaluation_set")
        ]
        if of_sets:
            yield {"metric": metric, "tower": None, "value": float(np.mean(of_sets))}


def _semantics(rows: pd.DataFrame) -> Iterator[Row]:
    tests = rows[rows["metric"].str.endswith(BY_OVERLAP)]
    own, rotated = (tests[tests["basis"] == basis] for basis in (ORIGINAL, ROTATED))
    purity = rows[(rows["metric"] == SEMANTIC_PURITY) & (rows["basis"] == ORIGINAL)]
    for (metric, tower), part in pd.concat([own, purity]).groupby(["metric", "tower"]):
        yield {"metric": metric, "tower": tower, "value": float(part["value"].mean())}
    # Every tower and measure has as many seeds, so the mean of all rows is that of the four.
    mean = float(own["value"].mean())
    yield {"metric": RANK_CORRELATION, "tower": None, "value": mean}
    if len(rotated):
        null = float(rotated["value"].mean())
        yield {"metric": OVER_ROTATED, "tower": None, "value": mean - null}


def intervals(of_towers: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """Return levels and changes of every measure, as means over pairs of towers with t intervals.

    Parameters
    ----------
    of_towers : DataFrame
        As `values` returns it.
    confidence : float
        1 − α.

    Returns
    -------
    DataFrame
        ``quantity``, the keys of the arm, ``metric``, ``tower``, ``value``, ``low``, ``high``,
        ``p`` (two-sided, against zero; only for changes and correlations) and ``n``, the number of
        pairs of towers. A change is paired: the value at a rate − that at the lowest rate of the
        same start and towers.
    """
    rows: list[Row] = []
    for (metric, tower), of_metric in of_towers.groupby(["metric", "tower"], dropna=False):
        keys = {"metric": metric, "tower": None if pd.isna(tower) else tower}
        for of_arm, rows_of_arm in of_metric.groupby(ARM, dropna=False):
            effect = effect_of_mean(rows_of_arm["value"].tolist(), confidence, UNIT)
            p = effect.p if _is_correlation(str(metric)) else math.nan
            rows.append({"quantity": LEVEL, **_arm(of_arm), **keys, **_numbers(effect), "p": p})
        for (start, scheme), rate, effect in _changes(of_metric, confidence):
            of_arm = start, scheme, rate
            rows.append({"quantity": CHANGE, **_arm(of_arm), **keys, **_numbers(effect)})
    columns = ["quantity", *ARM, "metric", "tower", "value", "low", "high", "p", "n"]
    return pd.DataFrame(rows, columns=columns)


def _changes(
    of_metric: pd.DataFrame, confidence: float
) -> Iterator[tuple[tuple[str, str], float, Effect]]:
    of_rates = of_metric.dropna(subset=["rate"])
    for start, of_start in of_rates.groupby("start"):
        lowest = of_start["rate"] == of_start["rate"].min()
        for scheme in of_start.loc[~lowest, "scheme"].unique():
            # All schemes share the arm at the lowest rate if it is 0.
            series = of_start[(of_start["scheme"] == scheme) | lowest]
            by_rate = contrasts(series.rename(columns={"towers": "seed"}), confidence, UNIT)
            for rate, effect in by_rate.items():
                yield (str(start), str(scheme)), rate, effect


def _is_correlation(metric: str) -> bool:
    return metric.endswith(BY_OVERLAP) or metric in (RANK_CORRELATION, OVER_ROTATED)


def _arm(keys: Any) -> dict[str, Any]:
    return {name: None if pd.isna(key) else key for name, key in zip(ARM, keys, strict=True)}


def _numbers(effect: Effect) -> dict[str, float]:
    return {name: getattr(effect, name) for name in ("value", "low", "high", "p", "n")}
