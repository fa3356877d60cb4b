"""Figures of the conditions other than the presets: the bridge between them, and the grid."""

from __future__ import annotations

import math

import altair as alt
import pandas as pd

from mispair.core.words import count, number
from mispair.report import charts, style, verdicts
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables
from mispair.simulation.report import bridge
from mispair.simulation.report.comparison_conditions import MARKS
from mispair.simulation.report.figures_figure1 import NOT_RUN, unit
from mispair.simulation.report.grid import CONCLUSIONS, Cell, cells

TITLES = {
    "purified_features": "Gain in purified features",
    "accuracy": "Gain in zero-shot accuracy",
}


def simulation_bridge(tables: Tables) -> Drawing | Hole:
    """Draw what each switch between the presets changes in each measure, thrown alone."""
    data = bridge.changes(tables)
    if data.empty:
        return Hole(
            NOT_RUN if tables.simulation.empty else "switches are thrown with "
            "`simulate: {bridge_trials: 1}` or more"
        )  # fmt: skip
    names = sorted(set(data["switch"]) - {bridge.FAR_END})
    order = names + ([bridge.FAR_END] if bridge.FAR_END in set(data["switch"]) else [])
    panels = [
        _changes(metric, title, order, charts.limited(data, metric=metric))
        for metric, title in style.MEASURES.items()
    ]
    chart = charts.side_by_side(panels, 2, data, gap=116)
    return Drawing(chart, data, _bridge_sentence(tables, data), "trained_on")


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
    place_of = f"Change ({unit(title).lower()})"
    parts = [
        alt.Chart().mark_rule(color=style.GREY).encode(x=alt.datum(0)),
        base.mark_circle(size=34)
        .encode(x=alt.X("value:Q", title=place_of), opacity=charts.fade(1), tooltip=tips)
        .properties(name=f"{charts.VIEW}{metric}"),
    ]
    if limited:
        interval = base.mark_rule(strokeWidth=1.6).encode(
            x=alt.X("low:Q", title=place_of), x2="high:Q", opacity=charts.fade(0.8), tooltip=tips
        )
        parts.insert(1, interval)
    layered = alt.layer(*parts).transform_filter(f"datum.metric == '{metric}'")
    return layered.properties(
        width=charts.WIDTH - 110, height=34 * len(order), title=title.split(" (")[0]
    )


def _bridge_sentence(tables: Tables, data: pd.DataFrame) -> str:
    start = bridge.base(tables.simulation)
    largest_change = bridge.largest(data)
    parts = []
    for metric, title in style.MEASURES.items():
        digits = 1 if metric == "purified_features" else 3
        if metric in largest_change:
            value = number(float(str(largest_change[metric]["value"])), digits, sign=True)
            parts.append(
                f"{title.split(' (')[0].lower()}: {largest_change[metric]['switch']} ({value})"
            )
        else:
            parts.append(f"{title.split(' (')[0].lower()}: none that stands out")
    return (
        f"From {start}, the single switch that changes the gain by filtering most: "
        f"{'; '.join(parts)}."
    )


def simulation_grid(tables: Tables) -> Drawing | Hole:
    """Draw the gain by filtering in every cell of the grid, at its largest C_s."""
    grid_cells = cells(tables)
    if not grid_cells:
        return Hole(
            NOT_RUN
            if tables.simulation.empty
            else "`simulate: {grid_trials: 1}` or more runs the grid"
        )
    shown = max(cell.spurious_probability for cell in grid_cells)
    grid_cells = [cell for cell in grid_cells if cell.spurious_probability == shown]
    data = pd.DataFrame([row for cell in grid_cells for row in _heat(cell)])
    if data["value"].isna().all() and not data["failed"].any():
        return Hole("no trial of the grid gave numbers of both arms")
    noise = list(dict.fromkeys(cell.noise for cell in grid_cells))
    models = sorted({cell.misalignment for cell in grid_cells})
    schedules = sorted({cell.bias for cell in grid_cells})
    panels = [
        _heat_map(metric, bias, noise, models, data) for metric in CONCLUSIONS for bias in schedules
    ]
    chart = charts.side_by_side(panels, min(3, len(schedules)), data, gap=136)
    return Drawing(
        chart.resolve_scale(color="independent"), data, _grid_sentence(grid_cells, shown)
    )


def _heat(cell: Cell) -> list[dict[str, object]]:
    rows = []
    for metric in CONCLUSIONS:
        gain = cell.gains[metric]
        text = number(gain.value, 1 if metric == "purified_features" else 3, sign=True)
        is_finite = math.isfinite(gain.value)
        mark = MARKS.get(cell.outcomes[metric], "")
        rows.append({
            "metric": metric, "noise": cell.noise, "misalignment": cell.misalignment,
            "bias_schedule": cell.bias, "spurious_probability": cell.spurious_probability,
            "value": gain.value, "low": gain.low, "high": gain.high, "n": gain.n,
            "raw": cell.raw[metric], "outcome": cell.outcomes[metric], "failed": cell.failed,
            "text": f"{text}\n{mark}" if is_finite else (_state(cell.failed) or "–"),
        })  # fmt: skip
    return rows


def _state(failed: str) -> str:
    return " and ".join(word for word in ("silenced", "diverged") if word in failed)


def _heat_map(
    metric: str, bias: str, noise: list[str], models: list[str], data: pd.DataFrame
) -> charts.Panel:
    magnitudes = data.loc[data["metric"] == metric, "value"].abs()
    # Twice the largest gain: cells stay light enough for what is written in them.
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
        "high:Q:to", "raw:Q:raw", "outcome:N:claim", "failed:N:without a result", "n:Q:trials",
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


def _grid_sentence(grid_cells: list[Cell], shown: float) -> str:
    parts = []
    for metric, label in CONCLUSIONS.items():
        holds = sum(cell.outcomes[metric] == verdicts.SUPPORTS for cell in grid_cells)
        against = sum(cell.outcomes[metric] == verdicts.CONTRADICTS for cell in grid_cells)
        parts.append(f"that filtering {label} holds in {holds} and is reversed in {against}")
    lost = sum(bool(cell.failed) for cell in grid_cells)
    return (
        f"At C_s = {shown:g}, of {count(len(grid_cells), 'condition')}: {'; '.join(parts)}; "
        f"{lost} lost runs, silenced or diverged."
    )
