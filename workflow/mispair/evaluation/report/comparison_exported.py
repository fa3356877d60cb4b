"""Tables of models that were exported with some of their neurons, and of the savings."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from mispair.evaluation.report.protocols import named
from mispair.report.table import Number, Table, general, whole
from mispair.report.tables import Tables, records

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
WHOLE = "In brackets: the whole model."


def exported(tables: Tables) -> list[Table]:
    """Return the sizes of exported models, and their scores on each evaluation set."""
    table = tables.exported[tables.exported["value"].notna()]
    of_model = table["evaluation_set"].isna()
    return [
        _table(table[of_model], MODEL, "Pruned models that plain open_clip loads: their size",
               WHOLE),
        _table(_each_protocol(table[~of_model]), [*MODEL, "evaluation_set", "protocol"],
               "Pruned models that plain open_clip loads: accuracy and speed",
               f"{WHOLE} Accuracy is that of the exported files. To classify is the "
               "product of all images with the classes, to search that of images with images, "
               "for any protocol; times are those of the machine that wrote the model."),
    ]  # fmt: skip


def _each_protocol(table: pd.DataFrame) -> pd.DataFrame:
    """Repeat the rows of a set without a protocol for each of its protocols."""
    free = table["protocol"].isna()
    keys = table.loc[~free, [*MODEL, "evaluation_set", "protocol"]].drop_duplicates()
    return pd.concat(
        [table[~free], table[free].drop(columns="protocol").merge(keys, how="left")],
        ignore_index=True,
    )


def _table(table: pd.DataFrame, keys: list[str], caption: str, remark: str) -> Table:
    metrics = sorted({name.removeprefix(REFERENCE) for name in table["metric"]})
    rows = []
    for _, model in table.groupby(keys, dropna=False):
        row = records(model)[0]
        tuned = f", C_m {row['rate']:g}" if row["rate"] == row["rate"] else ""
        prompts = named(model) if isinstance(row["protocol"], str) else None
        set_cells = [str(row["evaluation_set"]), prompts] if "protocol" in keys else []
        means = model.groupby("metric")["value"].mean()
        rows.append((
            f"{row['start']}{tuned}", str(row["strategy"]), str(row["ranked_by"]),
            general(row["k"]), *set_cells, *(_cell(means, metric) for metric in metrics),
        ))  # fmt: skip
    set_columns = ("evaluation set", "protocol") if "protocol" in keys else ()
    heads = (TITLES.get(metric, metric.replace("_", " ")) for metric in metrics)
    return Table(
        caption, ("model", "kept", "ranked by", "k", *set_columns, *heads), tuple(rows), remark,
        section="Pruning",
    )  # fmt: skip


def _cell(means: pd.Series, metric: str) -> Number | None:
    if metric not in means:
        return None
    reference = means.get(f"{REFERENCE}{metric}")
    beside = None if reference is None else _number(metric, reference)
    return replace(_number(metric, means[metric]), beside=beside)


def _number(metric: str, value: float) -> Number:
    if metric.startswith("seconds"):
        return Number(1000 * value, ".3g")
    return whole(value) if float(value).is_integer() and abs(value) > 1 else Number(value, 4)
