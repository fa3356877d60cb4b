"""Figures of pruning: accuracy and silhouette with k of the neurons.

Embeddings are masked as in the authors' code; renormalised ones have a separate figure.
"""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.evaluation.report.protocols import set_title
from mispair.evaluation.report.pruning import (
    BASELINES,
    MASKED,
    RENORMALISED,
    in_own_basis,
    pruned_arm,
    ranked_by_tower,
)
from mispair.report import charts, small, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables, mean_by

METRICS = {"acc1": "acc1 (share of images)", "silhouette": "Silhouette (cosine)"}
RANKINGS = {"text": "ranked by text", "image": "ranked by image", "both": "ranked by both"}
PURITY = ("high-purity", "random", "low-purity")


def _hole(tables: Tables) -> Hole:
    return Hole(Note("evaluation", "hole_pruning", ran=tables.study("image_text")))


def _mean_of_sets(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Average scores over evaluation sets and seeds; a set with a missing score is left out."""
    gaps = table.groupby(["metric", "evaluation_set"])["value"].transform(
        lambda values: values.isna().any()
    )
    return mean_by(table[~gaps.astype(bool)], [*keys, "draw"])


def _with_random_everywhere(table: pd.DataFrame, field: str, names: list[str]) -> pd.DataFrame:
    """Repeat the random draws in every panel: they do not depend on the ranking."""
    random = table[table["strategy"] == "random"]
    ranked = table[(table["strategy"] != "random") & table[field].isin(names)]
    return pd.concat(
        [ranked, *(random.assign(**{field: name}) for name in names)], ignore_index=True
    )


def pruning(tables: Tables) -> Drawing | Hole:
    """Mean of the sets against k: rankings by text, image and both; accuracy and silhouette."""
    arm = pruned_arm(tables.pruning)
    arm = arm[in_own_basis(arm) & arm["strategy"].isin(PURITY)]
    if arm["value"].notna().sum() == 0:
        return _hole(tables)
    names = [name for name in RANKINGS if name in set(arm["ranked_by"])]
    table = _mean_of_sets(
        _with_random_everywhere(arm, "ranked_by", names), ["metric", "ranked_by", "strategy", "k"]
    )
    data = charts.summary(table, ["metric", "ranked_by", "strategy", "k"])
    panels = [
        _panel(f"datum.metric == '{metric}' && datum.ranked_by == '{name}'",
               f"{metric}_{name}", title, RANKINGS[name].capitalize(), list(PURITY), data)
        for name in names
        for metric, title in METRICS.items() if metric in set(data["metric"])
    ]  # fmt: skip
    return _drawing(panels, data, data["metric"].nunique())


LABELS = {"high-purity": "little", "random": "random", "low-purity": "much"}
"""Strategies by the overlap of the neurons that are kept."""


def small_pruning(tables: Tables) -> Drawing | Hole:
    """Draw accuracy against k, mean of the sets, neurons ranked by the text projection."""
    arm = pruned_arm(tables.pruning)
    arm = arm[in_own_basis(arm) & ranked_by_tower(arm, "text") & arm["strategy"].isin(PURITY)]
    arm = arm[(arm["metric"] == "acc1") & arm["value"].notna()]
    if arm.empty:
        return _hole(tables)
    means = _mean_of_sets(arm, ["metric", "strategy", "k"])
    runs = means.rename(columns={"k": "x", "strategy": "series"})[["series", "x", "value"]]
    chart, data = small.curves(
        runs, "Neurons kept", "Accuracy (share)", colours=style.STRATEGIES, labels=LABELS,
        legend="Overlap", least=small.LEAST_FALL,
    )  # fmt: skip
    return Drawing(chart, data)


def pruning_by_set(tables: Tables) -> Drawing | Hole:
    """acc1 against k on every evaluation set, ranked by text."""
    arm = pruned_arm(tables.pruning)
    shown = in_own_basis(arm) & ranked_by_tower(arm, "text") & arm["strategy"].isin(PURITY)
    selected = arm[shown & (arm["metric"] == "acc1")]
    selected = selected[selected["value"].notna()]
    if selected.empty:
        return _hole(tables)
    keys = ["evaluation_set", "strategy", "k"]
    data = charts.summary(mean_by(selected, [*keys, "draw"]), keys)
    names = sorted(data["evaluation_set"].unique())
    columns = min(3, len(names))
    panels = [
        _panel(alt.FieldEqualPredicate(field="evaluation_set", equal=name),
               f"set_{number}", METRICS["acc1"],
               set_title(tables, "acc1", name), list(PURITY), data, width=260)
        for number, name in enumerate(names)
    ]  # fmt: skip
    return _drawing(panels, data, columns)


def pruning_controls(tables: Tables) -> Drawing | Hole:
    """Rotated bases, and rankings by activation variance and column norm; mean of the sets."""
    arm = pruned_arm(tables.pruning)
    arm = arm[(arm["metric"] == "acc1") & arm["value"].notna()]
    text, rotated = ranked_by_tower(arm, "text"), ~in_own_basis(arm)
    drawn = arm["strategy"] == "random"
    parts = {"In randomly rotated bases": arm[rotated & text & arm["strategy"].isin(PURITY)]}
    for baseline, what in BASELINES.items():
        ranked = arm["strategy"].str.endswith(f"-{baseline}")
        if ranked.any():
            parts[f"By {what}, text tower"] = arm[~rotated & text & (ranked | drawn)]
    parts = {name: rows for name, rows in parts.items() if len(rows)}
    if not parts:
        return _hole(tables)
    keys = ["control", "strategy", "k"]
    means = [
        mean_by(rows.assign(control=name), [*keys, "basis", "draw"]) for name, rows in parts.items()
    ]
    data = charts.summary(pd.concat(means, ignore_index=True), keys)
    panels = [
        _panel(f"datum.control == '{name}'", f"control_{position}",
               METRICS["acc1"], name, list(style.STRATEGIES), data,
               width=260)
        for position, name in enumerate(parts)
    ]  # fmt: skip
    return _drawing(panels, data, 3)


def pruning_renormalised(tables: Tables) -> Drawing | Hole:
    """Accuracy of masked embeddings (solid) against renormalised ones (dashed), by text and both.

    The silhouette is the same for both: cosines do not depend on lengths.
    """
    arms = {name: pruned_arm(tables.pruning, name) for name in (MASKED, RENORMALISED)}
    arms = {name: rows[(rows["metric"] == "acc1") & rows["value"].notna()]
            for name, rows in arms.items()}  # fmt: skip
    if any(arm.empty for arm in arms.values()):
        masked = not arms[MASKED].empty
        return Hole(Note("evaluation", "hole_renormalised")) if masked else _hole(tables)
    arm = pd.concat([rows.assign(normalised=name) for name, rows in arms.items()])
    rows = arm[in_own_basis(arm) & arm["strategy"].isin(PURITY)]
    names = [name for name in ("text", "both") if name in set(rows["ranked_by"])]
    keys = ["ranked_by", "normalised", "metric", "strategy", "k"]
    table = _mean_of_sets(_with_random_everywhere(rows, "ranked_by", names), keys)
    data = charts.summary(table, keys)
    panels = [_dashed_panel(name, data) for name in names]
    return _drawing(panels, data, 2)


def _dashed_panel(ranking: str, data: pd.DataFrame) -> charts.Panel:
    present = [name for name in PURITY if name in set(data["strategy"])]
    base = alt.Chart().encode(
        x=charts.x_axis("k", "Neurons kept k", sorted(data["k"].unique())),
        y=charts.y_axis(METRICS["acc1"]),
        color=charts.colour("strategy", "Neurons kept", style.STRATEGIES, present),
        strokeDash=alt.StrokeDash(
            "normalised:N", title="Embedding",
            scale=alt.Scale(domain=[MASKED, RENORMALISED], range=[[1, 0], [5, 4]]),
        ),
        opacity=charts.fade(1),
        tooltip=charts.tips("strategy:N:kept", "normalised:N:embedding", "k:Q:k",
                            "value:Q:mean", "n:Q:draws"),
    )  # fmt: skip
    line = base.mark_line(point=alt.OverlayMarkDef(size=30)).properties(
        name=f"{charts.VIEW}dashed_{ranking}"
    )
    layered = alt.layer(line).transform_filter(f"datum.ranked_by == '{ranking}'")
    return layered.properties(
        width=charts.WIDTH, height=charts.HEIGHT, title=RANKINGS[ranking].capitalize()
    )


def _panel(
    where: str | alt.FieldEqualPredicate, name: str, y_title: str | None,
    title: str | alt.TitleParams,
    strategies: list[str], data: pd.DataFrame, width: int = charts.WIDTH,
) -> charts.Panel:  # fmt: skip
    present = [s for s in strategies if s in set(data["strategy"])]
    base = alt.Chart().encode(
        x=charts.x_axis("k", "Neurons kept k", sorted(data["k"].unique())),
        y=charts.y_axis(y_title),
        color=charts.colour("strategy", "Neurons kept", style.STRATEGIES, present),
    )
    tips = charts.tips("strategy:N:kept", "k:Q:k", "value:Q:mean", "low:Q:−1 s.d.",
                       "high:Q:+1 s.d.", "n:Q:draws")  # fmt: skip
    line = base.mark_line(point=alt.OverlayMarkDef(size=40))
    line = line.encode(opacity=charts.fade(1), tooltip=tips)
    parts = [line.properties(name=f"{charts.VIEW}{name}")]
    if charts.limited(data):
        parts.insert(0, charts.band(base, 0.22))
    layered = alt.layer(*parts).transform_filter(where)
    return layered.properties(width=width, height=190, title=title)


def _drawing(panels: list[charts.Panel], data: pd.DataFrame, columns: int) -> Drawing:
    return Drawing(charts.side_by_side(panels, columns, data), data, toggle="strategy")
