"""The question on models of rewritten captions, and the sentences that answer it."""

from __future__ import annotations

from mispair.report.questions import Findings, Quantity, Question, effect_sentence, named_limits

OVERLAP = Quantity("the overlap of text neurons (mean |cos|)")


def _overlap(findings: Findings) -> str:
    return effect_sentence(findings, OVERLAP, "From CLIP to LaCLIP models")


def _limit(findings: Findings) -> str:
    return named_limits(findings) or "Each model was trained once."


QUESTIONS = (
    Question(
        "Do models that were trained on rewritten captions overlap less?",
        ("laclip-overlap", "laclip-accuracy", "laclip-silhouette"),
        _overlap, _limit, figure="small_laclip",
    ),
)  # fmt: skip
