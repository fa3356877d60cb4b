"""Figures of the study of towers trained from scratch on wrong captions."""

import altair as alt
import pandas as pd

from mispair.pretraining.report.pages import (
    MAIN,
    SMALLEST,
    captions,
    conditions,
    effects,
    less_clean,
    values,
)
from mispair.pretraining.settings import BASES, CLEAN, TOWERS
from mispair.report import charts, recipes, small_figures, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables
from mispair.report.texts import Note

CONFIDENCE = 0.95
"""Of the bars, as in the text of the figure."""

COMMAND = "snakemake --cores 2 --configfile config/pretraining-captions.yaml"


def _hole(table: pd.DataFrame) -> Hole:
    if table.empty:
        return Hole(Note("pretraining", "hole_not_run", command=COMMAND))
    return Hole(Note("pretraining", "hole_clean"))


def _captions(rows: pd.DataFrame) -> list[str]:
    return [captions(*each) for each in zip(rows["scheme"], rows["rate"], strict=True)]


def pretraining_mixing(tables: Tables) -> Drawing | Hole:
    """Draw the mixing score less that of clean captions, for each seed, scheme and basis."""
    table = tables.pretraining
    parts = []
    for tower, basis in ((tower, basis) for tower in TOWERS for basis in BASES):
        scores = values(table, "mixing", tower=tower, basis=basis)
        where = {"tower": tower, "basis": basis}
        parts.append(less_clean(scores).assign(layer="run", **where))
        means = [
            {"scheme": scheme, "rate": rate, "value": effect.value, "low": effect.low,
             "high": effect.high, "n": effect.n, "layer": "mean", **where}
            for (scheme, rate), effect in effects(scores, CONFIDENCE).items()
        ]  # fmt: skip
        parts.append(pd.DataFrame(means))
    data = pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)
    if data.empty:
        return _hole(table)
    data["captions"] = _captions(data)
    data["panel"] = data["tower"].str.capitalize() + " tower"
    order = [captions(*each) for each in conditions(table) if each[0] != CLEAN]
    least = "smallest effect of interest"
    chart = recipes.forest(
        data, "Mixing score less that of clean captions (correlation)",
        alt.Y("captions:N", title="Captions", sort=order),
        charts.colour("basis", "Basis", style.colours("basis"), [*data["basis"].unique()]),
        ("captions:N:captions", "basis:N:basis", "seed:Q:seed", "value:Q:difference",
         "low:Q:from", "high:Q:to"),
        offset="basis", toggle=True, step=19,
        levels=(("no difference", 0), (least, -SMALLEST), (least, SMALLEST)),
    )  # fmt: skip
    return Drawing(chart, data.drop(columns="panel"), toggle="basis")


def small_pretraining(tables: Tables) -> Drawing | Hole:
    """Draw the mixing score less that of clean captions, for each seed and scheme."""
    apart = less_clean(values(tables.pretraining, "mixing", **MAIN))
    if apart.empty:
        return _hole(tables.pretraining)
    runs = apart.assign(label=_captions(apart))
    chart, data = small_figures.dots(
        runs[["label", "value"]].reset_index(drop=True), "Mixing score − clean",
        colour=style.colours("basis")["identified"], levels=(0.0, SMALLEST),
    )  # fmt: skip
    return Drawing(chart, data)
