"""Table and warnings of encoding: speed, waiting for data, device, memory and precision."""

from __future__ import annotations

import pandas as pd

from mispair.core.words import duration
from mispair.report.notes import Note
from mispair.report.table import Cell, Number, Table, between, or_dash, printed, whole
from mispair.report.tables import Tables
from mispair.report.texts import joined
from mispair.towers.encoding_record import MOST_WAITING


def encoding(tables: Tables) -> Table | None:
    """Return one row for each device and precision, summed up over jobs."""
    table = tables.encoding
    if table.empty:
        return None
    rows = [
        (
            str(device) or None, str(precision) or None, whole(jobs["group"].nunique()),
            _sum(jobs, "images"), _sum(jobs, "captions"), _spread(jobs, "images_per_s"),
            _spread(jobs, "captions_per_s"), _spread(jobs, "waiting_share", 100, "%"),
            or_dash(_of(jobs, "memory_bytes").max() / 2**30, 2, unit="GiB"),
            _range(jobs, "batch_size"), _range(jobs, "workers"),
            Number(_of(jobs, "seconds").sum(), duration),
        )
        for (device, precision), jobs in table.fillna({"device": "", "precision": ""}).groupby(
            ["device", "precision"]
        )
    ]  # fmt: skip
    return Table(
        "Encoding of images and distinct captions, by device and precision",
        ("device", "precision", "jobs", "images", "captions",
         "images/s: least, median, most", "captions/s", "time waiting for data",
         "most memory", "batch", "workers", "sum of run times"),
        tuple(rows),
        "One job encodes the images of a group of shards. Others encode the captions of the "
        "corpus, each once. Numbers are those of the last run of each job.",
        section="Encoding",
        warning=joined(warnings(tables)),
    )  # fmt: skip


def warnings(tables: Tables) -> list[Note]:
    """Return a warning for every GPU that waited too long for its data."""
    table = tables.encoding
    waiting = table[(table["metric"] == "waiting_share") & (table["value"] > MOST_WAITING)]
    waiting = waiting[~waiting["device"].fillna("cpu").str.startswith("cpu")]
    return [
        Note("towers", "warning_waiting", device=device, bound=MOST_WAITING, jobs=len(shares),
             most=shares["value"].max())
        for device, shares in waiting.groupby("device")
    ]  # fmt: skip


def _of(table: pd.DataFrame, metric: str) -> pd.Series:
    values = table.loc[table["metric"] == metric, "value"].dropna()
    # A job that found everything encoded when it resumed has no speed.
    return values[values > 0] if metric.endswith("_per_s") else values


def _sum(table: pd.DataFrame, metric: str) -> Number | None:
    return or_dash(_of(table, metric).sum(min_count=1), ",.0f")


def _spread(table: pd.DataFrame, metric: str, factor: float = 1, unit: str = "") -> Cell:
    """Return the least, the median and the largest value, or one number if they print alike."""
    values = factor * _of(table, metric)
    form = ",.0f" if values.median() >= 10 else ",.1f"
    low, middle, high = (
        or_dash(value, form, unit=unit) for value in (values.min(), values.median(), values.max())
    )
    return middle if printed(low) == printed(high) else (low, middle, high)


def _range(table: pd.DataFrame, metric: str) -> Number | None:
    values = _of(table, metric)
    low, high = values.min(), values.max()
    return between(low, high, "g") if low < high else or_dash(low, "g")
