"""All claims with their verdicts, as a printed table and as data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from mispair.core.words import p_value, significant
from mispair.report.gaps import Gap
from mispair.report.table import Table, effect_cell
from mispair.report.verdicts import Verdict


def claims(judged: Sequence[Verdict]) -> list[Table]:
    """Return the table of the claims that were judged, if any was."""
    rows = tuple(
        (
            verdict.claim.text, verdict.claim.paper, verdict.preset or "–", verdict.measured or "–",
            verdict.published or "–", verdict.outcome, verdict.sample or "–", verdict.test or "–",
            *_effect(verdict),
        )
        for verdict in judged
    )  # fmt: skip
    heads = ("claim", "paper", "preset", "measured", "published", "verdict", "runs", "test",
             "effect", "smallest effect of interest", "corrected p")  # fmt: skip
    return [Table("Claims of the paper and what was measured", heads, rows)] if rows else []


def _effect(verdict: Verdict) -> tuple[str, str, str]:
    effect = verdict.effect
    if effect is None:
        return "–", "–", "–"
    text = effect_cell(effect.value, effect.low, effect.high)
    corrected = p_value(verdict.adjusted_p) if math.isfinite(verdict.adjusted_p) else "–"
    return text, significant(verdict.smallest), corrected


COLUMNS = {
    "claim": "str", "study": "str", "preset": "str", "outcome": "str", "primary": "bool",
    "effect": "float64", "low": "float64", "high": "float64", "smallest": "float64",
    "p": "float64", "adjusted_p": "float64", "n": "float64", "unit": "str", "measured": "str",
    "published": "str", "sample": "str", "test": "str", "reason": "str", "controls": "str",
    "text": "str", "paper": "str", "figure": "str", "measured_value": "float64",
    "published_value": "float64", "quantity": "str",
}  # fmt: skip
"""Columns of ``claims.csv``: ``claim`` and ``preset`` identify a row.

``effect`` is the number that the claim is about, with its interval (``low``, ``high``), its p
value, the same corrected for the number of claims, and its replicates (``n`` of a ``unit``).
``smallest`` is the smallest effect of interest. ``measured_value`` and ``published_value`` are the
two numbers of a ``quantity`` that can be compared. All other columns are text.
"""


def frame(judged: Sequence[Verdict]) -> pd.DataFrame:
    """Return a row for each verdict, with the columns `COLUMNS`."""
    rows = []
    for verdict in judged:
        claim, effect, (measured, published) = verdict.claim, verdict.effect, verdict.numbers
        controls = [f"{control.name}: {control.finding}" for control in verdict.controls]
        row = {
            "claim": claim.key, "study": claim.study, "preset": verdict.preset,
            "outcome": verdict.outcome, "primary": claim.primary, "smallest": verdict.smallest,
            "adjusted_p": verdict.adjusted_p, "measured": verdict.measured,
            "published": verdict.published, "sample": verdict.sample, "test": verdict.test,
            "reason": verdict.reason, "controls": "; ".join(controls), "text": claim.text,
            "paper": claim.paper, "figure": claim.figure, "unit": "",
            "measured_value": measured, "published_value": published,
            "quantity": verdict.gap.quantity if isinstance(verdict.gap, Gap) else "",
        }  # fmt: skip
        if effect is not None:
            row |= {"effect": effect.value, "low": effect.low, "high": effect.high, "p": effect.p,
                    "n": effect.n, "unit": effect.unit}  # fmt: skip
        rows.append(row)
    return pd.DataFrame(rows, columns=[*COLUMNS]).astype(COLUMNS)
