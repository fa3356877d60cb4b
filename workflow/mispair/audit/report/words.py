"""Results of the audit, for sentences and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from mispair.audit.rate import Rate
from mispair.audit.report.runs import UNSEEN, UNTOUCHED, known_rates, wrong_before
from mispair.report import texts
from mispair.report.tables import Tables


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
    of all pairs contradict each other.
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
        "limits": len(limits),
        "held": int((limits["true"] <= limits["high"]).sum()),
        "unseen": {
            name: (max(0.0, float(found[name])), float(last["made"][name]))
            for name in ("similar", *UNSEEN)
            if name in last.index
        },
    }


def headline(tables: Tables) -> str:
    """Return the first sentence of the page; "" if the audit did not run."""
    return texts.sentence("audit", "page", "headline", numbers(tables))


def details(tables: Tables) -> str:
    """Return the sentences that support the headline."""
    return texts.sentence("audit", "page", "details", numbers(tables))
