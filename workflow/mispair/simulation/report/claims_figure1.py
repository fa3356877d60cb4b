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
from mispair.report.verdicts import Claim, Control, Verdict, decide_effect, decide_level
from mispair.simulation.report import (
    claims_arms,
    claims_features,
    claims_scaling,
    claims_theory,
    controls_simulation,
)
from mispair.simulation.report.judging import (
    interval_test,
    judge_difference,
    two_levels,
    unmeasured,
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
"""For each measure: the claim, its panel of figure 1, and digits to print."""

OF_INTEREST = 1 / 3
"""Share of a published effect that is the smallest effect of interest."""

NEARLY_ALL, UP_TO = 0.95, 0.3
"""Share of the features, and largest C_s, of "nearly all features, even at C_s = 0.3"."""

FIGURE1 = "simulation_figure1_as_run"
"""Figure of these claims; a verdict on the other preset refers to that preset's figure."""

GAINS = {
    metric: Claim(
        f"filtered-{metric}", "simulation", text, f"figure {panel}", "difference", FIGURE1,
        primary=metric == "accuracy",
    )
    for metric, (text, panel, _) in NAMES.items()
}  # fmt: skip
"""Claims on the gain by filtering; that of accuracy is one of the report's primary claims."""

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

CLAIMS = (
    *GAINS.values(), GAP, ALL, RAW, REPRODUCED, *claims_theory.CLAIMS, *claims_scaling.CLAIMS,
    *claims_arms.CLAIMS, *claims_features.CLAIMS,
)  # fmt: skip
"""All claims of the study, in the order of their verdicts."""


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on all claims of the study, those of two presets side by side."""
    judged = [judge_preset(tables, preset, confidence) for preset in presets(tables.simulation)]
    if not judged:
        return [unmeasured(claim, "the simulation was not run") for claim in CLAIMS]
    return [verdict for of_claim in zip(*judged, strict=True) for verdict in of_claim]


def judge_preset(tables: Tables, preset: str, confidence: float) -> list[Verdict]:
    """Return the verdicts on the runs of one preset and of the conditions around it."""
    table = of_preset(tables.simulation, preset)
    points_of_preset = of_preset(tables.simulation_points, preset)
    thresholds = controls_simulation.never_thresholded(tables, preset)
    judged = [
        *(_gain(table, metric, confidence, thresholds) for metric in NAMES),
        _widening(table, confidence),
        _nearly_all(table, confidence),
        _degrading(table, confidence),
        _reproduced(table),
        *claims_theory.judge(table, confidence),
        *claims_scaling.judge(tables, preset, confidence),
        *claims_arms.judge(tables, preset, confidence),
        *claims_features.judge(table, points_of_preset, confidence),
    ]
    figures = {FIGURE1: f"simulation_figure1_{preset.replace('-', '_')}"}
    return [
        replace(
            verdict,
            preset=preset,
            claim=replace(
                verdict.claim, figure=figures.get(verdict.claim.figure, verdict.claim.figure)
            ),
        )
        for verdict in judged
    ]


def _published(metric: str, probabilities: list[float], arm: str) -> pd.Series:
    """Return the points of a published curve at the given C_s, without those that it lacks."""
    curve = published.figure1_curve(metric, arm)
    return curve[[value for value in probabilities if value in curve.index]]


def _published_gain(metric: str) -> pd.Series:
    filtered, raw = (published.figure1_curve(metric, arm) for arm in ("filtered", "raw"))
    return filtered - raw


def _scale(table: pd.DataFrame, metric: str) -> float:
    """Return the factor from published to measured effects: counts grow with the features."""
    features = float(table["features"].max())
    return features / FEATURES if metric == "purified_features" and features > 0 else 1.0


def smallest_gain(table: pd.DataFrame, metric: str, probabilities: list[float]) -> float:
    """Return a third of the published gain, averaged over these C_s or over all above zero."""
    gains = _published_gain(metric)
    gains = gains[gains.index > 0]
    common = [value for value in probabilities if value in gains.index] or list(gains.index)
    return OF_INTEREST * _scale(table, metric) * abs(float(gains[common].mean()))


def smallest_change(table: pd.DataFrame, metric: str, curve: pd.Series, ends: pd.Series) -> float:
    """Return a third of a published curve's change between the ends, or over all of it."""
    common = [value for value in (ends.min(), ends.max()) if value in curve.index]
    curve = curve[common] if len(common) > 1 else curve
    change = float(curve.iloc[-1] - curve.iloc[0])
    return OF_INTEREST * _scale(table, metric) * abs(change)


def _gain(table: pd.DataFrame, metric: str, confidence: float, thresholds: Control) -> Verdict:
    """Judge the gain of one measure by filtering."""
    claim, digits = GAINS[metric], NAMES[metric][2]
    gains = spurious(differences(table, metric))
    if gains.empty:
        return unmeasured(claim, "no pair of raw and filtered runs was measured")
    probabilities = sorted(gains.index.get_level_values("spurious_probability").unique())
    smallest = smallest_gain(table, metric, probabilities)
    wide = runs(table, metric).loc[gains.index, list(PAIR)]
    raw, filtered = (_published(metric, probabilities, arm) for arm in PAIR)
    change = number((filtered - raw).mean(), digits, sign=True)
    levels = two_levels(pd.Series({"raw": raw.mean(), "filtered": filtered.mean()}), digits)
    gain = effect_by_trial(gains, confidence).value
    controls = [
        controls_simulation.selection(wide, digits, gain),
        controls_simulation.clean_replaced(table),
        controls_simulation.nothing_to_repair(table, metric, gain, confidence),
    ]
    if metric == "accuracy":
        controls += [controls_simulation.without_thresholds(table), thresholds]
    means = gains.groupby("spurious_probability").mean()
    return judge_difference(
        claim,
        gains,
        lambda effect: decide_effect(effect, +1, smallest, 1 - confidence),
        confidence,
        missing="no pair of raw and filtered runs was measured",
        smallest=smallest,
        digits=digits,
        measured=two_levels(wide.groupby("spurious_probability").mean().mean(), digits),
        published=f"{levels}: {change}" if len(raw) else "not published at these C_s",
        sample=_sample(gains),
        controls=tuple(controls),
        gap=_comparable(table, gap_of_mean(means, filtered - raw, "in the gain", digits)),
    )


def _comparable(table: pd.DataFrame, text: str) -> str:
    """Return the gap to a published number, where runs have the published size."""
    return text if comparable(table) else f"not comparable: {_sizes(table)}"


def _sizes(table: pd.DataFrame) -> str:
    return f"published with {FEATURES} features, run with {number(table['features'].max(), 0)}"


def _sample(values: pd.Series) -> str:
    trials = values.groupby("spurious_probability").size()
    per = f"{trials.min()}" if trials.nunique() == 1 else f"{trials.min()} to {trials.max()}"
    noun = "trial" if per == "1" else "trials"
    return f"{count(len(trials), 'value')} of C_s × {per} {noun}"


def _widening(table: pd.DataFrame, confidence: float) -> Verdict:
    return _judge_change(
        GAP, table, "accuracy", differences(table, "accuracy"), _published_gain("accuracy"),
        +1, confidence, scope="gain in accuracy", noun="gain ",
    )  # fmt: skip


def _degrading(table: pd.DataFrame, confidence: float) -> Verdict:
    metric = "purified_features"
    return _judge_change(
        RAW, table, metric, runs(table, metric)["raw"].dropna(),
        published.figure1_curve(metric, "raw"), -1, confidence,
        scope="purified features on raw captions", digits=1,
    )  # fmt: skip


def _judge_change(
    claim: Claim, table: pd.DataFrame, metric: str, values: pd.Series, curve: pd.Series,
    sign: int, confidence: float, scope: str, noun: str = "", digits: int = 3,
) -> Verdict:  # fmt: skip
    """Judge a change over C_s by the contrast of its ends; the trend over all C_s is shown too."""
    effect = contrast_by_trial(values, confidence)
    if not math.isfinite(effect.value):
        return unmeasured(claim, "fewer than two values of C_s were measured")
    frame = values.rename("value").reset_index()
    smallest = smallest_change(table, metric, curve, frame["spurious_probability"])
    outcome, reason = decide_effect(effect, sign, smallest, 1 - confidence)
    over_all = trend(*(frame[name].tolist() for name in ("spurious_probability", "value", "trial")))
    means = values.groupby("spurious_probability").mean()
    common = curve[[value for value in means.index if value in curve.index]]
    return Verdict(
        claim,
        outcome,
        reason,
        scope=scope,
        measured=noun + _from_to(means, digits, sign=bool(noun)),
        published=noun + _from_to(common, digits, sign=bool(noun)),
        sample=_sample(values),
        test=f"change {verdicts.effect_text(effect, confidence, digits)}; over all C_s "
        f"{verdicts.trend_text(over_all)}",
        gap=_comparable(table, gap_of_change(means, common, digits=digits)),
        effect=effect,
        smallest=smallest,
    )


def _nearly_all(table: pd.DataFrame, confidence: float) -> Verdict:
    """Judge the count of purified features at the largest C_s of the claim."""
    values = spurious(runs(table, "purified_features")["filtered"].dropna())
    probabilities = values.index.get_level_values("spurious_probability")
    values = values[probabilities <= UP_TO]
    features = table["features"].max()
    if values.empty or not math.isfinite(features):
        return unmeasured(ALL, f"no C_s between 0 and {UP_TO:g} was measured")
    probability = probabilities[probabilities <= UP_TO].max()
    counts = values.xs(probability, level="spurious_probability")
    mean = count_interval(counts.tolist(), features, confidence)
    outcome, reason = decide_level(mean, NEARLY_ALL * features)
    printed = [float(value) for value in _published("purified_features", [probability], "filtered")]
    return Verdict(
        ALL,
        outcome,
        reason,
        scope=f"at C_s = {probability:g}",
        measured=f"{number(mean.value, 1)} of {features:g} features",
        published=f"{number(printed[0], 1)} of {FEATURES}"
        if printed
        else "not published at this C_s",
        sample=count(mean.n, "trial"),
        test=interval_test(mean, confidence, 1),
        controls=(controls_simulation.best_count(counts, NEARLY_ALL * features),),
        gap=_comparable(
            table, gap(mean.value, printed[0], "features", digits=1) if printed else ""
        ),
    )


def _from_to(means: pd.Series, digits: int, sign: bool) -> str:
    if means.empty:
        return "not published at these C_s"
    return (
        f"{number(means.iloc[0], digits, sign)} → {number(means.iloc[-1], digits, sign)} "
        f"from C_s {means.index[0]:g} to {means.index[-1]:g}"
    )


def _reproduced(table: pd.DataFrame) -> Verdict:
    """Judge how many published points of figure 1 are reproduced."""
    if not comparable(table):
        return unmeasured(REPRODUCED, _sizes(table))
    measured = [point for point in points(table) if point.measured]
    outcome, reason = decide_points(sum(point.within for point in measured), len(measured))
    if outcome == verdicts.UNMEASURED:
        return unmeasured(REPRODUCED, reason)
    shares = []
    for metric, (_, panel, _) in NAMES.items():
        within = [point.within for point in measured if point.metric == metric]
        shares.append(f"{panel}: {sum(within)} of {len(within)}")
    return Verdict(
        REPRODUCED,
        outcome,
        reason,
        scope="best two thirds of the runs at C_s "
        + listed(point.spurious_probability for point in measured),
        measured="; ".join(shares),
        published=count(len(measured), "point"),
        sample=_sample(runs(table, "accuracy")["raw"].dropna()),
        test=_tolerance_test(measured),
    )


def _tolerance_test(measured: list[Point]) -> str:
    """Print how many points agree in units of error, and how many wrong points would pass."""
    errors = [abs(point.in_errors) for point in measured]
    near = sum(value <= FAR for value in errors)
    wrong = "; ".join(f"{foil.name} {foil.passed} of {foil.points}" for foil in foils())
    return (
        f"{near} of {len(errors)} points within {FAR:g} standard errors, the median at "
        f"{number(median(errors), 1)}; wrong points of the published curves that the tolerances "
        f"would also pass: {wrong}"
    )


def decide_points(within: int, measured: int) -> tuple[verdicts.Outcome, str]:
    """Judge whether the points of a figure are reproduced, by how many are."""
    if measured == 0:
        return verdicts.UNMEASURED, "no published point has the three trials that a selection needs"
    reason = f"{within} of {measured} points are within their tolerance"
    if within == measured:
        return verdicts.SUPPORTS, reason
    return (verdicts.CONTRADICTS if within < measured / 2 else verdicts.UNDECIDED), reason
