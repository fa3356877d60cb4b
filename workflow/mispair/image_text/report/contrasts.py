"""Effects on zero-shot accuracy against rate 0, paired by image and seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from mispair.evaluation.arm_comparison import OF_ALL_SETS, OF_ONE_SET
from mispair.report.claims import Measured, Part
from mispair.report.measures import Curve, Rows, of_sweep, rows
from mispair.report.statistics import Effect, contrasts, effect_of_comparison
from mispair.report.tables import Tables, of_protocol
from mispair.towers.arms import PRETRAINED

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
    found = table[(table["start"] == start) & (table["reference"] == reference)]
    if evaluation_set is None:
        found = found[found["metric"] == metric]
    else:
        found = found[(found["metric"] == OF_ONE_SET) & (found["evaluation_set"] == evaluation_set)]
    found = found.dropna(subset=["rate"]).sort_values("rate")
    return {
        float(row["rate"]): effect_of_comparison(row, confidence) for _, row in found.iterrows()
    }


@dataclass(frozen=True)
class Compared:
    """The change of a score against a reference at the largest rate, paired by image and seed.

    Attributes
    ----------
    start : str
        The arm.
    reference : str
        ``rate 0``, ``untouched`` or ``not weighted``.
    metric : str
        As in `accuracy_contrasts`.
    levels : Rows or None
        The rows whose means at the two ends are the compared values.
    published : callable or None
        The published curve whose change is compared.
    by_set : bool
        Whether each evaluation set is judged as well.
    gate : callable or None
        From the tables to the name of a condition that is not met, or "".
    """

    start: str = PRETRAINED
    reference: str = AT_RATE_0
    metric: str = OF_ALL_SETS
    levels: Rows | None = None
    published: Curve | None = None
    by_set: bool = False
    gate: Callable[[Tables], str] | None = None

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return the change with its value at each rate and on each set."""
        tables = tables.of_scheme().of_protocol()
        by_rate = accuracy_contrasts(
            tables, self.start, confidence, None, self.reference, self.metric
        )
        by_rate = {rate: effect for rate, effect in by_rate.items() if rate > 0}
        curve = self.published() if self.published else None
        levels = None
        if self.levels is not None:
            series = self.levels.but(start=self.start).select(tables)
            levels = series.groupby("rate")["value"].mean()
            if not by_rate:  # arms were not compared by image: over seeds alone
                by_rate = contrasts(series, confidence)
        if not by_rate:
            return Measured()
        measured = of_sweep(by_rate, 0.0, published=curve, levels=levels)
        sets = {name: Part(effect) for name, effect in self._by_set(tables, confidence).items()}
        return replace(measured, sets=sets, gate=self.gate(tables) if self.gate else "")

    def _by_set(self, tables: Tables, confidence: float) -> dict[str, Effect]:
        if not self.by_set:
            return {}
        names = tables.comparisons.loc[tables.comparisons["start"] == self.start, "evaluation_set"]
        found = {}
        for name in sorted(names.dropna().unique()):
            effects = accuracy_contrasts(tables, self.start, confidence, name, self.reference)
            if effects and math.isfinite(effects[max(effects)].value):
                found[str(name)] = effects[max(effects)]
        return found


ACCURACY = rows("zeroshot", balanced="evaluation_set", start=PRETRAINED, metric="acc1")
"""Accuracy of the pre-trained start, mean of the sets that every arm has."""


def cost(tables: Tables, confidence: float) -> Effect:
    """Return what the largest share of shuffled captions costs: the change of accuracy."""
    return Compared(levels=ACCURACY)(tables, confidence).effect
