"""Parts that several figures of the simulation share."""

from __future__ import annotations

from collections.abc import Collection

import altair as alt
import pandas as pd

from mispair.report import charts
from mispair.report.charts import Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables, where
from mispair.simulation.report.runs import first_trial


def hole(tables: Tables, reason: Note) -> Hole:
    """Return a hole with the given reason, or because the simulation was not run."""
    return Hole(Note("simulation", "hole_not_run") if tables.simulation.empty else reason)


def of_presets(
    table: pd.DataFrame, value: str = "value", **columns: str | Collection[str]
) -> pd.DataFrame:
    """Return the rows of presets that match `columns` and have a value."""
    rows = where(table, kind="preset", **columns)
    return rows[rows[value].notna()]


def first_points(tables: Tables, metric: str, **columns: Collection[str]) -> pd.DataFrame:
    """Return the points of each preset's first trial at its largest C_s."""
    rows = of_presets(tables.simulation_points, "x", metric=metric, **columns)
    return first_trial(rows[rows["y"].notna()])


def unit(title: str) -> str:
    """Return the title of a y axis below a heading that names the measure: its unit."""
    name, _, unit = title.rstrip(")").partition(" (")
    return f"{unit[:1].upper()}{unit[1:]}" or name


def condition_titles(data: pd.DataFrame) -> pd.Series:
    """Return condition and C_s of each row, as the title of its panel."""
    return data["condition"] + ", C_s = " + data["spurious_probability"].map("{:g}".format)


def faceted(chart: charts.Panel, height: float, order: list[str] | None = None) -> alt.FacetChart:
    """Repeat a chart for each value of ``panel``, two side by side."""
    by = alt.Facet("panel:N", title=None) if order is None else alt.Facet(
        "panel:N", title=None, sort=order
    )  # fmt: skip
    return chart.properties(width=charts.WIDTH, height=height).facet(facet=by, columns=2)
