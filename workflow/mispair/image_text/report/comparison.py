"""Tables of the image-text study: measured next to published numbers, and arms next to arms."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from mispair.core.words import interval, number, p_value
from mispair.evaluation.report import pruning
from mispair.evaluation.report.arm_words import spread
from mispair.evaluation.report.checkpoints import published_name
from mispair.evaluation.report.protocols import HASHES, named, of_metric, protocol_phrase
from mispair.evaluation.report.series import purity_series, zeroshot_series
from mispair.report import published, style
from mispair.report.table import Table, mean_and_spread, or_dash
from mispair.report.tables import Tables, records

SCORES = {"acc1": "accuracy", "silhouette": "silhouette"}
REFERENCES = ("rate 0", "untouched")
OTHERS = "mean of all"


def image_text(tables: Tables) -> list[Table]:
    """Return the comparisons of the main scheme."""
    tables = tables.of_scheme().of_protocol()
    return [
        _overlap(tables),
        _scores(tables),
        _sets(tables, "acc1", "Accuracy"),
        _sets(tables, "silhouette", "Silhouette"),
        _pruned(tables),
    ]


def _overlap(tables: Tables) -> Table:
    text = purity_series(tables, "pretrained", "text", "mean_abs_cosine")
    image = purity_series(tables, "pretrained", "image", "mean_abs_cosine")
    expected = published.purity().set_index("shuffle_probability")["mean_abs_cosine"]
    rows = []
    means = text.groupby("rate")["value"].mean()
    for rate in sorted(set(text["rate"]) | set(image["rate"])):
        printed = expected.get(rate, math.nan)
        ours = means.get(rate, math.nan) / means.get(0.0, math.nan)
        their = printed / expected[0.0]
        rows.append((
            f"{rate:g}",
            spread(text, 4, counted=True, rate=rate), spread(image, 4, counted=True, rate=rate),
            or_dash(printed, 4), or_dash(ours, 2), or_dash(their, 2),
            or_dash(ours - their, 2, sign=True),
        ))  # fmt: skip
    return Table(
        "Mean |cos| of neuron pairs, fine-tuned from pre-trained projections",
        ("C_m", "text, measured", "image, measured", "text, published (CC3M)",
         "measured ÷ its C_m = 0", "published ÷ its C_m = 0", "difference of the two"),
        tuple(rows),
        "Models differ in width and data, so levels are compared relative to C_m = 0.",
    )  # fmt: skip


def _scores(tables: Tables) -> Table:
    expected = published.table4().groupby("shuffle_probability")[["accuracy", "silhouette"]].mean()
    rows = []
    for metric, column in SCORES.items():
        series = zeroshot_series(tables, "pretrained", metric).dropna()
        means = series.groupby("rate")["value"].mean()
        for rate, values in series.groupby("rate")["value"]:
            measured = means[rate] - means.get(0.0, math.nan)
            printed = expected[column].get(rate, math.nan)
            their = printed - expected[column][0.0]
            rows.append((
                column, f"{rate:g}", mean_and_spread(values, 3), or_dash(printed, 3),
                or_dash(measured, 3, sign=True), or_dash(their, 3, sign=True),
                or_dash(measured - their, 3, sign=True),
            ))  # fmt: skip
    return Table(
        "Mean over evaluation sets, fine-tuned from pre-trained projections (table 4)",
        ("measure", "C_m", "measured", "published (CC3M, 6 data sets)", "measured − its C_m = 0",
         "published − its C_m = 0", "difference of the two"),
        tuple(rows),
        f"Accuracy: {protocol_phrase(tables)}. The data sets differ, so changes are compared and "
        "levels are not.",
    )  # fmt: skip


def _sets(tables: Tables, metric: str, title: str) -> Table:
    table = tables.zeroshot
    selected = table[table["metric"] == metric]
    rates = sorted(selected["rate"].dropna().unique())
    rows = []
    for name in sorted(selected["evaluation_set"].dropna().unique()):
        of_set = selected[selected["evaluation_set"] == name]
        for start in [start for start in style.FINE_TUNED if start in set(selected["start"])]:
            cells = [spread(of_set, 3, start=start, rate=rate) for rate in rates]
            chance = of_set["chance"].max()
            label = f"{name} ({named(of_set)})" if metric != "silhouette" else name
            rows.append((label, start, or_dash(chance, 3),
                         spread(of_set, 3, start="untouched"), *cells))  # fmt: skip
    return Table(
        f"{title} on every evaluation set: mean ± 1 standard deviation over seeds"
        + (f" ({protocol_phrase(tables, metric)})" if metric != "silhouette" else ""),
        ("evaluation set", "arm", "chance", "untouched",
         *(f"C_m {rate:g}" for rate in rates)),
        tuple(rows),
        folded=True,
    )  # fmt: skip


def _pruned(tables: Tables) -> Table:
    arm = pruning.pruned_arm(tables.pruning)
    arm = arm[arm["value"].notna()]
    expected = published.pruning().groupby("strategy")["accuracy"].mean()
    rows = []
    below = pruning.kept_below_full(arm)
    for tower in ("text", "image", "both"):
        scores = pruning.strategy_scores(below, "acc1", ranked_by=tower)
        means = scores.groupby("strategy")["value"]
        random = means.mean().get("random", math.nan)
        for strategy in style.STRATEGIES:
            if strategy not in means.groups:
                continue
            of_strategy = means.get_group(strategy)
            published_value = expected.get(strategy, math.nan)
            gain, their = of_strategy.mean() - random, published_value - expected["random"]
            rows.append((
                tower, strategy, mean_and_spread(of_strategy, 3), or_dash(gain, 3, sign=True),
                or_dash(published_value, 3), or_dash(their, 3, sign=True),
                or_dash(gain - their, 3, sign=True),
            ))  # fmt: skip
    return Table(
        "Accuracy with k neurons kept, mean over k and evaluation sets (n counts draws)",
        ("ranked by", "strategy", "measured", "measured − random", "published (CIFAR-10)",
         "published − random", "difference of the two"),
        tuple(rows),
        f"Measured: {protocol_phrase(tables)}. Published: k of 512 neurons, 200 to 500, ranked by "
        "the text projection, one random draw.",
    )  # fmt: skip


# Every start at every rate of every scheme -------------------------------------------------------


def shuffling(tables: Tables) -> list[Table]:
    """Return table 4 with measured numbers, the paired differences, and the trends.

    Every start has them at every rate of every scheme.
    """
    tables = tables.of_protocol()
    return [_table4(tables), _differences(tables)]


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
                        float(printed[column].get((dataset or OTHERS, rate), math.nan))
                        if compared
                        else math.nan
                        for column in SCORES.values()
                    ]
                    measured = [
                        spread(each, 3, counted=True, rate=rate) for each in series.values()
                    ]
                    rows.append((
                        label, start, scheme, f"{rate:g}",
                        measured[0], or_dash(expected[0], 3), measured[1], or_dash(expected[1], 3),
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
        scored = of_metric(tables, "acc1", name)
        rows.append((f"{name} ({named(group if scored.empty else scored)})", start, scheme,
                     f"{float(rate):g}", *cells, f"{group['n'].max():,.0f}"))  # fmt: skip
    return Table(
        "Differences in accuracy (acc1) between arms, paired by image",
        ("evaluation set", "arm", "scheme", "C_m", "− C_m 0 of the same start",
         "− untouched model", "images"),
        tuple(rows),
        "With 95 % intervals and p over images and seeds, which stay paired: they cover the choice "
        "of images and of seeds.",
        folded=True,
    )  # fmt: skip


def _difference(row: dict[str, Any]) -> str:
    value, low, high, p = (float(row[name]) for name in ("value", "low", "high", "p"))
    limits = interval(low, high, 3, sign=True)
    return f"{number(value, 3, sign=True)} ({limits}; {p_value(p)})".replace(" ", "\u00a0")
