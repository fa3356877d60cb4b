"""What was measured in the sufficiency study, by run: a tree, a training p and a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mispair.core.words import number
from mispair.report import published
from mispair.report.statistics import Interval, mean_interval
from mispair.report.tables import Tables

PUBLISHED_SIZE = "4x3x10"
MAIN_FLIP = 0.2
RUN = ["size", "tree", "flip", "seed"]
TASKS = {
    "clip": "Matching (CLIP)",
    "zsc": "Classes (ZSC)",
    "cdm": "Denoising (CDM)",
    "vlm": "Next word (VLM)",
}
HEAD_TASKS = ("cdm", "vlm")
ENCODERS = ("guided", "standard", "shallow")
HEADS = ("frozen", "shallow", "oracle", "joint", "guided", "untrained")
MISSING_COLUMNS = ("reference", "part", "candidates", "per_class", "shifted", "test_flip")


def rows(table: pd.DataFrame, **where: object) -> pd.DataFrame:
    """Return the rows with these values whose other `MISSING_COLUMNS` are empty."""
    selected = pd.Series(True, index=table.index)
    for column in {*where, *MISSING_COLUMNS}:
        selected &= table[column] == where[column] if column in where else table[column].isna()
    return table[selected]


def published_trees(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of Bayes' risks at the published size and trees."""
    is_published = (table["size"] == PUBLISHED_SIZE) & (table["tree"] == 42)
    return table[is_published & table["seed"].isna()]


def trained(table: pd.DataFrame, flip: float | None = None) -> pd.DataFrame:
    """Return the rows of trainings, of one p if it is given; not those of Bayes' risks alone."""
    runs = table[table["seed"].notna()]
    return runs if flip is None else runs[runs["flip"] == flip]


def main_flip(table: pd.DataFrame) -> float:
    """Return the p that claims are judged at: 0.2, or the one nearest to it that was trained."""
    flips = trained(table)["flip"].unique()
    return float(min(flips, key=lambda p: (abs(p - MAIN_FLIP), p))) if len(flips) else math.nan


def at_main(tables: Tables) -> pd.DataFrame:
    """Return the rows of trainings at the p that claims are judged at."""
    table = tables.sufficiency
    return trained(table, main_flip(table))


def over_runs(measured: pd.DataFrame, confidence: float) -> Interval:
    """Return the mean over runs with the t interval of their spread; one run has no limits.

    The limits of a row come from the samples of one run: they do not hold the spread of seeds.
    """
    return mean_interval(measured["value"].astype(float).tolist(), confidence)


def pooled(measured: pd.DataFrame, confidence: float) -> Interval:
    """Return `over_runs`, or for a single run the interval of its evaluation."""
    if len(measured) == 1:
        value, low, high = (float(measured[name].iloc[0]) for name in ("value", "low", "high"))
        return Interval(value, low, high, 1)
    return over_runs(measured, confidence)


def error(measured: Any) -> Any:
    """Return the standard error behind each row's 95 % interval; of a row, its own."""
    return (measured["high"] - measured["low"]) / (2 * 1.96)


def fit_by_prompts(runs: pd.DataFrame, arm: str) -> list[tuple[str, str]]:
    """Return the fitted A / M + B of an arm and its residual as text; empty without a fit."""
    fit = dict(
        runs[(runs["task"] == "zsc") & (runs["arm"] == arm)].groupby("metric")["value"].mean()
    )
    if not {"slope", "level", "residual"} <= fit.keys():
        return []
    curve = f"{number(fit['slope'], 2)} / M + {number(fit['level'])}"
    return [(curve, number(fit["residual"]))]


@dataclass(frozen=True)
class Worth:
    """At the published size and one p: what the other modality is worth, and what models lose.

    Attributes
    ----------
    flip : float
        p.
    worth : Interval
        Bayes risk without the other modality minus Bayes risk with it: ours, on common samples.
    excess : dict of str to float
        Each published model's risk minus the published Bayes risk.
    """

    flip: float
    worth: Interval
    excess: dict[str, float]

    def below(self, model: str) -> bool:
        """Return whether a model loses less than the interval of the other modality's worth."""
        limit = self.worth.low if math.isfinite(self.worth.low) else self.worth.value
        return self.excess[model] < limit


def published_risks(task: str, flip: float) -> dict[str, float]:
    """Return the published risks of a task at one p by model; empty where there are none."""
    printed = published.sufficiency_risks()
    printed = printed[(printed["task"] == task) & (printed["flip"] == flip)]
    return dict(zip(printed["model"], printed["risk"].astype(float), strict=True))


def worths(table: pd.DataFrame, task: str) -> list[Worth]:
    """Return what the other modality is worth next to published risks, by increasing p."""
    ours = published_trees(table)
    ours = ours[ours["task"] == task]
    results = []
    worth_rows = rows(ours, arm="unconditional", metric="difference", reference="bayes")
    for row in worth_rows.sort_values("flip").to_dict("records"):
        flip = row["flip"]
        if risks := published_risks(task, flip):
            least = risks.pop("bayes")
            excess = {model: risk - least for model, risk in risks.items()}
            worth = Interval(row["value"], row["low"], row["high"], 1)
            results.append(Worth(flip, worth, excess))
    return results
