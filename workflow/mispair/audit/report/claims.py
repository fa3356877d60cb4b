"""Claims on the audit itself: whether it finds shares of wrong captions that are known."""

from __future__ import annotations

import pandas as pd

from mispair.audit.report.runs import CROSS_FITTED, MEMORISED, TRUSTED, UNTOUCHED, shown_rates
from mispair.audit.report.words import refusal
from mispair.core.words import listing, number
from mispair.report import verdicts
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Outcome, Verdict

NEAR = 0.02
"""How near an estimate of permuted captions is to the true share."""

NEAR_SIMILAR = 0.03
"""The same of captions of similar pictures."""

LEAST = 0.1
"""Smaller shares say little on a model that memorises."""

NOT_RUN = "the audit was not tried with known shares"

ESTIMATES = Claim(
    "audit-estimates", "audit",
    "A model that was not trained on a corpus tells what share of its captions belong to other "
    f"pictures, within {NEAR:g}.",
    "not in the paper", "known shares", "audit_calibration",
)  # fmt: skip
CLEANER = Claim(
    "audit-memorised", "audit",
    "To a model that was trained on its pairs, a corpus looks cleaner than it is; to models that "
    "are trained on one half and judge the other, it does not.",
    "not in the paper", "known shares, trained", "audit_calibration",
)  # fmt: skip
SIMILAR = Claim(
    "audit-similar", "audit",
    "Captions of similar pictures are not seen among random captions; among similar captions, and "
    f"with pairs known to be right, their share is found within {NEAR_SIMILAR:g}.",
    "not in the paper", "known shares, similar", "audit_calibration",
)  # fmt: skip

RULES = {
    "known shares": "At each known share: the error of the estimate, and its 95 % interval. "
    "Supports if no error is larger than the number in the claim. Contradicts if an interval lies "
    "farther than that from the true share. Cannot tell otherwise, and where the model cannot tell "
    "right captions from wrong ones.",
    "known shares, trained": f"At each known share of at least {LEAST:g}. Supports if the interval "
    "of projections that judge the pairs they were trained on lies below the true share, and "
    f"the error of cross-fitted ones is at most {NEAR:g}. Contradicts if no interval of the first "
    "lies below the true share. Cannot tell otherwise.",
    "known shares, similar": "Supports if less than a tenth of the true share is found among "
    "random captions, and with pairs known to be right the error is at most the number in the "
    "claim. Contradicts if an interval of the latter lies farther than that from the true share. "
    "Cannot tell otherwise.",
}
"""Rules of the claims in words, as the report prints them."""


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on the claims."""
    rates = shown_rates(tables.audit_calibration)
    random = rates[rates["scheme"] == "random"]
    similar = rates[rates["scheme"] == "similar"]
    return [
        _estimates(random[random["series"] == UNTOUCHED], bool(refusal(tables))),
        _cleaner(random[random["true"] >= LEAST - NEAR]),
        _similar(similar),
    ]


def _estimates(rates: pd.DataFrame, refused: bool) -> Verdict:
    if rates.empty:
        return Verdict(ESTIMATES, verdicts.UNMEASURED, NOT_RUN)
    outcome, reason = _near(rates, NEAR)
    if refused:
        outcome = verdicts.UNDECIDED
        reason = "this model cannot tell right captions from wrong ones, so no rate is reported"
    return _verdict(ESTIMATES, outcome, reason, rates)


def _cleaner(rates: pd.DataFrame) -> Verdict:
    memorised = rates[rates["series"] == MEMORISED]
    fitted = rates[rates["series"] == CROSS_FITTED]
    if memorised.empty or fitted.empty:
        return Verdict(CLEANER, verdicts.UNMEASURED, NOT_RUN)
    below = memorised["high"] < memorised["true"]
    near, _ = _near(fitted, NEAR)
    outcome: Outcome = verdicts.UNDECIDED
    reason = "projections that were trained on the pairs find less than the true share"
    if not below.any():
        outcome, reason = verdicts.CONTRADICTS, "no interval lies below the true share"
    elif not below.all():
        reason = "at some shares only " + reason
    elif near == verdicts.SUPPORTS:
        outcome, reason = verdicts.SUPPORTS, f"{reason}, and cross-fitted ones find it"
    else:
        reason += f", and cross-fitted ones are off by more than {NEAR:g}"
    return _verdict(CLEANER, outcome, reason, pd.concat([memorised, fitted]))


def _similar(rates: pd.DataFrame) -> Verdict:
    blind, seeing = rates[rates["series"] == UNTOUCHED], rates[rates["series"] == TRUSTED]
    if blind.empty or seeing.empty:
        return Verdict(SIMILAR, verdicts.UNMEASURED, NOT_RUN)
    outcome, reason = _near(seeing, NEAR_SIMILAR)
    if outcome == verdicts.SUPPORTS and not (blind["value"] < 0.1 * blind["true"]).all():
        outcome, reason = verdicts.UNDECIDED, "random captions show a part of the share"
    return _verdict(SIMILAR, outcome, reason, rates)


def _near(rates: pd.DataFrame, near: float) -> tuple[Outcome, str]:
    error = (rates["value"] - rates["true"]).abs()
    far = (rates["low"] - rates["true"] > near) | (rates["true"] - rates["high"] > near)
    worst = f"the largest error is {number(error.max())}"
    if far.any():
        return verdicts.CONTRADICTS, f"{worst}, and its interval lies too far away"
    return (verdicts.SUPPORTS if (error <= near).all() else verdicts.UNDECIDED), worst


def _verdict(claim: Claim, outcome: Outcome, reason: str, rates: pd.DataFrame) -> Verdict:
    covered = int(((rates["low"] <= rates["true"]) & (rates["true"] <= rates["high"])).sum())
    texts = [
        f"{name}: "
        + listing([f"{number(row['value'])} ({number(row['true'])})" for _, row in of.iterrows()])
        for name, of in rates.groupby("series", sort=False)
    ]
    return Verdict(
        claim,
        outcome,
        reason,
        scope="captions of the corpus with known shares of wrong ones",
        measured=f"estimated (true): {'; '.join(texts)}",
        published="no number",
        sample=f"{len(rates)} estimates of {rates['n'].max():,.0f} pairs, one draw each",
        test=f"{covered} of {len(rates)} intervals hold the true share",
    )
