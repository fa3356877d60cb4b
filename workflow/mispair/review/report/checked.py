"""What the labels of a person put on the page of the audit."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from mispair.core.words import percent
from mispair.report import texts
from mispair.report.table import Cell, Number, Table, between, whole
from mispair.report.tables import Tables, records
from mispair.report.texts import Note
from mispair.review.labels import FEW

GOOD_MODEL = {0.0: 1.03, 0.01: 0.84, 0.05: 0.67, 0.2: 0.6, 0.5: 0.57}
"""Width of the interval over Wilson's with a model of AUROC 0.95, by the share of wrong captions,
as ``python -m bench.review`` measures it with 200 labels."""


def counts(table: pd.DataFrame) -> dict[str, float]:
    """Return the metrics of the review without a key, by name; empty without a sample."""
    rows = table[table["metric"].str.startswith("checked_") & table["at"].isna()]
    return {row["metric"].removeprefix("checked_"): row["value"] for row in records(rows)}


def interval_of(table: pd.DataFrame, metric: str) -> Mapping[str, float] | None:
    """Return value, low, high, n and at of a metric; None without it."""
    rows = records(table[table["metric"] == metric])
    return next(({name: float(row[name]) for name in ("value", "low", "high", "n", "at")}
                 for row in rows), None)  # fmt: skip


def numbers(tables: Tables) -> Mapping[str, Any] | None:
    """Return the numbers for sentences; None without a sample.

    ``low`` and ``high`` are limits of the share with unsure ones once as right and once as wrong,
    and NaN without labels, where ``known`` is false. ``model`` is the interval of the audit, and
    ``above`` and ``below`` are true where that of the labels is beyond it. ``unseen`` is how far it
    is above, and ``narrowed`` by what a good model would multiply the width of the interval.
    ``similar`` is the share of captions swapped for a similar one, by ranks of the ``ranked`` pairs
    labelled right, or None; then ``fault`` states why.
    """
    table, of = tables.audit, counts(tables.audit)
    if "sample" not in of:
        return None
    share, most = (interval_of(table, f"checked_{name}") for name in ("share", "share_most"))
    model, origin = interval_of(table, "wrong_captions"), tables.provenance
    person = origin[(origin["artefact"] == "review") & (origin["key"] == "person")]["text"]
    fault = origin[(origin["artefact"] == "similar") & (origin["key"] == "fault")]["text"]
    low, high = (share["low"], most["high"]) if share and most else (math.nan, math.nan)
    limits = (0.0 if math.isnan(model["low"]) else model["low"], model["high"]) if model else None
    further, width = interval_of(table, "checked_further"), of.get("width", math.nan)
    value = share["value"] if share else math.nan
    good = np.interp(min(value, 1 - value), [*GOOD_MODEL], [*GOOD_MODEL.values()])
    return {
        **{name: int(of.get(name, 0)) for name in
           ("sample", "labels", "unsure", "chosen", "not_drawn", "skipped")},
        "known": math.isfinite(low), "low": low, "high": high,
        "share": value,
        "is_truth": "truth" in set(person),
        "few": 0 < of.get("labels", 0) < FEW,
        "model": limits,
        "above": bool(limits and low > limits[1]), "below": bool(limits and high < limits[0]),
        "unseen": low - limits[1] if limits else math.nan,
        "width": width, "narrowed": float(good) / width,
        "further": further["value"] if further else math.nan,
        "half": further["at"] if further else math.nan,
        "similar": interval_of(table, "checked_similar"),
        "ranked": int(of.get("right_ranked", 0)), "fault": next(iter(fault), ""),
        "better": of.get("error_recalibrated", math.nan) < of.get("error", math.nan),
    }  # fmt: skip


def piece(tables: Tables) -> str:
    """Return the text of the section; empty without a sample."""
    found = numbers(tables)
    return texts.text(Note("review", "section", c=found)) if found else ""


def printed(tables: Tables, section: str) -> list[Table]:
    """Return the tables of a section; none without labels."""
    found = numbers(tables)
    if not found or not found["labels"]:
        return []
    origin = tables.provenance
    known = origin[(origin["artefact"] == "audit") & (origin["key"] == "identified")]["text"]
    of_strata = by_probability(tables.audit, next(iter(known), ""))
    every = shares(tables.audit), of_model(tables.audit), of_strata
    return [replace(table, section=section) for table in every]


def shares(table: pd.DataFrame) -> Table:
    """Return the share of wrong captions by each method."""
    named = {
        "checked_share": "by the labels, with strata of the model's probability",
        "checked_share_most": "the same, with unsure ones as wrong",
        "checked_unsure_share": "share of unsure ones",
        "checked_share_unaided": "by the labels alone (Horvitz-Thompson, Wilson)",
        "wrong_captions": "by the model alone (audit)",
        "checked_similar": "captions of similar pictures alone, by ranks of pairs labelled right",
    }
    return _table(table, named, "Share of wrong captions", "share", Note("review", "table_shares"))


def of_model(table: pd.DataFrame) -> Table:
    """Return how the model and its lists do by the labels."""
    named = {
        "checked_auroc": "AUROC of the probability",
        "checked_error": "mean squared error of the probability",
        "checked_error_recalibrated": "the same, recalibrated on other labels",
        "checked_precision": "wrong ones among pairs that the cut leaves out (precision)",
        "checked_recall": "wrong ones that the cut leaves out (recall)",
        "checked_cut": "cut for the wanted precision",
    }
    return _table(
        table,
        named,
        "The model and its lists, by the labels",
        "value",
        Note("review", "table_model"),
    )


def by_probability(table: pd.DataFrame, identified: str) -> Table:
    """Return the share of wrong ones in each stratum next to its mean probability.

    `identified` is what the audit knows of the share that probabilities are for.
    """
    rows = tuple(
        (Number(row["at"], percent), whole(row["n"]), Number(row["value"], percent),
         between(row["low"], row["high"]))
        for row in records(table[table["metric"] == "checked_reliability"].sort_values("at"))
    )  # fmt: skip
    heads = "mean probability", "labels", "share wrong", "95 % interval"
    remark = texts.text(Note("review", "table_strata", identified=identified))
    return Table("Share of wrong captions by the model's probability", heads, rows, remark)


def _table(
    table: pd.DataFrame, named: Mapping[str, str], caption: str, head: str, remark: Note
) -> Table:
    found = {label: row for metric, label in named.items() if (row := interval_of(table, metric))}
    has_cuts = any(math.isfinite(row["at"]) for row in found.values())
    rows: list[tuple[Cell, ...]] = []
    for label, row in found.items():
        at = (Number(row["at"]) if math.isfinite(row["at"]) else "",) if has_cuts else ()
        limits = between(row["low"], row["high"]) if not math.isnan(row["high"]) else None
        rows.append((label, *at, Number(row["value"], 4), limits))
    heads = ("estimate", *(("at",) if has_cuts else ()), head, "95 % interval")
    return Table(caption, heads, tuple(rows), texts.text(remark))
