"""Printed tables of models: protocols, other scores, exported models."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

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
    Number,
    Table,
    general,
    or_dash,
    whole,
    with_interval,
)
from mispair.report.tables import Tables, records
from mispair.report.texts import text

HEADLINES = ("acc1", "acc5", "mean_per_class_recall")


def of_arms(tables: Tables) -> list[Table]:
    """Return the tables of the arms of the main scheme; those without rows are not printed.

    They are of the main protocol, except those of protocols.
    """
    arms = tables.of_scheme()
    return [
        *protocols(tables),
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
