"""The figures of the simulation."""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.reporting import charts, published, style
from mispair.reporting.charts import Drawing, Hole
from mispair.reporting.claims_simulation import differences, share_range
from mispair.reporting.tables import Tables, mean_by
from mispair.reporting.words import listing, number

NOT_RUN = "the simulation was not run"
SOURCE = {"raw": "raw captions", "filtered": "filtered captions"}
KINDS = {
    "replaced_share_bad": "captions of another image",
    "replaced_share_clean": "right captions",
}


def figure1(tables: Tables) -> Drawing | Hole:
    """Draw the four measures of figure 1, with every run and the published points."""
    table = tables.simulation
    runs = table[table["metric"].isin(style.MEASURES) & table["value"].notna()]
    if runs.empty:
        return Hole(NOT_RUN)
    keys = ["metric", "trained_on", "spurious_probability"]
    columns = [*keys, "trial", "value"]
    theirs = published.figure1().melt(
        ["spurious_probability", "trained_on"], list(style.MEASURES), "metric", "value"
    )
    data = charts.layers(runs[columns], keys, theirs.assign(layer="published"))
    arms = [arm for arm in style.ARMS if arm in set(data["trained_on"])]
    panels = [
        _panel(metric, title, letter, arms)
        for (metric, title), letter in zip(style.MEASURES.items(), "abcd", strict=True)
    ]
    grid = charts.side_by_side(panels, 2, data)
    return Drawing(grid, data, _figure1_sentence(table), "trained_on")


def _panel(metric: str, title: str, letter: str, arms: list[str]) -> charts.Panel:
    base = alt.Chart().encode(
        x=charts.x_axis("spurious_probability", style.CS),
        y=charts.y_axis(title),
        color=charts.colour("trained_on", "Trained on", style.ARMS, arms),
    )
    tips = charts.tips(
        "trained_on:N:trained on", "spurious_probability:Q:C_s", "value:Q:value", "n:Q:runs",
        "trial:Q:trial", "layer:N:what",
    )  # fmt: skip
    parts = [
        charts.only(base, "mean").mark_area(opacity=0.16, line=False).encode(
            y="low:Q", y2="high:Q", opacity=charts.fade(0.16)
        ),
        charts.only(base, "mean").mark_line(point=alt.OverlayMarkDef(size=50)).encode(
            opacity=charts.fade(1), tooltip=tips
        ).properties(name=f"{charts.VIEW}{letter}"),
        charts.only(base, "run").mark_circle(size=28).encode(
            opacity=charts.fade(0.4), tooltip=tips
        ),
        charts.only(base, "published").mark_point(shape="diamond", size=42, filled=False).encode(
            opacity=charts.fade(0.9), tooltip=tips
        ),
        charts.only(base, "published").mark_line(strokeDash=[3, 3], strokeWidth=1.2).encode(
            opacity=charts.fade(0.7)
        ),
    ]  # fmt: skip
    layered = alt.layer(*parts).transform_filter(f"datum.metric == '{metric}'")
    heading = f"({letter}) {title.split(' (')[0]}"
    return layered.properties(width=charts.WIDTH, height=charts.HEIGHT, title=heading)


def _figure1_sentence(table: pd.DataFrame) -> str:
    parts = []
    for metric, name, digits in (
        ("accuracy", "accuracy", 3), ("silhouette", "silhouette", 3),
        ("purified_features", "purified features", 1), ("purified_magnitude", "magnitude", 3),
    ):  # fmt: skip
        gains = differences(table, metric)
        gains = gains[gains.index.get_level_values("spurious_probability") > 0]
        if len(gains):
            parts.append(f"{name} by {number(gains.mean(), digits, sign=True)}")
    if not parts:
        return "No trial has both a raw and a filtered run at C_s above 0."
    return f"Over all runs with C_s above 0, filtering changes {listing(parts)}."


def cosines(tables: Tables) -> Drawing | Hole:
    """Draw histograms of |cos| of neurons with the dictionaries, raw above filtered."""
    table = tables.simulation
    rows = table[(table["metric"] == "cosine_histogram") & table["value"].notna()]
    if rows.empty:
        return Hole(NOT_RUN if table.empty else "no histogram was recorded")
    shown = max(rows["spurious_probability"].unique())
    rows = rows[rows["spurious_probability"] == shown]
    keys = ["tower", "trained_on", "trial"]
    share = rows["value"] / rows.groupby(keys)["value"].transform("sum")
    data = mean_by(
        rows.assign(value=share),
        ["spurious_probability", "tower", "trained_on", "bin_low", "bin_high"],
    )
    data["panel"] = data["tower"] + " neurons, " + data["trained_on"].map(SOURCE)
    order = [
        f"{tower} neurons, {SOURCE[arm]}"
        for tower in ("text", "image")
        for arm in ("raw", "filtered")
    ]
    chart = (
        alt.Chart(charts.values(data))
        .mark_bar(binSpacing=0)
        .encode(
            x=alt.X("bin_low:Q", title="|cos| of neuron and feature", bin="binned",
                    axis=alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~g")),
            x2="bin_high:Q",
            y=alt.Y("value:Q", title="Share of pairs", axis=alt.Axis(format="~%"),
                    scale=alt.Scale(type="sqrt")),
            color=charts.colour("trained_on", "Trained on", style.ARMS, list(style.ARMS)),
            tooltip=charts.tips("panel:N:", "bin_low:Q:from", "bin_high:Q:to", "value:Q:share"),
        )
        .properties(width=charts.WIDTH, height=140)
        .facet(facet=alt.Facet("panel:N", title=None, sort=order), columns=2)
        .resolve_axis(x="independent")
    )  # fmt: skip
    return Drawing(chart, data.drop(columns="panel"), _cosine_sentence(data, shown))


def _cosine_sentence(data: pd.DataFrame, shown: float) -> str:
    own = data[(data["bin_low"] >= 0.2) & (data["bin_low"] < 0.5)]
    between = own.groupby(["tower", "trained_on"])["value"].sum()
    words = [
        f"{tower} {number(100 * between.get((tower, 'raw'), 0), 1)} % on raw and "
        f"{number(100 * between.get((tower, 'filtered'), 0), 1)} % on filtered captions"
        for tower in ("text", "image")
        if tower in set(data["tower"])
    ]
    return (
        f"At C_s = {shown:g}, between aligned and orthogonal (cosines of 0.2 to 0.5) lie: "
        f"{'; '.join(words)}."
    )


def replaced(tables: Tables) -> Drawing | Hole:
    """Draw the share of captions that the filter replaced, of right and of wrong ones."""
    table = tables.simulation
    rows = table[table["metric"].isin(KINDS) & table["value"].notna()]
    if rows.empty:
        return Hole(NOT_RUN if table.empty else "no shares of replaced captions were recorded")
    rows = rows.assign(kind=rows["metric"].map(KINDS))
    keys = ["kind", "spurious_probability"]
    data = charts.layers(rows[[*keys, "trial", "value"]], keys)
    colours = dict(zip(KINDS.values(), (style.ARMS["raw"], style.ARMS["filtered"]), strict=True))
    base = alt.Chart().encode(
        x=charts.x_axis("spurious_probability", style.CS,
                        sorted(rows["spurious_probability"].unique())),
        y=charts.y_axis("Share replaced", domain=[0, 1]),
        color=charts.colour("kind", "Of", colours, list(colours)),
        tooltip=charts.tips("kind:N:of", "spurious_probability:Q:C_s", "value:Q:share replaced"),
    )  # fmt: skip
    chart = alt.layer(
        charts.only(base, "mean").mark_line(point=alt.OverlayMarkDef(size=50)),
        charts.only(base, "run").mark_circle(size=28, opacity=0.4),
        data=charts.values(data),
    ).properties(width=2 * charts.WIDTH, height=charts.HEIGHT)
    words = [f"{share_range(own['value'])} of the {kind}" for kind, own in rows.groupby("kind")]
    return Drawing(chart, data, f"The filter replaced {listing(words)}.")
