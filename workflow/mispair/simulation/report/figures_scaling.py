"""The figure of the sweep over the number of features d: measures with their slopes."""

from __future__ import annotations

import altair as alt
import pandas as pd

from mispair.core.words import number
from mispair.report import charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables
from mispair.simulation.report.claims_scaling import MEASURES, PROFILE, fitted, of_sweep, values
from mispair.simulation.report.figures_figure1 import NOT_RUN
from mispair.simulation.report.runs import PRESETS

SHOWN = ("failure", "residual", "wrong", "missing", "gap", "unpurified")
"""Measures that have a panel."""

NAMES = {"raw": style.ORANGE, "filtered": style.BLUE, "generated": style.VIOLET,
         "filtered, more neurons": style.SKY}  # fmt: skip
"""Arms, and sources of captions; of the sweep with more neurons the filtered arm alone."""

LOG = alt.Scale(type="log", nice=False, padding=8)


def simulation_scaling(tables: Tables) -> Drawing | Hole:
    """Draw each measure by d on logarithmic axes, with the power law fitted to it."""
    data = _data(tables)
    if data.empty:
        return Hole(
            NOT_RUN if tables.simulation.empty else "slopes over d need the configuration "
            f"`{PROFILE}`"
        )  # fmt: skip
    panels = [
        _panel(measure, charts.limited(data, measure=measure))
        for measure in SHOWN
        if measure in set(data["measure"])
    ]
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data, _sentence(tables), "of")


def _data(tables: Tables) -> pd.DataFrame:
    rows = []
    for preset in PRESETS:
        for wide in (False, True):
            table = of_sweep(tables, preset, wide)
            fits = fitted(table, 0.95)
            for (measure, name), by_d in values(table).items():
                label = f"{name}, more neurons" if wide else name
                if measure not in SHOWN or label not in NAMES:
                    continue
                fit = fits.get((measure, name))
                for d, trials in by_d.items():
                    counts = pd.Series(trials)
                    mean = counts.mean() or (fit.means[d] if fit and d in fit.bounds else 0.0)
                    if mean > 0:
                        low = mean - counts.std()
                        rows.append({
                            "measure": measure, "of": label, "features": d, "value": mean,
                            "low": low if low > 0 else None, "high": mean + counts.std(),
                            "n": len(counts), "bound": bool(fit and d in fit.bounds),
                        })  # fmt: skip
    return pd.DataFrame(rows)


def _panel(measure: str, limited: bool) -> charts.Panel:
    tips = charts.tips("of:N:of", "features:Q:d", "value:Q:mean", "low:Q:−1 s.d.",
                       "high:Q:+1 s.d.", "n:Q:trials", "bound:N:upper bound")  # fmt: skip
    base = alt.Chart().encode(
        x=alt.X("features:Q", title="Number of features d (log scale)", scale=LOG,
                axis=alt.Axis(values=[20, 30, 50, 80, 120])),
        y=alt.Y("value:Q", title=f"{MEASURES[measure].split(' (')[0]} (log scale)", scale=LOG),
        color=charts.colour("of", "Of", NAMES, list(NAMES)),
        tooltip=tips,
    )  # fmt: skip
    # Points are a layer of their own: the legend's selection names one view of each panel.
    points = base.mark_circle(size=50).properties(name=f"{charts.VIEW}{measure}")
    bars = base.mark_rule(strokeWidth=1.2, opacity=0.6).encode(y="low:Q", y2="high:Q")
    parts = [bars.transform_filter("isValid(datum.low)")] if limited else []
    parts += [base.mark_line(), points]
    return alt.layer(*parts).transform_filter(f"datum.measure == '{measure}'").properties(
        title=MEASURES[measure], width=charts.WIDTH, height=charts.HEIGHT
    )  # fmt: skip


def _sentence(tables: Tables) -> str:
    parts = []
    for preset in PRESETS:
        fits = fitted(of_sweep(tables, preset), 0.95)
        for arm in ("raw", "filtered"):
            if fit := fits.get(("failure", arm)):
                parts.append(f"{arm} {number(fit.effect.value, 2, sign=True)}")
    if not parts:
        return "Too few values of d for a slope."
    return f"Slope of log(failure) on log(d): {', '.join(parts)}."
