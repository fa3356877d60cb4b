"""Claims of the paper's figures 3 to 5 on the features, judged on the runs of one preset."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mispair.report.verdicts import Claim, Verdict, decide_effect
from mispair.simulation.report.judging import judge_difference, two_levels
from mispair.simulation.report.runs import PAIR, RUN, spurious, where

BETWEEN = (0.2, 0.5)
"""Values of |cos| between the two peaks, 0.05 and 0.7, that the paper reads off figure 3."""

SMALLEST_SHARE = 0.002
"""Smallest effect of interest on the share of |cos|, as no number is published. With 50 features,
it is one |cos| fewer between the peaks for every tenth neuron."""

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
    neighbours = "share with a neighbour of their class"
    cases = (
        (TEXT_NEURONS, _between(table, "text"), share, -1, SMALLEST_SHARE),
        (IMAGE_NEURONS, _between(table, "image"), share, -1, SMALLEST_SHARE),
        (SEPARATED, _neighbours(points), neighbours, +1, SMALLEST_NEIGHBOURS),
    )
    return [_judged(*case, confidence) for case in cases]


def _judged(
    claim: Claim, shares: pd.Series, what: str, sign: int, smallest: float, confidence: float
) -> Verdict:
    """Judge the change of a share, by C_s, trial and arm, from raw to filtered captions."""
    both = shares.unstack("trained_on").reindex(columns=list(PAIR)).dropna()
    gains = spurious(both["filtered"] - both["raw"])
    means = both.loc[gains.index].groupby("spurious_probability").mean().mean()
    return judge_difference(
        claim,
        gains,
        lambda effect: decide_effect(effect, sign, smallest, 1 - confidence),
        confidence,
        missing="no trial has these values of both arms at C_s above 0",
        measured=f"{what}: {two_levels(means)}",
        published="a picture, no number",
        smallest=smallest,
    )


def _between(table: pd.DataFrame, tower: str) -> pd.Series:
    """Return the share of |cos| between the peaks, by C_s, trial and arm."""
    histogram = where(table, metric="cosine_histogram", tower=tower)
    low, high = BETWEEN
    inside = (histogram["bin_low"] >= low - 1e-9) & (histogram["bin_high"] <= high + 1e-9)
    if not inside.any():
        histogram = histogram[:0]
    counts = histogram.assign(inside=histogram["value"].where(inside, 0.0))
    sums = counts.groupby([*RUN, "trained_on"])[["inside", "value"]].sum()
    return sums["inside"] / sums["value"]


def _neighbours(points: pd.DataFrame) -> pd.Series:
    """Return the share of points whose nearest other point is of their class, likewise."""
    keys = [*RUN, "trained_on"]
    groups = where(points, metric="tsne").groupby(keys)
    shares = {panel: _share_of_class(group) for panel, group in groups}
    index = pd.MultiIndex.from_tuples([*shares], names=keys) if shares else groups.size().index
    return pd.Series([*shares.values()], index=index, dtype="float64")


def _share_of_class(points: pd.DataFrame) -> float:
    coordinates, labels = points[["x", "y"]].to_numpy(), points["label"].to_numpy()
    squares = ((coordinates[:, None] - coordinates[None]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    return float((labels[squares.argmin(axis=1)] == labels).mean())
