"""Effects on zero-shot accuracy against rate 0, paired by image and seed."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd

from mispair.core.words import number
from mispair.evaluation.arm_comparison import OF_ALL_SETS, OF_ONE_SET
from mispair.report.statistics import IMAGE_AND_SEED, Effect, contrast, effect_of_estimate
from mispair.report.tables import Tables, of_protocol

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
    images within each set and seeds in all sets: see `mispair.evaluation.paired_differences`.

    Parameters
    ----------
    evaluation_set : str, optional
        One set; by default the unweighted mean over all sets of the protocol.
    reference : str
        ``rate 0``, ``untouched`` or ``not weighted``.
    metric : str
        `SELECTION_OF_ALL_SETS` or `BEYOND_ACCURACY` in place of the accuracy over all sets.
    """
    table = of_protocol(tables.comparisons)
    rows = table[(table["start"] == start) & (table["reference"] == reference)]
    if evaluation_set is None:
        rows = rows[rows["metric"] == metric]
    else:
        rows = rows[(rows["metric"] == OF_ONE_SET) & (rows["evaluation_set"] == evaluation_set)]
    rows = rows.dropna(subset=["rate"]).sort_values("rate")
    return {float(row["rate"]): _effect(row, confidence) for _, row in rows.iterrows()}


def _effect(row: pd.Series, confidence: float) -> Effect:
    return effect_of_estimate(
        float(row["value"]), float(row["error"]), float(row["freedom"]), int(row["n"]),
        confidence, IMAGE_AND_SEED,
    )  # fmt: skip


def change_of_score(
    tables: Tables, metric: str, series: pd.DataFrame, confidence: float,
    evaluation_set: str | None = None,
) -> Effect:  # fmt: skip
    """Return the change of the pretrained start's series from the lowest to the largest rate.

    Accuracy (acc1) changes over images and seeds if arms were compared: `accuracy_contrasts`.
    """
    if metric == "acc1":
        by_rate = accuracy_contrasts(tables, "pretrained", confidence, evaluation_set)
        effect = by_rate.get(max(by_rate, default=0.0))
        if effect is not None and math.isfinite(effect.value):
            return effect
    return contrast(series, confidence)


def by_rate_text(by_rate: Mapping[float, Effect]) -> str:
    """Print the effect at each rate, with a star where its interval excludes zero."""
    return ", ".join(
        f"{number(effect.value, 3, sign=True)}"
        f"{'*' if effect.known and effect.low * effect.high > 0 else ''} at {rate:g}"
        for rate, effect in sorted(by_rate.items())
    )
