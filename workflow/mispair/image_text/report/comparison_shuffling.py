"""Tables of the arms on shuffled captions: table 4 at every C_m and scheme, and trends in words."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from mispair.core.words import count, interval, number, p_value
from mispair.evaluation.report.data_sets import published_name
from mispair.evaluation.report.protocols import HASHES, named, of_metric, protocol_phrase
from mispair.evaluation.report.series import ends_text, purity_series, run_trend, zeroshot_series
from mispair.report import published, style
from mispair.report.table import Table, mean_and_spread, or_dash
from mispair.report.tables import Tables, records
from mispair.report.verdicts import trend_words

SCORES = {"acc1": "accuracy", "silhouette": "silhouette"}
REFERENCES = ("rate 0", "untouched")
OTHERS = "mean of all"


def shuffling(tables: Tables, alpha: float) -> list[Table]:
    """Return table 4 with measured numbers, the paired differences, and the trends, unless empty.

    Every start has them at every rate of every scheme.
    """
    tables = tables.of_protocol()
    candidates = [_table4(tables), _differences(tables), _trends(tables, alpha)]
    return [table for table in candidates if table.rows]


def _starts(table: pd.DataFrame) -> list[str]:
    return [start for start in style.FINE_TUNED if start in set(table["start"].dropna())]


def _names(table: pd.DataFrame) -> list[str]:
    rows = table[table["metric"].isin(SCORES) & table["rate"].notna()]
    return sorted(rows["evaluation_set"].dropna().unique())


def _table4(tables: Tables) -> Table:
    printed = published.table4().rename(columns={"shuffle_probability": "rate"})
    of_all = printed.groupby("rate")[list(SCORES.values())].mean().assign(dataset=OTHERS)
    printed = pd.concat([printed, of_all.reset_index()]).set_index(["dataset", "rate"])
    rows = []
    for scheme in tables.schemes:
        part = tables.of_scheme(scheme)
        for start in _starts(part.zeroshot):
            for name in _names(part.zeroshot):
                series = {
                    metric: zeroshot_series(part, start, metric, name).dropna() for metric in SCORES
                }
                label = f"{name} ({named(of_metric(part, 'acc1', name))})"
                dataset = published_name(name)
                compared = scheme == "random" and start == "pretrained"
                for rate in sorted({rate for each in series.values() for rate in each["rate"]}):
                    expected = [
                        _published(printed, dataset, rate, column) if compared else math.nan
                        for column in SCORES.values()
                    ]
                    measured = [each.loc[each["rate"] == rate, "value"] for each in series.values()]
                    rows.append((
                        label, start, scheme, f"{rate:g}",
                        mean_and_spread(measured[0], 3), or_dash(expected[0], 3),
                        mean_and_spread(measured[1], 3), or_dash(expected[1], 3),
                        (dataset or OTHERS) if math.isfinite(expected[0]) else "–",
                    ))  # fmt: skip
    return Table(
        "Every C_m, scheme and evaluation set next to table 4 (CC3M)",
        ("evaluation set", "arm", "scheme", "C_m", "accuracy (acc1)", "published",
         "silhouette", "published", "published data set"),
        tuple(rows),
        "Mean ± 1 standard deviation over n seeds. Table 4 is of random shuffling from pre-trained "
        f"projections, at C_m = 0 without fine-tuning; “{OTHERS}” is the mean over its six data "
        f"sets, for sets that it does not have. Accuracy: {protocol_phrase(tables)}. {HASHES}",
        folded=True,
    )  # fmt: skip


def _published(printed: pd.DataFrame, dataset: str | None, rate: float, column: str) -> float:
    key = (dataset or OTHERS, rate)
    return float(printed[column].get(key, math.nan))


def _differences(tables: Tables) -> Table:
    table = tables.comparisons
    table = table[(table["metric"] == "acc1_difference") & table["rate"].notna()]
    rows = []
    keys = ["evaluation_set", "start", "scheme", "rate"]
    for key, group in table.groupby(keys, dropna=False):
        name, start, scheme, rate = (str(part) for part in key)
        by_reference = {row["reference"]: row for row in records(group)}
        cells = [
            _difference(by_reference[reference]) if reference in by_reference else "–"
            for reference in REFERENCES
        ]
        scheme = "–" if float(rate) == 0 else scheme
        rows.append((f"{name} ({named(_prompts(tables, group))})", start, scheme,
                     f"{float(rate):g}", *cells, f"{group['n'].max():,.0f}"))  # fmt: skip
    return Table(
        "Differences in accuracy (acc1) between arms, paired by image",
        ("evaluation set", "arm", "scheme", "C_m", "− C_m 0 of the same start",
         "− untouched model", "images"),
        tuple(rows),
        "With 95 % intervals and p over images and seeds, which stay paired: what other images and "
        "other seeds would change.",
        folded=True,
    )  # fmt: skip


def _prompts(tables: Tables, rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows that know the prompts of the same sets."""
    table = tables.zeroshot
    selected = table[(table["metric"] == "acc1")
                & table["evaluation_set"].isin(rows["evaluation_set"])]  # fmt: skip
    return rows if selected.empty else selected


def _difference(row: dict[str, Any]) -> str:
    value, low, high, p = (float(row[name]) for name in ("value", "low", "high", "p"))
    limits = interval(low, high, 3, sign=True)
    return f"{number(value, 3, sign=True)} ({limits}; {p_value(p)})".replace(" ", "\u00a0")


def _trends(tables: Tables, alpha: float) -> Table:
    rows = []
    for scheme in tables.schemes:
        part = tables.of_scheme(scheme)
        for start in _starts(pd.concat([part.purity[["start"]], part.zeroshot[["start"]]])):
            results = [
                (f"mean |cos|, {tower} projection", 4,
                 purity_series(part, start, tower, "mean_abs_cosine"))
                for tower in ("text", "image")
            ]  # fmt: skip
            for metric, label in SCORES.items():
                results += [
                    (f"{label} on {name}", 3, zeroshot_series(part, start, metric, name))
                    for name in _names(part.zeroshot)
                ]
            for label, digits, series in results:
                if series.dropna()["rate"].nunique() > 1:
                    rows.append((
                        label, start, scheme, ends_text(series, digits),
                        trend_words(run_trend(series), alpha),
                        count(series.dropna()["seed"].nunique(), "seed"),
                    ))  # fmt: skip
    return Table(
        "Trends with C_m, in words",
        ("measure", "arm", "scheme", "from the lowest to the highest C_m", "trend",
         "seeds"),
        tuple(rows),
        f"Rises or falls at α = {alpha:g}, by Spearman's rank correlation within seeds against "
        "permutations; single tests, not corrected for their number. "
        f"Accuracy: {protocol_phrase(tables)}.",
        section="What carries the effect",
        folded=True,
    )  # fmt: skip
