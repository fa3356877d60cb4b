"""All claims with their verdicts: as rows of pages, as a printed table and as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from mispair.core.words import p_value, significant
from mispair.report.gaps import Gap
from mispair.report.table import Table, effect_cell
from mispair.report.verdicts import Claim, Verdict


@dataclass(frozen=True)
class Row:
    """A claim with its verdict, or with one for each preset that was run."""

    claim: Claim
    verdicts: tuple[Verdict, ...]

    @property
    def is_split(self) -> bool:
        """Whether verdicts on presets are side by side."""
        return bool(self.verdicts[0].preset)

    def of(self, preset: str) -> Verdict | None:
        """Return the verdict on a preset, or None if it was not run."""
        return next((verdict for verdict in self.verdicts if verdict.preset == preset), None)

    @property
    def published(self) -> tuple[str, ...]:
        """What was published; presets may be compared with different published points."""
        return tuple(dict.fromkeys(v.published for v in self.verdicts if v.published))

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        """Names of the figures that show it, each with the first preset that it shows."""
        shown = {verdict.claim.figure: verdict.preset for verdict in reversed(self.verdicts)}
        return tuple(reversed(shown.items()))


def rows(judged: Sequence[Verdict]) -> list[Row]:
    """Return one row of pages for each claim, in the order of the verdicts."""
    by_claim: dict[str, list[Verdict]] = {}
    for verdict in judged:
        by_claim.setdefault(verdict.claim.key, []).append(verdict)
    return [Row(of_claim[0].claim, tuple(of_claim)) for of_claim in by_claim.values()]


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
