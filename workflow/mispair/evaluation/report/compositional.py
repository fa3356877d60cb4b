"""Tables of compositional sets: choice of an image's caption, with and without the image."""

from __future__ import annotations

import math

import pandas as pd

from mispair.evaluation.report.arm_words import UNFOLDED, by_metric, cell, model_label, models
from mispair.evaluation.report.protocols import short
from mispair.evaluation.selection import BLIND, BLIND_OF_CATEGORY, MACRO, OF_CATEGORY, SELECTION
from mispair.evaluation.set_names import canonical
from mispair.report import published
from mispair.report.table import Table, or_dash, whole

SECTION = "Compositional sets"

TIES = "selection_ties"
PAIRED = {"text_score": "text score", "image_score": "image score", "group_score": "group score"}
"""Further metrics of `mispair.evaluation.selection`."""

ABOUT = (
    "Share of images for which the true caption is the most similar one; ties count half. Blind: "
    "the mean of all images instead of each, so only words matter. A blind score that differs from "
    "chance, in either direction, is no sign that the model sees. "
)


def compositional(table: pd.DataFrame) -> list[Table]:
    """Return the scores of every arm or checkpoint, and those of every category.

    The rows are zero-shot numbers.
    """
    return [_scores(table), _categories(table)]


def _scores(table: pd.DataFrame) -> Table:
    chosen = table[table["metric"].isin([SELECTION, MACRO, BLIND, TIES, *PAIRED])]
    metrics = [name for name in (SELECTION, MACRO, *PAIRED, BLIND) if name in set(chosen["metric"])]
    heads = {SELECTION: "right choices", MACRO: "mean over categories", BLIND: "blind", **PAIRED}
    rows = []
    for arm, arm_rows in models(chosen, "evaluation_set"):
        of_arm = by_metric(arm_rows)
        if SELECTION not in of_arm:
            continue
        questions = of_arm[SELECTION]
        rows.append((
            f"{arm['evaluation_set']} (captions {short(arm['fingerprint'])})", model_label(arm),
            whole(questions["n"].max()), or_dash(questions["chance"].mean()),
            *(cell(of_arm, name) for name in metrics),
            or_dash(100 * of_arm[TIES]["value"].mean(), 2),
        ))  # fmt: skip
    return Table(
        "Choice of the true caption",
        ("set", "model", "images", "chance", *(heads[name] for name in metrics), "ties (%)"),
        tuple(rows),
        ABOUT + "One run has a 95 % interval, in which questions about one picture count once; "
        "several have mean ± 1 standard deviation over seeds.",
        folded=len(rows) > UNFOLDED,
        section=SECTION,
    )


def _categories(table: pd.DataFrame) -> Table:
    """Return a row for each category; arms are the untouched model and both ends of C_m."""
    chosen = table[table["metric"].isin([OF_CATEGORY, BLIND_OF_CATEGORY])]
    if "start" in chosen:
        tuned = chosen[chosen["start"] == "pretrained"]
        ends = tuned["rate"].isin([tuned["rate"].min(), tuned["rate"].max()])
        chosen = pd.concat([chosen[chosen["start"] == "untouched"], tuned[ends]])
    rows, heads = [], ["set", "category", "model", "images", "chance", "right choices", "blind"]
    printed = published.sugarcrepe()
    is_printed = any(_is_sugarcrepe(name) for name in chosen["evaluation_set"].unique())
    if is_printed:
        heads.append("published, OpenAI ViT-B/32")
    for (name, category), of_category in chosen.groupby(["evaluation_set", "classname"]):
        published_value = (
            float(printed.get(category, math.nan)) if _is_sugarcrepe(name) else math.nan
        )
        for arm, arm_rows in models(of_category, "evaluation_set"):
            of_arm = by_metric(arm_rows)
            right = of_arm[OF_CATEGORY]
            rows.append((
                str(name), str(category), model_label(arm), whole(right["n"].max()),
                or_dash(right["chance"].mean()), cell(of_arm, OF_CATEGORY),
                cell(of_arm, BLIND_OF_CATEGORY),
                *((or_dash(published_value, 4),) if is_printed else ()),
            ))  # fmt: skip
    return Table(
        "Choice of the true caption, by category",
        tuple(heads),
        tuple(rows),
        ABOUT + "A category at chance shows nothing: it cannot fall.",
        folded=True,
        section=SECTION,
    )


def _is_sugarcrepe(name: object) -> bool:
    return canonical(str(name)) == "sugarcrepe"
