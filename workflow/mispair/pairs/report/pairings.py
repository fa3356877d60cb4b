"""Tables of every pairing: how many captions were swapped, and how wrong the new ones are."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import number
from mispair.pairs.corruption.effective_rate import COUNTS, SHARES
from mispair.pairs.corruption.scheme import meaning_of_rates
from mispair.report.table import Number, Table, general, or_dash, whole
from mispair.report.tables import Tables

PRINTED = ("swapped_share", "text_changed_share", "identical_text_swaps", "mean_similarity")


def pairings(tables: Tables) -> Table | None:
    """Return nominal and realised shares of every pairing, the main scheme first."""
    pairs = tables.pairs[tables.pairs["rate"].notna()]
    if pairs.empty:
        return None
    rows = []
    for scheme in tables.schemes:
        for rate, measured in pairs[pairs["scheme"] == scheme].groupby("rate"):
            values = measured.set_index("metric")["value"]
            nominal, swapped, changed, same, similarity = (
                float(str(rate)),
                *(float(values.get(name, math.nan)) for name in PRINTED),
            )
            rows.append((
                scheme, general(nominal), whole(measured["n"].max()),
                Number(swapped, 4), Number(changed, 4), or_dash(same, ",.0f"), or_dash(similarity),
                _notes(tables, scheme, nominal, values) or None,
            ))  # fmt: skip
    return Table(
        "What corruption changed",
        ("scheme", "nominal share", "pairs", "share with another pair's caption",
         "share with another text", "swaps of identical texts",
         "mean similarity of old and new captions", "notes"),
        tuple(rows),
        f"Nominal share: {meaning_of_rates()}. A scheme that rewords captions swaps none. A swap "
        "of identical texts changes nothing.",
        section="Schemes of corruption",
    )  # fmt: skip


def _notes(tables: Tables, scheme: str, rate: float, values: pd.Series) -> str:
    """Return the measure of similarity, further shares, and the step's note."""
    origin = tables.provenance
    entries = origin[(origin["artefact"] == "pairing") & (origin["scheme"] == scheme)]
    entries = entries[(entries["rate"] == rate) & (entries["text"].fillna("") != "")]
    parts = [
        f"similarity of {text}" for text in entries.loc[entries["key"] == "similarity_of", "text"]
    ]
    parts += [
        f"{str(name).replace('_', ' ')} {number(value, 4)}"
        for name, value in values.dropna().items()
        if name not in (*PRINTED, *SHARES, *COUNTS)
    ]
    parts += entries.loc[entries["key"] == "note", "text"].tolist()
    return "; ".join(parts)


def effective(tables: Tables) -> Table | None:
    """Return how wrong the captions of every pairing are, and how many different ones there are."""
    pairs = tables.pairs[tables.pairs["rate"].notna() & tables.pairs["metric"].isin(
        [*SHARES, *COUNTS])]  # fmt: skip
    if pairs.empty:
        return None
    rows = []
    for scheme in tables.schemes:
        for rate, measured in pairs[pairs["scheme"] == scheme].groupby("rate"):
            values = measured.set_index("metric")["value"]
            rows.append((
                scheme, general(rate), *(or_dash(values.get(name)) for name in SHARES),
                *(or_dash(values.get(name), ",.0f") for name in COUNTS),
            ))  # fmt: skip
    return Table(
        "How wrong the captions are",
        ("scheme", "nominal share", "effective rate by features", "effective rate by captions",
         "features of the picture that are not named", "replaced: entirely true",
         "replaced: same features", "replaced: named features that are right",
         "distinct captions", "pairs with the most used caption"),
        tuple(rows),
        "Shares need the features of the pictures. Effective rate by features: the share of a "
        "caption's features that its picture does not have, mean over all "
        "pairs. Effective rate by captions: the share of pairs whose caption names at least one "
        "such feature. Replaced: of the captions that are not the pair's own text.",
        section="Schemes of corruption",
    )  # fmt: skip
