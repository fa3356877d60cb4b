"""The claim on towers trained from scratch: which wrong captions mix features."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from mispair.pretraining.names import CLEAN, LINEAR
from mispair.pretraining.report.runs import MAIN, effects, main_rate, values
from mispair.report.claims import THIRD, Claim, Control, Measured
from mispair.report.questions import Question
from mispair.report.tables import Tables

SMALLEST = 0.02
"""Smallest mixing score of interest, a difference of correlations. Nothing was published. A
correlation of 0.02 explains 0.04 % of the variance of a component."""

ABOVE_CHANCE = 2.0
"""Towers on clean captions classify if their accuracy is at least this many times chance."""


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
