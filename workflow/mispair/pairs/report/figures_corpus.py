"""The figures of the corpus: lengths of its captions and sizes of its images."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from mispair.report import charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables
from mispair.report.tables import records as rows_of

CAPTIONS = {
    "caption_words_histogram": "Words of the caption",
    "caption_characters_histogram": "Characters of the caption",
}
IMAGES = {"image_shorter_side_histogram": "Shorter side of the image, in pixels"}


def histogram(tables: Tables, metric: str) -> pd.DataFrame:
    """Return the bins of a histogram in order: bin_low, bin_high, value (pairs) and share."""
    table = tables.corpus
    bins = table[(table["metric"] == metric) & table["bin_low"].notna() & table["value"].notna()]
    bins = bins.sort_values("bin_low")[["bin_low", "bin_high", "value"]]
    return bins.assign(share=bins["value"] / max(bins["value"].sum(), 1)).reset_index(drop=True)


def caption_lengths(tables: Tables) -> Drawing | Hole:
    """Kept pairs by the words and by the characters of their caption."""
    return _bars(tables, CAPTIONS)


def image_sizes(tables: Tables) -> Drawing | Hole:
    """Kept pairs by the shorter side of their image."""
    return _bars(tables, IMAGES)


def _bars(tables: Tables, titles: dict[str, str]) -> Drawing | Hole:
    histograms = {metric: histogram(tables, metric) for metric in titles}
    histograms = {metric: bins for metric, bins in histograms.items() if bins["value"].sum() > 0}
    if not histograms:
        return Hole(Note("pairs", "hole_statistics"))
    data = pd.concat(
        [bins.assign(metric=metric, bin=[label(row) for row in rows_of(bins)])
         for metric, bins in histograms.items()],
        ignore_index=True,
    )  # fmt: skip
    panels: list[charts.Panel] = [
        alt.Chart()
        .transform_filter(f"datum.metric == '{metric}'")
        .mark_bar(color=style.STARTS["pretrained"])
        .encode(
            x=alt.X("bin:N", title=titles[metric], sort=None,
                    axis=alt.Axis(labelAngle=0, labelOverlap="greedy", grid=False)),
            y=alt.Y("share:Q", title="Share of kept pairs",
                    axis=alt.Axis(format="~%")),
            tooltip=[*charts.tips("bin:N:from to", "share:Q:share"),
                     alt.Tooltip("value:Q", title="pairs", format=",.0f")],
        )
        .properties(width=charts.WIDTH if len(histograms) > 1 else 2 * charts.WIDTH, height=180)
        for metric in histograms
    ]  # fmt: skip
    return Drawing(charts.side_by_side(panels, 2, data), data)


def label(row: dict[str, float]) -> str:
    """Name a bin: its one whole number, its first and last, or its first with "+".

    Examples
    --------
    >>> label({"bin_low": 3, "bin_high": 4}), label({"bin_low": 8, "bin_high": 16})
    ('3', '8–15')
    """
    low, high = row["bin_low"], row["bin_high"]
    if not math.isfinite(high):
        return f"{low:g}+"
    return f"{low:g}" if high - low <= 1 else f"{low:g}–{high - 1:g}"
