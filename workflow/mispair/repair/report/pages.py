"""What the repair puts on the pages of the report."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from mispair.core.words import MISSING, number
from mispair.repair.report import from_scratch
from mispair.repair.report.measures import (
    LABELS,
    MEASURES,
    accuracy_difference,
    rates_of,
    rules_of,
    values,
)
from mispair.repair.report.study import ARMS, LEARNED, LEDGER
from mispair.report import verdicts
from mispair.report.pages.study_pages import Pages
from mispair.report.table import Table, mean_and_spread
from mispair.report.tables import Tables
from mispair.report.verdicts import Verdict

COUNTS = ("read", "kept", "replaced", "dropped", "failed")


def _tables(tables: Tables, judged: Sequence[Verdict], confidence: float) -> list[Table]:
    printed = [_arms(tables, confidence, rate) for rate in rates_of(tables.repaired_arms)]
    printed += [_ledger(tables.repairs, rate, LEDGER) for rate in rates_of(tables.repaired_arms)]
    printed += _features(tables.repairs, LEDGER)
    printed += from_scratch.printed(tables, confidence)
    printed += [
        _ledger(tables.tower_repairs, rate, LEARNED) for rate in rates_of(tables.repaired_towers)
    ]
    return [*printed, *_features(tables.tower_repairs, LEARNED)]


def _arms(tables: Tables, confidence: float, rate: float) -> Table:
    shown = [name for name in MEASURES if not values(tables, name).empty]
    of_measure = {name: values(tables, name) for name in shown}
    rows = []
    for rule in rules_of(tables.repaired_arms):
        cells = []
        for table in of_measure.values():
            of_rule = table[(table["rule"] == rule) & (table["rate"] == rate)]
            cells.append(mean_and_spread(of_rule["value"], 4, counted=False))
        effect = accuracy_difference(tables, rule, "raw", rate, confidence)
        against = verdicts.effect_text(effect, confidence, 4) if effect.known else "–"
        rows.append((LABELS[rule], *cells, against))
    return Table(
        f"Arms at rate {rate:g}",
        ("captions", *shown, "accuracy − raw"),
        tuple(rows),
        "Mean ± standard deviation over seeds. Every arm has as many updates as the raw one; an "
        "arm with fewer pairs sees each more often.",
        section=ARMS,
    )


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
    rates = rates_of(tables.repaired_arms)
    if not rates:
        return from_scratch.answer(tables)
    table = values(tables, "accuracy")
    means = table[table["rate"] == rates[-1]].groupby("rule")["value"].mean().to_dict()
    parts = [
        f"{number(means[rule])} with {LABELS[rule]}"
        for rule in ("raw", "factor", "drop", "oracle")
        if rule in means
    ]
    return f"Accuracy at rate {rates[-1]:g}: {', '.join(parts)}." if parts else MISSING


PAGES = Pages(
    claims=(),
    questions=(),
    answer=_answer,
    tables=_tables,
)
