"""Figures of conditions around the presets: the bridge, the grid and the sweep over d."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from mispair.core.words import number
from mispair.report import charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables
from mispair.simulation.report.claims_scaling import MEASURES, PROFILE, fitted, of_sweep, values
from mispair.simulation.report.conditions import (
    CONCLUSIONS,
    FAR_END,
    Cell,
    bridge_base,
    bridge_changes,
    grid_cells,
    largest_changes,
)
from mispair.simulation.report.panels import hole, unit

TITLES = {
    "purified_features": "Gain in purified features",
    "accuracy": "Gain in zero-shot accuracy",
}

SHOWN = ("failure", "residual", "wrong", "missing", "gap", "unpurified")
"""Measures that have a panel."""

CURVES = {"raw": style.ORANGE, "filtered": style.BLUE, "generated": style.VIOLET,
         "filtered, more neurons": style.SKY}  # fmt: skip
"""Arms and sources of captions; the sweep with more neurons has the filtered arm only."""

LOG = alt.Scale(type="log", nice=False, padding=8)


def simulation_bridge(tables: Tables) -> Drawing | Hole:
    """Draw what each switch between the presets changes in each measure, thrown alone."""
    data = bridge_changes(tables)
    if data.empty:
        return hole(tables, Note("simulation", "hole_bridge"))
    names = sorted(set(data["switch"]) - {FAR_END})
    order = names + ([FAR_END] if FAR_END in set(data["switch"]) else [])
    panels = [
        _changes(metric, title, order, charts.limited(data, metric=metric))
        for metric, title in style.MEASURES.items()
    ]
    chart = charts.side_by_side(panels, 2, data, gap=116)
    return Drawing(chart, data, [_largest_changes(tables, data)], "trained_on")


def _changes(metric: str, title: str, order: list[str], limited: bool) -> charts.Panel:
    axis = alt.Y("switch:N", title="Switch", sort=order, axis=alt.Axis(labelLimit=150))
    base = alt.Chart().encode(
        y=axis,
        yOffset=alt.YOffset("trained_on:N", sort=list(style.CHANGES)),
        color=charts.colour("trained_on", "Change of", style.CHANGES, list(style.CHANGES)),
    )
    tips = charts.tips(
        "switch:N:switch", "trained_on:N:change of", "value:Q:change", "low:Q:from", "high:Q:to",
        "n:Q:pairs",
    )  # fmt: skip
    axis_title = f"Change ({unit(title).lower()})"
    parts = [
        alt.Chart().mark_rule(color=style.GREY).encode(x=alt.datum(0)),
        base.mark_circle(size=34)
        .encode(x=alt.X("value:Q", title=axis_title), opacity=charts.fade(1), tooltip=tips)
        .properties(name=f"{charts.VIEW}{metric}"),
    ]
    if limited:
        interval = base.mark_rule(strokeWidth=1.6).encode(
            x=alt.X("low:Q", title=axis_title), x2="high:Q", opacity=charts.fade(0.8), tooltip=tips
        )
        parts.insert(1, interval)
    layered = alt.layer(*parts).transform_filter(f"datum.metric == '{metric}'")
    return layered.properties(
        width=charts.WIDTH - 110, height=34 * len(order), title=title.split(" (")[0]
    )


def _largest_changes(tables: Tables, data: pd.DataFrame) -> Note:
    start, largest = bridge_base(tables.simulation), largest_changes(data)
    changes = [
        (metric, title.split(" (")[0].lower(), largest.get(metric))
        for metric, title in style.MEASURES.items()
    ]
    return Note("simulation", "figure_bridge", start=start, changes=changes)


def simulation_grid(tables: Tables) -> Drawing | Hole:
    """Draw the gain by filtering in every cell of the grid, at its largest C_s."""
    in_grid = grid_cells(tables)
    if not in_grid:
        return hole(tables, Note("simulation", "hole_grid"))
    shown = max(cell.spurious_probability for cell in in_grid)
    in_grid = [cell for cell in in_grid if cell.spurious_probability == shown]
    data = pd.DataFrame([row for cell in in_grid for row in _heat(cell)])
    if data["value"].isna().all() and not data["failed"].any():
        return Hole(Note("simulation", "hole_both_arms"))
    noise = list(dict.fromkeys(cell.noise for cell in in_grid))
    models = sorted({cell.misalignment for cell in in_grid})
    schedules = sorted({cell.bias for cell in in_grid})
    panels = [
        _heat_map(metric, bias, noise, models, data) for metric in CONCLUSIONS for bias in schedules
    ]
    chart = charts.side_by_side(panels, min(3, len(schedules)), data, gap=136)
    return Drawing(chart.resolve_scale(color="independent"), data, [_held(in_grid, shown)])


def _heat(cell: Cell) -> list[dict[str, object]]:
    rows = []
    for metric in CONCLUSIONS:
        gain = cell.gains[metric]
        text = number(gain.value, 1 if metric == "purified_features" else 3, sign=True)
        is_finite = math.isfinite(gain.value)
        mark = cell.mark(metric)
        rows.append({
            "metric": metric, "noise": cell.noise, "misalignment": cell.misalignment,
            "bias_schedule": cell.bias, "spurious_probability": cell.spurious_probability,
            "value": gain.value, "low": gain.low, "high": gain.high, "n": gain.n,
            "raw": cell.raw[metric], "mark": mark, "failed": cell.failed,
            "text": f"{text}\n{mark}" if is_finite else (_state(cell.failed) or "–"),
        })  # fmt: skip
    return rows


def _state(failed: str) -> str:
    return " and ".join(word for word in ("silenced", "diverged") if word in failed)


def _heat_map(
    metric: str, bias: str, noise: list[str], models: list[str], data: pd.DataFrame
) -> charts.Panel:
    magnitudes = data.loc[data["metric"] == metric, "value"].abs()
    # Twice the largest gain, so that cells stay light enough for their text.
    reach = (
        2 * float(magnitudes.max()) if magnitudes.notna().any() and magnitudes.max() > 0 else 1.0
    )
    base = alt.Chart().encode(
        x=alt.X("noise:N", title="Noise", sort=noise, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("misalignment:N", title="Misalignment", sort=models),
    )
    scale = alt.Scale(scheme="purpleorange", domain=[-reach, reach], reverse=True)
    tips = charts.tips(
        "noise:N:noise", "misalignment:N:misalignment", "value:Q:gain", "low:Q:from",
        "high:Q:to", "raw:Q:raw", "mark:N:conclusion", "failed:N:without a result", "n:Q:trials",
    )  # fmt: skip
    parts = [
        base.mark_rect(stroke="white", color="#eaeef2").encode(tooltip=tips),
        base.mark_rect(stroke="white").encode(
            color=alt.Color("value:Q", scale=scale, legend=None), tooltip=tips
        ).transform_filter("isValid(datum.value)"),
        base.mark_text(color=style.INK, lineBreak="\n", dy=-6).encode(text="text:N"),
    ]  # fmt: skip
    title = alt.TitleParams(text=TITLES[metric], subtitle=f"bias {bias}", subtitleColor=style.QUIET)
    layered = alt.layer(*parts).transform_filter(
        f"datum.metric == '{metric}' && datum.bias_schedule == '{bias}'"
    )
    width = min(charts.WIDTH - 70, max(230, 100 * len(noise)))
    return layered.properties(width=width, height=44 * len(models), title=title)


def _held(in_grid: list[Cell], shown: float) -> Note:
    conclusions = [
        (label, *(sum(cell.mark(metric) == mark for cell in in_grid)
                  for mark in ("holds", "reversed")))
        for metric, label in CONCLUSIONS.items()
    ]  # fmt: skip
    return Note(
        "simulation", "figure_grid", probability=shown, conditions=len(in_grid),
        conclusions=conclusions, lost=sum(bool(cell.failed) for cell in in_grid),
    )  # fmt: skip


def simulation_scaling(tables: Tables) -> Drawing | Hole:
    """Draw each measure by d on logarithmic axes, with the power law fitted to it."""
    data = _scaling_data(tables)
    if data.empty:
        return hole(tables, Note("simulation", "hole_scaling", profile=PROFILE))
    panels = [
        _power_laws(measure, charts.limited(data, measure=measure))
        for measure in SHOWN
        if measure in set(data["measure"])
    ]
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data, [_slopes(tables)], "of")


def _scaling_data(tables: Tables) -> pd.DataFrame:
    rows = []
    for wide in (False, True):
        table = of_sweep(tables, wide)
        fits = fitted(table, 0.95)
        for (measure, name), by_d in values(table).items():
            label = f"{name}, more neurons" if wide else name
            if measure not in SHOWN or label not in CURVES:
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


def _power_laws(measure: str, limited: bool) -> charts.Panel:
    tips = charts.tips("of:N:of", "features:Q:d", "value:Q:mean", "low:Q:−1 s.d.",
                       "high:Q:+1 s.d.", "n:Q:trials", "bound:N:upper bound")  # fmt: skip
    base = alt.Chart().encode(
        x=alt.X("features:Q", title="Number of features d (log scale)", scale=LOG,
                axis=alt.Axis(values=[20, 30, 50, 80, 120])),
        y=alt.Y("value:Q", title=f"{MEASURES[measure].split(' (')[0]} (log scale)", scale=LOG),
        color=charts.colour("of", "Of", CURVES, list(CURVES)),
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


def _slopes(tables: Tables) -> Note:
    fits = fitted(of_sweep(tables), 0.95)
    slopes = {
        arm: fits["failure", arm].effect.value
        for arm in ("raw", "filtered")
        if ("failure", arm) in fits
    }
    return Note("simulation", "figure_slopes", slopes=slopes)
