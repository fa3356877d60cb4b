"""What the audit puts on the pages of the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from markupsafe import Markup

from mispair.audit.report import claims
from mispair.audit.report.runs import TRUSTED, captions_are_right, known_rates, wrong_before
from mispair.audit.report.study import APART, CALIBRATION, LISTS, SUSPECTS
from mispair.audit.report.text_tables import group_tables, suspect_tables, text_tables
from mispair.audit.report.words import (
    headline,
    numbers,
    shared_by_suspects,
)
from mispair.report import texts
from mispair.report.notes import Note
from mispair.report.pages.study_pages import Pages, Piece
from mispair.report.table import Cell, Number, Table, between, general, whole
from mispair.report.tables import Tables

NAMES = {
    "probability": "probability of mispair",
    "cosine": "raw cosine",
    "two-gaussians": "two Gaussians (NCR)",
    "neighbour-disagreement": "neighbours’ disagreement (LEMoN)",
}
COUNTS = {
    "pairs": "pairs",
    "pictures": "pictures",
    "trusted_pairs": "pairs known to be right",
    "trusted_left_out": "keys of the list of trusted pairs that have no pair, left out",
    "repeated_captions": "captions with the words of an earlier one",
    "excluded_comparisons": "comparisons left out (one picture, or the same words)",
    "pairs_kept": "pairs kept",
    "pairs_removed": "pairs left out",
    "expected_wrong_kept": "wrong captions among those kept, expected",
    "expected_right_removed": "right captions among those left out, expected",
}


def _tables(tables: Tables, confidence: float) -> list[Table]:
    printed = []
    if not tables.audit.empty:
        printed += [*text_tables(tables.audit), *suspect_tables(tables.audit)]
        printed += [_counts(tables.audit), *group_tables(tables.audit)]
    if not tables.audit_calibration.empty:
        right = captions_are_right(tables)
        printed += [_known(tables), *_apart(tables.audit_calibration, right)]
    return printed


def _counts(table: pd.DataFrame) -> Table:
    values = table.drop_duplicates("metric").set_index("metric")["value"]
    rows = tuple((label, whole(values[name])) for name, label in COUNTS.items() if name in values)
    return Table("Counts", ("what", "number"), rows, section=LISTS)


def _known(tables: Tables) -> Table:
    right, before = captions_are_right(tables), wrong_before(tables)
    rows = tuple(
        (
            str(row["scheme"]), str(row["series"]), Number(row["made"]), Number(row["true"]),
            Number(row["value"] - row["true"], sign=True),
            Number(row["value"]), between(row["low"], row["high"]),
            # The share that was wrong before has an error of its own, which an interval leaves out.
            ("yes" if row["low"] <= row["true"] <= row["high"] else "no")
            if right or row["series"] == TRUSTED else Number(),
        )
        for row in known_rates(tables).sort_values(["scheme", "series", "made"]).to_dict("records")
    )  # fmt: skip
    return Table(
        "Estimated shares where the true share is known",
        ("captions", "estimate", "made wrong", "expected", "error", "estimated", "95 % interval",
         "covers"),
        rows,
        texts.text(Note("audit", "table_known", right=right, before=before)),
        section=CALIBRATION,
    )  # fmt: skip


def _apart(table: pd.DataFrame, right: bool) -> list[Table]:
    scores = table[table["metric"].isin(["auroc", "auprc"])]
    if scores.empty:
        return []
    rows: list[tuple[Cell, ...]] = []
    for (scheme, rate), of in scores.groupby(["scheme", "injected"], sort=False):
        by_name = of.set_index(["method", "metric"])["value"]
        rows += [
            (str(scheme), general(rate), label,
             *(Number(by_name.get((name, metric)), 4) for metric in ("auroc", "auprc")))
            for name, label in NAMES.items()
        ]  # fmt: skip
    return [
        Table(
            "How well wrong pairs are separated from right ones",
            ("captions", "share wrong", "score", "AUROC", "AUPRC"),
            tuple(rows),
            "" if right else texts.text(Note("audit", "table_apart")),
            section=APART,
        )
    ]


def _pieces(content: Any) -> Mapping[str, Piece]:
    if not headline(content.tables):
        return {}
    gallery, shared = content.pieces.get("suspects"), shared_by_suspects(content.tables.audit)
    notes = [Note("audit", "suspects_share", s=shared)] if shared else []
    if not gallery:
        notes.append(Note("audit", "piece_no_gallery", failed=bool(content.failed)))
    return {
        "": Piece(texts.text(Note("audit", "page_details", n=numbers(content.tables)))),
        SUSPECTS: Piece(texts.joined(notes), Markup(gallery) if gallery else None),
    }


def _summary(tables: Tables) -> list[Note]:
    # The share stands in the answer, where there is one.
    brief = not tables.audit_calibration.empty
    return [Note("audit", "summary", n=numbers(tables), brief=brief)] if headline(tables) else []


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    answer=headline,
    tables=_tables,
    pieces=_pieces,
    summary=_summary,
)
