"""Tables of the texts of captions: which are conspicuous, what suspects share, and groups."""

from __future__ import annotations

import pandas as pd

from mispair.audit.report.study import LISTS, SUSPECTS, TEXTS
from mispair.audit.report.words import unequal_groups
from mispair.audit.texts.text_checks import LABELS
from mispair.report import texts
from mispair.report.notes import Note
from mispair.report.table import Cell, Number, Table, whole
from mispair.report.tables import records
from mispair.report.texts import percent


def text_tables(table: pd.DataFrame) -> list[Table]:
    """Return the number of pairs that meet each check of texts, with examples."""
    counts = table[(table["metric"] == "text_check") & (table["value"] > 0)]
    if counts.empty:
        return []
    examples = table[table["metric"] == "text_example"].groupby("word")["text"].agg(list).to_dict()
    rows: list[tuple[Cell, ...]] = [
        (LABELS.get(row["word"], row["word"]), whole(row["value"]),
         Number(row["value"] / row["n"], percent), " · ".join(examples.get(row["word"], [])))
        for row in records(counts)
    ]  # fmt: skip
    value, every = counts["value"].sum(), counts["n"].iloc[0]
    rows.append(("together", whole(value), Number(value / every, percent), ""))
    return [
        Table(
            "Conspicuous texts, by simple checks",
            ("text", "pairs", "share", "examples"),
            tuple(rows),
            "Each pair counts at the first check that it meets; the column text_check of "
            "audit.parquet and pairs.csv has its name. The checks read the text alone, so such a "
            "caption may be right. The share of captions of unrelated pictures includes those that "
            "rank like random ones; the share of captions of similar pictures is that of the other "
            "pairs.",
            section=TEXTS,
        )
    ]


def suspect_tables(table: pd.DataFrame) -> list[Table]:
    """Return the texts and words that the most suspicious pairs share."""
    rows, suspects = [], table.loc[table["metric"] == "suspects", "at"].max()
    table = table[table["at"] == suspects]
    for kind in ("text", "word"):
        usual = table[table["metric"] == f"corpus_{kind}"].set_index("text")["value"]
        rows += [
            (kind, row["text"], *(Number(x, percent) for x in (row["value"], usual[row["text"]])))
            for row in records(table[table["metric"] == f"suspect_{kind}"])
        ]
    if not rows:
        return []
    return [
        Table(
            f"What the {suspects:,.0f} most suspicious pairs share",
            ("what", "text", "suspicious pairs", "all pairs"),
            tuple(rows),
            "As many pairs are looked at as captions are expected to be wrong, and at least "
            "twelve. Words are those that suspicious pairs have more than twice as often as all "
            "pairs.",
            folded=True,
            section=SUSPECTS,
        )
    ]


def group_tables(table: pd.DataFrame) -> list[Table]:
    """Return rates and what is left out by groups, a table for each field that has several."""
    groups = table[table["metric"].str.startswith("group_")]
    printed = []
    shares = ("wins", "wrong", "removed", "right_lost")
    for field, of_field in groups.groupby("word", sort=False):
        values = of_field.pivot_table(index="text", columns="metric", values="value", sort=False)
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (str(name), whole(row["group_pairs"]),
             *(Number(row[f"group_{what}"], percent) for what in shares))
            for name, row in values.iterrows()
        )  # fmt: skip
        unequal = unequal_groups(values)
        printed.append(
            Table(
                f"Pairs by {field}",
                (str(field), "pairs", "wins against random captions", "wrong, expected",
                 "left out", "of right captions left out, expected"),
                rows,
                "Expected numbers are by the probabilities, and pairs of one similarity have one "
                "probability in all groups: where the model ranks a group badly, more of its right "
                "captions are left out than expected.",
                section=LISTS,
                warning=texts.text(Note("audit", "unequal_groups", u=unequal)) if unequal else "",
            )
        )  # fmt: skip
    return printed
