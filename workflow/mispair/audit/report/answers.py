"""The question on the share of wrong captions, and the sentences that answer it."""

from __future__ import annotations

from mispair.audit.report.claims import ESTIMATES
from mispair.audit.report.runs import UNTOUCHED, shown_rates
from mispair.audit.report.words import between, estimate, headline, percent
from mispair.report.questions import Findings, Question
from mispair.report.verdicts import SUPPORTS


def _share(findings: Findings) -> str:
    rates = shown_rates(findings.tables.audit_calibration)
    rates = rates[(rates["scheme"] == "random") & (rates["series"] == UNTOUCHED)]
    worst = percent(float((rates["value"] - rates["true"]).abs().max()))
    inside = int(((rates["low"] <= rates["true"]) & (rates["true"] <= rates["high"])).sum())
    on_known = (
        f"Estimates of {len(rates)} known shares are off by at most {worst}, and {inside} of their "
        "95 % intervals hold the true one."
    )
    return f"{headline(findings.tables)} {on_known}".strip()


def _similar(findings: Findings) -> str:
    similar = estimate(findings.tables.audit, "similar_captions")
    if similar is not None:
        text = between(similar)
        return f"{text} are captions of a similar picture, which this share leaves out."
    return "Captions of similar pictures are not in this share: they need pairs known to be right."


def _audit_first(findings: Findings) -> str:
    if findings.verdict.outcome != SUPPORTS:
        return ""
    return "Audit your pairs before you train (snakemake audit)."


QUESTIONS = (
    Question(
        "How many captions are wrong, and can they be found?",
        (ESTIMATES.key, "audit-memorised", "audit-similar"),
        _share, _similar, _audit_first, "small_audit",
    ),
)  # fmt: skip
