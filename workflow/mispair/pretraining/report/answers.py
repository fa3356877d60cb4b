"""The question on towers trained from scratch, and the sentences that answer it."""

from __future__ import annotations

from mispair.pretraining.report.claims import MIXES
from mispair.report.questions import Findings, Quantity, Question, effect_sentence, named_limits

MIXING = Quantity("the mixing score of linked features")


def _mixing(findings: Findings) -> str:
    return effect_sentence(findings, MIXING, "Against clean captions, on spurious ones")


def _limit(findings: Findings) -> str:
    return named_limits(findings) or "One corpus and one architecture were tried."


QUESTIONS = (
    Question(
        "Do towers trained from scratch on wrong captions mix features?",
        (MIXES.key,),
        _mixing, _limit, figure="small_pretraining",
    ),
)  # fmt: skip
