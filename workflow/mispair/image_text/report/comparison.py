"""Tables of the image-text study: measured next to published numbers, with their differences."""

from __future__ import annotations

import math

from mispair.evaluation.report import claims_pruning
from mispair.evaluation.report.protocols import named, protocol_phrase
from mispair.evaluation.report.series import purity_series, zeroshot_series
from mispair.report import published, style
from mispair.report.table import Table, mean_and_spread, or_dash
from mispair.report.tables import Tables


def image_text(tables: Tables) -> list[Table]:
    """Return the comparisons of the main scheme; tables without a measurement are left out."""
    tables = tables.of_scheme().of_protocol()
    candidates = [
        _overlap(tables),
        _scores(tables),
        _sets(tables, "acc1", "Accuracy"),
        _sets(tables, "silhouette", "Silhouette"),
        _pruned(tables),
    ]
    return [table for table in candidates if table.rows]


def _overlap(tables: Tables) -> Table:
    text = purity_series(tables, "pretrained", "text", "mean_abs_cosine")
    image = purity_series(tables, "pretrained", "image", "mean_abs_cosine")
    expected = published.purity().set_index("shuffle_probability")["mean_abs_cosine"]
    rows = []
    means = text.groupby("rate")["value"].mean()
    for rate in sorted(set(text["rate"]) | set(image["rate"])):
        measured, printed = (
            means.get(rate, math.nan),
            expected.get(rate, math.nan),
        )
        ours, their = (
            measured / means.get(0.0, math.nan),
            printed / expected[0.0],
        )
        rows.append((
            f"{rate:g}",
            mean_and_spread(text.loc[text["rate"] == rate, "value"], 4),
            mean_and_spread(image.loc[image["rate"] == rate, "value"], 4),
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
    for metric, column in (("acc1", "accuracy"), ("silhouette", "silhouette")):
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
        f"Accuracy: {protocol_phrase(tables)}. The data sets are other ones, so changes are "
        "compared and levels are not.",
    )  # fmt: skip


def _sets(tables: Tables, metric: str, title: str) -> Table:
    table = tables.zeroshot
    selected = table[table["metric"] == metric]
    rates = sorted(selected["rate"].dropna().unique())
    rows = []
    for name in sorted(selected["evaluation_set"].dropna().unique()):
        of_set = selected[selected["evaluation_set"] == name]
        untouched = of_set.loc[of_set["start"] == "untouched", "value"]
        for start in [start for start in style.FINE_TUNED if start in set(selected["start"])]:
            tuned = of_set[of_set["start"] == start]
            cells = [
                mean_and_spread(tuned.loc[tuned["rate"] == rate, "value"], 3, counted=False)
                for rate in rates
            ]
            chance = of_set["chance"].max()
            label = f"{name} ({named(of_set)})" if metric != "silhouette" else name
            rows.append((label, start, or_dash(chance, 3),
                         mean_and_spread(untouched, 3, counted=False), *cells))  # fmt: skip
    return Table(
        f"{title} on every evaluation set: mean ± 1 standard deviation over seeds"
        + (f" ({protocol_phrase(tables, metric)})" if metric != "silhouette" else ""),
        ("evaluation set", "arm", "chance", "untouched",
         *(f"C_m {rate:g}" for rate in rates)),
        tuple(rows),
        folded=True,
    )  # fmt: skip


def _pruned(tables: Tables) -> Table:
    arm = claims_pruning.pruned_arm(tables.pruning)
    arm = arm[arm["value"].notna()]
    expected = published.pruning().groupby("strategy")["accuracy"].mean()
    rows = []
    below = claims_pruning.kept_below_full(arm)
    for tower in ("text", "image", "both"):
        scores = claims_pruning.strategy_scores(below, "acc1", ranked_by=tower)
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
