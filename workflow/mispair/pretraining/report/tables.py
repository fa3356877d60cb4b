"""Tables of the study of towers trained from scratch on wrong captions."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from mispair.evaluation.identified_basis import RECOVERED
from mispair.pretraining.names import CLEAN, IDENTIFIED, LINEAR, TOWERS
from mispair.pretraining.report.runs import conditions, effects, values
from mispair.report.table import Cell, Table, effect_cell, mean_and_spread
from mispair.report.tables import Tables

ACCURACY = "Accuracy and overlap"


def pretraining(tables: Tables, confidence: float) -> list[Table]:
    """Return the table of what the figures do not show; none without a measurement."""
    table = tables.pretraining
    if table.empty:
        return []
    return [_measures(table, confidence)]


def _measures(table: pd.DataFrame, confidence: float) -> Table:
    named = [
        (f"accuracy, {name}", {"metric": "acc1", "evaluation_set": name}, 3)
        for name in sorted(table["evaluation_set"].dropna().unique())
    ]
    named.append(("accuracy, mean of the sets", {"metric": "acc1"}, 3))
    for tower in TOWERS:
        for basis, label in ((IDENTIFIED, "varimax"), (f"{IDENTIFIED}-null", "random rotations"),
                             (LINEAR, "linear readouts")):  # fmt: skip
            where = {"metric": "recovery", "tower": tower, "basis": basis}
            named.append((f"recovery of features, {tower}, {label}", where, 3))
        where = {"metric": "features_recovered", "tower": tower, "basis": IDENTIFIED}
        named.append((f"features above {RECOVERED:g}, {tower}, varimax", where, 1))
        named.append(
            (f"mean |cos| of neurons, {tower}", {"metric": "mean_abs_cosine", "tower": tower}, 4)
        )
    named.append(("logit scale after training", {"metric": "logit_scale"}, 1))
    rows = [
        (label, *cells)
        for label, where, digits in named
        for cells in _conditions(table, values(table, **where), confidence, digits)
    ]
    return Table(
        "Accuracy, recovery of true features and overlap",
        ("measure", "captions", "mean ± standard deviation", "less clean, paired by seed"),
        tuple(rows),
        "Recovery: mean over features of the best |correlation| with a component, on pairs that "
        "were neither trained on nor used to find the basis.",
        section=ACCURACY,
    )  # fmt: skip


def _conditions(
    table: pd.DataFrame, measured: pd.DataFrame, confidence: float, digits: int
) -> Iterator[tuple[Cell, ...]]:
    """Yield captions, mean with spread, and effect against clean captions, of each condition."""
    apart = effects(measured, confidence)
    for scheme, rate in conditions(table):
        shown = measured[(measured["scheme"] == scheme) & (measured["rate"] == rate)]["value"]
        effect = apart.get((scheme, rate))
        yield (
            CLEAN if scheme == CLEAN else f"{scheme} {rate:g}",
            mean_and_spread(shown, digits),
            None if effect is None else effect_cell(effect.value, effect.low, effect.high),
        )
