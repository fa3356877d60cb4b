"""What the paper's figures 3 to 5 show of the features, judged on the runs of one preset."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mispair.core.words import count, number
from mispair.report import verdicts
from mispair.report.verdicts import Claim, Verdict
from mispair.simulation.report.runs import PAIR, effect_by_trial, listed, spurious

BETWEEN = (0.2, 0.5)
"""Values of |cos| between the two peaks, 0.05 and 0.7, that the paper reads off figure 3."""

SMALLEST_SHARE = 0.002
"""Smallest effect of interest on the share of |cos|, as no number is published: with 50 features,
every tenth neuron has one |cos| fewer between the peaks."""

SMALLEST_NEIGHBOURS = 0.05
"""Smallest effect of interest on the share of images whose neighbour is of their class: one in
twenty images, as no number is published."""

_TEXT = (
    "{} neurons trained on filtered captions follow a feature or do not: fewer of their |cos| "
    f"with features lie between {BETWEEN[0]:g} and {BETWEEN[1]:g} than on raw captions."
)
TEXT_NEURONS = Claim(
    "text-concentrates", "simulation", _TEXT.format("Text"),
    "figure 3", "difference", "simulation_cosines",
)  # fmt: skip
IMAGE_NEURONS = Claim(
    "image-concentrates", "simulation", _TEXT.format("Image"),
    "figure 4", "difference", "simulation_cosines",
)  # fmt: skip
SEPARATED = Claim(
    "tsne-separates", "simulation",
    "In the t-SNE plane classes lie further apart with filtered captions: more images have one of "
    "their own class as their nearest neighbour.",
    "figure 5", "difference", "simulation_tsne",
)  # fmt: skip
CLAIMS = (TEXT_NEURONS, IMAGE_NEURONS, SEPARATED)


def judge(table: pd.DataFrame, points: pd.DataFrame, confidence: float) -> list[Verdict]:
    """Return the verdicts for the rows and points of one preset, in the order of `CLAIMS`."""
    share = f"share of |cos| from {BETWEEN[0]:g} to {BETWEEN[1]:g}"
    return [
        _judged(claim, _between(table, tower), share, -1, SMALLEST_SHARE, confidence)
        for claim, tower in ((TEXT_NEURONS, "text"), (IMAGE_NEURONS, "image"))
    ] + [_judged(SEPARATED, _neighbours(points), "share with a neighbour of their class", +1,
                 SMALLEST_NEIGHBOURS, confidence)]  # fmt: skip


def _judged(
    claim: Claim, wide: pd.DataFrame, what: str, sign: int, smallest: float, confidence: float
) -> Verdict:
    both = wide.reindex(columns=list(PAIR)).dropna()
    gains = spurious(both["filtered"] - both["raw"])
    effect = effect_by_trial(gains, confidence)
    outcome, reason = verdicts.decide_effect(effect, sign, smallest, 1 - confidence)
    if outcome == verdicts.UNMEASURED:
        return Verdict(claim, outcome, "no trial has these values of both arms at C_s above 0")
    means = both.loc[gains.index].groupby("spurious_probability").mean().mean()
    return Verdict(
        claim,
        outcome,
        reason,
        scope=f"mean over C_s {listed(gains.index.get_level_values('spurious_probability'))}",
        measured=f"{what}: raw {number(means['raw'])}, filtered {number(means['filtered'])}",
        published="a picture, no number",
        sample=count(gains.index.get_level_values("trial").nunique(), "trial"),
        test=f"difference {verdicts.effect_text(effect, confidence)}",
        effect=effect,
        smallest=smallest,
    )


def _between(table: pd.DataFrame, tower: str) -> pd.DataFrame:
    """Return the share of |cos| between the peaks, by C_s and trial (rows) and arm (columns)."""
    histogram = table[(table["metric"] == "cosine_histogram") & (table["tower"] == tower)]
    inside = (histogram["bin_low"] >= BETWEEN[0] - 1e-9) & (
        histogram["bin_high"] <= BETWEEN[1] + 1e-9
    )
    if not inside.any():
        histogram = histogram[:0]
    keys = ["spurious_probability", "trial", "trained_on"]
    counts = histogram.assign(inside=histogram["value"].where(inside, 0.0)).groupby(keys)[
        ["inside", "value"]
    ]
    sums = counts.sum()
    return (sums["inside"] / sums["value"]).unstack("trained_on")


def _neighbours(points: pd.DataFrame) -> pd.DataFrame:
    """Return the share of points whose nearest other point is of their class."""
    coordinates = points[points["metric"] == "tsne"]
    keys = ["spurious_probability", "trial", "trained_on"]
    shares = {panel: _own_class(group) for panel, group in coordinates.groupby(keys)}
    index = pd.MultiIndex.from_tuples([*shares], names=keys) if shares else None
    if index is None:
        index = pd.MultiIndex.from_arrays([[], [], []], names=keys)
    return pd.Series([*shares.values()], index=index, dtype="float64").unstack("trained_on")


def _own_class(points: pd.DataFrame) -> float:
    coordinates, labels = points[["x", "y"]].to_numpy(), points["label"].to_numpy()
    squares = ((coordinates[:, None] - coordinates[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    return float((labels[squares.argmin(axis=1)] == labels).mean())
