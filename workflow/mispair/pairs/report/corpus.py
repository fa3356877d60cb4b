"""Tables of the corpus: its samples, captions and images, and what corruption changed."""

import math
from collections.abc import Iterable

import pandas as pd

from mispair.pairs.corruption.scheme import meaning_of_rates
from mispair.report.table import Cell, Form, Number, Table, general, or_dash, whole
from mispair.report.tables import Tables
from mispair.report.tables import records as rows_of
from mispair.report.texts import Note, joined, text

SECTION = "The corpus"
TOTALS = ("read", "kept", "rejected", "excluded")
MOST_LOST = 0.01
"""Largest share of samples that is left out without a warning."""

Values = dict[str, tuple[float, float]]
NAMES = {
    "mean": "mean", "min": "minimum", "p05": "5th percentile", "median": "median",
    "p95": "95th percentile", "max": "maximum",
}  # fmt: skip
LENGTHS, SIZES = ("mean", "median", "p95", "max"), ("min", "p05", "median", "p95", "max")
SPREADS = {
    "caption_words": ("words of a caption", LENGTHS, 1),
    "caption_characters": ("characters of a caption", LENGTHS, 1),
    "image_width": ("width of an image (pixels)", SIZES, 0),
    "image_height": ("height of an image (pixels)", SIZES, 0),
    "image_aspect_ratio": ("width ÷ height", SIZES, 2),
}
"""Measures of which a spread is printed: label, parts and digits."""

CAPTIONS = {
    "caption_empty_share": "captions without a word",
    "caption_duplicate_share": "captions of the same text as another pair’s",
    "caption_person_share": "captions with <PERSON> in place of a name",
    "caption_non_ascii_share": "captions with a character beyond ASCII",
    "caption_control_share": "captions with a bidirectional or other format character",
    "caption_several_lines_share": "captions of several lines, read as one",
}
TABLE = {
    "table_pairs_joined": "caption table: pairs with a row",
    "table_pairs_without_row": "caption table: pairs without a row",
    "table_pairs_sharing_value": "caption table: pairs that share a row with another pair",
    "table_values_with_several_captions": "caption table: rows with several captions",
    "table_values_unused": "caption table: rows without a pair",
}
IMAGES = {
    "image_duplicate_share": "images of the same bytes as another pair’s",
    "image_sha256_duplicate_share": "images of the same sha256 in the json as another pair’s",
}


def tables_of(tables: Tables) -> list[Table]:
    """Return the tables of the corpus that have data."""
    candidates = (corruption(tables), samples(tables), content(tables))
    return [table for table in candidates if table is not None]


def samples(tables: Tables) -> Table | None:
    """Return how many samples were read, kept, rejected and excluded, and why.

    Further rows count the pairs that a caption table was joined to, the statuses of downloads, and
    licences, where they are recorded.
    """
    table = tables.pairs if tables.corpus.empty else tables.corpus
    totals = _totals(table)
    read = totals.get("read", 0)
    rows: list[tuple[Cell, ...]] = [
        (name, whole(value), _percent(value, read)) for name, value in totals.items()
    ]
    for kind in ("rejected", "excluded"):
        rows += _commonest(table.assign(n=read), f"{kind}_reason", "reason", kind)
    values = _values(tables)
    rows += [
        (label, whole(values[metric][0]), _percent(*values[metric]))
        for metric, label in TABLE.items()
        if metric in values
    ]
    rows += _commonest(tables.corpus, "downloads", "status", "download")
    rows += _commonest(tables.corpus, "licences", "licence", "licence")
    if not rows:
        return None
    return Table(
        "What became of the samples", ("samples", "number", "share"), tuple(rows),
        joined(_on_counts(tables, totals)), section=SECTION,
        warning=joined(warnings(tables)),
    )  # fmt: skip


def _commonest(table: pd.DataFrame, metric: str, label: str, kind: str) -> list[tuple[Cell, ...]]:
    """Return the counts of a metric with their shares, the largest first."""
    counts = table[table["metric"] == metric]
    counts = counts.sort_values(["value", label], ascending=[False, True], kind="stable")
    return [
        (f"{kind}: {row[label]}", whole(row["value"]), _percent(row["value"], row["n"]))
        for row in rows_of(counts)
    ]


def warnings(tables: Tables) -> list[Note]:
    """Return the faults of the counts: they do not add up, differ, or are of a corpus with gaps."""
    counted, recorded = _totals(tables.pairs), _totals(tables.corpus)
    found = []
    totals = recorded or counted
    if totals and not _balanced(totals):
        found.append(Note("pairs", "warning_unbalanced"))
    if recorded and counted and any(recorded.get(name) != counted[name] for name in counted):
        found.append(Note("pairs", "warning_out_of_date"))
    if not found and totals.get("kept", 0) < (1 - MOST_LOST) * totals.get("read", 0):
        found.append(_lost(tables, totals))
    missing, written = _values(tables).get("written_missing", (0, 0))
    if missing:
        found.append(Note("pairs", "warning_missing", missing=missing, written=written))
    return found


def _lost(tables: Tables, totals: dict[str, float]) -> Note:
    """Return how many samples are left out, and why."""
    table = tables.pairs if tables.corpus.empty else tables.corpus
    rows = table[table["metric"].isin(["rejected_reason", "excluded_reason"])]
    counts = rows.groupby("reason")["value"].sum().sort_values(ascending=False, kind="stable")
    lost, read = totals["read"] - totals["kept"], totals["read"]
    return Note("pairs", "warning_lost", lost=lost, read=read, reasons=counts.to_dict())


def content(tables: Tables) -> Table | None:
    """Return shares of captions and images of every kind, and their lengths and sizes."""
    values = _values(tables)
    rows = [row for metric, label in CAPTIONS.items() for row in _share(values, metric, label)]
    cut, texts = (_encoded(tables, name) for name in ("truncated", "captions"))
    if math.isfinite(cut) and texts > 0:
        label = "captions longer than the text tower reads: the tokenizer cuts them"
        rows.append((label, _percent(cut, texts), Number(texts, ",.0f", unit="captions encoded")))
    for metric, label, of in (
        ("captions_distinct", "distinct captions", "captions"),
        ("captions_further", "further captions of pairs", "pairs"),
    ):
        if metric in values:
            value, n = values[metric]
            rows.append((label, whole(value), Number(n, ",.0f", unit=of)))
    rows += [row for metric, label in IMAGES.items() for row in _share(values, metric, label)]
    for metric, (label, names, digits) in SPREADS.items():
        if spread := _spread(values, metric, names, digits):
            rows.append((f"{label}: {', '.join(NAMES[name] for name in names)}", *spread))
    if not rows:
        return None
    heads = ("captions and images", "share, number or size", "of")
    return Table("Captions and images", heads, tuple(rows), section=SECTION)


CORRUPTED: dict[str, tuple[str, Form]] = {
    "swapped_share": ("share with another pair’s caption", 4),
    "text_changed_share": ("share with another text", 4),
    "wrong_feature_share": ("effective rate by features", 3),
    "false_caption_share": ("effective rate by captions", 3),
    "mean_similarity": ("mean similarity of old and new captions", 3),
    "distinct_captions": ("distinct captions", ",.0f"),
}
"""What a pairing changed: columns and their formats by metric."""


def corruption(tables: Tables) -> Table | None:
    """Return what every pairing changed, and how wrong its captions are, the main scheme first."""
    pairs = tables.pairs[tables.pairs["rate"].notna()]
    rows = []
    for scheme in tables.schemes:
        for rate, measured in pairs[pairs["scheme"] == scheme].groupby("rate"):
            values = measured.set_index("metric")["value"]
            cells = (or_dash(values.get(name), form) for name, (_, form) in CORRUPTED.items())
            rows.append((scheme, general(rate), whole(measured["n"].max()), *cells))
    if not rows:
        return None
    return Table(
        "What corruption changed",
        ("scheme", "nominal share", "pairs", *(head for head, _ in CORRUPTED.values())),
        tuple(rows),
        text(Note("pairs", "table_corruption", rates=meaning_of_rates())),
        section="Schemes of corruption",
    )


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
