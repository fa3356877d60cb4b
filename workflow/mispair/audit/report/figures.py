"""Figures of the audit."""

from __future__ import annotations

import altair as alt

from mispair.audit.report.claims import (
    CROSS_FITTED,
    MEMORISED,
    TRUSTED,
    UNSEEN,
    UNTOUCHED,
    captions_are_right,
    estimate,
    known_rates,
    separations,
    wrong_before,
)
from mispair.report import charts, small_figures, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables, where

NOT_RUN = Hole(Note("audit", "hole_not_run"))
UNKNOWN = Hole(Note("audit", "hole_unknown"))
SHARE = alt.Scale(domain=[0, 1])

COLOURS = {
    UNTOUCHED: style.BLUE,
    TRUSTED: style.GREEN,
    MEMORISED: style.ORANGE,
    CROSS_FITTED: style.VIOLET,
}
"""Estimates of the figure of known shares."""


def _equal(field: str, title: str) -> alt.Chart:
    """Return the dashed line on which both axes are equal."""
    line = alt.Chart().mark_line(color=style.GREY, strokeDash=[5, 4])
    return line.encode(x=alt.X(field, scale=SHARE), y=alt.Y(field, title=title))


def audit_p_values(tables: Tables) -> Drawing | Hole:
    """Draw the density of p-values."""
    data = where(tables.audit, metric="p_value_density")[["at", "value"]]
    if data.empty:
        return NOT_RUN
    width = 1 / len(data)
    data = data.assign(low=data["at"] - width / 2, high=data["at"] + width / 2)
    bars = alt.Chart().mark_bar(color=style.BLUE, opacity=0.75).encode(
        x=alt.X("low:Q", title="p-value of the caption among random captions", scale=SHARE),
        x2="high:Q",
        y=alt.Y("value:Q", title="Pairs, relative to random captions",
                scale=alt.Scale(type="symlog", constant=0.1)),
        y2=alt.datum(0),
        tooltip=charts.tips("at:Q:p-value", "value:Q:density"),
    )  # fmt: skip
    rate = estimate(tables.audit, "wrong_captions")
    dashed = alt.Chart(alt.InlineData(values=[{}])).mark_rule(color=style.INK, strokeDash=[5, 4])
    lines = [dashed.encode(y=alt.datum(rate.value))] if rate else []
    chart = alt.layer(bars, *lines).properties(width=2 * charts.WIDTH, height=charts.HEIGHT)
    return Drawing(charts.side_by_side([chart], 1, data), data)


def audit_calibration(tables: Tables) -> Drawing | Hole:
    """Draw estimated against true shares."""
    data = known_rates(tables)
    data = data[~data["scheme"].isin(UNSEEN)]
    if data.empty:
        return NOT_RUN
    data = data[data["true"].notna()].drop(columns="made")
    if data.empty:
        return UNKNOWN
    base = alt.Chart().encode(
        x=alt.X("true:Q", title="True share of wrong captions", scale=SHARE),
        color=charts.colour("series", "Estimate", COLOURS, sorted(set(data["series"]))),
        tooltip=charts.tips("series:N:estimate", "true:Q:true share", "value:Q:estimated",
                            "low:Q:from", "high:Q:to"),
    )  # fmt: skip
    title = "Estimated share"
    intervals = base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title=title), y2="high:Q")
    points = base.mark_point(size=50, filled=True).encode(
        y=alt.Y("value:Q", title=title, scale=SHARE)
    )
    panels = [
        alt.layer(_equal("true:Q", title), intervals, points)
        .transform_filter(f"datum.scheme == '{scheme}'")
        .properties(width=charts.WIDTH, height=charts.WIDTH * 0.75, title=f"Captions: {scheme}")
        for scheme in dict.fromkeys(data["scheme"])
    ]
    own = Note("audit", "figure_known", before=wrong_before(tables))
    notes = () if captions_are_right(tables) else (own,)
    return Drawing(charts.side_by_side(panels, 2, data), data, notes)


def audit_reliability(tables: Tables) -> Drawing | Hole:
    """Draw the share of wrong captions in bins of their probability."""
    data = where(separations(tables), metric="reliability")[["at", "corrected", "n"]]
    data = data.rename(columns={"corrected": "value"})
    if data.empty:
        return NOT_RUN
    if data["value"].isna().all():
        return UNKNOWN
    title = "Share of wrong captions"
    points = alt.Chart().mark_point(color=style.BLUE, filled=True, opacity=0.8).encode(
        x=alt.X("at:Q", title="Mean probability of the bin", scale=SHARE),
        y=alt.Y("value:Q", title=title, scale=SHARE),
        size=alt.Size("n:Q", title="Pairs", scale=alt.Scale(type="sqrt", range=[30, 400])),
        tooltip=charts.tips("at:Q:probability", "value:Q:share wrong", "n:Q:pairs"),
    )  # fmt: skip
    chart = alt.layer(_equal("at:Q", title), points)
    chart = chart.properties(width=charts.WIDTH, height=charts.WIDTH * 0.75)
    own = Note("audit", "figure_reliable", before=wrong_before(tables))
    notes = () if captions_are_right(tables) else (own,)
    return Drawing(charts.side_by_side([chart], 1, data), data, notes)


def small_audit(tables: Tables) -> Drawing | Hole:
    """Draw estimated against true shares of permuted captions, by the untouched model."""
    rates = where(known_rates(tables), scheme="random", series=UNTOUCHED)
    if rates.empty:
        return NOT_RUN
    rates = rates[rates["true"].notna()]
    if rates.empty:
        return UNKNOWN
    points = rates.rename(columns={"true": "x"})[["x", "value", "low", "high"]]
    return Drawing(*small_figures.scatter(
        points.reset_index(drop=True), "True share of wrong captions", "Estimated share",
        colour=style.BLUE, diagonal=True,
    ))  # fmt: skip
