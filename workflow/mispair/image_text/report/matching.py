"""Two curves compared at equal doses: at the same rate, effective rate or overlap.

The values of one curve are compared with those of a reference of the same seed, interpolated
linearly at the same dose. Rates are compared one by one, because a mean over rates has no meaning
where curves cross.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from mispair.core.words import listing
from mispair.report.statistics import Effect, effect_of_mean
from mispair.report.verdicts import (
    ABSENT,
    CONTRADICTS,
    SUPPORTS,
    UNDECIDED,
    UNMEASURED,
    Outcome,
    decide_effect,
)


def at_equal_dose(series: pd.DataFrame, reference: pd.DataFrame) -> pd.DataFrame:
    """Return series − reference of the same seed at the same dose, at rates above 0.

    Parameters
    ----------
    series, reference : DataFrame
        Columns ``rate``, ``seed``, ``value`` and ``dose``.

    Returns
    -------
    DataFrame
        Columns ``rate`` and ``seed`` of the series, and ``value``, the difference. Doses outside
        those of the reference of that seed are left out: nothing is extrapolated.
    """
    rows = []
    curves = {
        seed: part.dropna(subset=["dose", "value"]).sort_values("dose")
        for seed, part in reference.groupby("seed")
    }
    for rate, seed, value, dose in series[["rate", "seed", "value", "dose"]].itertuples(
        index=False
    ):
        curve = curves.get(seed)
        if rate == 0 or curve is None or len(curve) < 2 or not math.isfinite(value + dose):
            continue
        if curve["dose"].iloc[0] <= dose <= curve["dose"].iloc[-1]:
            rows.append((rate, seed, value - float(np.interp(dose, curve["dose"], curve["value"]))))
    return pd.DataFrame(rows, columns=["rate", "seed", "value"], dtype=float)


def by_rate(differences: pd.DataFrame, confidence: float) -> dict[float, Effect]:
    """Return the mean difference over seeds at each rate, with its t interval."""
    return {
        float(str(rate)): effect_of_mean(part["value"].tolist(), confidence, "seed")
        for rate, part in differences.groupby("rate")
    }


def crossing(effects: Mapping[float, Effect]) -> str:
    """Return in words between which rates the differences change their sign; "" if they do not."""
    rates = sorted(effects)
    signs = [np.sign(effects[rate].value) for rate in rates]
    turns = [
        f"C_m {low:g} and {high:g}"
        for low, high, before, after in zip(rates, rates[1:], signs, signs[1:], strict=False)
        if before * after < 0
    ]
    return f"the difference changes its sign between {listing(turns)}" if turns else ""


def decide_rates(
    effects: Mapping[float, Effect], sign: int, smallest: Mapping[float, float], alpha: float
) -> tuple[Outcome, str, Effect | None]:
    """Judge a claim on every rate: each by `decide_effect`, none averaged with another.

    Supports if all rates do. Contradicts if at least one does and none supports. No such effect
    if there is none at any rate. Cannot tell otherwise.

    Parameters
    ----------
    effects : mapping of float to Effect
        By rate.
    sign : int
        +1 for claimed effects above zero, −1 for ones below.
    smallest : mapping of float to float
        Smallest effect of interest by rate.
    alpha : float
        Level of each test.

    Returns
    -------
    outcome : Outcome
    reason : str
        Which rates do what, and where the differences cross zero.
    effect : Effect or None
        That of the rate that decides the outcome. Its p value is the largest of all rates where
        the claim is supported (each has to hold), else the smallest times their number (one is
        enough).
    """
    if not effects:
        return UNMEASURED, "no rate was measured on both sides", None
    single = {
        rate: decide_effect(effect, sign, smallest[rate], alpha)[0]
        for rate, effect in effects.items()
    }
    groups = {
        outcome: listing([f"{rate:g}" for rate in sorted(single) if single[rate] == outcome])
        for outcome in (SUPPORTS, CONTRADICTS, ABSENT, UNDECIDED)
        if outcome in single.values()
    }
    reason = "; ".join(f"{outcome} at C_m {rates}" for outcome, rates in groups.items())
    reason = "; ".join(filter(None, (reason, crossing(effects))))
    by_p = sorted(effects, key=lambda rate: math.inf if math.isnan(effects[rate].p)
                  else effects[rate].p)  # fmt: skip
    if set(groups) == {SUPPORTS}:
        return SUPPORTS, reason, effects[by_p[-1]]
    contradicted = [rate for rate in by_p if single[rate] == CONTRADICTS]
    against = bool(contradicted) and SUPPORTS not in groups
    decisive = effects[contradicted[0] if against else by_p[0]]
    decisive = replace(decisive, p=min(1.0, len(effects) * decisive.p))
    if against:
        return CONTRADICTS, reason, decisive
    return ABSENT if set(groups) == {ABSENT} else UNDECIDED, reason, decisive
