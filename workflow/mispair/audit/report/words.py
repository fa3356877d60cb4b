"""Results of the audit, for sentences and figures."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pandas as pd

from mispair.audit.rate import Rate
from mispair.audit.report.runs import UNSEEN, UNTOUCHED, known_rates, wrong_before
from mispair.report.notes import Note
from mispair.report.tables import Tables, records

NEARLY_ALL = 0.8
"""Share of suspicious pairs."""

LEAST_LOST, MORE, TIMES = 5, 0.03, 3
"""Right captions that a group loses by a selection, by how much its share of them is above that of
the others, and how many times that: at least."""


def estimate(table: pd.DataFrame, metric: str) -> Rate | None:
    """Return the row of a metric as a rate; None without one."""
    rows = table[table["metric"] == metric]
    if rows.empty:
        return None
    return Rate(*(float(rows.iloc[0][name]) for name in ("value", "low", "high")))


def refusal(tables: Tables) -> str:
    """Return why there is no estimate, or ""."""
    origin = tables.provenance
    refusals = origin[(origin["artefact"] == "audit") & (origin["key"] == "refused")]["text"]
    text = refusals.iloc[0] if len(refusals) else ""
    return text if isinstance(text, str) else ""


def numbers(tables: Tables) -> Mapping[str, Any]:
    """Return the rates of the corpus, and those of the trials, for sentences.

    ``rate`` is the share of captions of unrelated pictures; only with pairs known to be right
    (``trusted``) it has a lower limit. ``limits`` are, without such pairs, the upper limits where
    the share is known. ``unseen`` are, of errors that ranks cannot see, the shares that were found
    and that were made, by their names. ``excess`` above 0 states that trusted pairs and the scores
    of all pairs contradict each other. ``checked`` is the share of pairs with conspicuous texts,
    and ``shared`` what nearly all suspicious pairs have in common.
    """
    table, rates = tables.audit, known_rates(tables)
    without = rates[(rates["series"] == UNTOUCHED) & rates["true"].notna()]
    last = without.sort_values("made").drop_duplicates("scheme", keep="last").set_index("scheme")
    found = last["value"] - (1 - last["made"]) * wrong_before(tables)
    limits = without[without["scheme"] == "random"]
    excess = estimate(table, "trusted_excess")
    return {
        "refused": refusal(tables),
        "rate": estimate(table, "wrong_captions"),
        "trusted": estimate(table, "trusted") is not None,
        "similar": estimate(table, "similar_captions"),
        "wins": estimate(table, "wins_against_random"),
        "excess": excess.value if excess else 0.0,
        "storey": estimate(table, "storey"),
        "checked": checked_share(table),
        "shared": shared_by_suspects(table),
        "limits": len(limits),
        "held": int((limits["true"] <= limits["high"]).sum()),
        "unseen": {
            name: (max(0.0, float(found[name])), float(last["made"][name]))
            for name in ("similar", *UNSEEN)
            if name in last.index
        },
    }


def checked_share(table: pd.DataFrame) -> float:
    """Return the share of pairs whose text meets a check."""
    rows = table[table["metric"] == "text_check"]
    return 0.0 if rows.empty else float(rows["value"].sum() / rows["n"].iloc[0])


def shared_by_suspects(table: pd.DataFrame) -> Mapping[str, Any] | None:
    """Return the text, or the word, that nearly all suspicious pairs share, and how common it is.

    At least `NEARLY_ALL` of them have it, and not half as many of all pairs. If there is none among
    as many pairs as captions are expected to be wrong, that of the first twelve counts.
    """
    numbers_of_pairs = sorted(table.loc[table["metric"] == "suspects", "at"], reverse=True)
    for at, kind in itertools.product(numbers_of_pairs, ("text", "word")):
        of_pairs = table[table["at"] == at]
        usual = of_pairs[of_pairs["metric"] == f"corpus_{kind}"].set_index("text")["value"]
        shared = of_pairs[of_pairs["metric"] == f"suspect_{kind}"].query("value >= @NEARLY_ALL")
        for row in records(shared.sort_values("value", ascending=False)):
            common = float(usual[row["text"]])
            if common <= row["value"] / 2:
                return {
                    "kind": kind, "text": row["text"], "share": row["value"],
                    "n": int(row["n"]), "usual": common,
                }  # fmt: skip
    return None


def unequal_groups(values: pd.DataFrame) -> Mapping[str, Any] | None:
    """Return the group that loses many more right captions than the others, if there is one.

    Parameters
    ----------
    values : DataFrame
        Metrics of `mispair.audit.texts.group_rates.group_rows` by group.
    """
    right = values["group_pairs"] * (1 - values["group_wrong"])
    lost = right * values["group_right_lost"]
    others = (lost.sum() - lost) / (right.sum() - right).clip(lower=1)
    excess = values["group_right_lost"] - others
    many = (lost >= LEAST_LOST) & (excess >= MORE) & (values["group_right_lost"] >= TIMES * others)
    if not many.any():
        return None
    lost_most = excess[many].sort_values().index[-1]
    row = values.assign(others=others).loc[lost_most]
    return {
        "name": lost_most, "lost": float(row["group_right_lost"]), "others": float(row["others"])
    }  # fmt: skip


def headline(tables: Tables) -> list[Note]:
    """Return what the page begins with; nothing if the audit did not run."""
    found = numbers(tables)
    return [Note("audit", "page_headline", n=found)] if found["rate"] or found["refused"] else []
