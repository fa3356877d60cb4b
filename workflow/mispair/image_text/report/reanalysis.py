"""Where accuracy falls in the published table 4.

At C_m = 0 the table has a model that was not fine-tuned, and fine-tuned models at all other C_m.
So the step from 0 to 0.1 is shuffling and fine-tuning together, and only later steps are shuffling
alone.
"""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import count, interval, listing, number, p_value
from mispair.evaluation.report.series import SMALL
from mispair.report import published, verdicts
from mispair.report.statistics import effect_of_mean
from mispair.report.table import Table, or_dash
from mispair.report.tables import Tables
from mispair.report.verdicts import Claim, Verdict

FALLS = Claim(
    "published-accuracy-falls", "image_text",
    "In table 4 itself, accuracy falls with C_m among the fine-tuned models, that is from C_m = "
    "0.1 on.",
    "table 4", "published", "accuracy_by_shuffling",
)  # fmt: skip
MEAN = "mean of the six"


def falls(table: pd.DataFrame) -> pd.DataFrame:
    """Return the fall of accuracy of each data set, before and after the first fine-tuned model.

    Parameters
    ----------
    table : DataFrame
        ``dataset``, ``shuffle_probability`` and ``accuracy``, a share. The lowest probability is
        that of the model that was not fine-tuned.

    Returns
    -------
    DataFrame
        Indexed by data set, and `MEAN` last: accuracy at the ``lowest``, the ``first`` and the
        ``last`` probability above it; ``before`` (first − lowest) and ``after`` (last − first);
        ``share``, the part of the whole change that is before; ``rho``, the rank correlation of
        accuracy with the probability from the first on.
    """
    wide = table.pivot(index="dataset", columns="shuffle_probability", values="accuracy")
    wide.loc[MEAN] = wide.mean()
    tuned = wide.iloc[:, 1:]
    rows = pd.DataFrame(
        {"lowest": wide.iloc[:, 0], "first": tuned.iloc[:, 0], "last": tuned.iloc[:, -1]}
    )
    rows["before"] = rows["first"] - rows["lowest"]
    rows["after"] = rows["last"] - rows["first"]
    rows["share"] = rows["before"] / (rows["last"] - rows["lowest"])
    probabilities = pd.Series(tuned.columns, index=tuned.columns, dtype=float)
    rows["rho"] = [
        values.corr(probabilities, method="spearman") if values.nunique() > 1 else math.nan
        for _, values in tuned.iterrows()
    ]
    return rows


def judge(tables: Tables, confidence: float) -> list[Verdict]:
    """Return the verdict on what table 4 shows, where its study was run."""
    if not tables.study("image_text"):
        return [Verdict(FALLS, verdicts.UNMEASURED, "the image-text study was not run")]
    every = falls(published.table4())
    sets = every.drop(index=MEAN)
    mean = {str(name): float(value) for name, value in every.loc[MEAN].to_dict().items()}
    effect = effect_of_mean(sets["after"].tolist(), confidence, "data set")
    smallest = SMALL * abs(mean["last"] - mean["lowest"])
    outcome, reason = verdicts.decide_effect(effect, -1, smallest, 1 - confidence)
    return [
        Verdict(
            FALLS, outcome, reason,
            scope="published numbers, nothing measured here",
            measured=f"mean of data sets {number(mean['first'])} → {number(mean['last'])} from "
            f"C_m 0.1 to 0.8; {100 * mean['share']:.0f} % of the fall from C_m 0 is before 0.1; "
            f"from 0.1 on, accuracy {_rising(sets)}",
            published=f"{number(mean['lowest'])} at C_m 0, which was not fine-tuned",
            sample=f"{count(len(sets), 'data set')}, one model, one training for each C_m",
            test=f"change from C_m 0.1 to 0.8 {number(effect.value, sign=True)} "
            f"({interval(effect.low, effect.high, sign=True)}; {p_value(effect.p)})",
            effect=effect, smallest=smallest,
        )
    ]  # fmt: skip


def _rising(sets: pd.DataFrame) -> str:
    """Name the data sets that go the other way."""
    rising = [
        f"{name} (rank correlation with C_m {number(row['rho'], 2, sign=True)})"
        for name, row in sets[sets["rho"] > 0].iterrows()
    ]
    return f"rises on {listing(rising)}" if rising else "rises on no data set"


def table4(tables: Tables) -> Table | None:
    """Return table 4's accuracies with the part of each fall that may be due to fine-tuning."""
    if not tables.study("image_text"):
        return None
    rows = tuple(
        (
            str(name), number(row["lowest"]), number(row["first"]), number(row["last"]),
            number(row["before"], sign=True), number(row["after"], sign=True),
            or_dash(row["share"], 2), or_dash(row["rho"], 2, sign=True),
        )
        for name, row in falls(published.table4()).iterrows()
    )  # fmt: skip
    return Table(
        "Where table 4’s fall of accuracy is",
        ("data set", "C_m 0, not fine-tuned", "C_m 0.1", "C_m 0.8", "from 0 to 0.1",
         "from 0.1 to 0.8", "share of the fall from 0 to 0.1",
         "rank correlation with C_m from 0.1 on"),
        rows,
        "Published numbers. The first step is shuffling and fine-tuning together, because only the "
        "model at C_m 0 was not fine-tuned. The share of a data set whose accuracy falls by less "
        "than a point is a quotient of small numbers.",
        section="What carries the effect",
        folded=True,
    )  # fmt: skip
