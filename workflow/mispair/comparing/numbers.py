"""The numbers of two runs side by side: means over repetitions, with intervals."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from mispair.core.words import count
from mispair.report import studies
from mispair.report.studies import TidyColumns
from mispair.report.table import Cell, Number, Table, between, whole
from mispair.report.tables import DETAILS, records

CONFIDENCE = 0.95

REPEATED = ("seed", "trial", "draw")
"""Columns that numbers are averaged over."""

ALONG = ("epoch", "step")
"""Columns of rows from the course of a training, which are not compared."""

REDUNDANT = frozenset((
    "fingerprint", "headline", "kind", "switch", "preset", "features", "misalignment", "encoder",
    "bias_schedule", "image_noise_variance", "caption_features", "definition_main", "pretraining",
    "method", "recipe", "model", "architecture",
))  # fmt: skip
"""Columns that are not needed to identify an arm."""

RULE = (
    "Values are means over seeds, trials or draws. Beyond: the two 95 % intervals do not overlap. "
    "An interval is that of the mean (Student's t) or that of the evaluation itself, whichever is "
    "wider."
)

BEYOND, WITHIN, UNKNOWN, SAME, ONLY_A, ONLY_B = (
    "beyond", "within", "no interval", "the same", "only in A", "only in B",
)  # fmt: skip
ORDER = (BEYOND, ONLY_A, ONLY_B, UNKNOWN, WITHIN, SAME)
"""Findings on a number, the most important first."""

SHOWN_DIGITS = 4


def differences(a: Mapping[str, pd.DataFrame], b: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a row for each number of one or both runs.

    Returns
    -------
    DataFrame
        ``table``, ``metric``, ``arm`` (all other keys), ``a``, ``b``, ``difference`` (b − a),
        ``low_a``, ``high_a``, ``n_a`` (runs), the same for b, and ``finding``, one of `ORDER`. Rows
        are sorted by finding.
    """
    compared = {name: table for name, table in studies.tables().items() if table.compared}
    measured = [name for name in compared if not (a[name].empty and b[name].empty)]
    parts = [
        _side_by_side(name, compared[name], a[name], b[name])
        for name in measured or [*compared][:1]
    ]
    numbers = pd.concat([p for p in parts if not p.empty] or parts[:1], ignore_index=True)
    numbers["difference"] = numbers["b"] - numbers["a"]
    numbers["finding"] = [_finding(row) for row in records(numbers)]
    position = numbers["finding"].map({name: position for position, name in enumerate(ORDER)})
    width = numbers[["high_a", "high_b"]].sum(axis=1) - numbers[["low_a", "low_b"]].sum(axis=1)
    reach = numbers["difference"].abs() / width.where(width > 0)
    ordered = numbers.assign(position=position, reach=-reach).sort_values(
        ["position", "reach"], kind="stable", ignore_index=True
    )
    columns = ["table", "metric", "arm", "a", "b", "difference", "low_a", "high_a", "n_a", "low_b",
               "high_b", "n_b", "finding"]  # fmt: skip
    return ordered[columns]


def _side_by_side(
    name: str, columns: TidyColumns, a: pd.DataFrame, b: pd.DataFrame
) -> pd.DataFrame:
    a, b = _long(a, columns), _long(b, columns)
    apart = {*columns.values, "value", *REPEATED, *DETAILS, *ALONG, *REDUNDANT}
    if "towers" in a and max(table["towers"].nunique() for table in (a, b)) == 1:
        apart.add("towers")  # Each run has one model: equal arms are compared across models.
    keys = [column for column in a.columns if column not in apart]
    means = [_means(table, keys).add_suffix(side) for table, side in ((a, "_a"), (b, "_b"))]
    both = means[0].join(means[1], how="outer", sort=True).reset_index()
    arms = [
        ", ".join(
            value if isinstance(value, str) else f"{key} {value:g}"
            for key, value in row.items()
            if not pd.isna(value)
        )
        for row in records(both[[key for key in keys if key != "metric"]])
    ]
    renamed = both.rename(columns={"value_a": "a", "value_b": "b"})
    return renamed.drop(columns=[key for key in keys if key != "metric"]).assign(
        table=name, arm=arms
    )


def _long(table: pd.DataFrame, columns: TidyColumns) -> pd.DataFrame:
    """Return a table with a row for each number, also if it has a column for each metric."""
    if "metric" in table:
        return table
    melted = table.melt([*columns.keys], var_name="metric", value_name="value")
    return melted.dropna(subset="value").reset_index(drop=True)


def _means(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return mean, interval and number of runs of each number, by its keys."""
    apart = [column for column in (*DETAILS, *ALONG) if column in table]
    # Times differ in every run.
    whole = table[table[apart].isna().all(axis=1) & ~table["metric"].str.contains("seconds")]
    for column in ("low", "high"):
        if column not in whole:
            whole = whole.assign(**{column: math.nan})
    grouped = whole.groupby(keys, dropna=False)
    means = grouped.agg(
        value=("value", "mean"), deviation=("value", "std"), n=("value", "count"),
        low=("low", "mean"), high=("high", "mean"),
    )  # fmt: skip
    half = _t(means["n"].to_numpy()) * means["deviation"] / np.sqrt(means["n"])
    # The wider of both; a missing one is ignored.
    low = pd.concat([means["value"] - half, means["low"]], axis=1).min(axis=1)
    high = pd.concat([means["value"] + half, means["high"]], axis=1).max(axis=1)
    return means.assign(low=low, high=high).drop(columns="deviation")


def _t(n: np.ndarray) -> np.ndarray:
    from scipy import stats

    return np.asarray(stats.t.ppf((1 + CONFIDENCE) / 2, np.maximum(n - 1, 1)), dtype=np.float64)


def _finding(row: Mapping[str, Any]) -> str:
    if pd.isna(row["n_a"]) or pd.isna(row["n_b"]):
        return ONLY_B if pd.isna(row["n_a"]) else ONLY_A
    if row["a"] == row["b"] or (math.isnan(row["a"]) and math.isnan(row["b"])):
        return SAME
    bounds = [row[f"{side}_{run}"] for side in ("low", "high") for run in ("a", "b")]
    if not all(map(math.isfinite, bounds)):
        return UNKNOWN
    apart = row["high_a"] < row["low_b"] or row["high_b"] < row["low_a"]
    return BEYOND if apart else WITHIN


def printed(numbers: pd.DataFrame, most: int) -> list[Table]:
    """Return a table of at most `most` different numbers, and one of numbers in one run alone."""
    tally = numbers["finding"].value_counts()
    counts = [f"{tally[name]:,} {name}" for name in ORDER if name in tally]
    both = numbers[~numbers["finding"].isin([SAME, ONLY_A, ONLY_B])]
    remark = f"{count(len(numbers), 'number')}: {', '.join(counts)}. {RULE}" if counts else RULE
    if len(both) > most:
        remark = f"Here are the first {most:,} of {len(both):,} that differ. {remark}"
    heads = ("table", "metric", "arm", "A", "B", "B − A", "interval A", "interval B", "")
    rows = tuple(map(_row, records(both.head(most))))
    return [Table("Numbers", heads, rows, remark), *_alone(numbers)]


def _row(row: Mapping[str, float | str]) -> tuple[Cell, ...]:
    values = {key: value for key, value in row.items() if isinstance(value, float)}
    digits = _digits(values["a"], values["b"])
    return (
        str(row["table"]), str(row["metric"]), str(row["arm"]), Number(values["a"], digits),
        Number(values["b"], digits), Number(values["difference"], digits, sign=True),
        *(between(values[f"low_{run}"], values[f"high_{run}"], digits) for run in "ab"),
        str(row["finding"]),
    )  # fmt: skip


def _digits(*values: float) -> int:
    """Return the decimal places that the larger number needs for its leading digits."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return min(9, max(0, SHOWN_DIGITS - 1 - math.floor(math.log10(largest or 1.0))))


def _alone(numbers: pd.DataFrame) -> list[Table]:
    """Count the numbers that only one run has, by table and arm."""
    alone = numbers[numbers["finding"].isin([ONLY_A, ONLY_B])]
    if alone.empty:
        return []
    # The arm without the evaluation set: start, scheme, rate; condition, C_s.
    arms = alone.assign(of=alone["arm"].str.split(", ").str[:3].str.join(", "))
    keys = ["finding", "table", "of"]
    counted = arms.groupby(keys, sort=True).size().reset_index(name="numbers")
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (*(str(row[key]) for key in keys), whole(row["numbers"])) for row in records(counted)
    )
    return [Table("Numbers of one run alone", ("where", "table", "arm", "numbers"), rows)]
