"""The companion paper's claims on contrastive pre-training, and the question that they answer.

A replicate is a run: a pair of trees with a seed. Candidates, prompts and samples of one run are
not independent, so each run gives one number, at the p that is nearest to the published main one.
All effects are shares within a run, such as what a feature gains of what there is to gain, so that
trees of another size than the published ones can be compared with them.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd

from mispair.report import published
from mispair.report.claims import THIRD, Claim, Control, MeasuredClaim
from mispair.report.measures import NO_TRAINING, Every, Responds, Trend
from mispair.report.questions import Question
from mispair.report.statistics import effect_of_mean
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
HEADS = ("frozen", "shallow", "oracle", "joint", "untrained")
TAUGHT = ("frozen", "oracle", "joint")
"""Heads that gain if their training is long enough, whatever the frozen feature has."""
MISSING_COLUMNS = ("candidates", "per_class")

NEARLY = 0.1
"""What "approximately" is taken to mean: a tenth of what untrained encoders lack."""

LEAST_PROMPTS = 5
"""With fewer prompts the likelihoods of the best similarity are too peaked for a trend."""

NEEDS = "train_encoders: {seeds: [0, 1]}"


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


def published_risks(task: str, flip: float) -> dict[str, float]:
    """Return the published risks of a task at one p by model; empty where there are none."""
    printed = published.sufficiency_risks()
    printed = printed[(printed["task"] == task) & (printed["flip"] == flip)]
    return dict(zip(printed["model"], printed["risk"].astype(float), strict=True))


def _by_run(tables: Tables, column: str = "value", **where: Any) -> pd.Series:
    """Return a column of the rows with these values and no other key, by run."""
    return rows(at_main(tables), **where).set_index(RUN)[column].astype(float)


def _most(tables: Tables, task: str, counted: str) -> float:
    """Return the most candidates, or prompts, of a task."""
    runs = at_main(tables)
    return float(runs.loc[runs["task"] == task, counted].max())


def share_of_untrained(
    tables: Tables, confidence: float, counted: str, task: str, **where: Any
) -> MeasuredClaim:
    """Return the gap of standard encoders as a share of that of untrained ones.

    It is measured with the most candidates, or prompts, which the column `counted` has.
    """
    most = _most(tables, task, counted)
    standard, untrained = (
        _by_run(tables, task=task, arm=arm, **{**where, counted: most})
        for arm in ("standard", "untrained")
    )
    return MeasuredClaim(
        effect_of_mean((standard / untrained).tolist(), confidence, "run"), at=(most,)
    )


_DIVERGENCE = partial(share_of_untrained, counted="candidates", task="clip", metric="sufficiency")


def _learned(tables: Tables, confidence: float) -> str:
    """Return `NO_TRAINING` if standard encoders keep most of what untrained ones lack."""
    share = _DIVERGENCE(tables, confidence).effect.value
    return "" if share <= 1 - THIRD else NO_TRAINING


def gained(tables: Tables, confidence: float, task: str, arm: str) -> MeasuredClaim:
    """Return the share of the other modality's worth that a head gains.

    The worth is the risk of the best predictor without the other modality minus that of the best
    with it. A head gains as much of it as its own risk is below the former. The share is taken
    within each run, so its interval holds the error of the worth. Where the worth of a run is not
    above zero, by its evaluation, there is nothing to gain, and nothing is decided.
    """
    common: dict[str, Any] = {"task": task, "metric": "difference"}
    worth = _by_run(tables, arm="unconditional", **common)
    share = 1 - _by_run(tables, arm=arm, **common) / worth
    least = _by_run(tables, "low", arm="unconditional", **common)
    effect = effect_of_mean(share.tolist(), confidence, "run")
    return MeasuredClaim(effect, THIRD, gate="no worth" if (least <= 0).any() else "")


def closer(tables: Tables, confidence: float, near: str, far: str) -> MeasuredClaim:
    """Return how much farther from Bayes some encoders are than others.

    It is the difference of the excess risks with the fewest candidates, as a share of the excess of
    standard encoders, and so is the published one at p = 0.2.
    """
    runs = at_main(tables)
    least = float(runs["candidates"].min())
    excess = {
        arm: _by_run(tables, task="clip", arm=arm, metric="sufficiency",
                     candidates=least)
        for arm in {near, far, "standard"}
    }  # fmt: skip
    share = (excess[far] - excess[near]) / excess["standard"]
    risks = published_risks("clip", MAIN_FLIP)
    published = (risks[far] - risks[near]) / (risks["standard"] - risks["bayes"])
    return MeasuredClaim(
        effect_of_mean(share.tolist(), confidence, "run"), THIRD * abs(published), published,
        at=(least,),
    )  # fmt: skip


def _risks(tables: Tables) -> pd.DataFrame:
    """Return the zero-shot risk of standard encoders by the number of prompts and run."""
    runs = at_main(tables)
    risks = runs[(runs["task"] == "zsc") & (runs["metric"] == "risk")]
    risks = risks[(risks["arm"] == "standard") & (risks["per_class"] >= LEAST_PROMPTS)]
    names = [str(tuple(run)) for run in risks[RUN].itertuples(index=False)]
    return pd.DataFrame({"rate": risks["per_class"], "seed": names, "value": risks["value"]})


TRANSFERS = {"denoising": "cdm", "next word": "vlm"}
"""The tasks of the heads, as parts of a claim."""


def _untrained(name: str, task: str) -> Control:
    return Control(
        f"{name} on the feature of an untrained encoder",
        partial(gained, task=task, arm="untrained"), least=None, most=THIRD,
        of=partial(gained, task=task, arm="frozen"),
    )  # fmt: skip


def _heads_learned(tables: Tables, confidence: float) -> str:
    """Return the condition of small gains: the head of some arm gains what there is to gain."""
    gains = (partial(gained, task=task, arm=arm) for task in HEAD_TASKS for arm in TAUGHT)
    return Responds(tuple((gain, THIRD) for gain in gains))(tables, confidence) and NO_TRAINING


CLAIMS = (
    Claim(
        "sufficient", "sufficiency",
        "Encoders that nearly minimise the contrastive loss are approximately sufficient (here: "
        f"their divergence is at most {NEARLY:g} of the untrained encoders’).",
        "theorem on sufficiency", "sufficiency_divergence",
        _DIVERGENCE, rule="level", sign=-1, bound=NEARLY, needs=NEEDS, power=_learned,
    ),
    Claim(
        "prompts-help", "sufficiency", "The zero-shot risk falls with the number of prompts.",
        "figures 5 and 6", "sufficiency_prompts", Trend(_risks, "run"),
        rule="trend", sign=-1, needs=NEEDS,
    ),
    Claim(
        "feature-transfers", "sufficiency",
        "The frozen feature serves other tasks: heads on it gain of what the other modality is "
        "worth, in denoising and in predicting the next word.",
        "figure 2(c, d)", "sufficiency_transfer",
        Every({name: partial(gained, task=task, arm="frozen") for name, task in TRANSFERS.items()}),
        controls=tuple(_untrained(*task) for task in TRANSFERS.items()),
        every="task", power=_heads_learned,
        needs="train_head: {tasks: [cdm, vlm], arms: [frozen, untrained]}",
    ),
    Claim(
        "guided-closer", "sufficiency",
        "Transformers can do belief propagation: shown its messages, encoders come closer to Bayes "
        "than without, and shallow ones stay farther away.",
        "figure 2(a)", "sufficiency_divergence",
        Every({
            "shown the messages": partial(closer, near="guided", far="standard"),
            "shallow": partial(closer, near="standard", far="shallow"),
        }),
        every="comparison", power=_learned,
        needs="train_encoders: {variants: [standard, guided, shallow]}",
    ),
)  # fmt: skip


def _numbers(tables: Tables, confidence: float) -> Mapping[str, Any]:
    """Return mean divergences and losses over runs; NaN where they were not measured."""
    most = _most(tables, "clip", "candidates")
    divergence = {
        arm: _by_run(
            tables, task="clip", arm=arm, metric="sufficiency", candidates=most
        ).mean()
        for arm in ("standard", "untrained")
    }  # fmt: skip
    losses = {
        name: {
            arm: _by_run(
                tables, task=task, arm=arm, metric="difference"
            ).mean()
            for arm in ("frozen", "unconditional")
        }
        for name, task in TRANSFERS.items()
    }  # fmt: skip
    return {"candidates": most, "divergence": divergence, "losses": losses}


QUESTIONS = (
    Question(
        "sufficient", "Is contrastive pre-training approximately sufficient?",
        ("sufficient", "prompts-help", "guided-closer"), "small_sufficiency",
        _numbers,
    ),
    Question(
        "transfer", "Does the feature of contrastive pre-training serve other tasks?",
        ("feature-transfers",), numbers=_numbers,
    ),
)  # fmt: skip
