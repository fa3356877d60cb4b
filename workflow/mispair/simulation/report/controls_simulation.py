"""Controls next to the simulation's claims: measurements that may limit what a claim means."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import number
from mispair.report.statistics import mean_interval
from mispair.report.tables import Tables
from mispair.report.verdicts import Control, interval_text
from mispair.simulation.report.grid import cells
from mispair.simulation.report.runs import PAIR, best, by_trial, caption_runs, differences, spurious

HARMLESS = 0.1
"""Share of right captions that a filter may replace without a remark."""

BEST = "Best two thirds of the runs"


def selection(wide: pd.DataFrame, digits: int, gain: float) -> Control:
    """Ask whether choosing the best runs, as the published points do, makes the gain."""
    wide = wide[list(PAIR)]
    chosen = wide.groupby("spurious_probability").agg(best)
    if chosen.isna().any(axis=None) or chosen.empty:
        return Control(
            BEST, "not measured", "Needs at least three trials at every C_s; the published points "
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
    return Control(BEST, "limits" if lift >= abs(gain) / 2 else "does not limit", text)


def best_count(values: pd.Series, level: float) -> Control:
    """Ask whether the best runs reach a level where all runs do not, or the other way round."""
    chosen = best(values)
    if not math.isfinite(chosen):
        return Control(BEST, "not measured", "Needs at least three trials at this C_s.")
    crosses = (chosen >= level) != (values.mean() >= level)
    text = f"The best two thirds of the runs purify {number(chosen, 1)} features on average."
    return Control(BEST, "limits" if crosses else "does not limit", text)


def clean_replaced(table: pd.DataFrame) -> Control:
    """Ask how many right captions the filter replaces."""
    name = "What the filter replaces"
    part = table[table["trained_on"] == "filtered"]
    shares = {
        kind: part.loc[part["metric"] == f"replaced_share_{kind}"].groupby("spurious_probability")
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


def nothing_to_repair(table: pd.DataFrame, metric: str, gain: float, confidence: float) -> Control:
    """Ask what filtering does where every caption is right: a repair can gain nothing there."""
    name = "Nothing to repair (C_s = 0)"
    values = differences(table, metric)
    clean = values[values.index.get_level_values("spurious_probability") == 0]
    if clean.empty:
        return Control(name, "not measured", "C_s = 0 was not run with both arms.")
    interval = mean_interval(clean.tolist(), confidence)
    digits = 1 if metric == "purified_features" else 3
    text = f"Filtering right captions changes it by {interval_text(interval, confidence, digits)}"
    if interval.known and interval.high < 0:
        return Control(name, "limits", f"{text}: the filter does harm where it should do nothing.")
    if interval.known and interval.low > 0 and interval.value >= 2 / 3 * gain > 0:
        return Control(name, "limits", f"{text}: the gain is not one of repair.")
    return Control(name, "does not limit", f"{text}.")


def without_thresholds(table: pd.DataFrame) -> Control:
    """Ask whether the same encoders classify as well with their biases set to zero.

    Thresholds are what makes a feature pure. If nothing is lost without them, accuracy says
    nothing of purity.
    """
    name = "Accuracy without the biases"
    rows_of_protocol = table[
        (table["metric"] == "accuracy_by_protocol") & (table["spurious_probability"] > 0)
    ]
    wide = rows_of_protocol.pivot_table(
        index=["spurious_probability", "trial", "trained_on", "prompts", "margin"],
        columns="bias",
        values="value",
    ).reindex(columns=["trained", "zero"])
    wide = wide.dropna()
    if wide.empty:
        return Control(name, "not measured", "No accuracy with biases of zero was recorded.")
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
    return Control(name, "limits" if as_good else "does not limit", text)


def never_thresholded(tables: Tables, preset: str) -> Control:
    """Ask whether encoders that purify nothing (trained without thresholds) classify as well.

    Cells of the grid with bias schedule ``zero`` stand against those of the same noise,
    misalignment and C_s with thresholds.
    """
    name = "Trained without thresholds"
    of_cells = [cell for cell in cells(tables) if cell.preset == preset]
    pairs = [
        (flat, bent)
        for flat in of_cells
        for bent in of_cells
        if flat.bias == "zero" and bent.bias != "zero" and flat.position == bent.position
    ]
    if not pairs:
        return Control(name, "not measured", "The grid has no cell with bias schedule zero.")
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
    return Control(name, "limits" if any(fewer) else "does not limit", text)


def _mean(cells: list[dict[str, float]], metric: str, digits: int) -> str:
    return number(float(pd.Series([cell[metric] for cell in cells]).mean()), digits)


def covered(table: pd.DataFrame) -> Control:
    """Ask whether every spuriously correlated pair of features has a neuron that mixes it."""
    name = "Every spurious pair is mixed"
    coverage = table[(table["metric"] == "mixed_pairs_covered") & (table["trained_on"] == "raw")]
    coverage = coverage[(coverage["spurious_probability"] > 0) & coverage["value"].notna()]
    if coverage.empty:
        return Control(name, "not measured", "No shares of mixed pairs were recorded.")
    share = float(coverage["value"].mean())
    text = f"{100 * share:.0f} % of the spurious pairs are mixed by some neuron, where all should."
    return Control(name, "limits" if share < 1 / 2 else "does not limit", text)


def generated_against_raw(table: pd.DataFrame, confidence: float) -> Control:
    """Ask whether generated captions hold fewer wrong features than the raw ones."""
    name = "Generated against raw captions"
    generated = table[table["metric"] == "caption_spurious"]
    wide = generated.pivot_table(
        index=["spurious_probability", "trial"], columns="source", values="value"
    ).reindex(columns=["raw", "generated"])
    values = spurious((wide["generated"] - wide["raw"]).dropna())
    if values.empty:
        return Control(name, "not measured", "Raw and generated captions were not both measured.")
    interval = by_trial(values, confidence)
    text = (
        "The probability of a wrong feature changes by "
        f"{interval_text(interval, confidence)} from raw to generated captions."
    )
    return Control(
        name, "does not limit" if interval.known and interval.high < 0 else "limits", text
    )


SHORT = 0.1
"""Share of right features that captions may seem to lack because they are short."""


def at_their_own_length(table: pd.DataFrame) -> Control:
    """Read generated captions by half of the length at which they show the image's features."""
    name = "Captions read at their own length"
    kept = caption_runs(table, "caption_true", "rescaled")
    added = caption_runs(table, "caption_spurious", "rescaled")
    if kept.empty or added.empty:
        return Control(name, "not measured", "Generated captions were read at length 1 only.")
    drawn = table[(table["metric"] == "caption_scale") & (table["trained_on"] == "filtered")]
    text = (
        f"Generated captions show a right feature at a length of {number(drawn['value'].median())} "
        f"(median), where true ones have 1; the filter's cosines do not see that. By half of their "
        f"own length they keep {number(kept.mean())} of the right features and add "
        f"{number(added.mean())} wrong ones."
    )
    hidden = kept.mean() - caption_runs(table, "caption_true", "generated").mean()
    return Control(name, "limits" if hidden > SHORT else "does not limit", text)
