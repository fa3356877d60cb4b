"""What the study puts on the pages of the report."""

from __future__ import annotations

from mispair.report.pages.study_pages import Pages
from mispair.simulation.report import curves, notes, tables

RULES = {
    "difference": "The difference of two arms, such as filtered − raw, paired by trial and "
    "averaged over all C_s > 0 within each trial: a trial has the same data at every C_s, so it "
    "counts once. A t interval over trials, and the rule of effects.",
    "slope": "The slope of log(mean over trials) on log(d), over at least three numbers of "
    "features d, with an interval from the spread of trials at each d. The rule of effects on the "
    "slope, with 0.25 as the smallest slope of interest; of two slopes, on the larger one.",
    "slope of zero": "The same slope, claimed to be zero. Supports if two one-sided tests place it "
    "between −0.25 and 0.25, contradicts if it is outside and its interval excludes zero, cannot "
    "tell otherwise.",
    "slope of the order": "The same slope, claimed to be −1 or less: Θ(1/d) bounds from above. "
    "Supports if one-sided tests keep it at most −0.75, contradicts if they keep it above, cannot "
    "tell otherwise. Two slopes must both be so.",
    "not worse": "The difference that the claim names, paired by trial and averaged over all C_s > "
    "0. Supports if a one-sided test keeps it above minus the margin that the claim names, "
    "contradicts if one keeps it below, cannot tell otherwise.",
    "the same": "The difference that the claim names, paired by trial. Supports if two one-sided "
    "tests keep it within the margin that the claim names, contradicts if it is at least the "
    "margin and its interval excludes zero, cannot tell otherwise.",
    "points": "Published points of figure 1 at which at least three trials were run, against the "
    "mean of the best two thirds of the runs. A point is reproduced if it is within the "
    "tolerance of its measure: 3 features, 0.04 of magnitude, 0.03 of accuracy, 0.012 of "
    "silhouette. Supports if all points are, contradicts if fewer than half are, cannot "
    "tell otherwise.",
    "effect": "The rule of effects on the difference that the claim names, paired by trial and "
    "averaged over all C_s > 0 within a trial. Right captions are the raw arm of the same trial at "
    "C_s = 0.",
    "change": "The value at the largest probability − at the smallest, paired by trial or seed, "
    "with a t interval over them, and the rule of effects. The rank trend over all probabilities "
    "is shown next to it, and decides nothing.",
}
"""Rules of its claims in words, as the report prints them."""


PAGES = Pages(
    claims=(),
    questions=(),
    tables=tables.simulation,
    summary=notes.summary,
    limits=notes.limits,
    holes=notes.holes,
    settings=notes.settings,
    runs=curves.runs,
)
