"""Results of the audit in sentences."""

from __future__ import annotations

import pandas as pd

from mispair.audit.rate import Rate
from mispair.audit.report.study import CALIBRATION
from mispair.core.words import number
from mispair.report.tables import Tables


def estimate(table: pd.DataFrame, metric: str) -> Rate | None:
    """Return the row of a metric as a rate; None without one."""
    rows = table[table["metric"] == metric]
    if rows.empty:
        return None
    return Rate(*(float(rows.iloc[0][name]) for name in ("value", "low", "high")))


def percent(share: float) -> str:
    """Return a share in per cent, with as many digits as small shares need."""
    digits = 0 if share >= 0.1 else 1 if share >= 0.01 or share == 0 else 2
    return f"{number(100 * share, digits)} %"


def between(rate: Rate) -> str:
    """Return an interval in words.

    Examples
    --------
    >>> between(Rate(0.13, 0.12, 0.15))
    'Between 12 % and 15 %'
    >>> between(Rate(0.0, 0.0, 0.0004))
    'At most 0.04 %'
    >>> between(Rate(0.12, float("nan"), 0.15))
    'At most 15 %'
    """
    high = percent(rate.high)
    if not rate.low > 0:
        return f"At most {high}"
    low = percent(rate.low)
    return f"About {high}" if low == high else f"Between {low} and {high}"


def refusal(tables: Tables) -> str:
    """Return why there is no estimate, or ""."""
    origin = tables.provenance
    refusals = origin[(origin["artefact"] == "audit") & (origin["key"] == "refused")]["text"]
    text = refusals.iloc[0] if len(refusals) else ""
    return text if isinstance(text, str) else ""


def headline(tables: Tables) -> str:
    """Return the first sentence of the page; "" if the audit did not run."""
    rate = estimate(tables.audit, "wrong_captions")
    if rate is None:
        return refusal(tables)
    return f"{between(rate)} of the captions belong to an unrelated picture."


def details(tables: Tables) -> list[str]:
    """Return the sentences that support the headline."""
    table = tables.audit
    rate, bound = estimate(table, "wrong_captions"), estimate(table, "storey")
    wins = estimate(table, "wins_against_random")
    with_trusted = estimate(table, "trusted") is not None
    sentences = []
    if wins is not None:
        sentences.append(
            f"The caption of a pair fits its picture better than a random caption in "
            f"{percent(wins.value)} of comparisons."
        )
    if rate is not None:
        sentences.append(
            f"Best estimate: {percent(rate.value)}, from the ranks of pairs known to be right."
            if with_trusted
            else "This is an upper limit, because right captions that the model takes for random "
            "ones count as wrong: only pairs known to be right (the key trusted) would separate "
            f"them. Probabilities are computed for a share of {percent(rate.value)}, as if each "
            "kind of right caption beat a random one in at least 70 of 100 comparisons."
        )
        sentences.append(
            "The condition is that wrong captions are like captions drawn at random. Texts that "
            "fit every picture, and corpora that were already filtered by a score, hide more wrong "
            f"captions; the trials under {CALIBRATION} have the size of the miss."
        )
    if bound is not None and rate is not None and with_trusted:
        sentences.append(
            f"Storey’s estimate, an upper bound if the trusted pairs are left out: "
            f"{percent(bound.value)} (at most {percent(bound.high)})."
        )
    similar = estimate(table, "similar_captions")
    if similar is not None:
        sentences.append(
            f"{between(similar)} of the captions are those of a similar picture, which this rate "
            "does not count."
        )
    elif rate is not None:
        sentences.append(
            "Captions of similar pictures are not in this rate: they rank like right ones among "
            "random captions. Pairs known to be right are needed to count them."
        )
    return sentences
