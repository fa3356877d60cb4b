"""Measures of each of several pairs of towers: one number for each, so that it is a replicate."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mispair.core.metrics import Row, read_metrics
from mispair.evaluation.retrieval import SELECTION
from mispair.evaluation.semantics import BY_OVERLAP, ORIGINAL, ROTATED

LOG_PARTICIPATION = "log_participation_ratio"
RANK_CORRELATION = "mean_rank_correlation"
"""Mean of Spearman's ρ of mean |cos| with semantic purity and selectivity, over both towers."""

OVER_ROTATED = "mean_rank_correlation_over_rotated"
"""The same − its mean over randomly rotated bases, in which the model computes the same."""

SEMANTIC_PURITY = "mean_semantic_purity"
ARM = ("start", "scheme", "rate")
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
        arm = {name: provenance["projection"].get(name) for name in ARM}
        arm["rate"] = None if arm["rate"] in (None, "") else float(arm["rate"])
        keys = {"towers": path.parent.parent.name, **arm}
        for measure in measures(pd.DataFrame(rows)):
            yield {**keys, **measure}


def _purity(rows: pd.DataFrame) -> Iterator[Row]:
    whole = rows[rows.reindex(columns=["neuron"])["neuron"].isna()]
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
