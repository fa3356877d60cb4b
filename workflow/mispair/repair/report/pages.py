"""What the repair puts on the pages of the report."""

from __future__ import annotations

import pandas as pd

from mispair.core.words import number
from mispair.repair.report import claims
from mispair.repair.report.measures import (
    ARMS,
    LABELS,
    TOWERS,
    mean_of,
    measures_of,
    rates_of,
    rules_of,
    values,
)
from mispair.repair.report.study import ARMS as OF_ARMS
from mispair.repair.report.study import LEARNED, LEDGER
from mispair.report import texts
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table, effect_cell, mean_and_spread
from mispair.report.tables import Tables

COUNTS = ("read", "kept", "replaced", "dropped", "failed")


def _tables(tables: Tables, confidence: float) -> list[Table]:
    return [
        table
        for name, ledgers, of_ledger, of_arms in (
            (ARMS, tables.repairs, LEDGER, OF_ARMS),
            (TOWERS, tables.tower_repairs, LEARNED, LEARNED),
        )
        for table in (
            *(_arms(tables, name, rate, confidence, of_arms) for rate in rates_of(tables, name)),
            *(_ledger(ledgers, rate, of_ledger) for rate in rates_of(tables, name)),
            *_features(ledgers, of_ledger),
        )
    ]


def _arms(tables: Tables, name: str, rate: float, confidence: float, section: str) -> Table:
    shown = measures_of(tables, name)
    of_measure = [values(tables, measure, name) for measure in shown]
    gain = claims.LEARNED if name == TOWERS else claims.ACCURACY
    rows = []
    for rule in rules_of(tables, name):
        cells = [
            mean_and_spread(
                table[(table["rule"] == rule) & (table["rate"] == rate)]["value"], 4, counted=False
            )
            for table in of_measure
        ]
        effect = gain.difference(tables, rule, "raw", rate, confidence)
        against = effect_cell(effect.value, effect.low, effect.high) if rule != "raw" else "–"
        rows.append((LABELS[rule], *cells, against))
    return Table(
        f"Towers trained from scratch, at rate {rate:g}" if name == TOWERS
        else f"Arms at rate {rate:g}",
        ("captions", *shown, "accuracy − raw"),
        tuple(rows),
        "Mean ± standard deviation over seeds. Directions: participation ratio. Every arm has as "
        "many updates as the raw one; an arm with fewer pairs sees each more often.",
        section=section,
    )  # fmt: skip


def _ledger(ledgers: pd.DataFrame, rate: float, section: str) -> Table:
    table = ledgers[ledgers["rate"] == rate]
    draws = max(1, table["seed"].nunique())
    counts = (table.groupby(["rule", "metric"])["value"].sum() / draws).to_dict()
    cells = table[table["metric"] == "pairs"]
    of_cell = (cells.groupby(["rule", "before", "after"])["value"].sum() / draws).to_dict()
    truth_known = bool(cells["before"].isin(["right", "wrong"]).any())
    rows = [
        (
            LABELS[rule],
            *(f"{counts[rule, name]:,.0f}" for name in COUNTS),
            *(
                f"{of_cell.get((rule, *cell), 0.0):,.0f}" if truth_known else ""
                for cell in (("wrong", "right"), ("right", "wrong"))
            ),
        )
        for rule in LABELS
        if (rule, "read") in counts
    ]
    remark = "Mean over draws. Read = kept + replaced + dropped + failed. "
    remark += (
        "Repaired: a wrong caption before, a true one after. Harmed: the reverse. A new caption is "
        "true if it names features of the picture and no other ones."
        if truth_known
        else "Which captions of this corpus are true is not known, so repaired and harmed pairs "
        "are not counted."
    )
    return Table(
        f"Ledger at rate {rate:g}",
        ("captions", *COUNTS, "repaired", "harmed"),
        tuple(rows),
        remark,
        section=section,
    )


def _features(ledgers: pd.DataFrame, section: str) -> list[Table]:
    table = ledgers[ledgers["metric"].isin(["precision", "recall"])]
    if table.empty:
        return []
    means = table.groupby(["rate", "captions", "rule", "metric"])["value"].mean().to_dict()
    rows = []
    for rate in sorted(table["rate"].unique()):
        for captions, rule in (
            ("raw", "raw"), ("generated", "all"),
            *(("repaired", rule) for rule in LABELS if rule != "raw"),
        ):  # fmt: skip
            key = (rate, captions, rule)
            if (*key, "precision") not in means:
                continue
            label = "generated, of pairs that are not trusted"
            rows.append(
                (f"{rate:g}", label if captions == "generated" else LABELS[rule],
                 *(number(means.get((*key, name))) for name in ("precision", "recall")))
            )  # fmt: skip
    return [
        Table(
            "Features that captions name",
            ("rate", "captions", "precision", "recall"),
            tuple(rows),
            "Precision: share of named features that the picture has. Recall: share of the "
            "picture's features that are named.",
            section=section,
        )
    ]


def _answer(tables: Tables) -> str:
    name = ARMS if rates_of(tables) else TOWERS
    rates, table = rates_of(tables, name), values(tables, "accuracy", name)
    if not rates:
        return ""
    means = {
        LABELS[rule]: mean_of(table, rule, rates[-1])
        for rule in rules_of(tables, name)
        if rule in table["rule"].unique()
    }
    numbers = {"rate": rates[-1], "means": means, "learned": name == TOWERS}
    return texts.sentence("repair", "page", "means", numbers)


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    answer=_answer,
    tables=_tables,
)
