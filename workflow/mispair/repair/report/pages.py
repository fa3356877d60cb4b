"""What the repair puts on the pages of the report."""

from __future__ import annotations

import pandas as pd

from mispair.repair.captioners.faults import NOT_BETTER
from mispair.repair.report import claims
from mispair.repair.report.measures import (
    ARMS,
    FILTERS,
    LABELS,
    NOT_RIGHT,
    TOWERS,
    held_out,
    label_of,
    mean_of,
    measures_of,
    rates_of,
    rules_of,
    shares_changed,
    values,
)
from mispair.repair.report.study import ARMS as OF_ARMS
from mispair.repair.report.study import LEARNED, LEDGER
from mispair.report import texts
from mispair.report.notes import Note
from mispair.report.pages.study_pages import Pages
from mispair.report.table import (
    Cell,
    Number,
    Table,
    effect_cell,
    general,
    mean_and_spread,
    or_dash,
    whole,
)
from mispair.report.tables import Tables

UNCHANGED = ("raw", "oracle")
"""Rules that change no caption."""

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
            *(_examples(tables) if name == ARMS else []),
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
        against = effect_cell(effect.value, effect.low, effect.high) if rule != "raw" else None
        rows.append((label_of(tables, rule, name), *cells, against))
    return Table(
        f"Towers trained from scratch, {_at(rate)}" if name == TOWERS else f"Arms {_at(rate)}",
        ("captions", *shown, "accuracy − raw"),
        tuple(rows),
        "Mean ± standard deviation over seeds. Directions: participation ratio. Every arm has as "
        "many updates as the raw one; an arm with fewer pairs sees each more often.",
        section=section,
    )  # fmt: skip


def _at(rate: float) -> str:
    return texts.text(Note("repair", "at_rate", rate=rate))


def _ledger(ledgers: pd.DataFrame, rate: float, section: str) -> Table:
    table = ledgers[ledgers["rate"] == rate]
    draws = max(1, table["seed"].nunique())
    counts = (table.groupby(["rule", "metric"])["value"].sum() / draws).to_dict()
    cells = table[table["metric"] == "pairs"]
    of_cell = (cells.groupby(["rule", "before", "after"])["value"].sum() / draws).to_dict()
    expected = table[table["metric"] == "expected_pairs"]
    of_expected = (
        expected[expected["after"].isin(["replaced", "dropped"])]
        .groupby(["rule", "before"])["value"].sum() / draws
    ).to_dict()  # fmt: skip
    kind: str = "not known"
    heads: tuple[str, ...] = ()
    if cells["before"].isin(["right", "wrong"]).any():
        kind, heads = "judged", ("repaired", "harmed")
    elif of_expected:
        kind = "expected"
        heads = ("wrong, changed (expected)", "right, changed (expected)")

    def judged(rule: str) -> list[Cell]:
        if kind == "judged":
            pairs = [(rule, "wrong", "right"), (rule, "right", "wrong")]
            return [whole(of_cell.get(pair, 0.0)) for pair in pairs]
        known = [of_expected.get((rule, state)) for state in ("wrong", "right") if heads]
        return [or_dash(value, ",.0f") for value in known]

    labels = LABELS if kind == "judged" else {**LABELS, **NOT_RIGHT}
    rows = [
        (labels[rule], *(whole(counts[rule, name]) for name in COUNTS), *judged(rule))
        for rule in LABELS
        if (rule, "read") in counts
    ]
    return Table(
        f"Ledger {_at(rate)}",
        ("captions", *COUNTS, *heads),
        tuple(rows),
        texts.text(Note("repair", "table_ledger", kind=kind)),
        section=section,
    )


def _examples(tables: Tables) -> list[Table]:
    """Return old and new captions of pairs of the first filter that replaced some."""
    table = tables.repair_examples
    if table.empty:
        return []
    replaced = table[table["action"] == "replaced"]
    table = table if replaced.empty else replaced
    table = table[table["rate"] == table["rate"].min()]
    rule = next(rule for rule in (*FILTERS, *LABELS) if rule in set(table["rule"]))
    shown = table[table["rule"] == rule]
    return [
        Table(
            f"Old and new captions by the rule {rule}, {_at(float(shown['rate'].iloc[0]))}",
            ("pair", "old caption", "new caption", "old one"),
            tuple(shown[["key", "old", "new", "action"]].itertuples(index=False, name=None)),
            "Pairs drawn at random. Read some before you use the new captions.",
            section=LEDGER,
        )
    ]


def _ran(tables: Tables) -> list[Note]:
    """Return what the repair did, for the landing page."""
    read = tables.repairs[tables.repairs["metric"] == "read"]
    if read.empty:
        return []
    changed = shares_changed(tables, float(read["rate"].max()))
    shown = {rule: share for rule, share in changed.items() if rule not in UNCHANGED}
    return [Note("repair", "summary_ran", pairs=float(read["value"].max()), changed=shown)]


def _limits(tables: Tables) -> list[Note]:
    """Return that the captioner was not used, if it was not."""
    table, found = tables.repairs, held_out(tables)
    unused = table[(table["metric"] == "failed_reason") & (table["reason"] == NOT_BETTER)]
    if found is None or unused.empty:
        return []
    captioner, typical, pairs = found
    return [Note("repair", "limits_unused", captioner=captioner, typical=typical, pairs=pairs)]


def _features(ledgers: pd.DataFrame, section: str) -> list[Table]:
    table = ledgers[ledgers["metric"].isin(["precision", "recall"])]
    if table.empty:
        return []
    means = table.groupby(["rate", "captions", "rule", "metric"])["value"].mean().to_dict()
    rows: list[tuple[Cell, ...]] = []
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
                (general(rate), label if captions == "generated" else LABELS[rule],
                 *(Number(means.get((*key, name))) for name in ("precision", "recall")))
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


def _answer(tables: Tables) -> list[Note]:
    name = ARMS if rates_of(tables) else TOWERS
    rates, table = rates_of(tables, name), values(tables, "accuracy", name)
    if not rates:
        return []
    means = {
        label_of(tables, rule, name): mean_of(table, rule, rates[-1])
        for rule in rules_of(tables, name)
        if rule in table["rule"].unique()
    }
    learned = name == TOWERS
    return [Note("repair", "page_means", rate=rates[-1], means=means, learned=learned)]


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    answer=_answer,
    tables=_tables,
    summary=_ran,
    limits=_limits,
)
