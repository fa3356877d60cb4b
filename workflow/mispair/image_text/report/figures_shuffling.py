"""The figures of the image-text study that follow the shuffle probability C_m."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from mispair.evaluation.report.protocols import set_title
from mispair.evaluation.report.series import TOWERS
from mispair.evaluation.selection import OF_CATEGORY, SELECTION
from mispair.report import charts, published, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables, mean_by


def missing(table: pd.DataFrame, reason: Note) -> Hole:
    """Return a hole with the given reason, or because the study was not run."""
    return Hole(Note("image_text", "hole_not_run") if table.empty else reason)


def purity_rows(tables: Tables, metrics: list[str]) -> pd.DataFrame:
    """Return one row for each arm, tower, seed and metric; rotations are averaged."""
    table = tables.purity
    rows = table[table["metric"].isin(metrics) & table["value"].notna()]
    rows = rows[rows["start"].isin(style.STARTS)]
    keys = ["start", "rate", "tower", "metric", "seed"]
    return mean_by(rows, keys)


def level_rules(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return the untouched model's values, which are drawn as level lines."""
    untouched = rows[rows["start"] == "untouched"]
    return mean_by(untouched, keys).assign(layer="untouched")


def purity_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Mean |cos| against C_m by tower, with its controls; the published curve apart."""
    rows = purity_rows(tables, ["mean_abs_cosine", "mean_abs_cosine_rotated", "random_reference"])
    overlaps = rows[rows["metric"] == "mean_abs_cosine"]
    tuned = overlaps[overlaps["rate"].notna()]
    if tuned.empty:
        return missing(tables.purity, Note("image_text", "hole_fine_tuned"))
    keys = ["tower", "start", "rate"]
    rotated = rows[(rows["metric"] == "mean_abs_cosine_rotated") & rows["rate"].notna()]
    random = mean_by(rows[rows["metric"] == "random_reference"], ["tower"])
    curve = published.purity().rename(
        columns={"shuffle_probability": "rate", "mean_abs_cosine": "value"}
    )
    data = charts.layers(
        tuned[[*keys, "seed", "value"]],
        keys,
        mean_by(rotated, keys).assign(layer="rotated"),
        level_rules(overlaps, ["tower"]),
        random.assign(layer="random"),
        curve[["rate", "value"]].assign(layer="published", tower="published", start="pretrained"),
    )
    data, left_out = charts.within(data, "rate")
    data = charts.first_on_top(data, "start", style.STARTS)
    ticks = sorted(tuned["rate"].unique())
    starts = [start for start in style.STARTS if start in set(tuned["start"])]
    panels = [
        _overlap_panel(tower, starts, ticks, data)
        for tower in TOWERS
        if tower in set(tuned["tower"])
    ]
    printed = published_panel(
        ticks, "Mean |cos| of neuron pairs", "published mean |cos|", "Published (CC3M, text)"
    )
    chart = charts.side_by_side([*panels, printed], 3, data)
    return Drawing(chart, data, left_out, "start")


def _overlap_panel(
    tower: str, starts: list[str], ticks: list[float], data: pd.DataFrame
) -> charts.Panel:
    base = alt.Chart().encode(
        x=charts.x_axis("rate", style.CM, ticks),
        y=charts.y_axis("Mean |cos| of neuron pairs"),
        color=charts.colour("start", "Arm", style.STARTS, starts, style.START_LABELS),
    )
    tips = charts.tips("start:N:start", "rate:Q:C_m", "value:Q:mean |cos|", "seed:Q:seed",
                       "n:Q:seeds", "layer:N:what")  # fmt: skip
    level = alt.Chart().encode(
        y="value:Q", tooltip=charts.tips("layer:N:what", "value:Q:mean |cos|")
    )
    label = level.mark_text(align="left", baseline="bottom", dx=3, dy=-2).encode(
        x=alt.value(0), color=alt.value(style.QUIET)
    )
    more = {
        "rotated": charts.hovered(charts.only(base, "rotated").mark_line(
            strokeDash=[5, 4], strokeWidth=1.5
        ).encode(opacity=charts.fade(0.9)), tips),
        "untouched": alt.layer(
            charts.only(level, "untouched").mark_rule(color=style.INK, strokeWidth=1.2),
            charts.only(label, "untouched").encode(text=alt.value("untouched model")),
        ),
        "random": alt.layer(
            charts.only(level, "random").mark_rule(
                color=style.QUIET, strokeDash=[1, 3], strokeWidth=1.5
            ),
            charts.only(label, "random").encode(text=alt.value("random vectors")),
        ),
    }  # fmt: skip
    # A layer without rows would make Vega complain of an axis without values.
    rows = data[data["tower"] == tower]
    parts = curves(base, rows, tower, tips, 50, 28)
    parts += [part for layer, part in more.items() if layer in set(rows["layer"])]
    layered = alt.layer(*parts).transform_filter(f"datum.tower == '{tower}'")
    return layered.properties(width=300, height=260, title=f"{tower.capitalize()} projection")


def published_panel(ticks: list[float], y_title: str, what: str, title: str) -> charts.Panel:
    """Return the panel of a published curve against C_m; `what` is its value in a tooltip."""
    base = charts.only(alt.Chart(), "published").encode(
        x=charts.x_axis("rate", style.CM_SHORT, ticks),
        y=charts.y_axis(y_title),
        tooltip=charts.tips("rate:Q:C_m", f"value:Q:{what}"),
    )
    return alt.layer(
        base.mark_line(strokeDash=[3, 3], color=style.PUBLISHED),
        base.mark_point(shape="diamond", color=style.PUBLISHED),
    ).properties(width=180, height=260, title=title)


def curves(
    base: alt.Chart, rows: pd.DataFrame, name: str, tips: list[alt.Tooltip],
    line_size: int = 45, run_size: int = 24, line: Mapping[str, Any] | None = None,
) -> list[charts.Panel]:  # fmt: skip
    """Return a line of means, and where `rows` have any, their band and points of single runs.

    `line` holds properties of the mark, with those of its points under ``point``.
    """
    means, mark = charts.only(base, "mean"), dict(line or {})
    parts: list[charts.Panel] = [charts.band(means)] if charts.limited(rows) else []
    points = alt.OverlayMarkDef(size=line_size, **mark.pop("point", {}))
    drawn = means.mark_line(point=points, **mark).encode(opacity=charts.fade(1), tooltip=tips)
    parts.append(drawn.properties(name=f"{charts.VIEW}{name}"))
    if "run" in set(rows["layer"]):
        runs = charts.only(base, "run").mark_circle(size=run_size)
        parts.append(runs.encode(opacity=charts.fade(0.4), tooltip=tips))
    return parts


def series_panel(
    data: pd.DataFrame, field: str, name: str, number_: int, y_title: str | None,
    title: str | alt.TitleParams,
    width: int = charts.WIDTH, height: int = charts.HEIGHT,
    colours: Mapping[str, str] = style.STARTS,
) -> charts.Panel:  # fmt: skip
    """Return one panel of values against C_m: rows of `data` whose `field` is `name`."""
    ticks = sorted(data["rate"].dropna().unique())
    starts = [start for start in colours if start in set(data["start"].dropna())]
    of_name = data[data[field] == name]
    base = alt.Chart().encode(
        x=charts.x_axis("rate", style.CM if width >= charts.WIDTH else style.CM_SHORT, ticks),
        y=charts.y_axis(y_title, **_domain(of_name)),
        color=charts.colour("start", "Arm", colours, starts, style.START_LABELS),
    )
    tips = charts.tips("start:N:start", "rate:Q:C_m", "value:Q:value", "seed:Q:seed",
                       "n:Q:seeds", "layer:N:what")  # fmt: skip
    level = alt.Chart().encode(y="value:Q", tooltip=charts.tips("layer:N:what", "value:Q:value"))
    # A layer without rows would make Vega complain of an axis without values.
    parts = curves(base, of_name, str(number_), tips)
    if "untouched" in set(data["layer"]):
        parts.append(charts.only(level, "untouched").mark_rule(color=style.INK, strokeWidth=1.2))
    if "chance" in set(data["layer"]):
        parts.append(
            charts.only(level, "chance").mark_rule(
                clip=True, color=style.QUIET, strokeDash=[1, 3], strokeWidth=1.5
            )
        )
    layered = alt.layer(*parts).transform_filter(alt.FieldEqualPredicate(field=field, equal=name))
    return layered.properties(width=width, height=height, title=title)


def _domain(own: pd.DataFrame) -> dict[str, Any]:
    """Return the range of what was measured, so that a low level of chance flattens no curve."""
    measured = own[own["layer"] != "chance"]
    levels = pd.concat([measured[name] for name in ("value", "low", "high")]).dropna().tolist()
    if "chance" not in set(own["layer"]) or not levels:
        return {}
    return {"domain": [min(levels), max(levels)], "nice": 5}


def accuracy_by_shuffling(tables: Tables) -> Drawing | Hole:
    """acc1 on every evaluation set against C_m."""
    return _by_set(tables, "acc1", "acc1 (share of images)")


def silhouette_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Silhouette on every evaluation set against C_m."""
    return _by_set(tables, "silhouette", "Silhouette (cosine)")


def compositional_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Share of right choices against C_m, by what is done to the false caption."""
    table = tables.zeroshot
    rows = table[table["metric"].isin([SELECTION, OF_CATEGORY]) & table["value"].notna()]
    rows = panels_of_sets(rows[rows["start"].isin(style.STARTS)])
    if rows["rate"].isna().all():
        return missing(table, Note("image_text", "hole_choice", tuned=True))
    names = list(dict.fromkeys(rows["panel"]))
    titles = {name: name for name in names}
    chart, data, left_out = _against_shuffling(rows, "panel", titles, "Share of right choices")
    return Drawing(chart, data, left_out, "start")


MOST_OPERATIONS = 4
"""Sets with more first words of categories have one panel."""


def panels_of_sets(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the shares of right choices with the ``panel`` that each is drawn in.

    A set whose categories begin with few words, such as SugarCrepe's add, replace and swap, has a
    panel for each of them, with the mean of its categories; another one has one panel.
    """
    parts = []
    keys = ["panel", "start", "rate", "seed"]
    for name, of_set in rows.groupby("evaluation_set"):
        by_category = of_set[of_set["metric"] == OF_CATEGORY]
        operations = by_category["classname"].str.split("-").str[0]
        if 1 <= operations.nunique() <= MOST_OPERATIONS:
            panels = by_category.assign(panel=f"{name}: " + operations)
        else:
            panels = of_set[of_set["metric"] == SELECTION].assign(panel=name)
        parts.append(panels.groupby(keys, dropna=False)[["value", "chance"]].mean().reset_index())
    columns = [*keys, "value", "chance"]
    return pd.concat(parts) if parts else pd.DataFrame(columns=columns)


def _by_set(tables: Tables, metric: str, title: str) -> Drawing | Hole:
    table = tables.zeroshot
    rows = table[(table["metric"] == metric) & table["value"].notna()]
    rows = rows[rows["start"].isin(style.STARTS)]
    tuned = rows[rows["rate"].notna()]
    if tuned.empty:
        return missing(table, Note("image_text", "hole_metric", metric=metric))
    names = sorted(tuned["evaluation_set"].unique())
    titles = {name: set_title(tables, metric, name) for name in names}
    chart, data, left_out = _against_shuffling(rows, "evaluation_set", titles, title)
    return Drawing(chart, data, left_out, "start")


def _against_shuffling(
    rows: pd.DataFrame, field: str, titles: Mapping[str, str | alt.TitleParams], y_title: str
) -> tuple[alt.TopLevelMixin, pd.DataFrame, list[Note]]:
    """Return panels of values against C_m, one for each value of `field`, and what they leave out.

    Each has its level of chance, where there is one.
    """
    keys = [field, "start", "rate"]
    with_chance = rows.assign(value=rows["chance"]).dropna(subset=["value"])
    data = charts.layers(
        rows.loc[rows["rate"].notna(), [*keys, "seed", "value"]],
        keys,
        level_rules(rows, [field]),
        mean_by(with_chance, [field]).assign(layer="chance"),
    )
    data, left_out = charts.within(data, "rate")
    data = charts.first_on_top(data, "start", style.STARTS)
    columns = 2 if len(titles) == 2 else 3
    width = {1: 820, 2: charts.WIDTH}.get(len(titles), 260)
    panels = [
        series_panel(data, field, name, number, y_title, heading, width, 190)
        for number, (name, heading) in enumerate(titles.items())
    ]
    return charts.side_by_side(panels, columns, data), data, left_out
