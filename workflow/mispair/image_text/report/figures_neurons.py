"""The figure of how neurons overlap: cosines of pairs by C_m."""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.evaluation.report.series import TOWERS
from mispair.image_text.report.figures_shuffling import missing
from mispair.report import charts
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables

SHARE = charts.tips(
    "rate:Q:C_m", "bin_low:Q:from", "bin_high:Q:to", "value:Q:share of pairs", "low:Q:−1 s.d.",
    "high:Q:+1 s.d.", "n:Q:seeds",
)  # fmt: skip


def cosine_histogram(tables: Tables) -> Drawing | Hole:
    """Distribution of signed cosines of neuron pairs, one line for each C_m."""
    rows = _histograms(tables)
    if rows.empty:
        return missing(tables.purity, Note("image_text", "hole_pretrained"))
    rows = rows.assign(cosine=(rows["bin_low"] + rows["bin_high"]) / 2)
    data = charts.summary(rows, ["tower", "rate", "bin_low", "bin_high", "cosine"])
    shown = data.loc[data["value"] > 5e-4, "cosine"].abs().max()
    domain = [-shown, shown]
    # Bins beyond the drawn part would only make the file larger.
    data = data[data["cosine"].abs() <= shown * 1.05]
    data, left_out = charts.within(data, "rate")
    rates = sorted(data["rate"].unique())
    panels = [
        charts.hovered(
            alt.Chart(name=f"{charts.VIEW}{tower}")
            .mark_line(interpolate="step", clip=True, strokeWidth=1.8)
            .encode(
            x=alt.X("cosine:Q", title="Cosine of two neurons",
                    scale=alt.Scale(domain=domain, nice=False)),
            y=alt.Y("value:Q", title="Share of pairs",
                    axis=alt.Axis(format="~%")),
            color=alt.Color("rate:O", title="C_m", legend=alt.Legend(columns=8), scale=alt.Scale(
                domain=rates, scheme=alt.SchemeParams("viridis", extent=[0.05, 0.85]))),
            opacity=charts.fade(1),
            ),
            SHARE,
        )
        .transform_filter(f"datum.tower == '{tower}'")
        .properties(width=charts.WIDTH, height=charts.HEIGHT,
                    title=f"{tower.capitalize()} projection")
        for tower in TOWERS if tower in set(data["tower"])
    ]  # fmt: skip
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data, left_out, "rate")


def _histograms(tables: Tables) -> pd.DataFrame:
    table = tables.purity
    selected = (table["metric"] == "cosine_histogram") & (table["start"] == "pretrained")
    return table[selected & table["value"].notna() & table["rate"].notna()]
