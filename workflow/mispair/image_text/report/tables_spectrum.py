"""Figures and table of the spectral identity: overlap as directions, and what the basis adds."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import count, interval, number
from mispair.evaluation.overlap_spectrum import GAUSSIAN, IDENTITY
from mispair.evaluation.report import arm_words
from mispair.evaluation.report.series import SHOWN, TOWERS
from mispair.evaluation.report.tables_semantics import SECTION
from mispair.image_text.report.effects import published_directions
from mispair.report import published
from mispair.report.table import Table, mean_and_spread, or_dash
from mispair.report.tables import Tables


def shape_sentence(tables: Tables) -> str:
    """Return the range of the shape ratio over all projections."""
    shape = tables.purity.loc[tables.purity["metric"] == "shape_ratio", "value"].dropna()
    text = (
        f"In {count(len(shape), 'projection')} (arms, seeds and towers) the shape ratio is between "
        f"{number(shape.min())} and {number(shape.max())}."
    )
    below = tables.purity.loc[tables.purity["metric"] == "shape_ratio_rotated", "below"].dropna()
    if len(below):
        outside = int(((below <= 0.025) | (below >= 0.975)).sum())
        text += (
            f" {outside} of {len(below)} lie outside the central 95 % of rotated bases; "
            f"{number(0.05 * len(below), 0)} would by chance."
        )
    return text


def spectrum(tables: Tables) -> list[Table]:
    """Return each arm's overlap as a number of directions, compared with rotated bases."""
    tables = tables.of_scheme()
    purity = tables.purity[tables.purity["start"].isin(SHOWN)]
    purity = purity[purity["neuron"].isna()]
    printed = published_directions()
    overlaps = published.purity().set_index("shuffle_probability")["mean_abs_cosine"]
    of_arm = arm_words.by_arm(purity)
    rows = []
    for arm in arm_words.arms(purity):
        for tower in TOWERS:
            table = of_arm[arm_words.key(arm)]
            table = table[table["tower"] == tower].set_index("metric")
            if "participation_ratio" not in table.index:
                continue
            compared = tower == "text" and arm["start"] == "pretrained"
            rate = arm["rate"] if compared else math.nan
            rows.append((
                "untouched" if pd.isna(arm["rate"]) else f"{arm['rate']:g}", tower,
                _mean(table, "mean_abs_cosine", 4), _mean(table, "participation_ratio", 1),
                _mean(table, "shape_ratio", 3), _null(table, "shape_ratio", 3),
                _null(table, "mean_abs_cosine", 4),
                or_dash(GAUSSIAN * _value(table, "rms_cosine_spectrum"), 4),
                or_dash(overlaps.get(rate, math.nan), 4), or_dash(printed.get(rate, math.nan), 0),
            ))  # fmt: skip
    if not rows:
        return []
    return [
        Table(
            "Overlap as a number of directions, and the part of the basis in it",
            ("C_m", "projection", "mean |cos|", "participation ratio", "shape ratio",
             "shape ratio in rotated bases", "mean |cos| in rotated bases",
             "the same, predicted from the spectrum", "published mean |cos|",
             f"published, as directions of {published.NEURONS}"),
            tuple(rows),
            f"{IDENTITY} In rotated bases: central 95 % of the rotations, mean over seeds. The "
            "prediction is √(2/π) times the root mean square cosine that the eigenvalues of the "
            "columns before the rotation lead to. Rotation changes lengths of columns, so cosines "
            "are nearly but not exactly those of the own basis. The published numbers are turned "
            f"into directions at a shape ratio of 1. {shape_sentence(tables)}",
            section=SECTION,
        )
    ]  # fmt: skip


def _mean(table: pd.DataFrame, metric: str, digits: int) -> str:
    return mean_and_spread(_of(table, metric, "value"), digits, counted=False)


def _value(table: pd.DataFrame, metric: str) -> float:
    return float(_of(table, metric, "value").mean())


def _null(table: pd.DataFrame, metric: str, digits: int) -> str:
    low, high = (_of(table, f"{metric}_rotated", limit).mean() for limit in ("low", "high"))
    return interval(low, high, digits) if math.isfinite(low) else "–"


def _of(table: pd.DataFrame, metric: str, column: str) -> pd.Series:
    return table.loc[table.index == metric, column].dropna()
