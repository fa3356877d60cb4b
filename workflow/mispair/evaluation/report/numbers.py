"""Every number of arms and models on evaluation sets, as the rows of one table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from mispair.core.words import interval, number, p_value
from mispair.evaluation.report import arm_words, checkpoints
from mispair.evaluation.report.checkpoints import published_name
from mispair.evaluation.selection import OF_CATEGORY
from mispair.evaluation.set_names import canonical
from mispair.report import published, style
from mispair.report.table import or_dash
from mispair.report.tables import Tables, of_protocol, records

UNNAMED = "the frozen model"
"""Name of the model of the image-text study if only its projections were measured."""

HEADS = (
    "model", "projections", "scheme", "C_m", "set", "protocol", "metric", "part",
    "value", "± or 95 % interval", "runs", "n", "chance", "published",
)  # fmt: skip
"""Heads of the cells of a row. The page has a filter for each head before ``value``."""

KEYS = ["towers", "start", "scheme", "rate", "evaluation_set", "protocol", "metric", "part"]
"""Columns that distinguish the rows."""

HEADLINE, MEASURE, CHANGE, PART = range(4)
"""Kinds of rows. A page with a limit of rows leaves out the last kinds first."""

OF_PROJECTIONS = ("mean_abs_cosine", "participation_ratio")
OF_SETS = ("acc1", "silhouette")
DIAGNOSTICS = "^(?:label_check|class_without|classes_without)"
"""Metrics that check a class list."""


def set_names(tables: Tables) -> list[str]:
    """Return the names of all evaluation sets, sorted."""
    with_sets = (tables.zeroshot, tables.pruning, tables.exported, tables.checkpoints)
    return sorted({name for table in with_sets for name in table["evaluation_set"].dropna()})


def main_model(tables: Tables) -> str:
    """Return the name of the model of the image-text study; empty if the study was not run."""
    for table in (tables.zeroshot, tables.pruning, tables.exported):
        for name in table["towers"].dropna():
            return str(name)
    return UNNAMED if tables.study("image_text") else ""


def compared_models(tables: Tables) -> list[str]:
    """Return the names of the models that are compared without fine-tuning."""
    return sorted({*tables.checkpoints["towers"].dropna(), *checkpoints.facts(tables)})


def numbers(tables: Tables) -> pd.DataFrame:
    """Return a row for each number, sorted by set, kind, metric, protocol, part, model and arm.

    Returns
    -------
    DataFrame
        `KEYS`; ``kind``; ``value``, the mean over ``runs`` (seeds); ``deviation``, their
        standard deviation; ``low``, ``high`` and ``p`` of a single row; ``n`` images, captions or
        pairs of neurons; ``chance``; ``published``. ``part`` is a tower, the reference of a change,
        or a class, group or category of images.
    """
    columns = [*KEYS, "kind", "value", "low", "high", "p", "seeds", "n", "chance"]
    purity = tables.purity[tables.purity["metric"].isin(OF_PROJECTIONS)]
    frames = [purity, _means(tables), _scores(tables), tables.comparisons, tables.checkpoints]
    rows = pd.concat(frames, ignore_index=True)
    rows = rows[~rows["metric"].str.contains(DIAGNOSTICS)].reset_index(drop=True)
    part = (rows["tower"] + " tower").fillna("against " + rows["reference"])
    first = (rows["metric"] == rows["headline"].fillna("acc1")) | rows["tower"].notna()
    kinds = [rows["classname"].notna(), rows["reference"].notna(),
             first | (rows["metric"] == "silhouette")]  # fmt: skip
    rows = rows.assign(
        part=part.fillna(rows["classname"]),
        kind=np.select(kinds, [PART, CHANGE, HEADLINE], MEASURE),
        towers=rows["towers"].fillna(main_model(tables)),
    )[columns]
    grouped = rows.groupby([*KEYS, "kind"], dropna=False)
    names = ("low", "high", "p", "seeds", "n", "chance")
    table = grouped[[*names]].first().assign(
        value=grouped["value"].mean(), deviation=grouped["value"].std(), n=grouped["n"].max()
    )  # fmt: skip
    size = grouped.size()
    table.loc[size > 1, ["low", "high"]] = math.nan
    table["runs"] = table.pop("seeds").fillna(size)
    table = _sorted(tables, table.reset_index())
    return table.assign(published=_published(tables, table))


def _means(tables: Tables) -> pd.DataFrame:
    """Return the mean over the evaluation sets of each arm and seed, if there are several sets."""
    table = tables.main_zeroshot
    table = table[table["metric"].isin(OF_SETS) & table["classname"].isna()]
    sets = table["evaluation_set"].nunique()
    keys = ["towers", "start", "scheme", "rate", "protocol", "metric", "seed"]
    means = table.groupby(keys, dropna=False)["value"].mean().reset_index()
    return means.assign(evaluation_set=f"mean of {sets} sets") if sets > 1 else means[:0]


def _scores(tables: Tables) -> pd.DataFrame:
    """Return the scores of whole sets, and of their parts by the main protocol.

    Parts are of the untouched model and, in the main scheme, of both ends of C_m.
    """
    main = of_protocol(tables.of_scheme().zeroshot)
    tuned = main["start"] == "pretrained"
    rates = main.loc[tuned, "rate"]
    shown = (main["start"] == "untouched") | (tuned & rates.isin([rates.min(), rates.max()]))
    whole = tables.zeroshot[tables.zeroshot["classname"].isna()]
    return pd.concat([whole, main[shown & main["classname"].notna()]])


def _sorted(tables: Tables, table: pd.DataFrame) -> pd.DataFrame:
    arms = [arm_words.key(arm) for arm in arm_words.arms(table)]
    places = {arm: place for place, arm in enumerate(arms)}
    protocols = {name: place for place, name in enumerate(tables.protocols)}
    keys = table.assign(
        arm=[places.get(arm_words.key(row), -1) for row in records(table)],
        prompts=table["protocol"].map(protocols).fillna(len(protocols)),
        compared=table["towers"] != main_model(tables),
    )
    order = ["evaluation_set", "kind", "metric", "prompts", "protocol", "part", "compared",
             "towers", "arm"]  # fmt: skip
    return table.loc[keys.sort_values(order, na_position="first").index].reset_index(drop=True)


def _published(tables: Tables, table: pd.DataFrame) -> list[float]:
    """Return the published numbers: of tables 2 to 4, and of SugarCrepe by OpenAI's ViT-B/32."""
    of_models = {
        (score.towers, score.evaluation_set, score.protocol, score.metric): score.published
        for measure in checkpoints.COLUMNS
        for score in checkpoints.scores(tables, measure)
    }
    of_arms = {
        (row["dataset"], row["shuffle_probability"], measure): float(row[column])
        for row in records(published.table4())
        for measure, column in checkpoints.COLUMNS.items()
    }
    categories = published.sugarcrepe()
    values = []
    for row in records(table):
        name, metric = _text(row["evaluation_set"]), row["metric"]
        protocol = _text(row["protocol"]) or None
        value = of_models.get((row["towers"], name, protocol, metric), math.nan)
        if row["start"] == "pretrained" and (row["scheme"] == "random" or row["rate"] == 0):
            value = of_arms.get((published_name(name) or "", row["rate"], metric), math.nan)
        if metric == OF_CATEGORY and canonical(name) == "sugarcrepe":
            value = float(categories.get(row["part"], math.nan))
        values.append(value)
    return values


def _text(value: object, missing: str = "") -> str:
    return value if isinstance(value, str) else missing


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a row of `numbers` as the cells below `HEADS`."""
    metric, value = row["metric"], row["value"]
    digits = 1 if abs(value) >= 10 else 4 if metric == "mean_abs_cosine" else 3
    signed = row["kind"] == CHANGE
    spread = "–"
    if math.isfinite(row["low"] + row["high"]):
        spread = interval(row["low"], row["high"], digits, sign=signed)
        spread += f", {p_value(row['p'])}" if math.isfinite(row["p"]) else ""
    elif math.isfinite(row["deviation"]):
        spread = f"± {number(row['deviation'], digits)}"
    start = _text(row["start"], "–")
    return (
        row["towers"], style.START_LABELS.get(start, start), _text(row["scheme"], "–"),
        f"{row['rate']:g}" if math.isfinite(row["rate"]) else "–",
        *(_text(row[key], "–") for key in ("evaluation_set", "protocol", "metric", "part")),
        or_dash(value, digits, signed), spread.replace(" ", "\u00a0"), f"{row['runs']:.0f}",
        f"{row['n']:,.0f}" if math.isfinite(row["n"]) else "–", or_dash(row["chance"], 3),
        or_dash(row["published"], digits),
    )  # fmt: skip
