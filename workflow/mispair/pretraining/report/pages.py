"""What the study puts on the pages of the report: its table, and a note for the landing page."""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from mispair.pairs.corruption.scheme import schemes
from mispair.pretraining.settings import CLEAN, IDENTIFIED, LINEAR, TOWERS
from mispair.report import texts
from mispair.report.claims import THIRD, Claim, Control, MeasuredClaim
from mispair.report.pages.study_pages import Pages
from mispair.report.questions import Question
from mispair.report.statistics import Effect, effect_of_mean
from mispair.report.table import Cell, Table, effect_cell, mean_and_spread
from mispair.report.tables import Tables, where
from mispair.report.texts import Note

# The claim on towers trained from scratch: which wrong captions mix features.

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
    order = {name: position for position, name in enumerate((CLEAN, *schemes()))}
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
class MixingDifference:
    """Mixing score of towers on one kind of wrong captions less that on clean ones, by seed.

    It is that at the largest rate, of the image tower.
    """

    scheme: str
    basis: str = MAIN["basis"]

    def __call__(self, tables: Tables, confidence: float) -> MeasuredClaim:
        """Return the difference with the means of both."""
        table = tables.pretraining
        rate = main_rate(table)
        scores = values(table, "mixing", tower=MAIN["tower"], basis=self.basis)
        effect = effects(scores, confidence).get((self.scheme, rate))
        if effect is None:
            return MeasuredClaim()
        means = scores[scores["rate"].isin([0.0, rate])].groupby("scheme")["value"].mean()
        gate = "" if _learned(table) else "not learnt"
        return MeasuredClaim(
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
        MixingDifference("spurious"), bound=SMALLEST,
        needs="studies: [pretraining]",
        controls=(
            Control(
                "Captions of other pictures", MixingDifference("random"), least=None, most=THIRD
            ),
            Control(
                "Captions without some features", MixingDifference("missing"), least=None,
                most=THIRD,
            ),
            Control("Linear readouts", MixingDifference("spurious", LINEAR)),
        ),
    ),
)  # fmt: skip

QUESTIONS = (
    Question(
        "mixing", "Do towers trained from scratch on wrong captions mix features?",
        ("pretraining-mixes",), "small_pretraining",
    ),
)  # fmt: skip


def _tables(tables: Tables, confidence: float) -> list[Table]:
    """Return the table of what the figure does not show; none without a measurement."""
    table = tables.pretraining
    if table.empty:
        return []
    measures = {"accuracy, mean of the sets": ({"metric": "acc1"}, 3)}
    for tower in TOWERS:
        measures |= {
            f"recovery of features, {tower}, {name}":
                ({"metric": "recovery", "basis": basis, "tower": tower}, 3)
            for name, basis in (("varimax", IDENTIFIED), ("linear readouts", LINEAR))
        }  # fmt: skip
        overlap = {"metric": "mean_abs_cosine", "tower": tower}
        measures[f"mean |cos| of neurons, {tower}"] = (overlap, 4)
    rows = [
        (name, *cells)
        for name, (columns, digits) in measures.items()
        for cells in _conditions(table, values(table, **columns), confidence, digits)
    ]
    return [
        Table(
            "Accuracy, recovery of true features and overlap",
            ("measure", "captions", "mean ± standard deviation", "less clean, paired by seed"),
            tuple(rows), texts.text(Note("pretraining", "table_measures")),
            section="Accuracy and overlap",
        )
    ]  # fmt: skip


def _conditions(
    table: pd.DataFrame, measured: pd.DataFrame, confidence: float, digits: int
) -> Iterator[tuple[Cell, ...]]:
    """Yield captions, mean with spread, and effect against clean captions, of each condition."""
    apart = effects(measured, confidence)
    for scheme, rate in conditions(table):
        effect = apart.get((scheme, rate))
        yield (
            captions(scheme, rate),
            mean_and_spread(where(measured, scheme=scheme, rate=rate)["value"], digits),
            None if effect is None else effect_cell(effect.value, effect.low, effect.high),
        )


def _summary(tables: Tables) -> list[Note]:
    runs = len(tables.pretraining[["scheme", "rate", "seed"]].drop_duplicates())
    return [Note("pretraining", "summary_runs", runs=runs)] if runs else []


PAGES = Pages(claims=CLAIMS, questions=QUESTIONS, tables=_tables, summary=_summary)
