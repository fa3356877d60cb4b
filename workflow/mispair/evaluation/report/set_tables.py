"""Tables of the page of one evaluation set: every arm and every model on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from mispair.core.words import interval, number, p_value
from mispair.evaluation.report import arm_words, compositional
from mispair.evaluation.report.checkpoints import Score
from mispair.evaluation.report.comparison_evaluation import retrieval
from mispair.evaluation.report.protocols import short
from mispair.report.table import Table, mean_and_spread, or_dash
from mispair.report.tables import Tables, of_protocol, protocols

LONGEST = 100
"""Classes that are listed; of more, those whose recall changes most."""


def set_names(tables: Tables) -> list[str]:
    """Return the names of all evaluation sets, sorted."""
    of_kinds = (tables.zeroshot, tables.pruning, tables.exported, tables.checkpoints)
    return sorted({name for table in of_kinds for name in table["evaluation_set"].dropna()})


def of_set(tables: Tables, scores: Sequence[Score], name: str) -> list[Table]:
    """Return the tables of a set's page; without empty ones."""
    zeroshot = _own(tables.zeroshot, name)
    choices, of_categories = compositional.compositional(zeroshot, _label, "")
    candidates = [
        _facts(zeroshot, _own(tables.checkpoints, name)),
        _arms(zeroshot),
        _changes(_own(tables.comparisons, name)),
        replace(choices, folded=False),
        of_categories,
        retrieval(zeroshot, _label, ""),
        _models([score for score in scores if score.evaluation_set == name]),
        _classes(zeroshot),
    ]
    return [table for table in candidates if table.rows]


def _label(arm: dict[str, Any]) -> str:
    return ", ".join(arm_words.cells(arm))


def _own(table: pd.DataFrame, name: str) -> pd.DataFrame:
    return table[table["evaluation_set"] == name]


def _facts(zeroshot: pd.DataFrame, compared: pd.DataFrame) -> Table:
    table = pd.concat([zeroshot, compared])
    rows = []
    for protocol, group in table.dropna(subset=["protocol"]).groupby("protocol"):
        prints = ", ".join(short(value) for value in sorted(group["fingerprint"].dropna().unique()))
        classes = group.loc[group["metric"] == "class_recall", "classname"].nunique()
        rows.append((
            str(protocol), f"{group['n'].max():,.0f}" if group["n"].notna().any() else "–",
            f"{classes:,}" if classes else "–", or_dash(group["chance"].min(), 3),
            ", ".join(sorted(group["headline"].dropna().unique())) or "–", prints or "–",
        ))  # fmt: skip
    return Table(
        "What is asked of this set",
        ("protocol", "images or captions", "classes with images", "chance", "headline metric",
         "classes and prompts"),
        tuple(rows),
        "# is the hash of the class list and the prompts, its first eight digits.",
    )  # fmt: skip


def _arms(table: pd.DataFrame) -> Table:
    """Return the headline of every protocol, further measures of the main one, and silhouette."""
    names = protocols(table)
    main = of_protocol(table)
    columns: list[tuple[str, pd.DataFrame]] = []
    for name in names:
        of_name = table[table["protocol"] == name]
        metric = next(iter(of_name["headline"].dropna()), "acc1")
        columns.append((f"{metric}, {name}", of_name[of_name["metric"] == metric]))
    for metric, label in (
        ("acc5", "acc5"),
        ("mean_per_class_recall", "mean per class"),
        ("silhouette", "silhouette"),
        ("probe_acc1", "linear probe, acc1"),
    ):
        columns.append((label, main[main["metric"] == metric]))
    columns = [(label, values) for label, values in columns if values["value"].notna().any()]
    by_arm = [arm_words.by_arm(values) for _, values in columns]
    rows = [
        (*arm_words.cells(arm), *(_spread(of.get(arm_words.key(arm))) for of in by_arm))
        for arm in arm_words.arms(*(values for _, values in columns))
    ]
    return Table(
        "Every arm on this set: mean ± 1 standard deviation over seeds",
        (*arm_words.HEADS, *(label for label, _ in columns)),
        tuple(rows),
    )


def _spread(rows: pd.DataFrame | None) -> str:
    """Return mean ± deviation; what an arm was not measured on is a dash."""
    return "–" if rows is None else mean_and_spread(rows["value"], 3, counted=False)


def _changes(table: pd.DataFrame) -> Table:
    drawn = of_protocol(table)
    drawn = drawn[(drawn["reference"] == "untouched") & drawn["metric"].str.endswith("_difference")]
    rows = []
    by_arm = arm_words.by_arm(drawn)
    for arm in arm_words.arms(drawn):
        for _, row in by_arm[arm_words.key(arm)].sort_values("metric", kind="stable").iterrows():
            limits = interval(100 * row["low"], 100 * row["high"], 1, sign=True)
            value = number(100 * row["value"], 1, sign=True)
            metric = str(row["metric"]).removesuffix("_difference")
            rows.append((*arm_words.cells(arm), metric, value, limits, p_value(row["p"])))
    return Table(
        "Change against the untouched model (points)",
        (*arm_words.HEADS, "metric", "change", "95 % interval", "p"),
        tuple(rows),
        "Paired by image, over all seeds of an arm.",
        folded=True,
    )


def _classes(table: pd.DataFrame) -> Table:
    """Return the recall of every class of the model as it is, and at both ends of C_m."""
    main = of_protocol(table)
    recalls = main[main["metric"] == "class_recall"]
    arms, by_arm = arm_words.arms(recalls), arm_words.by_arm(recalls)
    tuned = [arm for arm in arms if arm["start"] == "pretrained"]
    tuned = [arm for arm in tuned if arm["scheme"] == tuned[0]["scheme"]]
    shown = [arm for arm in arms if arm["start"] == "untouched"][:1] + tuned[:1]
    shown += tuned[-1:] if len(tuned) > 1 else []
    if not shown:
        return Table("", (), ())
    means = [by_arm[arm_words.key(arm)].groupby("classname")["value"].mean() for arm in shown]
    wide = pd.concat(means, axis=1, keys=range(len(shown)))
    wide["n"] = recalls.groupby("classname")["n"].max()
    wide["change"] = wide[len(shown) - 1] - wide[0] if len(shown) > 1 else math.nan
    ranked = wide.reset_index(names="classname")
    ranked["size"] = -ranked["change"].abs()
    ranked = ranked.sort_values(["size", "classname"], kind="stable")
    rows = []
    for _, row in ranked[:LONGEST].iterrows():
        values = (or_dash(row[number_], 3) for number_ in range(len(shown)))
        rows.append((str(row["classname"]), or_dash(row["n"], 0), *values,
                     or_dash(row["change"], 3, sign=True)))  # fmt: skip
    heads = (" ".join(part for part in _class_head(arm) if part) for arm in shown)
    return Table(
        f"Recall by class ({len(wide):,} classes)",
        ("class", "images", *heads, "change"),
        tuple(rows),
        "Share of the images of a class that are given its name, by the main protocol"
        + (f"; the {LONGEST} classes that change most. " if len(wide) > LONGEST else ". ")
        + "All classes of all arms: metric class_recall in zeroshot.csv.",
        folded=len(rows) > 12,
    )


def _class_head(arm: dict[str, object]) -> tuple[str, ...]:
    start, scheme, rate = arm_words.cells(arm)
    return (start,) if rate == "–" else (start + ",", scheme, f"C_m {rate}")


def _models(scores: Sequence[Score]) -> Table:
    return Table(
        "Models that are compared as they are",
        ("model", *SCORE_HEADS),
        tuple((score.towers, *score_cells(score)) for score in scores),
    )


SCORE_HEADS = ("protocol", "measure", "measured", "95 % interval", "published", "difference")


def score_cells(score: Score) -> tuple[str, ...]:
    """Return a score of a model that is compared as it is, as cells below `SCORE_HEADS`."""
    is_share = score.measure == "acc1"
    factor, digits = (100, 1) if is_share else (1, 3)
    limits = interval(factor * score.low, factor * score.high, digits)
    return (
        score.protocol or "–",
        f"{score.metric} (%)" if is_share else score.metric,
        or_dash(factor * score.value, digits),
        limits if math.isfinite(score.low + score.high) else "–",
        or_dash(factor * score.published, digits),
        or_dash(factor * score.difference, digits, sign=True),
    )
