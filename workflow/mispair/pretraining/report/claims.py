"""The claim on towers trained from scratch: which wrong captions mix features."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from mispair.pretraining.names import CLEAN, LINEAR, SCHEMES
from mispair.report.claims import THIRD, Claim, Control, Measured
from mispair.report.questions import Question
from mispair.report.statistics import Effect, effect_of_mean
from mispair.report.tables import Tables

SMALLEST = 0.02
"""Smallest mixing score of interest, a difference of correlations. Nothing was published. A
correlation of 0.02 explains 0.04 % of the variance of a component."""

ABOVE_CHANCE = 2.0
"""Towers on clean captions classify if their accuracy is at least this many times chance."""

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


def captions(scheme: str, rate: float) -> str:
    """Return the name of captions in figures and tables."""
    return CLEAN if scheme == CLEAN else f"{scheme} {rate:g}"


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


@dataclass(frozen=True)
class Mixing:
    """Mixing score of towers on one kind of wrong captions less that on clean ones, by seed.

    It is that at the largest rate, of the image tower.
    """

    scheme: str
    basis: str = MAIN["basis"]

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return the difference with the means of both."""
        table = tables.pretraining
        rate = main_rate(table)
        scores = values(table, "mixing", tower=MAIN["tower"], basis=self.basis)
        effect = effects(scores, confidence).get((self.scheme, rate))
        if effect is None:
            return Measured()
        means = scores[scores["rate"].isin([0.0, rate])].groupby("scheme")["value"].mean()
        gate = "" if _learned(table) else "not learnt"
        return Measured(
            effect, first=float(means[CLEAN]), last=float(means[self.scheme]), at=(rate,), gate=gate
        )


def _learned(table: pd.DataFrame) -> bool:
    """Return whether towers on clean captions classify clearly better than by chance."""
    clean = table[(table["metric"] == "acc1") & (table["scheme"] == CLEAN)]
    return bool(clean["value"].mean() >= ABOVE_CHANCE * clean["chance"].mean())


CLAIMS = (
    Claim(
        "pretraining-mixes", "pretraining",
        "Towers that are trained from scratch on spurious captions mix the features that these "
        "captions link.",
        "theorem 4.2", "pretraining_mixing",
        Mixing("spurious"), bound=SMALLEST,
        needs="studies: [pretraining]",
        controls=(
            Control("Captions of other pictures", Mixing("random"), least=None, most=THIRD),
            Control("Captions without some features", Mixing("missing"), least=None, most=THIRD),
            Control("Linear readouts", Mixing("spurious", LINEAR)),
        ),
    ),
)  # fmt: skip

QUESTIONS = (
    Question(
        "mixing", "Do towers trained from scratch on wrong captions mix features?",
        ("pretraining-mixes",), "small_pretraining",
    ),
)  # fmt: skip
