"""The protocol of a zero-shot number: its name, headline metric and a hash of its prompts."""

from __future__ import annotations

import hashlib

import altair as alt
import pandas as pd

from mispair.core.words import listing
from mispair.report import style
from mispair.report.tables import Tables, of_protocol, protocols

UNKNOWN = "protocol not recorded"
HASHES = (
    "# is the hash of a set’s class list and prompts (eight digits); for several sets, of their "
    "hashes together."
)
"""Explanation of the short hashes for readers of the report."""


def short(fingerprint: object) -> str:
    """Return a fingerprint's first eight digits after a #."""
    return f"#{str(fingerprint)[:8]}"


def named(rows: pd.DataFrame) -> str:
    """Name the protocol of rows of zero-shot numbers, and the hash of classes and prompts.

    Such as ``clip_benchmark #0a1b2c3d``. Several sets have a hash of all their hashes.
    """
    names = protocols(rows)
    of_protocols = rows[rows["protocol"].isin(names)]
    if not names:
        return UNKNOWN
    if "fingerprint" not in of_protocols or of_protocols["fingerprint"].isna().all():
        return listing(names)
    hashed = of_protocols.dropna(subset=["fingerprint"])
    fingerprints = sorted(
        f"{name}:{digest}"
        for name, digest in set(zip(hashed["evaluation_set"], hashed["fingerprint"], strict=True))
    )
    single = hashed["fingerprint"].iloc[0] if len(fingerprints) == 1 else None
    text = hashlib.sha256("\n".join(fingerprints).encode()).hexdigest()
    return f"{listing(names)} {short(single or text)}"


def of_metric(tables: Tables, metric: str, evaluation_set: str | None = None) -> pd.DataFrame:
    """Return the rows of a metric under the main protocol, of all sets or of one.

    If nothing was classified with all neurons, rows are those of pruning, which have no hash.
    """
    table = tables.main_zeroshot
    rows = table[(table["metric"] == metric) & table["classname"].isna()]
    if rows.empty:
        table = of_protocol(tables.pruning)
        rows = table[table["metric"] == metric].assign(fingerprint=None, headline=None)
    return rows if evaluation_set is None else rows[rows["evaluation_set"] == evaluation_set]


def set_title(tables: Tables, metric: str, evaluation_set: str) -> alt.TitleParams:
    """Return the title of an evaluation set's panel, with its protocol below, if any."""
    if metric == "silhouette":
        return alt.TitleParams(text=evaluation_set)
    below = named(of_metric(tables, metric, evaluation_set))
    return alt.TitleParams(
        text=evaluation_set, subtitle=f"{metric}, {below}", subtitleColor=style.QUIET
    )


def base_arm(table: pd.DataFrame) -> pd.DataFrame:
    """Return the arm nearest to the published model: the untouched one, else the lowest C_m."""
    for start in ("untouched", "pretrained", "reinitialised"):
        rows = table[table["start"] == start]
        if not rows.empty:
            rate = rows["rate"].min()
            return rows if pd.isna(rate) else rows[rows["rate"] == rate]
    return table
