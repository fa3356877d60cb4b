"""What the audit puts on the pages of the report."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
from markupsafe import Markup

from mispair.audit.report import claims
from mispair.audit.report.claims import (
    TRUSTED,
    captions_are_right,
    known_rates,
    numbers,
    separations,
    unequal_groups,
    wrong_before,
)
from mispair.audit.report.study import APART, CALIBRATION, CHECKED, LISTS, SUSPECTS, TEXTS
from mispair.audit.text_checks import LABELS
from mispair.core.words import percent
from mispair.report import texts
from mispair.report.pages.study_pages import Pages, Piece
from mispair.report.table import Cell, Number, Table, between, general, whole
from mispair.report.tables import Tables, records
from mispair.report.texts import Note
from mispair.review.report import checked

# The printed tables of the audit, in the order of its page.

SCORES = {
    "probability": "probability of mispair",
    "cosine": "raw cosine",
    "two-gaussians": "two Gaussians (NCR)",
    "neighbour-disagreement": "neighbours’ disagreement (LEMoN)",
}


def audit(tables: Tables, confidence: float) -> list[Table]:
    """Return the study's tables."""
    groups = tables.audit[tables.audit["metric"].str.startswith("group_")]
    return [
        *checked.printed(tables, CHECKED),
        conspicuous_texts(tables.audit),
        *(pairs_by(field, rows) for field, rows in groups.groupby("word", sort=False)),
        known_shares(tables),
        separation(tables),
    ]


def conspicuous_texts(table: pd.DataFrame) -> Table:
    """Return the number of pairs that meet each check of texts, with examples."""
    counts = table[(table["metric"] == "text_check") & (table["value"] > 0)]
    examples = table[table["metric"] == "text_example"].groupby("word")["text"].agg(list).to_dict()
    rows: list[tuple[Cell, ...]] = [
        (LABELS.get(row["word"], row["word"]), whole(row["value"]),
         Number(row["value"] / row["n"], percent), " · ".join(examples.get(row["word"], [])))
        for row in records(counts)
    ]  # fmt: skip
    if rows:
        value, every = counts["value"].sum(), counts["n"].iloc[0]
        rows.append(("together", whole(value), Number(value / every, percent), ""))
    return Table(
        "Conspicuous texts, by simple checks",
        ("text", "pairs", "share", "examples"),
        tuple(rows),
        texts.text(Note("audit", "table_texts", rate=claims.estimate(table, "wrong_captions"))),
        section=TEXTS,
    )


def pairs_by(field: Hashable, table: pd.DataFrame) -> Table:
    """Return rates and what is left out by the groups of a field."""
    values = table.pivot_table(index="text", columns="metric", values="value", sort=False)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (str(name), whole(row["group_pairs"]),
         *(Number(row[f"group_{what}"], percent)
           for what in ("wins", "wrong", "removed", "right_lost")))
        for name, row in values.iterrows()
    )  # fmt: skip
    unequal = unequal_groups(values)
    return Table(
        f"Pairs by {field}",
        (str(field), "pairs", "wins against random captions", "wrong, expected",
         "left out", "of right captions left out, expected"),
        rows,
        texts.text(Note("audit", "table_groups")),
        section=LISTS,
        warning=texts.text(Note("audit", "unequal_groups", u=unequal)) if unequal else "",
    )  # fmt: skip


def known_shares(tables: Tables) -> Table:
    """Return the estimates where the true share is known."""
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
        for row in records(known_rates(tables).sort_values(["scheme", "series", "made"]))
    )  # fmt: skip
    return Table(
        "Estimated shares where the true share is known",
        ("captions", "estimate", "made wrong", "expected", "error", "estimated", "95 % interval",
         "covers"),
        rows,
        texts.text(Note("audit", "table_known", right=right, before=before)),
        section=CALIBRATION,
    )  # fmt: skip


def separation(tables: Tables) -> Table:
    """Return how well each score separates wrong pairs from right ones."""
    right, areas = captions_are_right(tables), ("auroc", "auprc")
    scores = separations(tables).query("metric in @areas")
    is_corrected = not right and bool(scores["corrected"].notna().any())
    shown = ("value", "corrected") if is_corrected else ("value",)
    rows: list[tuple[Cell, ...]] = []
    for (scheme, rate), of in scores.groupby(["scheme", "injected"], sort=False):
        by_name = of.set_index(["method", "metric"])
        rows += [
            (str(scheme), general(rate), label,
             *(Number(by_name[column].get((name, metric)), 4)
               for column in shown for metric in areas))
            for name, label in SCORES.items()
        ]  # fmt: skip
    corrected = ("AUROC, corrected", "AUPRC, corrected") if is_corrected else ()
    own = Note("audit", "table_apart", before=wrong_before(tables))
    return Table(
        "How well wrong pairs are separated from right ones",
        ("captions", "made wrong", "score", "AUROC", "AUPRC", *corrected),
        tuple(rows),
        "" if right else texts.text(own),
        section=APART,
    )


def headline(tables: Tables) -> list[Note]:
    """Return what the page begins with; nothing if the audit did not run."""
    found = numbers(tables)
    known = found["rate"] or found["refused"] or found["by_eye"]
    return [Note("audit", "page_headline", n=found)] if known else []


def _ending(tables: Tables) -> list[Note]:
    """Return the headline and what it holds under; a refusal has no such condition."""
    found = numbers(tables)
    has_condition = found["rate"] or found["by_eye"]
    conditions = [Note("audit", "condition_of_headline", n=found)] if has_condition else []
    return [*headline(tables), *conditions]


def _pieces(content: Any) -> Mapping[str, Piece]:
    if not headline(content.tables):
        return {}
    gallery, known = content.pieces.get("suspects"), numbers(content.tables)
    shared = known["shared"]
    notes = [Note("audit", "suspects_share", s=shared, rate=known["rate"])] if shared else []
    if not gallery:
        notes.append(Note("audit", "piece_no_gallery", failed=bool(content.failed)))
    return {
        "": Piece(texts.text(Note("audit", "page_details", n=known))),
        CHECKED: Piece(checked.piece(content.tables)),
        SUSPECTS: Piece(texts.joined(notes), Markup(gallery) if gallery else None),
    }


def _summary(tables: Tables) -> list[Note]:
    return [Note("audit", "summary", n=numbers(tables))] if headline(tables) else []


def _title(tables: Tables, corpus: str) -> list[Note]:
    return [Note("audit", "title", corpus=corpus, n=numbers(tables))] if headline(tables) else []


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    title=_title,
    answer=headline,
    ending=_ending,
    tables=audit,
    pieces=_pieces,
    summary=_summary,
)
