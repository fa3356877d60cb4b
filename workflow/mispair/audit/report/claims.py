"""Claims on the audit itself: whether it finds shares of wrong captions that are known."""

from __future__ import annotations

from collections.abc import Callable

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
"""The same for captions of similar pictures."""

LEAST = 0.1
"""Smaller shares hardly show whether a model memorises."""

NOT_RUN = "the audit was not tried with known shares"

UNKNOWN = "the share of captions of similar pictures in this corpus is not known"

ESTIMATES = Claim(
    "audit-estimates", "audit",
    "A model that was not trained on a corpus estimates the share of its captions that belong to "
    f"other pictures, within {NEAR:g}.",
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
    "Ranks among random captions do not detect captions of similar pictures; ranks among similar "
    f"captions, with pairs known to be right, give their share within {NEAR_SIMILAR:g}.",
    "not in the paper", "known shares, similar", "audit_calibration",
)  # fmt: skip

OWN = (
    " The captions of your own corpus may be wrong, too: then the true share is computed from "
    "their estimated share and the known share of added ones."
)

RULES = {
    "known shares": "At each known share: the error of the estimate, and its 95 % interval. "
    "Supports if no error is larger than the number in the claim. Contradicts if an interval lies "
    "farther than that from the true share. Cannot tell otherwise, and where the model cannot tell "
    "right captions from wrong ones." + OWN,
    "known shares, trained": f"At each known share of at least {LEAST:g}. Supports if the interval "
    "of projections that judge the pairs they were trained on lies below the true share, and "
    f"the error of cross-fitted ones is at most {NEAR:g}. Contradicts if no interval of the first "
    "lies below the true share. Cannot tell otherwise." + OWN,
    "known shares, similar": "Supports if less than a tenth of the true share is found among "
    "random captions, and with pairs known to be right the error is at most the number in the "
    "claim. Contradicts if an interval of the latter lies farther than that from the true share. "
    "Cannot tell otherwise, and where the captions of your own corpus may be wrong, too.",
}
"""Rules of the claims in words, as the report prints them."""


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on the claims."""
    rates, is_right = shown_rates(tables.audit_calibration), _is_right(tables)
    rates = rates if is_right else expected(rates)
    by_series = {
        key: of_series for key, of_series in rates.groupby(["scheme", "series"], sort=False)
    }  # fmt: skip

    def of(scheme: str, *series: str) -> list[pd.DataFrame]:
        return [by_series.get((scheme, name), rates[:0]) for name in series]

    least = LEAST - NEAR
    trained = [part[part["true"] >= least] for part in of("random", MEMORISED, CROSS_FITTED)]
    refused = bool(refusal(tables))
    return [
        _verdict(ESTIMATES, of("random", UNTOUCHED), lambda only: _estimates(only, refused)),
        _verdict(CLEANER, trained, _cleaner),
        _verdict(
            SIMILAR,
            of("similar", UNTOUCHED, TRUSTED),
            _similar if is_right else lambda *_: (verdicts.UNDECIDED, UNKNOWN),
        ),
    ]


def _is_right(tables: Tables) -> bool:
    """Return whether the captions of the corpus itself are right, as those of generated scenes."""
    origin = tables.provenance
    answers = origin[(origin["artefact"] == "calibration") & (origin["key"] == "right")]["text"]
    return "False" not in set(answers)


def expected(rates: pd.DataFrame) -> pd.DataFrame:
    """Return the rates of a corpus that has wrong captions itself, with the expected share.

    If a share b was wrong and a share q is made wrong, 1 - (1 - b)(1 - q) of all are wrong. b is
    the estimate without added ones, by a model that was not trained on the pairs. Its interval
    widens the others, and estimates without added ones are left out.
    """
    untouched = rates[(rates["series"] == UNTOUCHED) & (rates["scheme"] == "random")]
    untouched = untouched[untouched["injected"] == 0]
    if untouched.empty:
        return rates[:0]
    left = 1 - rates["true"]
    share, low, high = (float(untouched[name].iloc[0]) for name in ("value", "low", "high"))
    return rates.assign(
        true=1 - (1 - share) * left,
        low=rates["low"] - (high - share) * left,
        high=rates["high"] + (share - low) * left,
    )[rates["injected"] > 0]


def _estimates(rates: pd.DataFrame, refused: bool) -> tuple[Outcome, str]:
    if refused:
        reason = "this model cannot tell right captions from wrong ones, so no rate is reported"
        return verdicts.UNDECIDED, reason
    return _near(rates, NEAR)


def _cleaner(memorised: pd.DataFrame, fitted: pd.DataFrame) -> tuple[Outcome, str]:
    below = memorised["high"] < memorised["true"]
    reason = "projections that were trained on the pairs find less than the true share"
    if not below.any():
        return verdicts.CONTRADICTS, "no interval lies below the true share"
    if not below.all():
        return verdicts.UNDECIDED, f"at some shares only {reason}"
    if _near(fitted, NEAR)[0] == verdicts.SUPPORTS:
        return verdicts.SUPPORTS, f"{reason}, and cross-fitted ones find it"
    return verdicts.UNDECIDED, f"{reason}, and cross-fitted ones are off by more than {NEAR:g}"


def _similar(blind: pd.DataFrame, seeing: pd.DataFrame) -> tuple[Outcome, str]:
    outcome, reason = _near(seeing, NEAR_SIMILAR)
    if outcome == verdicts.SUPPORTS and not (blind["value"] < 0.1 * blind["true"]).all():
        return verdicts.UNDECIDED, "random captions show a part of the share"
    return outcome, reason


def _near(rates: pd.DataFrame, near: float) -> tuple[Outcome, str]:
    error = (rates["value"] - rates["true"]).abs()
    far = (rates["low"] - rates["true"] > near) | (rates["true"] - rates["high"] > near)
    worst = f"the largest error is {number(error.max())}"
    if far.any():
        return verdicts.CONTRADICTS, f"{worst}, and its interval lies too far away"
    return (verdicts.SUPPORTS if (error <= near).all() else verdicts.UNDECIDED), worst


def _verdict(
    claim: Claim, parts: list[pd.DataFrame], decide: Callable[..., tuple[Outcome, str]]
) -> Verdict:
    """Judge a claim on its series of estimates; none of these may be missing."""
    if any(part.empty for part in parts):
        return Verdict(claim, verdicts.UNMEASURED, NOT_RUN)
    outcome, reason = decide(*parts)
    rates = pd.concat(parts)
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
