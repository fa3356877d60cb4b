"""Intervals and the printed table of measures in which a pair of towers is the replicate.

Seeds of the fine-tuning repeat a run of one pair of towers, so their intervals are about these
towers alone. Here each pair gives one number, the mean over its seeds, and a t interval over pairs
is about towers that the same recipe makes from other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from mispair.evaluation.semantics import BY_OVERLAP
from mispair.image_text import tower_replicates
from mispair.image_text.report.study import REPLICATES
from mispair.report import texts
from mispair.report.notes import Note
from mispair.report.statistics import Effect, contrasts, effect_of_mean
from mispair.report.table import Cell, Number, Table, between, or_dash, whole
from mispair.report.tables import Row, Tables, records

UNIT = "pair of towers"
LEVEL, CHANGE = "level", "change"
"""Quantities: the value of an arm, and its difference from the lowest rate of the same start."""

ARM = [*tower_replicates.ARM]

MEASURES = {
    "mean_abs_cosine": ("mean |cos|", 4),
    "log_participation_ratio": ("ln of the participation ratio", 3),
    "acc1": ("zero-shot accuracy, mean of the sets", 3),
    "selection_acc": ("right choices on compositional sets", 3),
    "mean_rank_correlation": ("ρ of mean |cos| with purity and selectivity", 3),
    "mean_rank_correlation_over_rotated": ("the same − its mean in rotated bases", 3),
    "mean_semantic_purity": ("semantic purity", 3),
}
"""Measures that are printed, in words, and their digits."""

HEADS = (
    "measure", "tower", "start", "scheme", "C_m", "quantity", "mean", "interval", "towers",
)  # fmt: skip


def intervals(of_towers: pd.DataFrame, confidence: float = 0.95) -> list[Row]:
    """Return levels and changes of every measure, as means over pairs of towers with t intervals.

    Parameters
    ----------
    of_towers : DataFrame
        The table ``towers``: see `mispair.image_text.tower_replicates.values`.
    confidence : float
        1 − α.

    Returns
    -------
    list of dict
        ``quantity``, the keys of the arm, ``metric``, ``tower``, ``value``, ``low``, ``high``,
        ``p`` (two-sided, against zero; only for changes and correlations) and ``n``, the number of
        pairs of towers. A change is paired: the value at a rate − that at the lowest rate of the
        same start and towers.
    """
    rows: list[Row] = []
    for (metric, tower), of_metric in of_towers.groupby(["metric", "tower"], dropna=False):
        keys = {"metric": metric, "tower": _or_none(tower)}
        for of_arm, rows_of_arm in of_metric.groupby(ARM, dropna=False):
            effect = effect_of_mean(rows_of_arm["value"].tolist(), confidence, UNIT)
            p = effect.p if _is_correlation(str(metric)) else math.nan
            rows.append({"quantity": LEVEL, **_arm(of_arm), **keys, **_numbers(effect), "p": p})
        for of_arm, effect in _changes(of_metric, confidence):
            rows.append({"quantity": CHANGE, **_arm(of_arm), **keys, **_numbers(effect)})
    return rows


def _changes(
    of_metric: pd.DataFrame, confidence: float
) -> Iterator[tuple[tuple[Any, ...], Effect]]:
    of_rates = of_metric.dropna(subset=["rate"])
    for start, of_start in of_rates.groupby("start"):
        lowest = of_start["rate"] == of_start["rate"].min()
        for scheme in of_start.loc[~lowest, "scheme"].unique():
            # All schemes share the arm at the lowest rate if it is 0.
            series = of_start[(of_start["scheme"] == scheme) | lowest]
            by_rate = contrasts(series.rename(columns={"towers": "seed"}), confidence, UNIT)
            for rate, effect in by_rate.items():
                yield (start, scheme, rate), effect


def _is_correlation(metric: str) -> bool:
    of_four = (tower_replicates.RANK_CORRELATION, tower_replicates.OVER_ROTATED)
    return metric.endswith(BY_OVERLAP) or metric in of_four


def _arm(keys: Any) -> dict[str, Any]:
    return {name: _or_none(key) for name, key in zip(ARM, keys, strict=True)}


def _or_none(key: Any) -> Any:
    return None if pd.isna(key) else key


def _numbers(effect: Effect) -> dict[str, float]:
    return {name: getattr(effect, name) for name in ("value", "low", "high", "p", "n")}


def replicates(tables: Tables) -> list[Table]:
    """Return levels and changes of the measures, with intervals over pairs of towers."""
    measured = tables.tower_intervals
    order = {metric: place for place, metric in enumerate(MEASURES)}
    measured = measured[measured["metric"].isin(order)]
    measured = measured.sort_values("metric", key=lambda names: names.map(order), kind="stable")
    if measured.empty:
        return []
    return [
        Table(
            "Measures over pairs of towers",
            HEADS,
            tuple(_cells(row) for row in records(measured)),
            texts.text(Note("image_text", "table_replicates")),
            section=REPLICATES,
        )
    ]


def _cells(row: Row) -> tuple[Cell, ...]:
    name, digits = MEASURES[str(row["metric"])]
    is_signed = row["quantity"] == CHANGE
    arm = (None if pd.isna(row[key]) else str(row[key]) for key in ("tower", "start", "scheme"))
    shown = Number(row["value"], digits, is_signed)
    limits = between(row["low"], row["high"], digits, is_signed)
    return name, *arm, or_dash(row["rate"], "g"), row["quantity"], shown, limits, whole(row["n"])
