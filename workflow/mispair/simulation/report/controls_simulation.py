"""Controls next to the simulation's claims: measurements that may limit what a claim means."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import number
from mispair.report.statistics import mean_interval
from mispair.report.tables import Tables
from mispair.report.verdicts import Control, interval_text
from mispair.simulation.report.conditions import grid_cells
from mispair.simulation.report.judging import control, no_control
from mispair.simulation.report.runs import (
    PAIR,
    RUN,
    best,
    by_trial,
    caption_runs,
    differences,
    spurious,
    where,
)

HARMLESS = 0.1
"""Largest share of right captions that a filter replaces without limiting a claim."""

BEST = "Best two thirds of the runs"


def selection(wide: pd.DataFrame, digits: int, gain: float) -> Control:
    """Return whether choosing the best runs, as the published points do, makes the gain."""
    by_probability = wide[list(PAIR)].groupby("spurious_probability")
    chosen = by_probability.agg(best)
    if chosen.isna().any(axis=None) or chosen.empty:
        return Control(
            BEST, "not measured", "Needs at least three trials at every C_s. The published points "
            "average the best ten of fifteen runs; these average all runs.",
        )  # fmt: skip
    lift = float((chosen.mean() - by_probability.mean().mean()).max())
    selected = float((chosen["filtered"] - chosen["raw"]).mean())
    text = (
        f"Chosen as the published points are, the runs give raw "
        f"{number(chosen['raw'].mean(), digits)} and filtered "
        f"{number(chosen['filtered'].mean(), digits)}: a gain of "
        f"{number(selected, digits, sign=True)} instead of {number(gain, digits, sign=True)}."
    )
    return control(BEST, lift >= abs(gain) / 2, text)


def best_count(values: pd.Series, level: float) -> Control:
    """Return whether the best runs reach a level where all runs do not, or the other way round."""
    chosen = best(values)
    if not math.isfinite(chosen):
        return no_control(BEST, "Needs at least three trials at this C_s.")
    crosses = (chosen >= level) != (values.mean() >= level)
    text = f"The best two thirds of the runs purify {number(chosen, 1)} features on average."
    return control(BEST, crosses, text)


def clean_replaced(table: pd.DataFrame) -> Control:
    """Return how many right captions the filter replaces."""
    name = "What the filter replaces"
    bad, clean = (
        where(table, trained_on="filtered", metric=f"replaced_share_{kind}")
        .groupby("spurious_probability")["value"]
        .mean()
        .dropna()
        for kind in ("bad", "clean")
    )
    if clean.empty:
        return no_control(name, "Shares of replaced captions were not recorded.")
    text = f"The filter replaced {share_range(clean)} of the right captions"
    if len(bad):
        text += f" and {share_range(bad)} of the wrong ones"
    return control(name, clean.max() > HARMLESS, f"{text}.")


def share_range(shares: pd.Series) -> str:
    """Format the smallest and largest of shares in per cent."""
    low, high = 100 * shares.min(), 100 * shares.max()
    return f"{low:.0f} %" if round(low) == round(high) else f"{low:.0f} to {high:.0f} %"


def nothing_to_repair(table: pd.DataFrame, metric: str, gain: float, confidence: float) -> Control:
    """Return what filtering does where every caption is right: a repair can gain nothing there."""
    name = "Nothing to repair (C_s = 0)"
    values = differences(table, metric)
    clean = values[values.index.get_level_values("spurious_probability") == 0]
    if clean.empty:
        return no_control(name, "C_s = 0 was not run with both arms.")
    interval = mean_interval(clean.tolist(), confidence)
    digits = 1 if metric == "purified_features" else 3
    text = f"Filtering right captions changes it by {interval_text(interval, confidence, digits)}"
    harms = interval.known and interval.high < 0
    if harms:
        text += ": the filter does harm where it should do nothing"
    gains_alike = interval.known and interval.low > 0 and interval.value >= 2 / 3 * gain > 0
    if gains_alike:
        text += ": the gain does not come from repair"
    return control(name, harms or gains_alike, f"{text}.")


def without_thresholds(table: pd.DataFrame) -> Control:
    """Return whether the same encoders classify as well with their biases set to zero.

    Thresholds make a feature pure. If nothing is lost without them, accuracy is no evidence of
    purity.
    """
    name = "Accuracy without the biases"
    accuracies = where(table[table["spurious_probability"] > 0], metric="accuracy_by_protocol")
    keys = [*RUN, "trained_on", "prompts", "margin"]
    wide = accuracies.pivot_table(index=keys, columns="bias", values="value")
    wide = wide.reindex(columns=["trained", "zero"]).dropna()
    if wide.empty:
        return no_control(name, "No accuracy with biases of zero was recorded.")
    change = (wide["zero"] - wide["trained"]).groupby("trained_on").mean()
    parts = [
        f"{arm} {number(wide['trained'].xs(arm, level='trained_on').mean(), 3)} becomes "
        f"{number(wide['zero'].xs(arm, level='trained_on').mean(), 3)}"
        for arm in PAIR
        if arm in change.index
    ]
    as_good = bool((change >= 0).any())
    text = f"With the trained encoders’ biases set to zero, {' and '.join(parts)}"
    text += ": accuracy alone is no evidence of purity." if as_good else "."
    return control(name, as_good, text)


def never_thresholded(tables: Tables, preset: str) -> Control:
    """Compare accuracy and purity of encoders that were trained without and with thresholds.

    Cells of the grid with bias schedule ``zero`` are compared with those of the same noise,
    misalignment and C_s.
    """
    name = "Trained without thresholds"
    of_cells = [cell for cell in grid_cells(tables) if cell.preset == preset]
    pairs = [
        (flat, bent)
        for flat in of_cells
        for bent in of_cells
        if flat.bias == "zero" and bent.bias != "zero" and flat.position == bent.position
    ]
    if not pairs:
        return no_control(name, "The grid has no cell with bias schedule zero.")
    without, with_them = ([pair[side].raw for pair in pairs] for side in (0, 1))
    fewer = [
        a["purified_features"] < b["purified_features"] / 2 and a["accuracy"] >= b["accuracy"]
        for a, b in zip(without, with_them, strict=True)
    ]
    text = (
        "On raw captions encoders without thresholds purify "
        f"{_mean(without, 'purified_features', 1)} features and reach an accuracy of "
        f"{_mean(without, 'accuracy', 3)}; with thresholds, "
        f"{_mean(with_them, 'purified_features', 1)} and {_mean(with_them, 'accuracy', 3)} "
        f"(mean over {len(pairs)} pairs of cells)."
    )
    return control(name, any(fewer), text)


def _mean(cells: list[dict[str, float]], metric: str, digits: int) -> str:
    return number(float(pd.Series([cell[metric] for cell in cells]).mean()), digits)


def covered(table: pd.DataFrame) -> Control:
    """Return whether every spuriously correlated pair of features has a neuron that mixes it."""
    name = "Every spurious pair is mixed"
    coverage = where(table, metric="mixed_pairs_covered", trained_on="raw")
    coverage = coverage[(coverage["spurious_probability"] > 0) & coverage["value"].notna()]
    if coverage.empty:
        return no_control(name, "No shares of mixed pairs were recorded.")
    share = float(coverage["value"].mean())
    text = f"{100 * share:.0f} % of the spurious pairs are mixed by some neuron; all should be."
    return control(name, share < 1 / 2, text)


def generated_against_raw(table: pd.DataFrame, confidence: float) -> Control:
    """Return whether generated captions hold fewer wrong features than the raw ones."""
    name = "Generated against raw captions"
    probabilities = where(table, metric="caption_spurious")
    wide = probabilities.pivot_table(index=RUN, columns="source", values="value")
    wide = wide.reindex(columns=["raw", "generated"])
    values = spurious((wide["generated"] - wide["raw"]).dropna())
    if values.empty:
        return no_control(name, "Raw and generated captions were not both measured.")
    interval = by_trial(values, confidence)
    text = (
        "The probability of a wrong feature changes by "
        f"{interval_text(interval, confidence)} from raw to generated captions."
    )
    return control(name, not (interval.known and interval.high < 0), text)


SHORT = 0.1
"""Share of right features that captions may seem to lack because they are short."""


def at_their_own_length(table: pd.DataFrame) -> Control:
    """Read generated captions with a threshold of half the length at which they show features."""
    name = "Captions read at their own length"
    kept = caption_runs(table, "caption_true", "rescaled")
    added = caption_runs(table, "caption_spurious", "rescaled")
    if kept.empty or added.empty:
        return no_control(name, "Generated captions were read at length 1 only.")
    lengths = where(table, metric="caption_scale", trained_on="filtered")["value"]
    text = (
        f"Generated captions show a right feature at a length of {number(lengths.median())} "
        f"(median); true ones have 1. The filter's cosines do not depend on the length. With a "
        f"threshold of half their own length, captions keep {number(kept.mean())} of the right "
        f"features and add {number(added.mean())} wrong ones."
    )
    hidden = kept.mean() - caption_runs(table, "caption_true", "generated").mean()
    return control(name, hidden > SHORT, text)
