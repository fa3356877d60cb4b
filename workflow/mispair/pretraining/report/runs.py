"""Measures of towers trained from scratch, by scheme of corruption and seed."""

from __future__ import annotations

import pandas as pd

from mispair.pretraining.names import BASES, CLEAN, SCHEMES
from mispair.report.notes import Note
from mispair.report.statistics import Effect, effect_of_mean

COMMAND = "snakemake --cores 2 --configfile config/pretraining-captions.yaml"
NOT_RUN = Note("pretraining", "hole_not_run", command=COMMAND)

MAIN = {"tower": "image", "basis": "identified"}
"""Tower and basis for which claims are judged."""


def values(table: pd.DataFrame, metric: str, **where: str) -> pd.DataFrame:
    """Return a measure of every training: ``scheme``, ``rate``, ``seed`` and ``value``.

    Several rows of a training, such as evaluation sets, are averaged.
    """
    rows = table[table["metric"] == metric]
    for column, value in where.items():
        rows = rows[rows[column] == value]
    return rows.groupby(["scheme", "rate", "seed"])["value"].mean().reset_index()


def conditions(table: pd.DataFrame) -> list[tuple[str, float]]:
    """Return schemes with their rates, clean captions first, in the order of tables."""
    distinct = table[["scheme", "rate"]].drop_duplicates().dropna()
    order = {name: position for position, name in enumerate((CLEAN, *SCHEMES))}
    pairs = [(str(row["scheme"]), float(row["rate"])) for _, row in distinct.iterrows()]
    return sorted(pairs, key=lambda pair: (order.get(pair[0], len(order)), pair[1]))


def main_rate(table: pd.DataFrame) -> float:
    """Return the rate at which claims are judged: the largest."""
    return float(table["rate"].max())


def less_clean(scores: pd.DataFrame) -> pd.DataFrame:
    """Return `values` of wrong captions less those of clean ones of the same seed."""
    clean = scores[scores["scheme"] == CLEAN].set_index("seed")["value"]
    corrupted = scores[scores["scheme"] != CLEAN].copy()
    corrupted["value"] -= corrupted["seed"].map(clean)
    return corrupted.dropna(subset=["value"])


def effects(scores: pd.DataFrame, confidence: float) -> dict[tuple[str, float], Effect]:
    """Return, for each scheme and rate, the mean difference from clean captions over seeds."""
    apart = less_clean(scores)
    return {
        (scheme, rate): effect_of_mean(
            apart.loc[(apart["scheme"] == scheme) & (apart["rate"] == rate), "value"].tolist(),
            confidence, "seed",
        )
        for scheme, rate in conditions(apart)
    }  # fmt: skip


def bases(table: pd.DataFrame, tower: str) -> list[str]:
    """Return the bases in which mixing was measured in a tower."""
    rows = table[(table["metric"] == "mixing") & (table["tower"] == tower)]
    return [name for name in BASES if name in set(rows["basis"])]
