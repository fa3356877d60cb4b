"""What was measured in the sufficiency study, by run: a tree, a training p and a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mispair.core.words import count, listing
from mispair.report.statistics import Effect, Interval, effect_of_mean, mean_interval

PUBLISHED_SIZE = "4x3x10"
MAIN_FLIP = 0.2
RUN = ["size", "tree", "flip", "seed"]
TASKS = {
    "clip": "Matching (CLIP)",
    "zsc": "Classes (ZSC)",
    "cdm": "Denoising (CDM)",
    "vlm": "Next word (VLM)",
}
ENCODERS = ("guided", "standard", "shallow")
HEADS = ("frozen", "shallow", "oracle", "joint", "guided", "untrained")
NOT_RUN = "the sufficiency study was not run"
MISSING_COLUMNS = ("reference", "part", "candidates", "per_class", "shifted", "test_flip")


def rows(table: pd.DataFrame, **where: object) -> pd.DataFrame:
    """Return the rows with these values; of columns that tests differ in, all others are empty.

    Only `part` may be left open besides, as it belongs to few metrics.
    """
    selected = pd.Series(True, index=table.index)
    for column in dict.fromkeys([*where, *MISSING_COLUMNS]):
        if column in where:
            selected &= table[column] == where[column]
        else:
            selected &= table[column].isna()
    return table[selected]


def trained(table: pd.DataFrame, flip: float | None = None) -> pd.DataFrame:
    """Return the rows of trainings, of one p if it is given; not those of Bayes' risks alone."""
    runs = table[table["seed"].notna()]
    return runs if flip is None else runs[runs["flip"] == flip]


def main_flip(table: pd.DataFrame) -> float:
    """Return the p that claims are judged at: 0.2, or the one nearest to it that was trained."""
    flips = trained(table)["flip"].unique()
    return float(min(flips, key=lambda p: (abs(p - MAIN_FLIP), p))) if len(flips) else math.nan


def over_runs(measured: pd.DataFrame, confidence: float) -> Interval:
    """Return the mean over runs with the t interval of their spread; of one run no limits.

    The rows' own limits are of the samples that one run was measured on, and say nothing of what
    another seed would give.
    """
    return mean_interval([float(value) for value in measured["value"]], confidence)


def effect_over_runs(measured: pd.DataFrame, confidence: float) -> Effect:
    """Return the mean over runs as an effect; a run is a pair of trees with a seed."""
    return effect_of_mean([float(value) for value in measured["value"]], confidence, "run")


def pooled(measured: pd.DataFrame, confidence: float) -> Interval:
    """Return `over_runs`, or for a single run its own interval, which is of evaluation alone."""
    if len(measured) == 1:
        value, low, high = (float(measured[name].iloc[0]) for name in ("value", "low", "high"))
        return Interval(value, low, high, 1)
    return over_runs(measured, confidence)


def error(row: Any) -> float:
    """Return the standard error behind a row's 95 % interval."""
    return float(row["high"] - row["low"]) / (2 * 1.96)


def sample(measured: pd.DataFrame) -> str:
    """Say how many runs there were."""
    trees, seeds = measured["tree"].nunique(), measured["seed"].nunique()
    return f"{count(trees, 'pair')} of trees × {count(seeds, 'seed')}"


def sizes(table: pd.DataFrame) -> str:
    """Name the sizes of the trees that models were trained on."""
    present = sorted(trained(table)["size"].dropna().unique())
    return (
        listing([f"{size} (depth × branching × symbols)" for size in present])
        if present
        else "none"
    )


@dataclass(frozen=True)
class Worth:
    """At the published size and one p: what the other modality is worth, and what models lose.

    Attributes
    ----------
    flip : float
        p.
    worth : Interval
        Bayes risk without the other modality minus Bayes risk with it: ours, on common samples.
    bayes, unconditional : float
        The two.
    published : float
        The published Bayes risk.
    excess : dict of str to float
        What each published model's risk has above that.
    """

    flip: float
    worth: Interval
    bayes: float
    unconditional: float
    published: float
    excess: dict[str, float]

    def below(self, model: str) -> bool:
        """Tell whether a model loses less than the other modality is worth, beyond its interval."""
        limit = self.worth.low if math.isfinite(self.worth.low) else self.worth.value
        return self.excess[model] < limit


def worths(table: pd.DataFrame, task: str, published: pd.DataFrame) -> list[Worth]:
    """Set published risks next to what the other modality is worth at each p.

    Parameters
    ----------
    table : DataFrame
        All measurements.
    task : str
        cdm or vlm.
    published : DataFrame
        The published risks.
    """
    bayes = table[table["seed"].isna() & (table["size"] == PUBLISHED_SIZE) & (table["tree"] == 42)]
    results = []
    for _, row in rows(
        bayes, task=task, arm="unconditional", metric="difference", reference="bayes"
    ).iterrows():
        at_flip = bayes[bayes["flip"] == row["flip"]]
        bayes_risk, without = (
            float(rows(at_flip, task=task, arm=arm, metric="risk")["value"].iloc[0])
            for arm in ("bayes", "unconditional")
        )
        printed = published[(published["task"] == task) & (published["flip"] == row["flip"])]
        risks = dict(zip(printed["model"], printed["risk"].astype(float), strict=True))
        if risks:
            least = risks.pop("bayes")
            excess = {model: risk - least for model, risk in risks.items()}
            worth = Interval(float(row["value"]), float(row["low"]), float(row["high"]), 1)
            results.append(Worth(float(row["flip"]), worth, bayes_risk, without, least, excess))
    return sorted(results, key=lambda worth: worth.flip)
