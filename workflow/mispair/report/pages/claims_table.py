"""All claims with their verdicts: as rows of pages, as a printed table and as data."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mispair.core.words import p_value
from mispair.report import texts
from mispair.report.claims import Claim
from mispair.report.judge import PartVerdict, Verdict
from mispair.report.rules import UNMEASURED
from mispair.report.statistics import Effect
from mispair.report.table import Table, finite, or_dash


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
    def figures(self) -> tuple[tuple[str, str], ...]:
        """Names of the figures that show it, each with the first preset that it shows."""
        shown = {verdict.figure: verdict.preset for verdict in reversed(self.verdicts)}
        return tuple(reversed(shown.items()))


def rows(judged: Iterable[Verdict]) -> list[Row]:
    """Return a row for each claim that was measured, in the order of the verdicts."""
    by_claim: dict[str, list[Verdict]] = {}
    for verdict in judged:
        if verdict.outcome != UNMEASURED:
            by_claim.setdefault(verdict.claim.key, []).append(verdict)
    return [Row(of_claim[0].claim, tuple(of_claim)) for of_claim in by_claim.values()]


def unmeasured(judged: Iterable[Verdict]) -> list[Claim]:
    """Return the claims that no preset measured."""
    verdicts = list(judged)
    known = {verdict.claim.key for verdict in verdicts if verdict.outcome != UNMEASURED}
    claims = {verdict.claim.key: verdict.claim for verdict in verdicts}
    return [claim for key, claim in claims.items() if key not in known]


def claims(judged: Sequence[Verdict]) -> list[Table]:
    """Return the table of the claims that were measured, for exports, if any was."""
    cells = tuple(
        (
            verdict.claim.sentence, verdict.claim.paper, verdict.preset or None,
            verdict.outcome + (" (close to another verdict)" if verdict.near else ""),
            texts.shared("effect", verdict), texts.shared("published", verdict),
            texts.bound(verdict),
            or_dash(verdict.corrected_p, p_value), verdict.effect.replicates,
        )
        for verdict in judged
        if verdict.outcome != UNMEASURED
    )  # fmt: skip
    heads = ("claim", "paper", "preset", "verdict", "effect", "published", "bound", "corrected p",
             "replicates")  # fmt: skip
    return [Table("Claims of the paper and what was measured", heads, cells)] if cells else []


COLUMNS = {
    "claim": "str", "study": "str", "preset": "str", "primary": "bool", "rule": "str",
    "sign": "float64", "outcome": "str", "reason": "str", "near": "bool", "effect": "float64",
    "low": "float64", "high": "float64", "shown_confidence": "float64", "shown_low": "float64",
    "shown_high": "float64", "bound": "float64", "p": "float64",
    "corrected_p": "float64", "n": "float64", "unit": "str", "quantity": "str",
    "first": "float64", "last": "float64", "published": "float64", "published_first": "float64",
    "published_last": "float64", "decided_by": "str", "rates": "str", "parts": "str", "sets": "str",
    "controls": "str", "sentence": "str", "paper": "str", "figure": "str", "needs": "str",
}  # fmt: skip
"""Columns of ``claims.csv``: ``claim`` and ``preset`` identify a row.

``effect`` is the number that the claim is about, with its interval at the confidence of the run
(``low``, ``high``), that at the level of its tests, which pages show (``shown_low``,
``shown_high``, ``shown_confidence``), the p value of its rule, the same corrected for the number of
primary claims, and its replicates (``n`` of a ``unit``). ``bound`` is the smallest effect of
interest, level or share. ``quantity`` is the unit of the effect. ``decided_by`` names the part
whose effect it is, of a claim on several. ``rates``, ``parts``, ``sets`` and ``controls`` are JSON:
the outcome at each rate, on each part and each evaluation set, and each control with its effect,
share and finding.
"""


def frame(judged: Sequence[Verdict], confidence: float) -> pd.DataFrame:
    """Return a row for each verdict, with the columns `COLUMNS`, at the confidence of the run."""
    rows = [_row(verdict, confidence) for verdict in judged]
    return pd.DataFrame(rows, columns=[*COLUMNS]).astype(COLUMNS)


def _limits(effect: Effect, confidence: float) -> dict[str, float | None]:
    """Return the limits of an effect at the confidence of the run."""
    low, high = effect.limits((1 - confidence) / 2)
    return {"low": finite(low), "high": finite(high)}


def _shown(effect: Effect) -> dict[str, float | None]:
    """Return the limits of an effect at the level of the tests of its claim."""
    return {"shown_low": finite(effect.low), "shown_high": finite(effect.high)}


def _row(verdict: Verdict, confidence: float) -> dict[str, Any]:
    claim, effect, measured = verdict.claim, verdict.effect, verdict.measured
    controls = [
        {
            "control": found.control.key, "effect": finite(found.effect.value),
            **_limits(found.effect, confidence),
            "share": finite(found.share), "finding": found.finding,
        }
        for found in verdict.controls
    ]  # fmt: skip
    return {
        "claim": claim.key, "study": claim.study, "preset": verdict.preset,
        "primary": claim.primary, "rule": claim.rule, "sign": claim.sign,
        "outcome": verdict.outcome, "reason": measured.gate or verdict.reason, "near": verdict.near,
        "effect": effect.value, **_limits(effect, confidence),
        "shown_confidence": effect.confidence, **_shown(effect), "bound": verdict.bound,
        "p": verdict.p, "corrected_p": verdict.corrected_p, "n": effect.n, "unit": effect.unit,
        "quantity": claim.unit, "first": measured.first, "last": measured.last,
        "published": measured.published, "published_first": measured.published_first,
        "published_last": measured.published_last, "decided_by": str(verdict.decided_by),
        "rates": _parts(verdict.rates, confidence),
        "parts": _parts(verdict.parts, confidence), "sets": _parts(verdict.sets, confidence),
        "controls": json.dumps(controls, ensure_ascii=False), "sentence": claim.sentence,
        "paper": claim.paper, "figure": verdict.figure, "needs": claim.needs,
    }  # fmt: skip


def _parts(parts: Iterable[PartVerdict], confidence: float) -> str:
    described = [
        {
            "at": part.name, "effect": finite(part.effect.value),
            **_limits(part.effect, confidence), **_shown(part.effect),
            "p": finite(part.effect.p), "bound": finite(part.bound), "outcome": part.outcome,
        }
        for part in parts
    ]  # fmt: skip
    return json.dumps(described, ensure_ascii=False)
