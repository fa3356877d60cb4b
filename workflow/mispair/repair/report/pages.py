"""What the repair puts on the pages of the report."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
from markupsafe import Markup

from mispair.core import words
from mispair.repair.captioners.faults import LEAST_TO_TEST, NOT_BETTER
from mispair.repair.report import claims
from mispair.repair.report.claims import (
    ARMS,
    LABELS,
    NOT_RIGHT,
    TOWERS,
    at_rate,
    held_out,
    label_of,
    measures_of,
    rates_of,
    rules_of,
    values,
)
from mispair.repair.report.study import ARMS as OF_ARMS
from mispair.repair.report.study import LEARNED, LEDGER
from mispair.report import texts
from mispair.report.pages.study_pages import Pages, Piece
from mispair.report.statistics import Effect
from mispair.report.table import (
    Number,
    Table,
    between,
    mean_and_spread,
    or_dash,
    whole,
)
from mispair.report.tables import Tables, records, where
from mispair.report.texts import Note

COUNTS = ("read", "kept", "replaced", "dropped", "failed")

CELLS = {
    "repaired": ("pairs", "wrong", "right"),
    "harmed": ("pairs", "right", "wrong"),
    "wrong, dropped": ("pairs", "wrong", "dropped"),
    "right, dropped": ("pairs", "right", "dropped"),
    "exchanged, replaced": ("pairs", "swapped", "replaced"),
    "exchanged, dropped": ("pairs", "swapped", "dropped"),
    **{
        f"{state}, {action} (expected)": ("expected_pairs", state, action)
        for action in ("replaced", "dropped")
        for state in ("wrong", "right")
    },
}
"""Columns of the ledger: measure, and state before and after. Right and wrong are known where the
pictures are, and else expected by the audit; exchanged captions are known in any run."""


def _tables(tables: Tables, confidence: float) -> list[Table]:
    return [
        *(_arms(tables, ARMS, rate, confidence, OF_ARMS) for rate in rates_of(tables)),
        *(_ledger(tables, rate) for rate in rates_of(tables)),
        *_compared(tables.repairs_compared),
        *(_arms(tables, TOWERS, rate, confidence, LEARNED) for rate in rates_of(tables, TOWERS)),
    ]


def _arms(tables: Tables, name: str, rate: float, confidence: float, section: str) -> Table:
    shown = measures_of(tables, name)
    gain = claims.LEARNED if name == TOWERS else claims.ACCURACY
    rows = []
    for rule in rules_of(tables, name):
        runs = (where(values(tables, measure, name), rule=rule, rate=rate) for measure in shown)
        effect = gain.difference(tables, rule, "raw", rate, confidence)
        rows.append((
            label_of(tables, rule, name),
            *(
                mean_and_spread(of["value"], 1 if "directions" in measure else 4, counted=False)
                for measure, of in zip(shown, runs, strict=True)
            ),
            _points(effect) if rule != "raw" else None,
        ))  # fmt: skip
    what = "Towers trained from scratch," if name == TOWERS else "Arms"
    return Table(
        f"{what} {at_rate(rate)}", ("captions", *shown, "accuracy − raw (points)"), tuple(rows),
        texts.text(Note("repair", "table_arms")), section=section,
    )  # fmt: skip


def _points(effect: Effect) -> Number | None:
    """Return a difference of accuracies in points, with its interval."""
    points = or_dash(100 * effect.value, 1, sign=True)
    return points and replace(points, low=100 * effect.low, high=100 * effect.high)


def _ledger(tables: Tables, rate: float) -> Table:
    """Return what became of the captions at a rate: counts, and what is known of the truth."""
    table, origin = where(tables.repairs, rate=rate), tables.provenance
    of_audit = origin[(origin["artefact"] == "repair") & (origin["key"] == "identified")]["text"]
    draws = max(1, table["seed"].nunique())
    counts = (table.groupby(["rule", "metric"])["value"].sum() / draws).to_dict()
    of_states = table.groupby(["rule", "metric", "before", "after"])["value"].sum() / draws
    of_cell: dict[Any, float] = of_states.to_dict()
    states = {(metric, before) for _, metric, before, _ in of_cell}
    known = bool(states & {("pairs", "right"), ("pairs", "wrong")})
    expected = {("expected_pairs", "right"), ("expected_pairs", "wrong")}
    kind = "judged" if known else "expected" if states & expected else "not known"
    kind = "assumed" if kind == "expected" and "limit" in set(of_audit) else kind
    states -= expected if known else set()
    shown = {head: cell for head, cell in CELLS.items() if cell[:2] in states}
    labels = LABELS if known else {**LABELS, **NOT_RIGHT}
    rows = [
        (labels[rule], *(whole(counts[rule, name]) for name in COUNTS),
         *(or_dash(of_cell.get((rule, *cell), 0.0 if cell[0] == "pairs" else None), ",.0f")
           for cell in shown.values()))
        for rule in LABELS
        if (rule, "read") in counts
    ]  # fmt: skip
    return Table(
        f"Ledger {at_rate(rate)}", ("captions", *COUNTS, *shown), tuple(rows),
        texts.text(Note("repair", "table_ledger", kind=kind)), section=LEDGER,
    )  # fmt: skip


ANSWERS = {
    "compared_improved": "improved: the new caption alone fits",
    "compared_harmed": "harmed: the old caption alone fits",
    "compared_both_fit": "both fit",
    "compared_neither_fits": "neither fits",
}


def _compared(table: pd.DataFrame) -> list[Table]:
    """Return what a person found of replaced captions; none without labels."""
    shown = records(table[table["metric"].isin(ANSWERS)].dropna(subset="value"))
    if not shown:
        return []
    shown.sort(key=lambda row: [*ANSWERS].index(row["metric"]))
    rows = tuple(
        (ANSWERS[row["metric"]], Number(row["value"], words.percent),
         between(row["low"], row["high"]))
        for row in shown
    )  # fmt: skip
    heads = "captions that were replaced", "share", "95 % interval"
    remark = texts.text(Note("repair", "table_compared", n=shown[0]["n"]))
    return [Table("Replaced captions, by eye", heads, rows, remark, section=LEDGER)]


def _pieces(content: Any) -> Mapping[str, Piece]:
    gallery = content.pieces.get("examples")
    return {LEDGER: Piece("", Markup(gallery))} if gallery else {}


def _ran(tables: Tables) -> list[Note]:
    """Return what the repair did, for the landing page."""
    read = tables.repairs[tables.repairs["metric"] == "read"]
    if read.empty:
        return []
    return [Note("repair", "summary_ran", pairs=float(read["value"].max()))]


def _limits(tables: Tables) -> list[Note]:
    """Return that the captioner was not used, or not tested, if it was not."""
    table, found = tables.repairs, held_out(tables)
    if (table["captions"] == "untested").any():
        return [Note("repair", "limits_untested", needed=LEAST_TO_TEST)]
    unused = table[(table["metric"] == "failed_reason") & (table["reason"] == NOT_BETTER)]
    if found is None or unused.empty:
        return []
    captioner, typical, pairs = found
    return [Note("repair", "limits_unused", captioner=captioner, typical=typical, pairs=pairs)]


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    tables=_tables,
    summary=_ran,
    limits=_limits,
    pieces=_pieces,
)
