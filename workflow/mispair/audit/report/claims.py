"""Claims on the audit itself: whether it finds shares of wrong captions that are known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from scipy import stats

from mispair.audit.rate import LEAST_POWER
from mispair.audit.report.estimates import (
    CROSS_FITTED,
    MEMORISED,
    TRUSTED,
    UNTOUCHED,
    captions_are_right,
    estimate,
    known_rates,
    numbers,
    refusal,
)
from mispair.report.claims import THIRD, Claim, Control, Measured, Part
from mispair.report.questions import Question
from mispair.report.statistics import (
    Effect,
    effect_of_estimate,
    effect_of_interval,
    unknown_effect,
)
from mispair.report.tables import Tables, records

NEAR = 0.02
"""How near an estimate of permuted captions is to the true share."""

NEAR_SIMILAR = 0.03
"""The same for captions of similar pictures."""

UNIT = "pair"


def condition_of(tables: Tables) -> str:
    """Return why estimates cannot be compared with a true share, or ""."""
    if refusal(tables):
        return "refused"
    return "" if captions_are_right(tables) else "unknown truth"


def is_weak(tables: Tables) -> bool:
    """Return whether the model ranks right captions too much like random ones."""
    power = estimate(tables.audit, "power")
    return power is not None and power.low < LEAST_POWER


def rates_of(tables: Tables, scheme: str, series: str) -> pd.DataFrame:
    """Return a series of estimates, with the shares that they should find, in ascending order.

    These include the captions that were wrong before (`estimates.known_rates`).
    """
    rates = known_rates(tables)
    rates = rates[(rates["scheme"] == scheme) & (rates["series"] == series)]
    return rates.sort_values("made")


@dataclass(frozen=True)
class Errors:
    """Estimated less true share, with pairs known to be right, at each known share.

    Where these pairs do not suffice for an estimate, that without them stands in its place, and
    nothing can be decided ("refused").
    """

    scheme: str

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return the error at each known share."""
        gate, parts = condition_of(tables), {}
        given = {row["injected"]: row for row in records(rates_of(tables, self.scheme, TRUSTED))}
        for without in records(rates_of(tables, self.scheme, UNTOUCHED)):
            row = given.get(without["injected"], without)
            value, low, high = (float(row[name] - row["true"]) for name in ("value", "low", "high"))
            known = row is not without
            parts[f"{row['injected']:g}"] = Measured(
                effect_of_interval(value, low, high, int(row["n"]), UNIT, confidence) if known
                else unknown_effect(value, int(row["n"]), UNIT),
                first=float(row["true"]), last=float(row["value"]),
                gate=gate if known else "refused",
            )  # fmt: skip
        return Measured(parts=parts)


@dataclass(frozen=True)
class Missed:
    """True less estimated share, at the largest known share, by one kind of projections.

    The standard error is that of the upper limit, and at least that of a share of all pairs.
    """

    series: str
    scheme: str = "random"

    def __call__(self, tables: Tables, confidence: float) -> Measured:
        """Return how much of the share is missed, at each known share above 0."""
        rates = rates_of(tables, self.scheme, self.series)
        rates = rates[rates["injected"] > 0]
        if rates.empty:
            return Measured()
        rows = records(rates)
        effects = {float(row["injected"]): self._effect(row, confidence) for row in rows}
        return Measured(
            effects[float(rows[-1]["injected"])],
            first=float(rows[-1]["true"]), last=float(rows[-1]["value"]),
            at=(float(rows[-1]["injected"]),),
            rates={share: Part(effect) for share, effect in effects.items()},
            gate="refused" if is_weak(tables) else condition_of(tables),
        )  # fmt: skip

    @staticmethod
    def _effect(row: Mapping[Any, Any], confidence: float) -> Effect:
        above = float(row["high"] - row["value"]) / float(stats.norm.ppf(0.95))
        error = max(above, math.sqrt(row["true"] * (1 - row["true"]) / row["n"]))
        value = float(row["true"] - row["value"])
        return effect_of_estimate(value, error, math.inf, int(row["n"]), confidence, UNIT)


def _found(tables: Tables, confidence: float) -> Measured:
    """Return the share of similar captions that ranks among random captions find.

    What they miss is the same, whatever was wrong before.
    """
    missed = Missed(UNTOUCHED, "similar")(tables, confidence)
    if not missed.at:
        return Measured()
    found, error = _made_similar(tables) - missed.effect.value, missed.effect.error
    effect = effect_of_estimate(found, error, math.inf, missed.effect.n, confidence, UNIT)
    return Measured(effect)


def _injected(tables: Tables, confidence: float) -> Measured:
    """Return the largest known share of similar captions, which has no error."""
    missed = Missed(UNTOUCHED, "similar")(tables, confidence)
    return Measured(unknown_effect(_made_similar(tables), missed.effect.n, UNIT))


def _made_similar(tables: Tables) -> float:
    """Return the largest share of similar captions that was made; NaN without any."""
    return float(rates_of(tables, "similar", UNTOUCHED)["made"].max())


CLAIMS = (
    Claim(
        "audit-estimates", "audit",
        "With pairs known to be right, a model that has not seen the pairs estimates the share of "
        "captions of unrelated pictures.",
        "not in the paper", "audit_calibration",
        Errors("random"), "equivalence", bound=NEAR, unit="points", every="share",
        needs="studies: [audit]",
    ),
    Claim(
        "audit-memorised", "audit",
        "To a model that was trained on its pairs, a corpus looks cleaner than it is.",
        "not in the paper", "audit_calibration",
        Missed(MEMORISED), bound=NEAR, unit="points", needs="studies: [audit]",
        controls=(
            Control("Models that judge pairs they were not trained on", Missed(CROSS_FITTED),
                    least=None, most=THIRD),
        ),
    ),
    Claim(
        "audit-similar", "audit",
        "With pairs known to be right, ranks among similar captions give the share of captions of "
        "similar pictures.",
        "not in the paper", "audit_calibration",
        Errors("similar"), "equivalence", bound=NEAR_SIMILAR, unit="points", every="share",
        needs="studies: [audit]",
        controls=(
            Control("Ranks among random captions", _found, least=None, most=0.1, of=_injected),
        ),
    ),
)  # fmt: skip


def _numbers(tables: Tables, confidence: float) -> Mapping[str, Any]:
    """Return the numbers of the corpus and of the trials, and the largest error."""
    parts = Errors("random")(tables, confidence).parts.values()
    worst = max((abs(part.effect.value) for part in parts if not part.gate), default=0.0)
    return {**numbers(tables), "worst": worst}


QUESTIONS = (
    Question(
        "wrong-captions", "How many captions are wrong, and can they be found?",
        tuple(claim.key for claim in CLAIMS), "small_audit", _numbers,
    ),
)  # fmt: skip
