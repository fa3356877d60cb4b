"""Table of DataComp's evaluation: its means over the sets of a run."""

from __future__ import annotations

import pandas as pd

from mispair.core.intervals import mean_of_estimates
from mispair.evaluation.datacomp import WITHOUT_READER, means, task, task_names
from mispair.evaluation.protocols import DATACOMP
from mispair.evaluation.report.arm_words import UNFOLDED, model_label, models
from mispair.report.notes import Note
from mispair.report.table import Cell, Number, Table, mean_and_spread
from mispair.report.tables import CAPTIONS
from mispair.report.texts import text

SECTION = "DataComp"


def datacomp(table: pd.DataFrame, section: str) -> list[Table]:
    """Return DataComp's means of every arm or model; none if empty.

    The rows are zero-shot numbers of arms or of checkpoints under all protocols.
    """
    measured = main_metrics(table)
    if measured.empty:
        return []
    return [_means(measured, section)]


def main_metrics(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the main metric of each of DataComp's sets, with its name as ``task``.

    Sets with classes count under the protocol ``datacomp``; without that protocol no rows do.
    """
    if DATACOMP not in set(table["protocol"].dropna()):
        return table[:0].assign(task=None)
    rows = table[table["protocol"].isin([DATACOMP, CAPTIONS]) & table["classname"].isna()]
    task_of = {name: task(str(name)) for name in rows["evaluation_set"].unique()}
    tasks = {name: each for name, each in task_of.items() if each is not None and each.listed}
    rows = rows[rows["evaluation_set"].isin(tasks)]
    rows = rows.assign(
        task=[tasks[name].name for name in rows["evaluation_set"]],
        main=[tasks[name].metric for name in rows["evaluation_set"]],
    )
    return rows[rows["metric"] == rows["main"]].drop(columns="main")


def _means(measured: pd.DataFrame, section: str) -> Table:
    covered = set(measured["task"])
    over = {name: [each for each in sets if each in covered] for name, sets in means().items()}
    shown = {name: sets for name, sets in over.items() if sets}
    rows: list[tuple[Cell, ...]] = [
        (model_label(arm), *(_mean(of_arm[of_arm["task"].isin(sets)], len(sets))
                             for sets in shown.values()))
        for arm, of_arm in models(measured)
    ]  # fmt: skip
    heads = (f"{name}, {len(sets)} of {len(means()[name])}" for name, sets in shown.items())
    return Table(
        f"DataComp: mean over {len(covered)} of {len(task_names())} sets",
        ("model", *heads),
        tuple(rows),
        text(
            Note("evaluation", "table_datacomp", sets=len(task_names()), unread=[*WITHOUT_READER])
        ),
        folded=len(rows) > UNFOLDED,
        section=section,
    )


def _mean(rows: pd.DataFrame, sets: int) -> Number:
    """Return the mean over the sets of a model, with its interval or its deviation over seeds."""
    of_tasks = rows.groupby(["task", "seed"] if "seed" in rows else ["task"], dropna=False)
    means = of_tasks[["value", "low", "high"]].mean().reset_index()
    if means["task"].nunique() < sets:
        return Number()
    if means["task"].is_unique:
        low, high = mean_of_estimates(
            *(means[name].to_numpy() for name in ("value", "low", "high"))
        )
        return Number(means["value"].mean(), low=low, high=high)
    by_seed = means.pivot(index="seed", columns="task", values="value").dropna().mean(axis=1)
    return mean_and_spread(by_seed, 3, counted=False)
