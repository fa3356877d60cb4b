"""Results of the audit, for sentences and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from mispair.audit.rate import Rate
from mispair.audit.report.runs import UNSEEN, UNTOUCHED, shown_rates
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
    the share is known. ``unseen`` are estimates and true shares of errors that ranks cannot see,
    by their names.
    """
    table, rates = tables.audit, shown_rates(tables.audit_calibration)
    without = rates[rates["series"] == UNTOUCHED]
    names = [name for name in ("similar", *UNSEEN) if name in set(without["scheme"])]
    last = {name: without[without["scheme"] == name].sort_values("true").iloc[-1] for name in names}
    limits = without[without["scheme"] == "random"]
    return {
        "refused": refusal(tables),
        "rate": estimate(table, "wrong_captions"),
        "trusted": estimate(table, "trusted") is not None,
        "similar": estimate(table, "similar_captions"),
        "wins": estimate(table, "wins_against_random"),
        "storey": estimate(table, "storey"),
        "limits": len(limits),
        "held": int((limits["true"] <= limits["high"]).sum()),
        "unseen": {name: (float(row["value"]), float(row["true"])) for name, row in last.items()},
    }


def headline(tables: Tables) -> str:
    """Return the first sentence of the page; "" if the audit did not run."""
    return texts.sentence("audit", "page", "headline", numbers(tables))


def details(tables: Tables) -> str:
    """Return the sentences that support the headline."""
    return texts.sentence("audit", "page", "details", numbers(tables))
