"""What the page says of encoding: speed, waiting for data, device, memory and precision."""

from __future__ import annotations

import pandas as pd

from mispair.core.words import count, duration
from mispair.report.table import Table
from mispair.report.tables import Tables

WAITING = 0.3
"""A GPU that waits for data for a larger share of the time is badly fed."""


def encoding(tables: Tables) -> Table | None:
    """Return one row for each device and precision, summed up over jobs."""
    table = tables.encoding
    if table.empty:
        return None
    rows = [
        (
            str(device), str(precision), f"{own['group'].nunique():,}",
            _sum(own, "images"), _sum(own, "captions"), _spread(own, "images_per_s"),
            _spread(own, "captions_per_s"), _spread(own, "waiting_share", 100, " %"),
            _largest(own, "memory_bytes"), _range(own, "batch_size"), _range(own, "workers"),
            duration(_of(own, "seconds").sum()),
        )
        for (device, precision), own in table.fillna({"device": "–", "precision": "–"}).groupby(
            ["device", "precision"]
        )
    ]  # fmt: skip
    return Table(
        "Encoding of images and distinct captions, by device and precision",
        ("device", "precision", "jobs", "images", "captions",
         "images/s: least, median, most", "captions/s", "time waiting for data",
         "most memory", "batch", "workers", "sum of run times"),
        tuple(rows),
        "Images of a group of shards are encoded by one job, and the captions of the corpus, each "
        "once, by others; each as it last ran.",
        section="Encoding",
        warning=" ".join(warnings(tables)),
    )  # fmt: skip


def warnings(tables: Tables) -> list[str]:
    """Return a warning for every GPU that waited too long for its data."""
    table = tables.encoding
    waiting = table[(table["metric"] == "waiting_share") & (table["value"] > WAITING)]
    waiting = waiting[~waiting["device"].fillna("cpu").str.startswith("cpu")]
    return [
        f"Encoding on {device} waited for data for more than {100 * WAITING:g} % of the time in "
        f"{count(len(own), 'job')} (at most {100 * own['value'].max():.0f} %): give "
        "encode_features more workers, or shards that lie on a faster disk."
        for device, own in waiting.groupby("device")
    ]


def _of(table: pd.DataFrame, metric: str) -> pd.Series:
    own = table.loc[table["metric"] == metric, "value"].dropna()
    # A job that found everything encoded when it resumed has no speed.
    return own[own > 0] if metric.endswith("_per_s") else own


def _sum(table: pd.DataFrame, metric: str) -> str:
    own = _of(table, metric)
    return f"{own.sum():,.0f}" if len(own) else "–"


def _spread(table: pd.DataFrame, metric: str, factor: float = 1, unit: str = "") -> str:
    own = factor * _of(table, metric)
    if own.empty:
        return "–"
    digits = 0 if own.median() >= 10 else 1
    texts = [f"{value:,.{digits}f}" for value in (own.min(), own.median(), own.max())]
    return (texts[0] if len(set(texts)) == 1 else " / ".join(texts)) + unit


def _largest(table: pd.DataFrame, metric: str) -> str:
    own = _of(table, metric)
    return f"{own.max() / 2**30:.2f} GiB" if len(own) else "–"


def _range(table: pd.DataFrame, metric: str) -> str:
    own = sorted(set(_of(table, metric)))
    return " to ".join(f"{value:g}" for value in dict.fromkeys(own[:1] + own[-1:])) or "–"
