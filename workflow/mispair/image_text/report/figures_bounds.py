"""Figure of the verdicts as a function of the smallest effect of interest."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from mispair.image_text.report.arms import TOWERS
from mispair.image_text.report.claims import ACCURACY, OVERLAP, of_cosine
from mispair.report import charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.claims import THIRD
from mispair.report.judge import PRIMARY
from mispair.report.notes import Note
from mispair.report.rules import decide
from mispair.report.tables import Tables

SHARES = tuple(round(0.2 + 0.05 * step, 2) for step in range(7))
"""Smallest effects of interest, as shares of the published effect."""

CONFIDENCE = 0.95


def verdict_by_bound(tables: Tables) -> Drawing | Hole:
    """Draw the outcome of the primary claims on shuffling for each smallest effect of interest."""
    measured = {}
    for tower in TOWERS:
        directions = OVERLAP.measure(tables, CONFIDENCE).parts[tower]
        measured[f"directions, {tower}"] = (directions, -1)
        measured[f"mean |cos|, {tower}"] = (of_cosine(tables, CONFIDENCE, tower), 1)
    measured["accuracy"] = (ACCURACY.measure(tables, CONFIDENCE), -1)
    alpha = (1 - CONFIDENCE) / PRIMARY
    rows = [
        {
            "measure": name,
            "share": share,
            "outcome": decide("effect", each.effect, sign, share * each.bound / THIRD, alpha)[0],
            "of_published": abs(each.effect.value) / each.bound * THIRD,
        }
        for name, (each, sign) in measured.items()
        for share in SHARES
        if math.isfinite(each.effect.value)
    ]
    if not rows:
        return Hole(Note("image_text", "hole_bounds"))
    data = pd.DataFrame(rows)
    base = alt.Chart().encode(
        x=alt.X("share:O", title="Smallest effect of interest (share of the published effect)",
                axis=alt.Axis(labelAngle=0)),
        y=alt.Y("measure:N", title="Effect", sort=[*measured]),
    )  # fmt: skip
    present = [name for name in style.OUTCOMES if name in set(data["outcome"])]
    tiles = base.mark_rect(stroke="white").encode(
        color=charts.colour("outcome", "Outcome", style.OUTCOMES, present),
        tooltip=charts.tips("measure:N:measure", "share:Q:bound, share of published",
                            "of_published:Q:effect, share of published", "outcome:N:outcome"),
    )  # fmt: skip
    chart = alt.layer(tiles).properties(width=320, height=30 * data["measure"].nunique())
    return Drawing(charts.side_by_side([chart], 1, data), data)
