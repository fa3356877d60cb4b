"""Tables of the corpus: its samples, its captions and its images."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pandas as pd

from mispair.report.notes import Note
from mispair.report.table import Cell, Number, Table, whole
from mispair.report.tables import Tables
from mispair.report.tables import records as rows_of
from mispair.report.texts import joined

COUNTS, CONTENT = "The corpus", "Captions and images"
TOTALS = ("read", "kept", "rejected", "excluded")
Values = dict[str, tuple[float, float]]
SIZES = ("min", "p05", "median", "p95", "max")

CAPTIONS = {
    "caption_empty_share": "without a word",
    "caption_duplicate_share": "the same text as another pair’s",
    "caption_person_share": "with <PERSON> in place of a name",
    "caption_non_ascii_share": "with a character beyond ASCII",
    "caption_control_share": "with a bidirectional or other format character",
    "caption_several_lines_share": "of several lines, read as one caption",
}
TABLE = {
    "table_pairs_joined": "pairs with a row of the table",
    "table_pairs_without_row": "pairs without a row",
    "table_pairs_sharing_value": "pairs that share a row with another pair",
    "table_values_with_several_captions": "rows with several captions",
    "table_values_unused": "rows without a pair",
}
IMAGES = {
    "image_duplicate_share": "the same bytes as another pair’s",
    "image_sha256_duplicate_share": "the same sha256 in the sample’s json as another pair’s",
}


def corpus(tables: Tables) -> list[Table]:
    """Return the tables of the two sections that have data."""
    candidates = (
        books(tables), caption_table(tables), downloads(tables), licences(tables),
        captions(tables), images(tables),
    )  # fmt: skip
    return [table for table in candidates if table is not None]


def books(tables: Tables) -> Table | None:
    """Return how many samples were read, kept, rejected and excluded, and why."""
    table = tables.pairs if tables.corpus.empty else tables.corpus
    totals = _totals(table)
    if not totals:
        return None
    read = totals.get("read", 0)
    rows = [(name, whole(value), _percent(value, read)) for name, value in totals.items()]
    for kind in ("rejected", "excluded"):
        reasons = table[table["metric"] == f"{kind}_reason"]
        reasons = reasons.sort_values(["value", "reason"], ascending=[False, True], kind="stable")
        rows += [
            (f"{kind}: {row['reason']}", whole(row["value"]), _percent(row["value"], read))
            for row in rows_of(reasons)
        ]
    return Table(
        "What became of the samples", ("samples", "number", "share of those read"), tuple(rows),
        joined(_on_counts(tables, totals)), section=COUNTS,
        warning=joined(warnings(tables)),
    )  # fmt: skip


def caption_table(tables: Tables) -> Table | None:
    """Return how many pairs the user's caption table was joined to, and how much of it was used."""
    values = _values(tables)
    rows = [
        (label, whole(value), _percent(value, n))
        for metric, label in TABLE.items()
        if metric in values
        for value, n in [values[metric]]
    ]
    if not rows:
        return None
    return Table(
        "The caption table", ("pairs and rows", "number", "share"), tuple(rows),
        "Rows of one key, url or other value count as one. Shares are of the pairs looked up, of "
        "the pairs with a row, and of the rows.",
        section=COUNTS,
    )  # fmt: skip


def warnings(tables: Tables) -> list[Note]:
    """Return the faults of the counts: they do not add up, or they differ."""
    counted, recorded = _totals(tables.pairs), _totals(tables.corpus)
    found = []
    totals = recorded or counted
    if totals and not _balanced(totals):
        found.append(Note("pairs", "warning_unbalanced"))
    if recorded and counted and any(recorded.get(name) != counted[name] for name in counted):
        found.append(Note("pairs", "warning_out_of_date"))
    missing, written = _values(tables).get("written_missing", (0, 0))
    if missing:
        found.append(Note("pairs", "warning_missing", missing=missing, written=written))
    return found


def captions(tables: Tables) -> Table | None:
    """Return shares of captions of every kind, and their lengths."""
    values = _values(tables)
    rows = [row for metric, label in CAPTIONS.items() for row in _share(values, metric, label)]
    cut, texts = (_encoded(tables, name) for name in ("truncated", "captions"))
    if math.isfinite(cut) and texts > 0:
        label = "longer than the text tower reads: the tokenizer cuts them"
        rows.append((label, _percent(cut, texts), Number(texts, ",.0f", unit="captions encoded")))
    for metric, label in (("captions_distinct", "distinct texts"),
                          ("captions_further", "further captions of pairs")):  # fmt: skip
        if metric in values:
            value, n = values[metric]
            of = "captions" if metric == "captions_distinct" else "pairs"
            rows.append((label, whole(value), Number(n, ",.0f", unit=of)))
    for unit in ("words", "characters"):
        spread = _spread(values, f"caption_{unit}", ("mean", "median", "p95", "max"), 1)
        if spread:
            rows.append((f"{unit}: mean, median, 95th percentile, maximum", *spread))
    if not rows:
        return None
    return Table("Captions", ("captions", "share or number", "of"), tuple(rows), section=CONTENT)


def images(tables: Tables) -> Table | None:
    """Return sizes of images, and shares of duplicates."""
    values = _values(tables)
    rows = [row for metric, label in IMAGES.items() for row in _share(values, metric, label)]
    for metric, label, digits in (
        ("image_width", "width (pixels)", 0),
        ("image_height", "height (pixels)", 0),
        ("image_aspect_ratio", "width ÷ height", 2),
    ):
        spread = _spread(values, metric, SIZES, digits)
        if spread:
            rows.append((f"{label}: minimum, 5th percentile, median, 95th, maximum", *spread))
    if not rows:
        return None
    return Table("Images", ("images", "share or size", "of"), tuple(rows), section=CONTENT)


def downloads(tables: Tables) -> Table | None:
    """Return the statuses of downloads, commonest first, if files next to the shards have them."""
    title = "Statuses of downloads, from the files next to the shards"
    return _commonest(tables, "downloads", "status", title, ("status", "attempts"))


def licences(tables: Tables) -> Table | None:
    """Return licences and makers of the pairs, if the samples' json has them."""
    title = "Licences and makers, from the samples’ json"
    return _commonest(tables, "licences", "licence", title, ("licence: made by", "pairs"))


def _commonest(
    tables: Tables, metric: str, label: str, title: str, columns: tuple[str, str]
) -> Table | None:
    """Return the counts of a metric with their shares, the largest first."""
    counts = tables.corpus[tables.corpus["metric"] == metric]
    counts = counts.sort_values(["value", label], ascending=[False, True], kind="stable")
    rows = [
        (str(row[label]), whole(row["value"]), _percent(row["value"], row["n"]))
        for row in rows_of(counts)
    ]
    if not rows:
        return None
    return Table(title, (*columns, "share"), tuple(rows), section=COUNTS)


def _totals(table: pd.DataFrame) -> dict[str, float]:
    counts = table[table["metric"].isin(TOTALS)].set_index("metric")["value"]
    return {name: float(counts[name]) for name in TOTALS if name in counts.index}


def _balanced(totals: dict[str, float]) -> bool:
    lost = totals.get("rejected", 0) + totals.get("excluded", 0)
    return totals.get("read") == totals.get("kept", 0) + lost


def _on_counts(tables: Tables, totals: dict[str, float]) -> Iterable[Note]:
    """Return what the counts add up to, and by which policies."""
    if _balanced(totals):
        yield Note("pairs", "counts_sum", parts=[name for name in totals if name != "read"])
    values = _values(tables)
    if values.keys() >= {"quarantined_share", "damaged_shard_share"}:
        lost, damaged = (values[name][0] for name in ("quarantined_share", "damaged_shard_share"))
        yield Note("pairs", "counts_lost", lost=lost, damaged=damaged)
    entries = tables.provenance[tables.provenance["artefact"] == "corpus"]
    origin = dict(zip(entries["key"], entries["text"], strict=True))
    policies = {
        key.removeprefix("policies."): text
        for key, text in origin.items()
        if key.startswith("policies.")
    }
    if limit := policies.pop("max_quarantined_share", None):
        yield Note("pairs", "counts_limit", limit=float(limit))
    if policies:
        yield Note("pairs", "counts_policies", policies=policies)
    if "pairs_fingerprint" in origin:
        yield Note("pairs", "counts_fingerprint", fingerprint=origin["pairs_fingerprint"])


def _values(tables: Tables) -> Values:
    """Return the statistics that are one number each: value and n by metric."""
    table = tables.corpus
    single = table[["bin_low", "reason", "status", "licence"]].isna().all(axis=1)
    return {
        row["metric"]: (row["value"], row["n"])
        for row in rows_of(table[single & table["value"].notna()])
    }


def _share(values: Values, metric: str, label: str) -> list[tuple[Cell, ...]]:
    if metric not in values:
        return []
    of = "samples read" if metric == "caption_empty_share" else "pairs"
    share, n = values[metric]
    return [(label, Number(share, ".2%"), Number(n, ",.0f", unit=of))]


def _spread(
    values: Values, metric: str, names: Iterable[str], digits: int
) -> tuple[Cell, ...] | None:
    metrics = [f"{metric}_{name}" for name in names]
    if not values.keys() >= set(metrics):
        return None
    numbers = [values[name][0] for name in metrics]
    cells = (Number(x, digits) if digits > 1 or not x.is_integer() else whole(x) for x in numbers)
    return tuple(cells), Number(values[metrics[0]][1], ",.0f", unit="pairs")


def _encoded(tables: Tables, metric: str) -> float:
    measured = tables.encoding.loc[tables.encoding["metric"] == metric, "value"].dropna()
    return float(measured.sum()) if len(measured) else math.nan


def _percent(part: float, of: float) -> Number | None:
    return Number(part / of, ".2%") if of else None
