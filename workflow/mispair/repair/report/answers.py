"""The question on filtering and recaptioning, and the sentences that answer it."""

from __future__ import annotations

import math

from mispair.core.words import number
from mispair.repair.report import from_scratch
from mispair.repair.report.claims import CLAIMS, REPLACING
from mispair.repair.report.measures import accuracy_difference, rates_of
from mispair.report.questions import Findings, Quantity, Question, effect_sentence
from mispair.report.verdicts import ABSENT, CONTRADICTS, SUPPORTS

FILTERING = Quantity(
    "filtering", "points", 100, "raises accuracy", "lowers accuracy", "changes accuracy"
)


def _points(value: float) -> str:
    return f"{number(100 * abs(value), 1)} points"


def _gain(findings: Findings) -> str:
    rate = rates_of(findings.tables.repaired_arms)[-1]
    return effect_sentence(findings, FILTERING, f"With {100 * rate:.3g} % of the captions wrong")


def _at_most(findings: Findings) -> str:
    rate = rates_of(findings.tables.repaired_arms)[-1]
    best = accuracy_difference(findings.tables, "oracle", "raw", rate, findings.confidence)
    if not math.isfinite(best.value):
        return "One captioner and one model were tried."
    if best.value <= 0:
        return "Right captions would not raise it here, so nothing can be given back."
    return f"Right captions would raise it by {_points(best.value)}."


def _replace_or_drop(findings: Findings) -> str:
    verdict = findings.first(REPLACING.key)
    if verdict is None or verdict.effect is None:
        return ""
    size = _points(verdict.effect.value)
    texts = {
        SUPPORTS: f"Replace wrong captions: dropping their pairs gives {size} less.",
        CONTRADICTS: f"Drop the pairs of wrong captions: replacing them gives {size} less.",
        ABSENT: "Drop the pairs of wrong captions: this does as well, without a captioner.",
    }
    return texts.get(verdict.outcome, "")


QUESTIONS = (
    Question(
        "What do filtering and recaptioning give back?",
        tuple(claim.key for claim in (*CLAIMS, *from_scratch.CLAIMS)),
        _gain, _at_most, _replace_or_drop, "small_repair",
    ),
)  # fmt: skip
