"""The figures of the simulation study: a function of the name of each figure draws it."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import altair as alt
import pandas as pd

from mispair.report import charts, published, small_figures, style
from mispair.report.charts import Drawing, Hole
from mispair.report.notes import Note
from mispair.report.tables import Tables, where
from mispair.simulation.presets import AT_LEAST
from mispair.simulation.report.claims_scaling import MEASURES, PROFILE, fitted, of_sweep, values
from mispair.simulation.report.effects import FAR_END, bridge_changes
from mispair.simulation.report.selections import (
    PAIR,
    PRESETS,
    TOLERANCES,
    best,
    main,
    of_preset,
    points,
    presets,
    runs,
)

LOG = alt.Scale(type="log", nice=False, padding=8)
CLAIMED = ("failure", "residual", "wrong", "missing", "gap", "unpurified")
"""Measures over d that have a panel."""

SWEEPS = {"raw": style.ORANGE, "filtered": style.BLUE, "generated": style.VIOLET,
          "filtered, more neurons": style.SKY}  # fmt: skip
"""Arms and sources of captions; the sweep with more neurons has the filtered arm only."""

ALIGNED = {f"alignment_{name}": name for name in style.FEATURES}
SOURCES = {"measured": [1, 0], "eq34": [7, 3], "eq35": [2, 2]}
"""Dashes of alignments as measured and by the equations."""
EQUATIONS = {"measured": "measured", "eq34": "Eq. 34", "eq35": "Eqs. 35-36"}


def _hole(tables: Tables, reason: Note) -> Hole:
    """Return a hole with the given reason, or because the simulation was not run."""
    return Hole(Note("simulation", "hole_not_run") if tables.simulation.empty else reason)


def _at_largest(table: pd.DataFrame, **columns: object) -> pd.DataFrame:
    """Return the rows of presets that match `columns`, at the largest C_s of each."""
    rows = where(table, kind="preset", **columns)
    largest = rows.groupby("condition")["spurious_probability"].transform("max")
    return rows[rows["spurious_probability"] == largest]


def _titles(data: pd.DataFrame) -> pd.Series:
    """Return condition and C_s of each row, as the title of its panel."""
    return data["condition"] + ", C_s = " + data["spurious_probability"].map("{:g}".format)


def _unit(title: str) -> str:
    """Return the title of an axis below a heading that names the measure: its unit."""
    name, _, unit = title.rstrip(")").partition(" (")
    return f"{unit[:1].upper()}{unit[1:]}" or name


# Figure 1 ---------------------------------------------------------------------------------------


def simulation_figure1_as_written(tables: Tables) -> Drawing | Hole:
    """Draw figure 1 with the settings of the text, repaired."""
    return _figure1(tables, "as-written")


def simulation_figure1_as_run(tables: Tables) -> Drawing | Hole:
    """Draw figure 1 with the settings of the public code."""
    return _figure1(tables, "as-run")


def _figure1(tables: Tables, preset: str) -> Drawing | Hole:
    """Draw the four measures of figure 1 of one preset, with every run and the published points."""
    table = main(of_preset(tables.simulation, preset))
    each = where(table, metric=style.MEASURES, trained_on=PAIR).dropna(subset=["value"])
    if each.empty:
        ran = preset in presets(tables.simulation)
        return _hole(tables, Note("simulation", "hole_preset", preset=preset, ran=ran))
    keys = ["metric", "trained_on", "spurious_probability"]
    printed = published.figure1().melt(
        ["spurious_probability", "trained_on"], list(style.MEASURES), "metric", "value"
    )
    chosen = each.groupby(keys)["value"].agg(best).dropna().reset_index()
    data = charts.layers(
        each[[*keys, "trial", "value"]], keys, chosen.assign(layer="best"),
        printed.assign(layer="published"),
    )  # fmt: skip
    data, left_out = charts.within(data, "spurious_probability")
    panels = [
        _measure(data, metric, f"({letter}) {title.split(' (')[0]}", _unit(title))
        for (metric, title), letter in zip(style.MEASURES.items(), "abcd", strict=True)
    ]
    return Drawing(charts.side_by_side(panels, 2, data), data, left_out, "trained_on")


def _measure(data: pd.DataFrame, metric: str, heading: str, unit: str) -> charts.Panel:
    base = alt.Chart().encode(
        x=charts.x_axis("spurious_probability", style.CS),
        y=charts.y_axis(unit),
        color=charts.colour("trained_on", "Trained on", style.ARMS, list(PAIR)),
        tooltip=charts.tips(
            "trained_on:N:trained on", "spurious_probability:Q:C_s", "value:Q:value", "n:Q:runs",
            "trial:Q:trial", "layer:N:what",
        ),
    )  # fmt: skip
    dotted = alt.OverlayMarkDef(shape="diamond", size=42, filled=False)
    dashed = alt.OverlayMarkDef(shape="triangle-up", size=48, filled=False)
    layers = {
        "run": base.mark_circle(size=22).encode(opacity=charts.fade(0.3)),
        "published": base.mark_line(strokeDash=[2, 3], strokeWidth=1.2, point=dotted).encode(
            opacity=charts.fade(0.9)
        ),
        "best": base.mark_line(strokeDash=[7, 3], strokeWidth=1.4, point=dashed).encode(
            opacity=charts.fade(0.9)
        ),
        "mean": base.mark_line(point=alt.OverlayMarkDef(size=50))
        .encode(opacity=charts.fade(1))
        .properties(name=f"{charts.VIEW}{metric}"),
    }
    # A layer without rows would cause a browser warning about an empty axis.
    drawn = set(where(data, metric=metric)["layer"])
    parts = [charts.only(chart, layer) for layer, chart in layers.items() if layer in drawn]
    if charts.limited(data, metric=metric):
        parts.insert(0, charts.band(charts.only(base, "mean")))
    panel = alt.layer(*parts).transform_filter(f"datum.metric == '{metric}'")
    return panel.properties(width=charts.WIDTH, height=charts.HEIGHT, title=heading)


# What neurons learn -----------------------------------------------------------------------------


def simulation_cosines(tables: Tables) -> Drawing | Hole:
    """Draw histograms of |cos| of neurons with the dictionaries, raw and filtered."""
    rows = _at_largest(tables.simulation, metric="cosine_histogram", trained_on=PAIR)
    rows = rows.dropna(subset=["value"])
    if rows.empty:
        return _hole(tables, Note("simulation", "hole_histogram"))
    panel = ["condition", "tower", "trained_on"]
    share = rows["value"] / rows.groupby([*panel, "trial"])["value"].transform("sum")
    data = charts.summary(
        rows.assign(value=share), [*panel, "spurious_probability", "bin_low", "bin_high"]
    )
    data["panel"] = _titles(data) + ": " + data["tower"] + " neurons, " + data["trained_on"]
    # Raw and filtered of one preset are side by side.
    order = data.sort_values(panel, ascending=[True, False, False])["panel"].unique().tolist()
    tips = charts.tips("panel:N:", "bin_low:Q:from", "bin_high:Q:to", "value:Q:share of pairs",
                       "low:Q:−1 s.d.", "high:Q:+1 s.d.", "n:Q:trials")  # fmt: skip
    bars = alt.Chart().mark_bar(binSpacing=0).encode(
        x=alt.X("bin_low:Q", title="|cos| of neuron and feature", bin="binned",
                axis=alt.Axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1], format="~g")),
        x2="bin_high:Q",
        y=alt.Y("value:Q", title="Share of pairs", axis=alt.Axis(format="~%"),
                scale=alt.Scale(type="sqrt")),
        color=charts.colour("trained_on", "Trained on", style.ARMS, list(PAIR)),
        tooltip=tips,
    )  # fmt: skip
    spread = alt.Chart().mark_rule(color=style.INK, strokeWidth=0.8).encode(
        x="middle:Q", y="floor:Q", y2="high:Q", tooltip=tips
    ).transform_calculate(
        floor="max(datum.low, 0)", middle="(datum.bin_low + datum.bin_high) / 2"
    )  # fmt: skip
    parts = [bars, spread] if charts.limited(data) else [bars]
    chart = _faceted(alt.layer(*parts, data=charts.values(data)), 140, order)
    return Drawing(chart.resolve_axis(x="independent"), data.drop(columns="panel"))


def _faceted(chart: charts.Panel, height: float, order: list[str]) -> alt.FacetChart:
    """Repeat a chart for each value of ``panel``, two side by side."""
    facet = alt.Facet("panel:N", title=None, sort=order)
    return chart.properties(width=charts.WIDTH, height=height).facet(facet=facet, columns=2)


def simulation_mixing(tables: Tables) -> Drawing | Hole:
    """Draw each neuron's largest against its second |cos|, raw and filtered, of one trial."""
    rows = _at_largest(tables.simulation_points, metric="neuron_alignment", trained_on=PAIR)
    rows = rows.dropna(subset=["x", "y"])
    rows = rows[rows["trial"] == rows.groupby("condition")["trial"].transform("min")]
    if rows.empty:
        return _hole(tables, Note("simulation", "hole_neurons"))
    columns = ["condition", "spurious_probability", "trial", "tower", "trained_on", "neuron"]
    data = rows[[*columns, "x", "y"]]
    panel = _titles(data) + ": " + data["tower"] + " neurons"
    shown = data[["trained_on", "neuron", "x", "y"]].assign(panel=panel)
    scale = alt.Scale(domain=[0, 1])
    x = alt.X("x:Q", title="Largest |cos| with a feature", scale=scale)
    y = alt.Y("y:Q", title="Second largest |cos|", scale=scale)
    half = (
        alt.Chart()
        .mark_rule(color=style.GREY, strokeDash=[4, 4])
        .transform_aggregate(n="count()", groupby=["panel"])
        .encode(x=alt.datum(0), y=alt.datum(0), x2=alt.datum(1), y2=alt.datum(AT_LEAST))
    )
    neurons = alt.Chart().mark_circle(size=36, opacity=0.6).encode(
        x=x, y=y, color=charts.colour("trained_on", "Trained on", style.ARMS, list(PAIR)),
        tooltip=charts.tips("trained_on:N:trained on", "neuron:Q:neuron", "x:Q:largest",
                            "y:Q:second"),
    )  # fmt: skip
    layers = alt.layer(neurons, half, data=charts.values(shown, 4))
    return Drawing(_faceted(layers, charts.HEIGHT, sorted(set(panel))), data)


def simulation_dynamics(tables: Tables) -> Drawing | Hole:
    """Draw alignments with true, spurious and other features by step, and by the equations."""
    rows = where(tables.simulation, kind="preset", metric=ALIGNED, source=SOURCES)
    rows = rows.dropna(subset=["value"])
    if rows.empty:
        return _hole(tables, Note("simulation", "hole_alignments"))
    c_s = rows.groupby("condition")["spurious_probability"]
    ends = [rows["spurious_probability"] == c_s.transform(end) for end in ("min", "max")]
    rows = rows[ends[0] | ends[1]].replace({"metric": ALIGNED, "source": EQUATIONS})
    rows = rows.rename(columns={"metric": "feature"})
    data = charts.summary(rows, ["condition", "spurious_probability", "feature", "source", "step"])
    # The spread of the equations is that of their starts, which are the measured ones.
    data.loc[(data["source"] != "measured") | (data["low"] <= 0), ["low", "high"]] = float("nan")
    data, left_out = charts.within(data.assign(panel=_titles(data)), "step")
    panels = [_alignments(data, panel) for panel in sorted(set(data["panel"]))]
    chart = charts.side_by_side(panels, 2, data)
    return Drawing(chart, data.drop(columns="panel"), left_out, "feature")


def _alignments(data: pd.DataFrame, panel: str) -> charts.Panel:
    dashes = alt.Scale(domain=list(EQUATIONS.values()), range=list(SOURCES.values()))
    base = alt.Chart().encode(
        x=alt.X("step:Q", title="Training step", scale=alt.Scale(zero=False, nice=False)),
        y=alt.Y("value:Q", title="|Alignment| (log scale)", scale=LOG),
        color=charts.colour("feature", "Features", style.FEATURES, list(style.FEATURES)),
    )
    tips = charts.tips("feature:N:feature", "source:N:", "step:Q:step", "value:Q:mean |alignment|",
                       "low:Q:−1 s.d.", "high:Q:+1 s.d.", "n:Q:trials")  # fmt: skip
    legend = alt.Legend(symbolType="stroke", symbolSize=400, symbolOpacity=1)
    name = charts.VIEW + "".join(filter(str.isalnum, panel))
    line = base.mark_line().encode(
        strokeDash=alt.StrokeDash("source:N", title="Alignments", legend=legend, scale=dashes),
        opacity=charts.fade(1),
    )
    band = [charts.band(base)] if charts.limited(data, panel=panel) else []
    curves = charts.hovered(line.properties(name=name), tips)
    layered = alt.layer(*band, curves).transform_filter(f"datum.panel == '{panel}'")
    return layered.properties(width=charts.WIDTH, height=charts.HEIGHT, title=panel)


# Conditions around the presets ------------------------------------------------------------------


def simulation_bridge(tables: Tables) -> Drawing | Hole:
    """Draw what each switch between the presets changes in each measure, thrown alone."""
    data = bridge_changes(tables)
    if data.empty:
        return _hole(tables, Note("simulation", "hole_bridge"))
    order = sorted(set(data["switch"]), key=lambda name: (name == FAR_END, name))
    panels = [_changes(data, metric, title, order) for metric, title in style.MEASURES.items()]
    return Drawing(charts.side_by_side(panels, 2, data, gap=116), data, toggle="trained_on")


def _changes(data: pd.DataFrame, metric: str, title: str, order: list[str]) -> charts.Panel:
    heading = f"Change ({_unit(title).lower()})"
    base = alt.Chart().encode(
        y=alt.Y("switch:N", title="Switch", sort=order, axis=alt.Axis(labelLimit=150)),
        yOffset=alt.YOffset("trained_on:N", sort=list(style.CHANGES)),
        color=charts.colour("trained_on", "Change of", style.CHANGES, list(style.CHANGES)),
        tooltip=charts.tips("switch:N:switch", "trained_on:N:change of", "value:Q:change",
                            "low:Q:from", "high:Q:to", "n:Q:pairs"),
    )  # fmt: skip
    zero = alt.Chart().mark_rule(color=style.GREY).encode(x=alt.datum(0))
    point = base.mark_circle(size=34).encode(
        x=alt.X("value:Q", title=heading), opacity=charts.fade(1)
    )
    interval = base.mark_rule(strokeWidth=1.6).encode(
        x=alt.X("low:Q", title=heading), x2=alt.X2("high:Q"), opacity=charts.fade(0.8)
    )
    intervals = [interval] if charts.limited(data, metric=metric) else []
    layered = alt.layer(zero, *intervals, point.properties(name=f"{charts.VIEW}{metric}"))
    return layered.transform_filter(f"datum.metric == '{metric}'").properties(
        width=charts.WIDTH - 110, height=34 * len(order), title=title.split(" (")[0]
    )


def simulation_scaling(tables: Tables) -> Drawing | Hole:
    """Draw each measure by d on logarithmic axes: a power law is a straight line."""
    data = pd.DataFrame(
        [row for wide in (False, True) for row in _means_over_d(of_sweep(tables, wide), wide)]
    )
    if data.empty:
        return _hole(tables, Note("simulation", "hole_scaling", profile=PROFILE))
    panels = [_over_d(data, measure) for measure in CLAIMED if measure in set(data["measure"])]
    return Drawing(charts.side_by_side(panels, 2, data), data, toggle="of")


def _means_over_d(table: pd.DataFrame, wide: bool) -> list[dict[str, object]]:
    """Return means and spreads; where nothing was counted, the upper bound of the fit."""
    rows, fits = [], fitted(table, 0.95)
    for (measure, name), by_d in values(table).items():
        label = f"{name}, more neurons" if wide else name
        if measure not in CLAIMED or label not in SWEEPS:
            continue
        fit = fits.get((measure, name))
        bounds = {d: fit.means[d] for d in fit.bounds} if fit else {}
        for d, trials in by_d.items():
            counts = pd.Series(trials)
            mean, spread = counts.mean() or bounds.get(d, 0.0), counts.std()
            if mean > 0:
                rows.append({
                    "measure": measure, "of": label, "features": d, "value": mean,
                    "low": mean - spread if mean > spread else None, "high": mean + spread,
                    "n": len(counts), "bound": d in bounds,
                })  # fmt: skip
    return rows


def _over_d(data: pd.DataFrame, measure: str) -> charts.Panel:
    ticks = alt.Axis(values=[20, 30, 50, 80, 120])
    base = alt.Chart().encode(
        x=alt.X("features:Q", title="Number of features d (log scale)", scale=LOG, axis=ticks),
        y=alt.Y("value:Q", title=f"{MEASURES[measure].split(' (')[0]} (log scale)", scale=LOG),
        color=charts.colour("of", "Of", SWEEPS, list(SWEEPS)),
        tooltip=charts.tips("of:N:of", "features:Q:d", "value:Q:mean", "low:Q:−1 s.d.",
                            "high:Q:+1 s.d.", "n:Q:trials", "bound:N:upper bound"),
    )  # fmt: skip
    # Points are a layer of their own: the legend's selection names one view of each panel.
    parts = [base.mark_line(), base.mark_circle(size=50).properties(name=charts.VIEW + measure)]
    if charts.limited(data, measure=measure):
        bars = base.mark_rule(strokeWidth=1.2, opacity=0.6).encode(y="low:Q", y2="high:Q")
        parts.insert(0, bars.transform_filter("isValid(datum.low)"))
    return alt.layer(*parts).transform_filter(f"datum.measure == '{measure}'").properties(
        title=MEASURES[measure], width=charts.WIDTH, height=charts.HEIGHT
    )  # fmt: skip


# Small figures ----------------------------------------------------------------------------------

UNITS = {
    "purified_features": "features",
    "purified_magnitude": "magnitude",
    "accuracy": "accuracy",
    "silhouette": "silhouette",
}


def _series(by_name: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Return the runs of several curves over C_s, for `small.curves`."""
    frames = [of.dropna().rename("value").reset_index().assign(series=name)
              for name, of in by_name.items()]  # fmt: skip
    columns = ["spurious_probability", "trial", "value", "series"]
    return pd.concat([pd.DataFrame(columns=columns), *frames]).rename(
        columns={"spurious_probability": "x"}
    )


_curves = functools.partial(small_figures.curves, x_title="Share of wrong captions")


def small_purified(tables: Tables) -> Drawing | Hole:
    """Draw the number of purified features on raw captions against C_s, by preset."""
    table = tables.simulation
    raw = {
        name: runs(of_preset(table, name), "purified_features")["raw"] for name in presets(table)
    }
    data = _series(raw)
    if data.empty:
        return _hole(tables, Note("simulation", "hole_purified"))
    colours = dict(zip(PRESETS, (style.BLUE, style.ORANGE), strict=True))
    return Drawing(*_curves(data, y_title="Purified features", colours=colours))


def small_filtering(tables: Tables) -> Drawing | Hole:
    """Draw accuracy on raw and filtered captions against C_s, in the last preset."""
    preset = next(reversed(presets(tables.simulation)), "")
    wide = runs(of_preset(tables.simulation, preset), "accuracy")
    data = _series({arm: wide[arm] for arm in PAIR})
    if data.empty:
        return _hole(tables, Note("simulation", "hole_accuracy"))
    title = f"Accuracy ({preset})"
    return Drawing(
        *_curves(data, y_title=title, colours=style.ARMS, least=small_figures.LEAST_FALL)
    )


def small_reproduction(tables: Tables) -> Drawing | Hole:
    """Draw all runs − published at every point of figure 1, in units of its tolerance."""
    measured = [
        {"label": UNITS[point.metric],
         "value": (point.mean - point.published) / TOLERANCES[point.metric]}
        for name in presets(tables.simulation)
        for point in points(of_preset(tables.simulation, name))
    ]  # fmt: skip
    if not measured:
        return _hole(tables, Note("simulation", "hole_published"))
    return Drawing(*small_figures.dots(
        pd.DataFrame(measured), "Difference (in tolerances)", colour=style.BLUE,
        levels=(-1.0, 0.0, 1.0),
    ))  # fmt: skip
