"""The figure of the regimes: the change of |cos| by pairs per parameter."""

from __future__ import annotations

import altair as alt
import pandas as pd
import vl_convert

from mispair.emoji.crossings import CONFIDENCE
from mispair.report import charts, style

TITLES = {
    "mean_abs_cosine_image": "Image projection",
    "mean_abs_cosine_text": "Text projection",
}


def sign_of_change(changed: pd.DataFrame) -> str:
    """Return the figure as SVG, from a table of `mispair.emoji.crossings.changes`."""
    rows = changed[changed["metric"].isin(TITLES)].sort_values("pairs")
    rows = rows.assign(panel=rows["metric"].map(TITLES) + ", scale " + rows["scale"])
    ticks = alt.Axis(values=[10.0**power for power in range(-6, 4)], format="~g")
    widths = sorted(rows["neurons"].unique().tolist())
    colours = alt.Scale(domain=widths, range=[style.CLASSES[n % 8] for n in range(len(widths))])
    change = alt.Y("value:Q", title="Change of mean |cos|")
    base = alt.Chart().encode(
        x=alt.X(
            "pairs_per_parameter:Q",
            scale=alt.Scale(type="log"),
            title="Pairs per parameter",
            axis=ticks,
        ),
        color=alt.Color("neurons:N", title="Neurons", scale=colours),
    )
    layered = alt.layer(
        alt.Chart().mark_rule(strokeDash=[4, 4]).encode(y=alt.datum(0)),
        base.mark_line().encode(y=change),
        base.mark_rule().encode(y=alt.Y("low:Q", title="Change of mean |cos|"), y2="high:Q"),
        base.mark_point(filled=True, size=50).encode(y=change),
        data=charts.values(rows),
    ).properties(width=260, height=200)
    chart = layered.facet(facet=alt.Facet("panel:N", title=None), columns=2)
    chart = chart.properties(
        title=f"Largest C_m − none, with {100 * CONFIDENCE:g} % t intervals over seeds"
    )
    return str(vl_convert.vegalite_to_svg(chart.to_dict()))
