"""The paper's claims on shuffled captions and on pruning, judged on the tables."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from mispair.reporting import published, verdicts
from mispair.reporting.statistics import Interval, Trend, prediction_interval, trend
from mispair.reporting.tables import Tables, mean_by
from mispair.reporting.verdicts import Claim, Control, Part, Verdict
from mispair.reporting.words import count, number

SMALL, LARGE = 1 / 3, 2 / 3
"""A control's effect is gone below a third, and the same above two thirds, of the claim's own."""

NOTICEABLE = 0.1
"""A share of an effect that is worth a remark."""

OVERLAP = Claim(
    "overlap-rises", "image_text",
    "Neurons overlap more (their mean |cos| rises) the more captions are shuffled.",
    "figure 2(d), section 5.2", "trend", "purity_by_shuffling",
)  # fmt: skip
ACCURACY = Claim(
    "accuracy-falls", "image_text",
    "Zero-shot accuracy falls the more captions are shuffled.",
    "table 4", "sets", "accuracy_by_shuffling",
)  # fmt: skip
SILHOUETTE = Claim(
    "silhouette-falls", "image_text",
    "The silhouette of the classes falls the more captions are shuffled.",
    "table 4", "sets", "silhouette_by_shuffling",
)  # fmt: skip
PRUNED_ACCURACY = Claim(
    "pruning-accuracy", "image_text",
    "Keeping high-purity neurons gives the best accuracy, random ones less, low-purity least.",
    "figures 2(a-c) and 8", "order", "pruning",
)  # fmt: skip
PRUNED_SILHOUETTE = Claim(
    "pruning-silhouette", "image_text",
    "Keeping high-purity neurons gives the best silhouette, random ones less, low-purity least.",
    "figures 2(e-g) and 8", "order", "pruning",
)  # fmt: skip


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdicts on all claims on one scheme of corruption: the main one."""
    tables = tables.of_scheme()
    alpha = 1 - confidence
    return [
        _overlap(tables, alpha),
        _sets(tables, ACCURACY, "acc1", "accuracy", alpha),
        _sets(tables, SILHOUETTE, "silhouette", "silhouette", alpha),
        _pruning(tables.pruning, PRUNED_ACCURACY, "acc1", confidence),
        _pruning(tables.pruning, PRUNED_SILHOUETTE, "silhouette", confidence),
    ]


def purity_series(tables: Tables, start: str, tower: str, metric: str) -> pd.DataFrame:
    """Return a measure of every rate and seed of a start, averaged over rotations."""
    table = tables.purity
    own = table[(table["start"] == start) & (table["tower"] == tower) & (table["metric"] == metric)]
    return mean_by(own, ["rate", "seed"])


def zeroshot_series(
    tables: Tables, start: str, metric: str, evaluation_set: str | None = None
) -> pd.DataFrame:
    """Return a measure of every rate and seed on one set, or the mean of the sets all arms have."""
    table = tables.zeroshot
    own = table[(table["start"] == start) & (table["metric"] == metric)]
    if evaluation_set is not None:
        own = own[own["evaluation_set"] == evaluation_set]
    else:
        wide = own.pivot_table(
            index=["rate", "seed"], columns="evaluation_set", values="value", dropna=False
        )
        complete = wide.columns[wide.notna().all()]
        own = own[own["evaluation_set"].isin(complete)]
    return mean_by(own, ["rate", "seed"])


def run_trend(series: pd.DataFrame) -> Trend:
    """Test the trend of a series over rates, within seeds."""
    return trend(series["rate"].tolist(), series["value"].tolist(), series["seed"].tolist())


def ends(series: pd.DataFrame) -> tuple[float, float, float, float]:
    """Return the lowest and highest measured rate and the means over seeds there."""
    means = series.dropna().groupby("rate")["value"].mean()
    if means.empty:
        return (math.nan,) * 4
    return (
        float(means.index[0]),
        float(means.index[-1]),
        float(means.iloc[0]),
        float(means.iloc[-1]),
    )


def change(series: pd.DataFrame) -> float:
    """Return the change of the mean from the lowest to the highest rate."""
    _, _, first, last = ends(series)
    return last - first


def _ends_text(series: pd.DataFrame, digits: int = 3) -> str:
    low, high, first, last = ends(series)
    if not math.isfinite(first):
        return ""
    return f"{number(first, digits)} → {number(last, digits)} from C_m {low:g} to {high:g}"


def _sample(series: pd.DataFrame) -> str:
    seeds, rates = series["seed"].nunique(), series["rate"].nunique()
    return f"{count(rates, 'rate')} × {count(seeds, 'seed')}, one model, one draw of swaps"


# Overlap of neurons ---------------------------------------------------------------------------


def _overlap(tables: Tables, alpha: float) -> Verdict:
    series = purity_series(tables, "pretrained", "text", "mean_abs_cosine")
    found = run_trend(series)
    outcome, reason = verdicts.decide_trend(found, +1, alpha)
    curve = published.purity()["mean_abs_cosine"]
    if outcome == verdicts.UNMEASURED:
        return Verdict(OVERLAP, outcome, why_missing(tables, "pretrained", reason))
    return Verdict(
        OVERLAP,
        outcome,
        reason,
        scope="text projection, fine-tuned from the pre-trained one",
        measured=f"text |cos| {_ends_text(series, 4)}",
        published=f"{number(curve.iloc[0], 4)} → {number(curve.iloc[-1], 4)} (CC3M, 512 neurons)",
        sample=_sample(series),
        test=verdicts.trend_text(found),
        controls=tuple(control(tables, series, alpha) for control in _OVERLAP_CONTROLS),
    )


def _image_tower(tables: Tables, series: pd.DataFrame, alpha: float) -> Control:
    name = "The other tower"
    other = purity_series(tables, "pretrained", "image", "mean_abs_cosine")
    if not math.isfinite(change(other)):
        return Control(name, "not measured", "The image projection was not measured.")
    outcome, reason = verdicts.decide_trend(run_trend(other), +1, alpha)
    agrees = outcome == verdicts.SUPPORTS
    text = f"Image projection: {_ends_text(other, 4)}; {reason}."
    return Control(name, "does not limit" if agrees else "limits", text)


def _reinitialised(tables: Tables, series: pd.DataFrame, alpha: float) -> Control:
    name = "Re-initialised projections"
    other = purity_series(tables, "reinitialised", "text", "mean_abs_cosine")
    own, there = change(series), change(other)
    if not math.isfinite(there):
        return Control(name, "not measured", "No arm from re-initialised projections was run.")
    vanishes = abs(there) < SMALL * abs(own)
    text = f"From re-initialised projections the text |cos| goes {_ends_text(other, 4)}"
    accuracy = zeroshot_series(tables, "reinitialised", "acc1")
    if math.isfinite(change(accuracy)):
        text += f", while accuracy goes {_ends_text(accuracy)}"
    text += (
        ". The effect on overlap vanishes there: it comes with fine-tuning away from pre-trained "
        "projections, not from shuffling alone."
        if vanishes
        else ": the effect does not depend on the pre-trained start."
    )
    return Control(name, "limits" if vanishes else "does not limit", text)


def _rotated(tables: Tables, series: pd.DataFrame, alpha: float) -> Control:
    name = "Rotated basis"
    other = purity_series(tables, "pretrained", "text", "mean_abs_cosine_rotated")
    own, there = change(series), change(other)
    if not math.isfinite(there):
        return Control(name, "not measured", "No rotated basis was measured.")
    same = there * own > 0 and abs(there) >= LARGE * abs(own)
    text = (
        f"In randomly rotated bases, where the model computes the same, it goes "
        f"{_ends_text(other, 4)}"
    )
    text += (
        ": as much as in the model's own basis, so the measure says nothing about single neurons."
        if same
        else ": less than in the model's own basis, so the neurons themselves play a part."
    )
    return Control(name, "limits" if same else "does not limit", text)


def _effective_rank(tables: Tables, series: pd.DataFrame, alpha: float) -> Control:
    name = "Effective rank"
    other = purity_series(tables, "pretrained", "text", "effective_rank")
    if not math.isfinite(change(other)):
        return Control(name, "not measured", "The effective rank was not measured.")
    falls = verdicts.decide_trend(run_trend(other), -1, alpha)[0] == verdicts.SUPPORTS
    text = f"The effective rank of the text projection goes {_ends_text(other, 1)}"
    text += (
        ": the spectrum collapses, and fewer directions make neurons overlap."
        if falls
        else ": the spectrum does not collapse."
    )
    return Control(name, "limits" if falls else "does not limit", text)


def _untouched(tables: Tables, series: pd.DataFrame, alpha: float) -> Control:
    name = "Untouched model"
    untouched = purity_series(tables, "untouched", "text", "mean_abs_cosine")["value"].mean()
    low, _, first, _ = ends(series)
    if not math.isfinite(untouched) or low != 0:
        return Control(name, "not measured", "The untouched model or C_m = 0 was not measured.")
    apart = abs(first - untouched) >= NOTICEABLE * abs(change(series))
    text = (
        f"Untouched {number(untouched, 4)}, fine-tuned on unshuffled captions {number(first, 4)}: "
    )
    text += (
        "fine-tuning itself moves the overlap, so the untouched model is no stand-in for C_m = 0."
        if apart
        else "fine-tuning itself hardly moves the overlap."
    )
    return Control(name, "limits" if apart else "does not limit", text)


_OVERLAP_CONTROLS: tuple[Callable[[Tables, pd.DataFrame, float], Control], ...] = (
    _reinitialised, _rotated, _effective_rank, _untouched, _image_tower,
)  # fmt: skip


# Accuracy and silhouette ------------------------------------------------------------------------


def _sets(tables: Tables, claim: Claim, metric: str, column: str, alpha: float) -> Verdict:
    series = zeroshot_series(tables, "pretrained", metric)
    found = run_trend(series)
    whole, reason = verdicts.decide_trend(found, -1, alpha)
    if whole == verdicts.UNMEASURED:
        return Verdict(claim, whole, why_missing(tables, "pretrained", reason))
    own = tables.zeroshot[tables.zeroshot["start"] == "pretrained"]
    names = sorted(own.loc[own["metric"] == metric, "evaluation_set"].dropna().unique())
    parts = []
    for name in names:
        part = zeroshot_series(tables, "pretrained", metric, name)
        outcome, why = verdicts.decide_trend(run_trend(part), -1, alpha)
        text = f"{_ends_text(part)}; {why}" if math.isfinite(change(part)) else why
        parts.append(Part(name, outcome, text))
    outcome, reason = verdicts.decide_sets(whole, parts, reason)
    table = published.table4()
    means = table.groupby("shuffle_probability")[column].mean()
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"mean of {count(len(names), 'evaluation set')}, from pre-trained projections",
        measured=f"mean of sets {_ends_text(series)}",
        published=f"{number(means.iloc[0])} → {number(means.iloc[-1])} "
        f"(mean of {table['dataset'].nunique()} other data sets, CC3M)",
        sample=_sample(series),
        test=verdicts.trend_text(found),
        controls=(_untouched_scores(tables, series, metric), _from_scratch(tables, metric, alpha)),
        parts=tuple(parts),
    )


def _untouched_scores(tables: Tables, series: pd.DataFrame, metric: str) -> Control:
    name = "Untouched model"
    untouched = zeroshot_series(tables, "untouched", metric)["value"].mean()
    low, _, first, _ = ends(series)
    if not math.isfinite(untouched) or low != 0:
        return Control(name, "not measured", "The untouched model or C_m = 0 was not measured.")
    apart = abs(first - untouched) >= NOTICEABLE * abs(change(series))
    text = f"Untouched {number(untouched)}, fine-tuned on unshuffled captions {number(first)}: "
    text += "fine-tuning itself moves it." if apart else "fine-tuning itself hardly moves it."
    return Control(name, "limits" if apart else "does not limit", text)


def _from_scratch(tables: Tables, metric: str, alpha: float) -> Control:
    name = "Re-initialised projections"
    scores = zeroshot_series(tables, "reinitialised", metric)
    if not math.isfinite(change(scores)):
        return Control(name, "not measured", "No arm from re-initialised projections was run.")
    falls = verdicts.decide_trend(run_trend(scores), -1, alpha)[0] == verdicts.SUPPORTS
    here = change(purity_series(tables, "pretrained", "text", "mean_abs_cosine"))
    there = change(purity_series(tables, "reinitialised", "text", "mean_abs_cosine"))
    unmixed = math.isfinite(here) and math.isfinite(there) and abs(there) < SMALL * abs(here)
    text = f"From re-initialised projections it goes {_ends_text(scores)}"
    if falls and unmixed:
        text += ": it falls without a rise in overlap, so overlap is not what makes it fall."
    elif falls:
        text += ": it falls there too."
    else:
        text += ": it does not fall there."
    return Control(name, "limits" if not falls or unmixed else "does not limit", text)


# Pruning ------------------------------------------------------------------------------------------


def pruned_arm(table: pd.DataFrame) -> pd.DataFrame:
    """Return the pruned arm that claims are judged on: the untouched model, if it was pruned."""
    for start in ("untouched", "pretrained", "reinitialised"):
        own = table[table["start"] == start]
        if not own.empty:
            rate = own["rate"].min()
            return own if math.isnan(rate) else own[own["rate"] == rate]
    return table


def kept_below_full(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out the largest k if all strategies agree there: then nothing was pruned."""
    if table.empty:
        return table
    largest = table[table["k"] == table["k"].max()]
    spread = largest.groupby(["evaluation_set", "seed", "metric"], dropna=False)["value"]
    nothing_pruned = (spread.max() - spread.min()).fillna(0).max() < 1e-6
    return table[table["k"] < table["k"].max()] if nothing_pruned else table


def strategy_scores(
    table: pd.DataFrame, metric: str, basis: str = "original", ranked_by: str = "text"
) -> pd.DataFrame:
    """Return strategy, draw and the mean score over sets, seeds and k, in one basis or all rotated.

    Only evaluation sets on which every strategy was measured count.
    """
    own = table[table["metric"] == metric]
    bases = own["basis"].fillna("original")
    own = own[bases == basis] if basis == "original" else own[bases != "original"]
    own = own[own["ranked_by"].isin([ranked_by]) | (own["strategy"] == "random")]
    gaps = own.groupby("evaluation_set")["value"].apply(lambda values: values.isna().any())
    own = own[~own["evaluation_set"].isin(gaps.index[gaps.astype(bool)])]
    return mean_by(own, ["strategy", "draw"])


def order_of(scores: pd.DataFrame, confidence: float) -> tuple[float, float, Interval]:
    """Return the scores of high-purity and low-purity, and the interval of the random draws."""
    means = scores.groupby("strategy")["value"].mean()
    random = prediction_interval(
        scores.loc[scores["strategy"] == "random", "value"].tolist(), confidence
    )
    return means.get("high-purity", math.nan), means.get("low-purity", math.nan), random


def _order_text(high: float, low: float, random: Interval) -> str:
    return f"high-purity {number(high)}, random {number(random.value)}, low-purity {number(low)}"


def _pruning(table: pd.DataFrame, claim: Claim, metric: str, confidence: float) -> Verdict:
    arm = kept_below_full(pruned_arm(table))
    high, low, random = order_of(strategy_scores(arm, metric), confidence)
    outcome, reason = verdicts.decide_order(high, low, random)
    if outcome == verdicts.UNMEASURED:
        missing = "no arm was pruned" if table.empty else reason
        return Verdict(claim, outcome, missing)
    parts = []
    for name, own in arm.groupby("evaluation_set"):
        here = order_of(strategy_scores(own, metric), confidence)
        part, why = verdicts.decide_order(*here)
        parts.append(Part(str(name), part, f"{_order_text(*here)}; {why}"))
    draws, ks = random.n, arm["k"].nunique()
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"{_arm_name(arm)}, ranked by the text projection",
        measured=_order_text(high, low, random),
        published=_published_order() if metric == "acc1" else "in words: the same order",
        sample=f"{count(draws, 'random draw')}, {count(ks, 'value')} of k, "
        f"{count(arm['evaluation_set'].nunique(), 'evaluation set')}, one model",
        test=f"{100 * confidence:g} % prediction interval of the draws: "
        f"{number(random.low)} to {number(random.high)}",
        controls=(
            *(
                _other_ranking(arm, metric, tower, outcome, confidence)
                for tower in ("image", "both")
            ),
            _rotated_order(arm, metric, high - low, confidence),
            _variance(arm, metric, high - low, "text"),
        ),
        parts=tuple(parts),
    )


def _arm_name(arm: pd.DataFrame) -> str:
    start = str(arm["start"].iloc[0])
    rate = arm["rate"].iloc[0]
    return "untouched model" if start == "untouched" else f"{start} projections at C_m {rate:g}"


def _published_order() -> str:
    means = published.pruning().groupby("strategy")["accuracy"].mean()
    return (
        f"high-purity {number(means['high-purity'])}, random {number(means['random'])}, "
        f"low-purity {number(means['low-purity'])} (CIFAR-10, one draw)"
    )


def _other_ranking(
    arm: pd.DataFrame, metric: str, tower: str, outcome: verdicts.Outcome, confidence: float
) -> Control:
    name = "Ranked by the image projection" if tower == "image" else "Ranked by both projections"
    found = order_of(strategy_scores(arm, metric, ranked_by=tower), confidence)
    other, why = verdicts.decide_order(*found)
    if other == verdicts.UNMEASURED:
        return Control(name, "not measured", "This ranking was not measured.")
    text = f"{_order_text(*found)}: {why}."
    return Control(name, "does not limit" if other == outcome else "limits", text)


def _rotated_order(arm: pd.DataFrame, metric: str, gap: float, confidence: float) -> Control:
    name = "Rotated bases"
    found = order_of(strategy_scores(arm, metric, basis="rotated"), confidence)
    if verdicts.decide_order(*found)[0] == verdicts.UNMEASURED:
        return Control(name, "not measured", "No rotated basis was pruned.")
    high, low, _ = found
    same = (high - low) * gap > 0 and abs(high - low) >= SMALL * abs(gap)
    text = f"In rotated bases: {_order_text(*found)}"
    text += (
        ". The order is the same where neurons are arbitrary directions, so it is no property of "
        "the model's own neurons."
        if same
        else ". The order of the model's own basis is not found there."
    )
    return Control(name, "limits" if same else "does not limit", text)


def _variance(arm: pd.DataFrame, metric: str, gap: float, tower: str) -> Control:
    name = "Ranked by activation variance"
    means = strategy_scores(arm, metric, ranked_by=tower).groupby("strategy")["value"].mean()
    if not {"high-variance", "low-variance"} <= set(means.index):
        return Control(name, "not measured", "No ranking by activation variance was measured.")
    high, low = means["high-variance"], means["low-variance"]
    stronger = abs(high - low) >= abs(gap)
    text = f"Keeping the most varying neurons gives {number(high)}, the least varying {number(low)}"
    text += (
        ": this separates neurons at least as well as purity does."
        if stronger
        else ": this separates neurons less than purity does."
    )
    return Control(name, "limits" if stronger else "does not limit", text)


def why_missing(tables: Tables, start: str, reason: str) -> str:
    """Return why a claim on a start was not measured: the reason, or what stands before it."""
    if not tables.study("image_text"):
        return "the image-text study was not run"
    starts = set(tables.purity["start"].dropna()) | set(tables.zeroshot["start"].dropna())
    return reason if start in starts else f"no arm from {start} projections was measured"
