"""The paper's claims on the simulation, judged on the tables."""

from __future__ import annotations

import math

import pandas as pd

from mispair.reporting import published, verdicts
from mispair.reporting.statistics import stratified_interval, trend
from mispair.reporting.tables import Tables
from mispair.reporting.verdicts import Claim, Control, Verdict
from mispair.reporting.words import count, number

NAMES = {
    "purified_features": ("Encoders trained on filtered captions purify more features.", "1(a)", 1),
    "purified_magnitude": ("Their purified features are purer (larger magnitude).", "1(b)", 3),
    "accuracy": ("They classify better zero-shot.", "1(c)", 3),
    "silhouette": ("Their classes are further apart (larger silhouette).", "1(d)", 3),
}
"""Of each measure: the claim, its panel of figure 1, and digits to print."""

NEARLY_ALL, UP_TO = 0.95, 0.3
"""What "nearly all features, even at C_s = 0.3" is taken to mean."""

SELECTED = 2 / 3
"""Share of the runs, the best ones, that the published points average (ten of fifteen)."""

HARMLESS = 0.1
"""Share of right captions that a filter may replace without a remark."""

RAW = Claim(
    "raw-degrades", "simulation",
    "Encoders trained on raw captions purify fewer features as C_s grows.",
    "figure 1(a)", "trend", "simulation_figure1",
)  # fmt: skip
GAP = Claim(
    "gap-widens", "simulation",
    "The gain in accuracy by filtering widens as C_s grows.",
    "figure 1(c), section 5.1", "trend", "simulation_figure1",
)  # fmt: skip
ALL = Claim(
    "nearly-all", "simulation",
    f"With filtered captions nearly all features (here: {100 * NEARLY_ALL:g} %) are purified even "
    f"at C_s = {UP_TO:g}.",
    "figure 1(a), section 5.1", "level", "simulation_figure1",
)  # fmt: skip


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on all claims of the study."""
    if not tables.study("simulation"):
        claims = [*(_claim(metric) for metric in NAMES), GAP, ALL, RAW]
        return [
            Verdict(claim, verdicts.UNMEASURED, "the simulation was not run") for claim in claims
        ]
    table = tables.simulation
    return [
        *(_filtered(table, metric, confidence) for metric in NAMES),
        _gap(table, 1 - confidence),
        _nearly_all(table, confidence),
        _raw(table, 1 - confidence),
    ]


def _claim(metric: str) -> Claim:
    text, panel, _ = NAMES[metric]
    return Claim(
        f"filtered-{metric}", "simulation", text, f"figure {panel}", "difference",
        "simulation_figure1",
    )  # fmt: skip


def runs(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return a measure of every run: one row for C_s and trial, columns raw and filtered."""
    own = table[table["metric"] == metric]
    wide = own.pivot_table(
        index=["spurious_probability", "trial"], columns="trained_on", values="value"
    )
    return wide.reindex(columns=["raw", "filtered"])


def differences(table: pd.DataFrame, metric: str) -> pd.Series:
    """Return filtered − raw of every run that has both, by C_s and trial."""
    wide = runs(table, metric).dropna()
    return wide["filtered"] - wide["raw"]


def best(values: pd.Series) -> float:
    """Return the mean of the best two thirds of the runs, as the published points are made."""
    values = values.dropna()
    if len(values) < 3:
        return math.nan
    return float(values.nlargest(round(SELECTED * len(values))).mean())


def _published(metric: str, probabilities: list[float], arm: str) -> pd.Series:
    curve = (
        published.figure1().query("trained_on == @arm").set_index("spurious_probability")[metric]
    )
    return curve[[value for value in probabilities if value in curve.index]]


def _filtered(table: pd.DataFrame, metric: str, confidence: float) -> Verdict:
    claim, digits = _claim(metric), NAMES[metric][2]
    gains = differences(table, metric)
    gains = gains[gains.index.get_level_values("spurious_probability") > 0]
    groups = [group.tolist() for _, group in gains.groupby("spurious_probability")]
    found = stratified_interval(groups, confidence)
    outcome, reason = verdicts.decide_difference(found)
    if outcome == verdicts.UNMEASURED:
        return Verdict(claim, outcome, reason)
    probabilities = sorted(gains.index.get_level_values("spurious_probability").unique())
    wide = runs(table, metric).loc[gains.index]
    raw = _published(metric, probabilities, "raw")
    filtered = _published(metric, probabilities, "filtered")
    theirs = (
        f"raw {number(raw.mean(), digits)}, filtered {number(filtered.mean(), digits)}: "
        f"{number((filtered - raw).mean(), digits, sign=True)}"
        if len(raw)
        else "not published at these C_s"
    )
    means = wide.groupby("spurious_probability").mean().mean()
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"mean over C_s {', '.join(f'{value:g}' for value in probabilities)}",
        measured=f"raw {number(means['raw'], digits)}, "
        f"filtered {number(means['filtered'], digits)}",
        published=theirs,
        sample=_sample(gains),
        test=f"difference {verdicts.interval_text(found, confidence, digits)}",
        controls=(_selection(wide, digits, found.value), _clean_replaced(table)),
    )


def _sample(gains: pd.Series) -> str:
    trials = gains.groupby("spurious_probability").size()
    per = f"{trials.min()}" if trials.nunique() == 1 else f"{trials.min()} to {trials.max()}"
    noun = "trial" if per == "1" else "trials"
    return f"{count(len(trials), 'value')} of C_s × {per} {noun}"


def _selection(wide: pd.DataFrame, digits: int, gain: float) -> Control:
    name = "Best two thirds of the runs"
    chosen = wide.groupby("spurious_probability").agg(best)
    if chosen.isna().any(axis=None) or chosen.empty:
        return Control(
            name, "not measured", "Needs at least three trials at every C_s; the published points "
            "average the best ten of fifteen runs, these all runs.",
        )  # fmt: skip
    lift = float((chosen.mean() - wide.groupby("spurious_probability").mean().mean()).max())
    selected = float((chosen["filtered"] - chosen["raw"]).mean())
    text = (
        f"Chosen as the published points are, the runs give raw "
        f"{number(chosen['raw'].mean(), digits)} and filtered "
        f"{number(chosen['filtered'].mean(), digits)}: a gain of "
        f"{number(selected, digits, sign=True)} instead of {number(gain, digits, sign=True)}."
    )
    return Control(name, "limits" if lift >= abs(gain) / 2 else "does not limit", text)


def _clean_replaced(table: pd.DataFrame) -> Control:
    name = "What the filter replaces"
    own = table[table["trained_on"] == "filtered"]
    shares = {
        kind: own.loc[own["metric"] == f"replaced_share_{kind}"].groupby("spurious_probability")
        ["value"].mean().dropna()
        for kind in ("bad", "clean")
    }  # fmt: skip
    if shares["clean"].empty:
        return Control(name, "not measured", "Shares of replaced captions were not recorded.")
    text = f"The filter replaced {share_range(shares['clean'])} of the right captions"
    if not shares["bad"].empty:
        text += f" and {share_range(shares['bad'])} of the wrong ones"
    return Control(
        name, "limits" if shares["clean"].max() > HARMLESS else "does not limit", f"{text}."
    )


def share_range(shares: pd.Series) -> str:
    """Format the smallest and largest of shares in per cent."""
    low, high = 100 * shares.min(), 100 * shares.max()
    return f"{low:.0f} %" if round(low) == round(high) else f"{low:.0f} to {high:.0f} %"


def _trend_of(series: pd.Series) -> tuple[pd.DataFrame, list[float]]:
    frame = series.rename("value").reset_index()
    return frame, sorted(frame["spurious_probability"].unique())


def _gap(table: pd.DataFrame, alpha: float) -> Verdict:
    frame, probabilities = _trend_of(differences(table, "accuracy"))
    found = trend(frame["spurious_probability"].tolist(), frame["value"].tolist(),
                  frame["trial"].tolist())  # fmt: skip
    outcome, reason = verdicts.decide_trend(found, +1, alpha)
    if outcome == verdicts.UNMEASURED:
        return Verdict(GAP, outcome, reason)
    means = frame.groupby("spurious_probability")["value"].mean()
    theirs = _published("accuracy", probabilities, "filtered") - _published(
        "accuracy", probabilities, "raw"
    )
    return Verdict(
        GAP,
        outcome,
        reason,
        scope="gain in accuracy",
        measured="gain " + _from_to(means, sign=True),
        published="gain " + _from_to(theirs, sign=True),
        sample=_sample(differences(table, "accuracy")),
        test=verdicts.trend_text(found),
    )


def _raw(table: pd.DataFrame, alpha: float) -> Verdict:
    values = runs(table, "purified_features")["raw"].dropna()
    frame, probabilities = _trend_of(values)
    found = trend(frame["spurious_probability"].tolist(), frame["value"].tolist(),
                  frame["trial"].tolist())  # fmt: skip
    outcome, reason = verdicts.decide_trend(found, -1, alpha)
    if outcome == verdicts.UNMEASURED:
        return Verdict(RAW, outcome, reason)
    return Verdict(
        RAW,
        outcome,
        reason,
        scope="purified features on raw captions",
        measured=_from_to(frame.groupby("spurious_probability")["value"].mean(), digits=1),
        published=_from_to(_published("purified_features", probabilities, "raw"), digits=1),
        sample=_sample(values),
        test=verdicts.trend_text(found),
    )


def _nearly_all(table: pd.DataFrame, confidence: float) -> Verdict:
    values = runs(table, "purified_features")["filtered"].dropna()
    frame = values.rename("value").reset_index()
    own = frame[(frame["spurious_probability"] <= UP_TO) & (frame["spurious_probability"] > 0)]
    features = table["features"].max()
    if own.empty or not math.isfinite(features):
        return Verdict(ALL, verdicts.UNMEASURED, f"no C_s between 0 and {UP_TO:g} was measured")
    probability = own["spurious_probability"].max()
    here = own.loc[own["spurious_probability"] == probability, "value"]
    found = stratified_interval([here.tolist()], confidence)
    outcome, reason = verdicts.decide_level(found, NEARLY_ALL * features)
    theirs = _published("purified_features", [probability], "filtered")
    return Verdict(
        ALL,
        outcome,
        reason,
        scope=f"at C_s = {probability:g}",
        measured=f"{number(found.value, 1)} of {features:g} features",
        published=f"{number(theirs.iloc[0], 1)} of 50"
        if len(theirs)
        else "not published at this C_s",
        sample=count(found.n, "trial"),
        test=f"{100 * confidence:g} % interval {number(found.low, 1)} to {number(found.high, 1)}"
        if found.known
        else "no interval (one run)",
        controls=(_best_count(here, features),),
    )


def _best_count(values: pd.Series, features: float) -> Control:
    name = "Best two thirds of the runs"
    chosen = best(values)
    if not math.isfinite(chosen):
        return Control(name, "not measured", "Needs at least three trials at this C_s.")
    level = NEARLY_ALL * features
    crosses = (chosen >= level) != (values.mean() >= level)
    text = f"The best two thirds of the runs purify {number(chosen, 1)} features on average."
    return Control(name, "limits" if crosses else "does not limit", text)


def _from_to(means: pd.Series, digits: int = 3, sign: bool = False) -> str:
    if means.empty:
        return "not published at these C_s"
    return (
        f"{number(means.iloc[0], digits, sign)} → {number(means.iloc[-1], digits, sign)} "
        f"from C_s {means.index[0]:g} to {means.index[-1]:g}"
    )
