"""Printed tables of models: protocols, other scores, DataComp's means, exported models."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from mispair.core.intervals import mean_of_estimates
from mispair.evaluation.datacomp import WITHOUT_READER, means, task, task_names
from mispair.evaluation.protocols import DATACOMP
from mispair.evaluation.retrieval import BLIND, SELECTION
from mispair.image_text.report.arms import (
    base_arm,
    change,
    model_label,
    models,
    named,
    short,
    zeroshot_series,
)
from mispair.image_text.report.study import PROTOCOLS, SCORES
from mispair.report.notes import Note
from mispair.report.table import (
    Cell,
    Number,
    Table,
    general,
    mean_and_spread,
    or_dash,
    whole,
    with_interval,
)
from mispair.report.tables import CAPTIONS, Tables, records
from mispair.report.texts import text

HEADLINES = ("acc1", "acc5", "mean_per_class_recall")


def of_arms(tables: Tables) -> list[Table]:
    """Return the tables of the arms of the main scheme; those without rows are not printed.

    They are of the main protocol, except those of protocols and of DataComp's means.
    """
    arms = tables.of_scheme()
    return [
        *protocols(tables),
        *datacomp(arms.zeroshot, PROTOCOLS),
        scores(_ends(arms.of_protocol().zeroshot), SCORES),
        exported(tables),
    ]


def _ends(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the untouched model, and of both ends of C_m from its projections."""
    tuned = table[table["start"] == "pretrained"]
    ends = tuned["rate"].isin([tuned["rate"].min(), tuned["rate"].max()])
    return pd.concat([table[table["start"] == "untouched"], tuned[ends]])


def protocols(tables: Tables) -> list[Table]:
    """Return the scores of the same model under every protocol, on every evaluation set."""
    names = tables.protocols
    tables = tables.of_scheme()
    table = tables.zeroshot[tables.zeroshot["protocol"].isin(names)]
    table = table[table["classname"].isna()]
    rows = []
    for evaluation_set, of_set in table.groupby("evaluation_set"):
        first: float | None = None
        for name in [name for name in names if name in set(of_set["protocol"])]:
            of_protocol = of_set[of_set["protocol"] == name]
            headline = next(iter(of_protocol["headline"].dropna()), "acc1")
            found = base_arm(of_protocol)
            value = found.loc[found["metric"] == headline, "value"].mean()
            first = value if first is None else first
            series = zeroshot_series(tables.of_protocol(name), "pretrained", headline,
                                     str(evaluation_set))  # fmt: skip
            prompts = [short(text) for text in of_protocol["fingerprint"].dropna()[:1]]
            rows.append((
                str(evaluation_set), f"{' '.join([name, *prompts])}, {headline}",
                *(with_interval(found[found["metric"] == metric]) for metric in HEADLINES),
                None if value is first else or_dash(value - first, 3, sign=True),
                or_dash(change(series), 3, sign=True),
            ))  # fmt: skip
    if not rows:
        return []
    arm = base_arm(table)
    model = model_label(records(arm)[0])
    heads = (metric.replace("_", " ") for metric in HEADLINES)
    return [
        Table(
            f"The same model under every protocol: {model}",
            ("evaluation set", "protocol and its headline", *heads,
             "headline − its first protocol’s", "headline’s change with C_m, from pre-trained"),
            tuple(rows),
            text(Note("image_text", "table_protocols", main=names[0], others=names[1:])),
            section=PROTOCOLS,
        )
    ]  # fmt: skip


# Other scores ------------------------------------------------------------------------------------

OTHER = {
    "image_recall@1": "retrieval, image by caption: recall at 1",
    "text_recall@1": "retrieval, caption by image: recall at 1",
    SELECTION: "choice of the true caption",
    BLIND: "the same without the image",
    "group_score": "choice in sets of two images and captions: group score",
    "probe_acc1": "linear probe: acc1",
}
"""Measures besides classification by prompts, in words."""


def scores(table: pd.DataFrame, section: str) -> Table:
    """Return retrieval, choice of captions and linear probes of arms or of checkpoints.

    Each score is next to the level it is compared with: chance, or for a probe the zero-shot
    accuracy.
    """
    of_set = table[table["classname"].isna()]
    rows = [
        (
            str(model["evaluation_set"]), words, model_label(model),
            whole(measured["n"].max()), with_interval(measured), or_dash(_level(of_set, measured)),
        )
        for metric, words in OTHER.items()
        for model, measured in models(of_set[of_set["metric"] == metric], "evaluation_set")
    ]  # fmt: skip
    return Table(
        "Retrieval, choice of the true caption, and linear probe",
        ("evaluation set", "score", "model", "n", "value", "chance, or zero-shot of a probe"),
        tuple(rows),
        text(Note("image_text", "table_scores")),
        section=section,
    )


def _level(table: pd.DataFrame, measured: pd.DataFrame) -> float:
    if (measured["metric"] != "probe_acc1").all():
        return float(measured["chance"].mean())
    keys = [key for key in ("start", "rate", "towers", "evaluation_set") if key in table]
    zeroshot = table[table["metric"] == "acc1"].merge(measured[keys].drop_duplicates(), on=keys)
    return float(zeroshot["value"].mean())


# DataComp ----------------------------------------------------------------------------------------


def datacomp(table: pd.DataFrame, section: str) -> list[Table]:
    """Return DataComp's means of every arm or model; none if empty.

    The rows are zero-shot numbers of arms or of checkpoints under all protocols.
    """
    measured = main_metrics(table)
    if measured.empty:
        return []
    covered = set(measured["task"])
    over = {name: [each for each in sets if each in covered] for name, sets in means().items()}
    shown = {name: sets for name, sets in over.items() if sets}
    rows: list[tuple[Cell, ...]] = [
        (model_label(arm), *(_mean(of_arm[of_arm["task"].isin(sets)], len(sets))
                             for sets in shown.values()))
        for arm, of_arm in models(measured)
    ]  # fmt: skip
    heads = (f"{name}, {len(sets)} of {len(means()[name])}" for name, sets in shown.items())
    remark = Note("image_text", "table_datacomp", sets=len(task_names()), unread=[*WITHOUT_READER])
    title = f"DataComp: mean over {len(covered)} of {len(task_names())} sets"
    return [Table(title, ("model", *heads), tuple(rows), text(remark), section=section)]


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


def _mean(rows: pd.DataFrame, sets: int) -> Number:
    """Return the mean over the sets of a model, with its interval or its deviation over seeds."""
    of_tasks = rows.groupby(["task", "seed"] if "seed" in rows else ["task"], dropna=False)
    values = of_tasks[["value", "low", "high"]].mean().reset_index()
    if values["task"].nunique() < sets:
        return Number()
    if values["task"].is_unique:
        low, high = mean_of_estimates(
            *(values[name].to_numpy() for name in ("value", "low", "high"))
        )
        return Number(values["value"].mean(), low=low, high=high)
    by_seed = values.pivot(index="seed", columns="task", values="value").dropna().mean(axis=1)
    return mean_and_spread(by_seed, 3, counted=False)


# Exported models ---------------------------------------------------------------------------------

REFERENCE = "reference_"
"""Prefix of the metrics of the whole model."""

TITLES = {
    "embedding_bytes_per_image": "bytes of an embedding",
    "bytes": "bytes of the weights",
    "seconds_to_classify": "ms to classify",
    "seconds_to_search": "ms to search",
}
"""Metrics whose names are not clear in a table."""

MODEL = ["start", "rate", "strategy", "ranked_by", "k"]


def exported(tables: Tables) -> Table:
    """Return the accuracy, speed and size of exported models on each set and protocol."""
    table = _each_protocol(tables.exported[tables.exported["value"].notna()])
    metrics = sorted({name.removeprefix(REFERENCE) for name in table["metric"]})
    rows = []
    for _, model in table.groupby([*MODEL, "evaluation_set", "protocol"], dropna=False):
        row = records(model)[0]
        prompts = named(model) if isinstance(row["protocol"], str) else None
        values = model.groupby("metric")["value"].mean()
        name = row["evaluation_set"] if isinstance(row["evaluation_set"], str) else None
        rows.append((
            model_label(row), str(row["strategy"]), str(row["ranked_by"]), general(row["k"]),
            name, prompts, *(_exported(values, metric) for metric in metrics),
        ))  # fmt: skip
    heads = (TITLES.get(metric, metric.replace("_", " ")) for metric in metrics)
    return Table(
        "Pruned models that plain open_clip loads",
        ("model", "kept", "ranked by", "k", "evaluation set", "protocol", *heads),
        tuple(rows),
        text(Note("image_text", "table_exported")),
        section="Pruning",
    )


def _each_protocol(table: pd.DataFrame) -> pd.DataFrame:
    """Repeat the rows of a model for each of its sets, and those of a set for its protocols."""
    for column, keys in (("evaluation_set", MODEL), ("protocol", [*MODEL, "evaluation_set"])):
        free = table[column].isna()
        if free.all():
            continue
        present = table.loc[~free, [*keys, column]].drop_duplicates()
        repeated = table[free].drop(columns=column).merge(present, how="left")
        table = pd.concat([table[~free], repeated], ignore_index=True)
    return table


def _exported(values: pd.Series, metric: str) -> Number | None:
    if metric not in values:
        return None
    reference = values.get(f"{REFERENCE}{metric}")
    beside = None if reference is None else _number(metric, reference)
    return replace(_number(metric, values[metric]), beside=beside)


def _number(metric: str, value: float) -> Number:
    if metric.startswith("seconds"):
        return Number(1000 * value, ".3g")
    return whole(value) if float(value).is_integer() and abs(value) > 1 else Number(value, 4)
