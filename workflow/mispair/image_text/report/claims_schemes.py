"""The claims on realistic misalignment: captions of similar pairs against random ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from mispair.core.words import count, number, p_value
from mispair.evaluation.report.protocols import protocol_phrase
from mispair.evaluation.report.series import ends, purity_series, why_missing, zeroshot_series
from mispair.image_text.report.matching import at_equal_dose, by_rate, crossing, decide_rates
from mispair.report import published, verdicts
from mispair.report.gaps import gap_of_mean
from mispair.report.statistics import Effect
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Part, Verdict

SIMILAR, RANDOM, MUTUAL = "similar", "random", "similar-swap"

OVERLAP = Claim(
    "similar-less", "image_text",
    "At the same C_m, captions of similar pairs make neurons overlap less than random ones do.",
    "public review", "rates", "purity_by_scheme",
)  # fmt: skip
ACCURACY = Claim(
    "similar-harms-less", "image_text",
    "Random captions exaggerate the harm: at the same C_m, captions of similar pairs lower "
    "accuracy less.",
    "public review", "rates", "purity_by_scheme",
)  # fmt: skip

EFFECTIVE = {
    "wrong_feature_share": "Equal effective rate, by features",
    "false_caption_share": "Equal effective rate, by captions",
}
"""The two effective rates, and the name of the comparison at equal ones."""

Measure = Callable[[Tables, str], pd.DataFrame]


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on both claims."""
    tables = tables.of_protocol()
    missing = [name for name in (SIMILAR, RANDOM) if name not in tables.schemes]
    if missing:
        reason = f"the scheme {' and '.join(missing)} was not run"
        if not tables.study("image_text"):
            reason = why_missing(tables, "pretrained", reason)
        return [Verdict(claim, verdicts.UNMEASURED, reason) for claim in (OVERLAP, ACCURACY)]
    return [_overlap(tables, confidence), _accuracy(tables, confidence)]


def overlap(tables: Tables, scheme: str, tower: str = "text") -> pd.DataFrame:
    """Return rate, seed and mean |cos| of the pre-trained start's neurons under a scheme."""
    arms = tables.of_scheme(scheme)
    return purity_series(arms, "pretrained", tower, "mean_abs_cosine").dropna()


def accuracy(tables: Tables, scheme: str) -> pd.DataFrame:
    """Return rate, seed and mean accuracy of the pre-trained start under a scheme."""
    return zeroshot_series(tables.of_scheme(scheme), "pretrained", "acc1").dropna()


def effective(tables: Tables, scheme: str, metric: str) -> pd.Series:
    """Return an effective rate of a scheme by its nominal rate; empty where it is not known."""
    pairs = tables.of_scheme(scheme).pairs
    rates: pd.Series = pairs[pairs["metric"] == metric].groupby("rate")["value"].mean().dropna()
    return rates


def equal_rate(first: pd.DataFrame, second: pd.DataFrame, confidence: float) -> dict[float, Effect]:
    """Return first − second at each C_m above 0, paired by seed."""
    doses = [series.assign(dose=series["rate"]) for series in (first, second)]
    return by_rate(at_equal_dose(*doses), confidence)


def equal_effective_rate(
    tables: Tables, measure: Measure, scheme: str, metric: str, confidence: float
) -> dict[float, Effect]:
    """Return a scheme − random at equal effective rates, by the scheme's nominal rates."""
    dosed = []
    for name in (scheme, RANDOM):
        series = measure(tables, name)
        doses = series["rate"].map(effective(tables, name, metric))
        dosed.append(series.assign(dose=doses))
    return by_rate(at_equal_dose(*dosed), confidence)


def _overlap(tables: Tables, confidence: float) -> Verdict:
    wide = published.purity_by_scheme().pivot(
        index="shuffle_probability", columns="scheme", values="mean_abs_cosine"
    )
    gaps = (wide[SIMILAR] - wide[RANDOM]).iloc[1:]
    curves = [f"{name} {number(wide[name].iloc[0], 4)} → {number(wide[name].iloc[-1], 4)}"
              for name in (SIMILAR, RANDOM)]  # fmt: skip
    verdict = _judge(tables, OVERLAP, overlap, -1, gaps.abs() / 3, 4, confidence)
    if verdict.outcome == verdicts.UNMEASURED:
        return verdict
    apart = _means_by_rate(overlap(tables, SIMILAR), overlap(tables, RANDOM))
    return replace(
        verdict,
        scope="text projection, fine-tuned from the pre-trained one",
        published=f"{', '.join(curves)} (CC3M, 512 neurons)",
        gap=gap_of_mean(apart, gaps, "in similar − random, mean of all C_m", 4),
        controls=(*verdict.controls, _other_tower(tables, confidence)),
    )


def _accuracy(tables: Tables, confidence: float) -> Verdict:
    table = published.table4().groupby("shuffle_probability")["accuracy"].mean()
    fall = (table.iloc[0] - table).iloc[1:]
    verdict = _judge(tables, ACCURACY, accuracy, +1, fall / 3, 3, confidence)
    if verdict.outcome == verdicts.UNMEASURED:
        return verdict
    return replace(
        verdict,
        scope="mean of the evaluation sets, from pre-trained projections; "
        f"{protocol_phrase(tables)}",
        published="no accuracy was published for captions of similar pairs",
    )


def _judge(
    tables: Tables, claim: Claim, measure: Measure, sign: int, smallest: pd.Series, digits: int,
    confidence: float,
) -> Verdict:  # fmt: skip
    """Judge similar − random at each C_m; the smallest effects of interest are by published C_m."""
    alpha = 1 - confidence
    series = {scheme: measure(tables, scheme) for scheme in (SIMILAR, RANDOM)}
    effects = equal_rate(series[SIMILAR], series[RANDOM], confidence)
    least = {rate: float(np.interp(rate, smallest.index, smallest)) for rate in effects}
    outcome, reason, effect = decide_rates(effects, sign, least, alpha)
    if outcome == verdicts.UNMEASURED:
        return Verdict(claim, outcome, why_missing(tables, "pretrained", reason))
    parts = tuple(
        Part(f"C_m {rate:g}", verdicts.decide_effect(each, sign, least[rate], alpha)[0],
             effect_text(each, digits))
        for rate, each in effects.items()
    )  # fmt: skip
    measured = "; ".join(
        f"{name} {number(ends(part)[2], digits)} → {number(ends(part)[3], digits)}"
        for name, part in series.items()
    )
    return Verdict(
        claim, outcome, reason,
        measured=f"{measured}; similar − random " + differences_text(effects, digits),
        sample=f"{count(min(each.n for each in effects.values()), 'seed')}, paired, one model, "
        "a draw of swaps for each seed",
        test="t test over seeds at each C_m, none averaged with another",
        controls=(
            *(_at_effective_rate(tables, measure, metric, sign, digits, confidence)
              for metric in EFFECTIVE),
            _mutual(tables, measure, sign, digits, confidence),
        ),
        parts=parts, effect=effect, smallest=min(least.values()),
    )  # fmt: skip


def effect_text(effect: Effect, digits: int) -> str:
    """Print an effect with its interval and p value."""
    text = number(effect.value, digits, sign=True)
    if not effect.known:
        return f"{text}, no interval ({count(effect.n, effect.unit)})"
    limits = " to ".join(number(limit, digits, sign=True) for limit in (effect.low, effect.high))
    return f"{text} ({limits}; {p_value(effect.p)})"


def differences_text(effects: Mapping[float, Effect], digits: int) -> str:
    """Print differences by rate without their intervals."""
    return ", ".join(
        f"{number(effects[rate].value, digits, sign=True)} at {rate:g}" for rate in sorted(effects)
    )


def _compared(
    name: str, effects: Mapping[float, Effect], sign: int, text: str, missing: str
) -> Control:
    """Return the control in which differences have, or do not have, the claimed sign."""
    if not effects:
        return Control(name, "not measured", missing)
    held = all(sign * effect.value > 0 for effect in effects.values())
    text += ": as claimed at each C_m." if held else ": not as claimed at each C_m."
    return Control(name, "does not limit" if held else "limits", text)


def _at_effective_rate(
    tables: Tables, measure: Measure, metric: str, sign: int, digits: int, confidence: float
) -> Control:
    doses = effective(tables, SIMILAR, metric)
    effects = equal_effective_rate(tables, measure, SIMILAR, metric, confidence)
    last = max(effects, default=0.0)
    text = (
        f"Similar captions at C_m {last:g} are wrong at an effective rate of "
        f"{number(doses.get(last, math.nan))}. At equal effective rates similar − random is "
        f"{differences_text(effects, digits)} (C_m of similar)"
    )
    missing = "The features of the pictures are not known, or the schemes share no effective rates."
    return _compared(EFFECTIVE[metric], effects, sign, text, missing)


def _mutual(
    tables: Tables, measure: Measure, sign: int, digits: int, confidence: float
) -> Control:  # fmt: skip
    effects = equal_rate(measure(tables, MUTUAL), measure(tables, RANDOM), confidence)
    if MUTUAL not in tables.schemes:
        effects = {}
    text = f"With mutual swaps {MUTUAL} − random is {differences_text(effects, digits)}"
    missing = f"No arm of the scheme {MUTUAL} was run."
    return _compared("Each caption used as often as before", effects, sign, text, missing)


def _other_tower(tables: Tables, confidence: float) -> Control:
    similar, random = (overlap(tables, scheme, "image") for scheme in (SIMILAR, RANDOM))
    effects = equal_rate(similar, random, confidence)
    text = f"Image projection: similar − random {differences_text(effects, 4)}"
    if turn := crossing(effects):
        text += f"; {turn}"
    missing = "The image projection was not measured."
    return _compared("The other tower", effects, -1, text, missing)


def _means_by_rate(first: pd.DataFrame, second: pd.DataFrame) -> pd.Series:
    means = [series.groupby("rate")["value"].mean() for series in (first, second)]
    apart = (means[0] - means[1]).dropna()
    return apart[apart.index > 0]
