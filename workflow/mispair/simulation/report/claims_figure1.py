"""The paper's claims on the simulation's figure 1, judged on each preset that was run."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median

import pandas as pd

from mispair.core.words import count, number
from mispair.report import published, verdicts
from mispair.report.gaps import gap, gap_of_change, gap_of_mean
from mispair.report.statistics import count_interval, trend
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Control, Verdict
from mispair.simulation.report import (
    claims_arms,
    claims_features,
    claims_scaling,
    claims_theory,
    controls_simulation,
)
from mispair.simulation.report.reproduction import FAR, FEATURES, Point, comparable, foils, points
from mispair.simulation.report.runs import (
    PAIR,
    contrast_by_trial,
    differences,
    effect_by_trial,
    listed,
    of_preset,
    presets,
    runs,
    spurious,
)

NAMES = {
    "purified_features": ("Encoders trained on filtered captions purify more features.", "1(a)", 1),
    "purified_magnitude": ("Their purified features are purer (larger magnitude).", "1(b)", 3),
    "accuracy": ("They classify better zero-shot.", "1(c)", 3),
    "silhouette": ("Their classes are further apart (larger silhouette).", "1(d)", 3),
}
"""Of each measure: the claim, its panel of figure 1, and digits to print."""

OF_INTEREST = 1 / 3
"""Share of a published effect that is the smallest effect of interest."""

PRIMARY = "accuracy"
"""The measure whose gain by filtering is one of the report's primary claims."""

NEARLY_ALL, UP_TO = 0.95, 0.3
"""What "nearly all features, even at C_s = 0.3" is taken to mean."""

FIGURE1 = "simulation_figure1_as_run"
"""Where figure 1 is; a verdict on the other preset refers to that preset's figure."""

RAW = Claim(
    "raw-degrades", "simulation",
    "Encoders trained on raw captions purify fewer features as C_s grows.",
    "figure 1(a)", "change", FIGURE1,
)  # fmt: skip
GAP = Claim(
    "gap-widens", "simulation",
    "The gain in accuracy by filtering widens as C_s grows.",
    "figure 1(c), section 5.1", "change", FIGURE1,
)  # fmt: skip
ALL = Claim(
    "nearly-all", "simulation",
    f"With filtered captions nearly all features (here: {100 * NEARLY_ALL:g} %) are purified even "
    f"at C_s = {UP_TO:g}.",
    "figure 1(a), section 5.1", "level", FIGURE1,
)  # fmt: skip
REPRODUCED = Claim(
    "figure1-reproduced", "simulation",
    "The published points of figure 1 come out again.",
    "figure 1", "points", FIGURE1,
)  # fmt: skip


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on all claims of the study, those of two presets side by side."""
    judged = [judge_preset(tables, preset, confidence) for preset in presets(tables.simulation)]
    if not judged:
        claims = [*(_claim(metric) for metric in NAMES), GAP, ALL, RAW, REPRODUCED]
        return [
            Verdict(claim, verdicts.UNMEASURED, "the simulation was not run")
            for claim in [
                *claims,
                *claims_theory.CLAIMS,
                *claims_scaling.CLAIMS,
                *claims_arms.CLAIMS,
                *claims_features.CLAIMS,
            ]
        ]
    return [verdict for together in zip(*judged, strict=True) for verdict in together]


def judge_preset(tables: Tables, preset: str, confidence: float) -> list[Verdict]:
    """Return the verdicts on one preset: of its own runs, and of the conditions around it."""
    table = of_preset(tables.simulation, preset)
    points = of_preset(tables.simulation_points, preset)
    zero = controls_simulation.never_thresholded(tables, preset)
    judged = [
        *(_filtered(table, metric, confidence, zero) for metric in NAMES),
        _gap(table, confidence),
        _nearly_all(table, confidence),
        _raw(table, confidence),
        _reproduced(table),
        *claims_theory.judge(table, confidence),
        *claims_scaling.judge(tables, preset, confidence),
        *claims_arms.judge(tables, preset, confidence),
        *claims_features.judge(table, points, confidence),
    ]
    figure = f"simulation_figure1_{preset.replace('-', '_')}"
    return [
        replace(
            verdict,
            preset=preset,
            claim=replace(verdict.claim, figure=figure)
            if verdict.claim.figure == FIGURE1
            else verdict.claim,
        )
        for verdict in judged
    ]


def _claim(metric: str) -> Claim:
    text, panel, _ = NAMES[metric]
    return Claim(
        f"filtered-{metric}", "simulation", text, f"figure {panel}", "difference", FIGURE1,
        primary=metric == PRIMARY,
    )  # fmt: skip


def _published(metric: str, probabilities: list[float], arm: str) -> pd.Series:
    curve = published.figure1_curve(metric, arm)
    return curve[[value for value in probabilities if value in curve.index]]


def _scale(table: pd.DataFrame, metric: str) -> float:
    """Return the factor from published to measured effects: counts grow with the features."""
    features = float(table["features"].max())
    return features / FEATURES if metric == "purified_features" and features > 0 else 1.0


def smallest_gain(table: pd.DataFrame, metric: str, probabilities: list[float]) -> float:
    """Return a third of the published gain, averaged over these C_s or over all above zero."""
    gains = published.figure1_curve(metric, "filtered") - published.figure1_curve(metric, "raw")
    gains = gains[gains.index > 0]
    common = [value for value in probabilities if value in gains.index] or list(gains.index)
    return OF_INTEREST * _scale(table, metric) * abs(float(gains[common].mean()))


def smallest_change(table: pd.DataFrame, metric: str, curve: pd.Series, ends: pd.Series) -> float:
    """Return a third of a published curve's change between the ends, or over all of it."""
    common = [value for value in (ends.min(), ends.max()) if value in curve.index]
    curve = curve[common] if len(common) > 1 else curve
    change = float(curve.iloc[-1] - curve.iloc[0])
    return OF_INTEREST * _scale(table, metric) * abs(change)


def _filtered(table: pd.DataFrame, metric: str, confidence: float, unbent: Control) -> Verdict:
    claim, digits = _claim(metric), NAMES[metric][2]
    gains = spurious(differences(table, metric))
    effect = effect_by_trial(gains, confidence)
    probabilities = sorted(gains.index.get_level_values("spurious_probability").unique())
    smallest = smallest_gain(table, metric, probabilities)
    outcome, reason = verdicts.decide_effect(effect, +1, smallest, 1 - confidence)
    if outcome == verdicts.UNMEASURED:
        return Verdict(claim, outcome, "no pair of raw and filtered runs was measured")
    wide = runs(table, metric).loc[gains.index, list(PAIR)]
    raw = _published(metric, probabilities, "raw")
    filtered = _published(metric, probabilities, "filtered")
    expected = (
        f"raw {number(raw.mean(), digits)}, filtered {number(filtered.mean(), digits)}: "
        f"{number((filtered - raw).mean(), digits, sign=True)}"
        if len(raw)
        else "not published at these C_s"
    )
    controls = [
        controls_simulation.selection(wide, digits, effect.value),
        controls_simulation.clean_replaced(table),
        controls_simulation.nothing_to_repair(table, metric, effect.value, confidence),
    ]
    if metric == "accuracy":
        controls += [controls_simulation.without_thresholds(table), unbent]
    means = wide.groupby("spurious_probability").mean().mean()
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"mean over C_s {listed(probabilities)}",
        measured=f"raw {number(means['raw'], digits)}, "
        f"filtered {number(means['filtered'], digits)}",
        published=expected,
        sample=_sample(gains),
        test=f"difference {verdicts.effect_text(effect, confidence, digits)}",
        effect=effect,
        smallest=smallest,
        controls=tuple(controls),
        gap=_comparable(
            table,
            gap_of_mean(
                gains.groupby("spurious_probability").mean(), filtered - raw, "in the gain", digits
            ),
        ),
    )


def _comparable(table: pd.DataFrame, text: str) -> str:
    """Return the gap of a measured number, where it is one to a run of the published size."""
    if comparable(table):
        return text
    return f"not comparable: {_sizes(table)}"


def _sizes(table: pd.DataFrame) -> str:
    return f"published with {FEATURES} features, run with {number(table['features'].max(), 0)}"


def _sample(gains: pd.Series) -> str:
    trials = gains.groupby("spurious_probability").size()
    per = f"{trials.min()}" if trials.nunique() == 1 else f"{trials.min()} to {trials.max()}"
    noun = "trial" if per == "1" else "trials"
    return f"{count(len(trials), 'value')} of C_s × {per} {noun}"


def _gap(table: pd.DataFrame, confidence: float) -> Verdict:
    expected = published.figure1_curve("accuracy", "filtered") - published.figure1_curve(
        "accuracy", "raw"
    )
    return _changed(
        GAP, table, "accuracy", differences(table, "accuracy"), expected, +1, confidence,
        "gain in accuracy", "gain ",
    )  # fmt: skip


def _raw(table: pd.DataFrame, confidence: float) -> Verdict:
    metric = "purified_features"
    return _changed(
        RAW, table, metric, runs(table, metric)["raw"].dropna(),
        published.figure1_curve(metric, "raw"), -1, confidence,
        "purified features on raw captions", "", digits=1,
    )  # fmt: skip


def _changed(
    claim: Claim, table: pd.DataFrame, metric: str, values: pd.Series, expected: pd.Series,
    sign: int, confidence: float, scope: str, noun: str, digits: int = 3,
) -> Verdict:  # fmt: skip
    """Judge a change over C_s by the contrast of its ends; the trend over all C_s is told too."""
    frame = values.rename("value").reset_index()
    effect = contrast_by_trial(values, confidence)
    if not math.isfinite(effect.value):
        return Verdict(claim, verdicts.UNMEASURED, "fewer than two values of C_s were measured")
    smallest = smallest_change(table, metric, expected, frame["spurious_probability"])
    outcome, reason = verdicts.decide_effect(effect, sign, smallest, 1 - confidence)
    over_all = trend(frame["spurious_probability"].tolist(), frame["value"].tolist(),
                     frame["trial"].tolist())  # fmt: skip
    means = frame.groupby("spurious_probability")["value"].mean()
    shared = expected[[value for value in means.index if value in expected.index]]
    return Verdict(
        claim,
        outcome,
        reason,
        scope=scope,
        measured=noun + _from_to(means, digits, sign=bool(noun)),
        published=noun + _from_to(shared, digits, sign=bool(noun)),
        sample=_sample(values),
        test=f"change {verdicts.effect_text(effect, confidence, digits)}; over all C_s "
        f"{verdicts.trend_text(over_all)}",
        gap=_comparable(table, gap_of_change(means, shared, digits=digits)),
        effect=effect,
        smallest=smallest,
    )


def _nearly_all(table: pd.DataFrame, confidence: float) -> Verdict:
    values = runs(table, "purified_features")["filtered"].dropna()
    frame = values.rename("value").reset_index()
    low = frame[(frame["spurious_probability"] <= UP_TO) & (frame["spurious_probability"] > 0)]
    features = table["features"].max()
    if low.empty or not math.isfinite(features):
        return Verdict(ALL, verdicts.UNMEASURED, f"no C_s between 0 and {UP_TO:g} was measured")
    probability = low["spurious_probability"].max()
    part = low.loc[low["spurious_probability"] == probability, "value"]
    share = count_interval(part.tolist(), features, confidence)
    outcome, reason = verdicts.decide_level(share, NEARLY_ALL * features)
    expected = _published("purified_features", [probability], "filtered")
    return Verdict(
        ALL,
        outcome,
        reason,
        scope=f"at C_s = {probability:g}",
        measured=f"{number(share.value, 1)} of {features:g} features",
        published=f"{number(expected.iloc[0], 1)} of 50"
        if len(expected)
        else "not published at this C_s",
        sample=count(share.n, "trial"),
        test=f"{100 * confidence:g} % interval {number(share.low, 1)} to {number(share.high, 1)}"
        if share.known
        else f"no interval ({count(share.n, 'trial')})",
        controls=(controls_simulation.best_count(part, NEARLY_ALL * features),),
        gap=_comparable(
            table,
            gap(share.value, float(expected.iloc[0]), "features", digits=1)
            if len(expected)
            else "",
        ),
    )


def _from_to(means: pd.Series, digits: int = 3, sign: bool = False) -> str:
    if means.empty:
        return "not published at these C_s"
    return (
        f"{number(means.iloc[0], digits, sign)} → {number(means.iloc[-1], digits, sign)} "
        f"from C_s {means.index[0]:g} to {means.index[-1]:g}"
    )


def _reproduced(table: pd.DataFrame) -> Verdict:
    if not comparable(table):
        return Verdict(REPRODUCED, verdicts.UNMEASURED, _sizes(table))
    every = points(table)
    with_value = [point for point in every if point.measured]
    within = [point for point in with_value if point.within]
    outcome, reason = decide_points(len(within), len(with_value))
    if outcome == verdicts.UNMEASURED:
        return Verdict(REPRODUCED, outcome, reason)
    shares = []
    for metric, (_, panel, _) in NAMES.items():
        of_metric = [point.within for point in with_value if point.metric == metric]
        shares.append(f"{panel}: {sum(of_metric)} of {len(of_metric)}")
    return Verdict(
        REPRODUCED,
        outcome,
        reason,
        scope=f"best two thirds of the runs at C_s "
        f"{listed([point.spurious_probability for point in with_value])}",
        measured="; ".join(shares),
        published=count(len(with_value), "point"),
        sample=_sample(runs(table, "accuracy")["raw"].dropna()),
        test=_rulers(with_value),
    )


def _rulers(measured: list[Point]) -> str:
    """Say how many points agree in units of error, and how many wrong ones the tolerances pass."""
    apart = [abs(point.in_errors) for point in measured]
    near = sum(value <= FAR for value in apart)
    wrong = "; ".join(f"{foil.name} {foil.passed} of {foil.points}" for foil in foils())
    return (
        f"{near} of {len(apart)} points within {FAR:g} standard errors, the median at "
        f"{number(median(apart), 1)}; the tolerances would also pass, of the published curves, "
        f"{wrong}"
    )


def decide_points(within: int, measured: int) -> tuple[verdicts.Outcome, str]:
    """Judge whether the points of a figure were reproduced, by how many were."""
    if measured == 0:
        return verdicts.UNMEASURED, "no published point has the three trials that a selection needs"
    reason = f"{within} of {measured} points lie within their tolerance"
    if within == measured:
        return verdicts.SUPPORTS, reason
    return (verdicts.CONTRADICTS if within < measured / 2 else verdicts.UNDECIDED), reason
