"""Figures of the image-text study against the share of corrupted captions C_m.

A figure is a query: rows of a ``panel`` and an arm (``start`` or ``scheme``) at each ``rate``.
Their ``layer`` is a run, the mean of runs, a curve of a control or of the paper, or a level.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from mispair.evaluation.report.rows import published_directions
from mispair.evaluation.retrieval import OF_CATEGORY, SELECTION
from mispair.image_text.report.arms import (
    BY_SCALE,
    COLOURS,
    LABELS,
    TOWERS,
    purity_series,
    scale_series,
    set_title,
    zeroshot_series,
)
from mispair.pairs.corruption.scheme import schemes
from mispair.report import charts, published, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables, mean_by
from mispair.towers.arms import PRETRAINED, UNTOUCHED

SCHEMES = {name: style.PALETTE[scheme.colour] for name, scheme in schemes().items()}
LEVELS = ("untouched", "random", "chance")
"""Layers that are one level of a panel: a line for the untouched model, dotted for the others."""
PUBLISHED = "published"
"""Panel and layer of a curve of the paper."""
PROJECTIONS = {tower: f"{tower.capitalize()} projection" for tower in TOWERS}
COSINE = "Mean |cos| of neuron pairs"


def missing(table: pd.DataFrame, reason: Note) -> Hole:
    """Return a hole with the given reason, or because the study was not run."""
    return Hole(Note("image_text", "hole_not_run") if table.empty else reason)


def purity_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Mean |cos| against C_m by tower, with its controls; the published curve apart."""
    curve = published.purity().set_index("shuffle_probability")["mean_abs_cosine"]
    random = mean_by(_purity(tables, "random_reference"), ["panel"]).assign(layer="random")
    rotated = _purity(tables, "mean_abs_cosine_rotated").dropna(subset=["rate"])
    means = mean_by(rotated, ["panel", "start", "rate"]).assign(layer="rotated")
    return _of_purity(tables, "mean_abs_cosine", COSINE, curve, "(CC3M, text)", random, means)


def participation_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Participation ratio against C_m by tower and start; the published one apart."""
    of = f"of {published.NEURONS}"
    title = "Participation ratio (directions)"
    return _of_purity(tables, "participation_ratio", title, published_directions(), of)


def _purity(tables: Tables, metric: str) -> pd.DataFrame:
    """Return one row for each arm, tower and seed; rotations are averaged."""
    rows = tables.purity[(tables.purity["metric"] == metric) & tables.purity["value"].notna()]
    rows = rows[rows["start"].isin(COLOURS)].rename(columns={"tower": "panel"})
    return mean_by(rows, ["start", "rate", "panel", "seed"])


def _of_purity(
    tables: Tables, metric: str, y_title: str, curve: pd.Series, of: str, *more: pd.DataFrame
) -> Drawing | Hole:
    rows = _purity(tables, metric)
    if rows["rate"].isna().all():
        return missing(tables.purity, Note("image_text", "hole_fine_tuned"))
    drawn = curve.rename_axis("rate").rename("value").reset_index()
    paper = drawn.assign(layer=PUBLISHED, panel=PUBLISHED, start=PRETRAINED)
    titles = {**PROJECTIONS, PUBLISHED: f"Published {of}"}
    return _sweep(rows, titles, y_title, COLOURS, *more, paper)


def overlap_by_scale(tables: Tables) -> Drawing | Hole:
    """Mean |cos| of both towers, and the cosine gap times the scale, against C_m by scale."""
    series = {
        (panel, start): scale_series(tables, start, "gap_times_scale")
        if panel == "gap"
        else purity_series(tables, start, panel, "mean_abs_cosine")
        for panel in (*TOWERS, "gap")
        for start in BY_SCALE
    }
    rows = _stacked(series, "start")
    if set(rows["start"]) <= {PRETRAINED}:
        return missing(tables.purity, Note("image_text", "hole_scale"))
    titles = {**PROJECTIONS, "gap": "Own − other captions"}
    axes = {**dict.fromkeys(TOWERS, COSINE), "gap": "Cosine gap × logit scale"}
    return _sweep(rows, titles, axes, BY_SCALE)


def accuracy_by_shuffling(tables: Tables) -> Drawing | Hole:
    """acc1 on every evaluation set against C_m."""
    return _by_set(tables, "acc1", "acc1 (share of images)")


def silhouette_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Silhouette on every evaluation set against C_m."""
    return _by_set(tables, "silhouette", "Silhouette (cosine)")


def _by_set(tables: Tables, metric: str, y_title: str) -> Drawing | Hole:
    rows = tables.zeroshot[tables.zeroshot["metric"] == metric].dropna(subset=["value"])
    rows = rows[rows["start"].isin(COLOURS)]
    names = sorted(rows.loc[rows["rate"].notna(), "evaluation_set"].unique())
    if not names:
        return missing(tables.zeroshot, Note("image_text", "hole_metric", metric=metric))
    titles = {name: set_title(tables, metric, name) for name in names}
    rows = rows.rename(columns={"evaluation_set": "panel"})
    return _sweep(rows, titles, y_title, COLOURS, _chance(rows))


def compositional_by_shuffling(tables: Tables) -> Drawing | Hole:
    """Share of right choices against C_m, by what is done to the false caption."""
    table = tables.zeroshot
    rows = table[table["metric"].isin([SELECTION, OF_CATEGORY]) & table["value"].notna()]
    rows = panels_of_sets(rows[rows["start"].isin(COLOURS)])
    if rows["rate"].isna().all():
        return missing(table, Note("image_text", "hole_choice"))
    titles = {name: name for name in rows["panel"]}
    return _sweep(rows, titles, "Share of right choices", COLOURS, _chance(rows))


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


def _chance(rows: pd.DataFrame) -> pd.DataFrame:
    levels = rows.assign(value=rows["chance"]).dropna(subset=["value"])
    return mean_by(levels, ["panel"]).assign(layer="chance")


OF_SCHEMES = {
    "text": "Text projection: mean |cos|",
    "image": "Image projection: mean |cos|",
    "acc1": "Zero-shot accuracy (acc1), mean of sets",
    PUBLISHED: "Published (CC3M, text): mean |cos|",
}


def purity_by_scheme(tables: Tables) -> Drawing | Hole:
    """Overlap and accuracy against the nominal share, one line for each scheme."""
    if not tables.study("image_text"):
        return Hole(Note("image_text", "hole_not_run"))
    series = {
        (panel, scheme): zeroshot_series(tables.of_scheme(scheme), PRETRAINED, panel)
        if panel == "acc1"
        else purity_series(tables.of_scheme(scheme), PRETRAINED, panel, "mean_abs_cosine")
        for panel in (*TOWERS, "acc1")
        for scheme in tables.schemes
    }
    rows = _stacked(series, "scheme")
    # The arm at rate 0 is in every scheme: it alone makes no line.
    swept = set(rows.loc[rows["rate"] > 0, "scheme"])
    if len(swept) < 2:
        return Hole(Note("image_text", "hole_schemes"))
    paper = (
        published.purity_by_scheme()
        .rename(columns={"shuffle_probability": "rate", "mean_abs_cosine": "value"})[
            ["scheme", "rate", "value"]
        ]
        .assign(layer=PUBLISHED, panel=PUBLISHED)
    )
    axes = {**dict.fromkeys(OF_SCHEMES, COSINE), "acc1": "acc1 (share of images)"}
    return _sweep(rows[rows["scheme"].isin(swept)], OF_SCHEMES, axes, SCHEMES, paper)


def _stacked(series: Mapping[tuple[str, str], pd.DataFrame], field: str) -> pd.DataFrame:
    """Stack series of runs by panel and by value of a field, which are their keys."""
    columns = ["panel", field, "rate", "seed", "value"]
    parts = [values.assign(panel=key[0], **{field: key[1]}) for key, values in series.items()]
    if not parts:
        return pd.DataFrame(columns=columns)
    return pd.concat(parts, ignore_index=True)[columns].dropna(subset=["rate", "value"])


# Drawing -----------------------------------------------------------------------------------------


def _sweep(
    rows: pd.DataFrame,
    titles: Mapping[str, Any],
    y_titles: str | Mapping[str, str],
    colours: Mapping[str, str],
    *more: pd.DataFrame,
) -> Drawing:
    """Return panels of values against C_m: runs, their means and spread, and further layers."""
    field = "scheme" if colours is SCHEMES else "start"
    keys = ["panel", field, "rate"]
    tuned = rows.loc[rows["rate"].notna(), [*keys, "seed", "value"]]
    untouched = mean_by(rows[rows[field] == UNTOUCHED], ["panel"]).assign(layer="untouched")
    data = charts.layers(tuned, keys, untouched, *more)
    data, left_out = charts.within(data[data["panel"].isin(titles)], "rate")
    data = charts.first_on_top(data, field, colours)
    present = [name for name in titles if name in {*tuned["panel"], PUBLISHED} & {*data["panel"]}]
    width = {1: 2 * charts.WIDTH, 2: charts.WIDTH, 4: charts.WIDTH}.get(len(present), 260)
    axes = y_titles if isinstance(y_titles, Mapping) else dict.fromkeys(titles, y_titles)
    panels = [
        _panel(data, field, colours, name, str(number), axes[name]).properties(
            width=width, height=240 if len(present) <= 3 else 190, title=titles[name]
        )
        for number, name in enumerate(present)
    ]
    columns = 2 if width >= charts.WIDTH else 3
    return Drawing(charts.side_by_side(panels, columns, data), data, left_out, field)


def _panel(
    data: pd.DataFrame, field: str, colours: Mapping[str, str], name: str, view: str, y_title: str
) -> charts.Panel:
    rows = data[data["panel"] == name]
    present = [each for each in colours if each in set(data[field].dropna())]
    ticks = sorted(data["rate"].dropna().unique())
    labels = LABELS if field == "start" else None
    tips = charts.tips(f"{field}:N:{field}", "rate:Q:C_m", "value:Q:value", "seed:Q:seed",
                       "n:Q:seeds", "layer:N:what")  # fmt: skip
    base = alt.Chart().encode(
        x=charts.x_axis("rate", style.CM_SHORT, ticks),
        y=charts.y_axis(y_title, **_domain(rows)),
        color=charts.colour(field, "Arm" if labels else "Scheme", colours, present, labels),
    )
    # A layer without rows would make Vega complain of an axis without values.
    layers = set(rows["layer"])
    means = charts.only(base, "mean")
    parts: list[charts.Panel] = [charts.band(means)] if charts.limited(rows) else []
    for layer, mark in CURVES.items():
        if layer in layers:
            line = charts.only(base, layer).mark_line(**mark).encode(opacity=charts.fade(1))
            # A line without points would show the values of its first point alone.
            line = line.encode(tooltip=tips) if "point" in mark else line
            parts.append(line.properties(name=f"{charts.VIEW}{view}") if layer in FIRST else line)
    if "run" in layers:
        runs = charts.only(base, "run").mark_circle(size=24)
        parts.append(runs.encode(opacity=charts.fade(0.4), tooltip=tips))
    if layers & {*LEVELS}:
        level = alt.Chart().transform_filter(alt.FieldOneOfPredicate("layer", [*LEVELS]))
        solid = {"test": "datum.layer == 'untouched'", "value": [1, 0]}
        rule = level.mark_rule(clip=True, color=style.INK, strokeWidth=1.3).encode(
            y=alt.Y("value:Q"), strokeDash=alt.StrokeDashValue([1, 3], condition=[solid]),
            tooltip=charts.tips("layer:N:what", "value:Q:value"),
        )  # fmt: skip
        parts.append(rule)
    return alt.layer(*parts).transform_filter(alt.FieldEqualPredicate(field="panel", equal=name))


CURVES: dict[str, dict[str, Any]] = {
    "mean": {"point": alt.OverlayMarkDef(size=45)},
    "rotated": {"strokeDash": [5, 4], "strokeWidth": 1.5},
    PUBLISHED: {"strokeDash": [4, 3], "point": alt.OverlayMarkDef(size=45, shape="diamond")},
}
"""Layers that are lines, and their marks."""
FIRST = ("mean", PUBLISHED)
"""Of each panel one of these is drawn; the legend of the figure selects in it."""


def _domain(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the range of what was measured, so that a low level of chance flattens no curve."""
    measured = rows[rows["layer"] != "chance"]
    levels = pd.concat([measured[name] for name in ("value", "low", "high")]).dropna().tolist()
    if "chance" not in set(rows["layer"]) or not levels:
        return {}
    return {"domain": [min(levels), max(levels)], "nice": 5}
