"""Figures of the audit."""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.audit.report.runs import (
    CROSS_FITTED,
    MEMORISED,
    TRUSTED,
    UNSEEN,
    UNTOUCHED,
    captions_are_right,
    known_rates,
)
from mispair.audit.report.words import estimate
from mispair.report import charts, small, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables

NOT_RUN = Note("audit", "hole_not_run")
UNKNOWN = Note("audit", "hole_unknown")
SHARE = alt.Scale(domain=[0, 1])

COLOURS = {
    UNTOUCHED: style.BLUE,
    TRUSTED: style.GREEN,
    MEMORISED: style.ORANGE,
    CROSS_FITTED: style.VIOLET,
}
"""Estimates of the figure of known shares."""


def audit_p_values(tables: Tables) -> Drawing | Hole:
    """Draw the density of p-values."""
    data = tables.audit[tables.audit["metric"] == "p_value_density"][["at", "value"]]
    if data.empty:
        return Hole(NOT_RUN)
    width = 1 / len(data)
    data = data.assign(low=data["at"] - width / 2, high=data["at"] + width / 2, layer="density")
    rate = estimate(tables.audit, "wrong_captions")
    title = "Pairs, relative to random captions"
    bars = charts.only(alt.Chart().mark_bar(color=style.BLUE, opacity=0.75), "density").encode(
        x=alt.X("low:Q", title="p-value of the caption among random captions",
                scale=SHARE),
        x2="high:Q",
        y2=alt.datum(0),
        y=alt.Y("value:Q", title=title, scale=alt.Scale(type="symlog", constant=0.1)),
        tooltip=charts.tips("at:Q:p-value", "value:Q:density"),
    )  # fmt: skip
    layers: list[alt.Chart] = [bars]
    if rate is not None:
        line = pd.DataFrame([{"value": rate.value, "layer": "rate"}])
        data = pd.concat([data, line], ignore_index=True)
        layers.append(
            charts.only(alt.Chart().mark_rule(color=style.INK, strokeDash=[5, 4]), "rate").encode(
                y="value:Q"
            )
        )
    chart = alt.layer(*layers).properties(width=2 * charts.WIDTH, height=charts.HEIGHT)
    left = data[data["layer"] == "density"].iloc[0]
    best = Note("audit", "figure_best", share=float(left["value"]) * width, best=width, rate=rate)
    return Drawing(charts.side_by_side([chart], 1, data), data, [best])


def audit_calibration(tables: Tables) -> Drawing | Hole:
    """Draw estimated against true shares."""
    data = known_rates(tables)
    data = data[~data["scheme"].isin(UNSEEN)]
    if data.empty:
        return Hole(NOT_RUN)
    data = data[data["true"].notna()].drop(columns="made")
    if data.empty:
        return Hole(UNKNOWN)
    panels = []
    present = [name for name in COLOURS if name in set(data["series"])]
    for scheme in dict.fromkeys(data["scheme"]):
        base = alt.Chart().encode(
            x=alt.X("true:Q", title="True share of wrong captions",
                    scale=SHARE),
            color=charts.colour("series", "Estimate", COLOURS, present),
            tooltip=charts.tips("series:N:estimate", "true:Q:true share", "value:Q:estimated",
                                "low:Q:from", "high:Q:to"),
        )  # fmt: skip
        title = "Estimated share"
        axis = alt.Y("value:Q", title=title, scale=SHARE)
        truth = alt.Chart().mark_line(color=style.GREY, strokeDash=[5, 4]).encode(
            x="true:Q", y=alt.Y("true:Q", title=title)
        )  # fmt: skip
        panels.append(
            alt.layer(
                truth,
                base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title=title), y2="high:Q"),
                base.mark_point(size=50, filled=True).encode(y=axis),
            )
            .transform_filter(f"datum.scheme == '{scheme}'")
            .properties(width=charts.WIDTH, height=charts.WIDTH * 0.75, title=f"Captions: {scheme}")
        )
    errors = (data["value"] - data["true"]).abs()
    worst = errors.groupby([data["scheme"], data["series"]]).max()
    largest = [
        (scheme, series, worst[scheme, series])
        for scheme in data["scheme"].unique()
        for series in COLOURS
        if (scheme, series) in worst
    ]
    notes = [Note("audit", "figure_errors", largest=largest)]
    return Drawing(charts.side_by_side(panels, 2, data), data, notes)


def audit_reliability(tables: Tables) -> Drawing | Hole:
    """Draw the share of wrong captions in bins of their probability."""
    table = tables.audit_calibration
    data = table[table["metric"] == "reliability"][["at", "value", "n"]]
    if data.empty:
        return Hole(NOT_RUN)
    if not captions_are_right(tables):
        return Hole(UNKNOWN)
    axis = alt.X("at:Q", title="Mean probability of the bin", scale=SHARE)
    share = alt.Y("value:Q", title="Share of wrong captions", scale=SHARE)
    truth = alt.Chart().mark_line(color=style.GREY, strokeDash=[5, 4]).encode(x="at:Q", y="at:Q")
    points = alt.Chart().mark_point(color=style.BLUE, filled=True, opacity=0.8).encode(
        x=axis, y=share,
        size=alt.Size("n:Q", title="Pairs", scale=alt.Scale(type="sqrt", range=[30, 400])),
        tooltip=charts.tips("at:Q:probability", "value:Q:share wrong", "n:Q:pairs"),
    )  # fmt: skip
    chart = alt.layer(truth, points).properties(width=charts.WIDTH, height=charts.WIDTH * 0.75)
    weights = data["n"] / data["n"].sum()
    error = float(((data["at"] - data["value"]).abs() * weights).sum())
    notes = [Note("audit", "figure_reliability", error=error)]
    return Drawing(charts.side_by_side([chart], 1, data), data, notes)


def small_audit(tables: Tables) -> Drawing | Hole:
    """Draw estimated against true shares of permuted captions, by the untouched model."""
    rates = known_rates(tables)
    rates = rates[(rates["scheme"] == "random") & (rates["series"] == UNTOUCHED)]
    if rates.empty:
        return Hole(NOT_RUN)
    rates = rates[rates["true"].notna()]
    if rates.empty:
        return Hole(UNKNOWN)
    points = rates.rename(columns={"true": "x"})[["x", "value", "low", "high"]]
    chart, data = small.scatter(
        points.reset_index(drop=True), "True share of wrong captions", "Estimated share",
        colour=style.BLUE, diagonal=True,
    )  # fmt: skip
    shares = points[["value", "x"]].to_numpy().tolist()
    return Drawing(chart, data, [Note("audit", "figure_shares", shares=shares)])
