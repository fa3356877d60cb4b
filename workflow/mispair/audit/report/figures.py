"""Figures of the audit."""

from typing import Any

import altair as alt
import pandas as pd

from mispair.audit.report.claims import (
    TRUSTED,
    UNSEEN,
    UNTOUCHED,
    captions_are_right,
    estimate,
    known_rates,
    separations,
    wrong_before,
)
from mispair.pairs.corruption.scheme import MAIN
from mispair.report import charts, recipes, small_figures, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables, where
from mispair.report.texts import Note

NOT_RUN = Hole(Note("audit", "hole_not_run"))
UNKNOWN = Hole(Note("audit", "hole_unknown"))
UNLABELLED = Hole(Note("audit", "hole_unlabelled"))
SHARE = alt.Scale(domain=[0, 1])
ROOMY = alt.Scale(domain=[0, 1], zero=False, nice=False, padding=12)
"""A scale of shares with room for large points at its ends."""
APART = 0.015
"""Distance at which estimates of one true share are drawn, since most are nearly equal."""

ESTIMATES = style.colours("estimate")


def audit_p_values(tables: Tables) -> Drawing | Hole:
    """Draw the density of p-values."""
    data = where(tables.audit, metric="p_value_density")[["at", "value"]]
    if data.empty:
        return NOT_RUN
    half = 0.5 / len(data)
    rate = estimate(tables.audit, "wrong_captions")
    chart = recipes.histogram(
        data.assign(panel="All pairs", bin_low=data["at"] - half, bin_high=data["at"] + half),
        alt.X("bin_low:Q", title="p-value of the caption among random captions", scale=SHARE),
        alt.Y("value:Q", title="Density (log scale)",
              axis=alt.Axis(values=[0, 0.1, 1, 10], labelExpr="format(datum.value, '.4~g')"),
              scale=alt.Scale(type="symlog", constant=0.1)),
        alt.value(style.ONLY), ("at:Q:p-value", "value:Q:density"),
        level=("estimated share of wrong captions", rate.value) if rate else None,
    )  # fmt: skip
    return Drawing(chart, data)


def audit_calibration(tables: Tables) -> Drawing | Hole:
    """Draw estimated against true shares."""
    data = known_rates(tables)
    data = data[~data["scheme"].isin(UNSEEN)]
    if data.empty:
        return NOT_RUN
    data = data[data["true"].notna()].drop(columns="made")
    if data.empty:
        return UNKNOWN
    series = sorted(set(data["series"]), key=[*ESTIMATES].index)
    place = data["series"].map(series.index) - (len(series) - 1) / 2
    chart = recipes.scatter(
        data.assign(panel="Captions: " + data["scheme"], drawn_at=data["true"] + APART * place),
        alt.X("drawn_at:Q", title="True share of wrong captions", scale=ROOMY),
        alt.Y("value:Q", title="Estimated share", scale=ROOMY),
        charts.colour("series", "Estimate", ESTIMATES, series),
        ("series:N:estimate", "true:Q:true share", "value:Q:estimated", "low:Q:from", "high:Q:to"),
        slope=("true share", 1),
    )  # fmt: skip
    own = Note("audit", "figure_known", before=wrong_before(tables))
    return Drawing(chart, data, () if captions_are_right(tables) else (own,))


def audit_reliability(tables: Tables) -> Drawing | Hole:
    """Draw the share of wrong captions in bins of their probability."""
    data = where(separations(tables), metric="reliability")[["at", "corrected", "n"]]
    data = data.rename(columns={"corrected": "value"})
    if data.empty:
        return NOT_RUN
    if data["value"].isna().all():
        return UNKNOWN
    chart = _against_probability(data, "Pairs with permuted captions", "bin", "n:Q:pairs")
    own = Note("audit", "figure_reliable", before=wrong_before(tables))
    return Drawing(chart, data, () if captions_are_right(tables) else (own,))


def audit_by_eye(tables: Tables) -> Drawing | Hole:
    """Draw the share of wrong captions by a person's labels in strata of the probability."""
    data = where(tables.audit, metric="checked_reliability")[["at", "value", "n", "low", "high"]]
    if data.empty:
        return UNLABELLED
    further = "low:Q:from", "high:Q:to", "n:Q:labels"
    return Drawing(_against_probability(data, "Labelled pairs", "stratum", *further), data)


def _against_probability(data: pd.DataFrame, panel: str, part: str, *further: str) -> Any:
    """Return shares against probabilities; the last of `further` names what points count."""
    sizes = sorted({data["n"].min(), data["n"].median(), data["n"].max()})
    legend = alt.Legend(values=[round(size) for size in sizes])
    return recipes.scatter(
        data.assign(panel=panel),
        alt.X("at:Q", title=f"Mean probability of the {part}", scale=ROOMY),
        alt.Y("value:Q", title="Share of wrong captions", scale=ROOMY), alt.value(style.ONLY),
        ("at:Q:probability", "value:Q:share wrong", *further),
        slope=("share equal to probability", 1),
        size=alt.Size("n:Q", title=further[-1].split(":")[-1].capitalize(), legend=legend,
                      scale=alt.Scale(type="sqrt", range=[30, 400])),
    )  # fmt: skip


def small_audit(tables: Tables) -> Drawing | Hole:
    """Draw estimated against true shares of permuted captions, with trusted pairs if it can.

    The claim next to it is on these; without trusted pairs there is an upper limit alone.
    """
    random = where(known_rates(tables), scheme=MAIN)
    rates = random[random["series"] == UNTOUCHED]
    if rates.empty:
        return NOT_RUN
    rates = rates[rates["true"].notna()]
    if rates.empty:
        return UNKNOWN
    trusted = random[random["series"] == TRUSTED]
    series, rates = (UNTOUCHED, rates) if trusted.empty else (TRUSTED, trusted)
    points = rates.rename(columns={"true": "x"})[["x", "value", "low", "high"]]
    return Drawing(*small_figures.scatter(
        points.reset_index(drop=True), "True share of wrong captions", "Estimated share",
        colour=ESTIMATES[series], diagonal="true share",
    ))  # fmt: skip
