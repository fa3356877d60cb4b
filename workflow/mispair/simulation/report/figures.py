"""The figures of the simulation study: a function of the name of each figure draws it."""

import functools
from collections.abc import Mapping

import altair as alt
import pandas as pd

from mispair.report import charts, published, recipes, small_figures, style
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables, where
from mispair.report.texts import Note
from mispair.simulation.report.claims_scaling import MEASURES, PROFILE, fitted, of_sweep, values
from mispair.simulation.report.effects import FAR_END, bridge_changes
from mispair.simulation.report.runs import (
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
from mispair.simulation.study import AT_LEAST

CAPTIONS = style.colours("captions")
TRAINED_ON = charts.colour("trained_on", "Trained on", CAPTIONS, [*PAIR])
LINES = {"mean": recipes.SOLID, "best two thirds": recipes.DASHED, "published": recipes.DOTTED}
CLAIMED = ("failure", "residual", "wrong", "missing", "unpurified")
"""Measures over d that have a panel."""

GAIN = "gain"
SWEEPS = [name for name in CAPTIONS if name != GAIN]
"""Arms and sources of captions; the sweep with more neurons has the filtered arm only."""


def _hole(tables: Tables, reason: Note) -> Hole:
    """Return a hole with the given reason, or because the simulation was not run."""
    return Hole(Note("simulation", "hole_not_run") if tables.simulation.empty else reason)


def _at_largest(table: pd.DataFrame, **columns: object) -> pd.DataFrame:
    """Return the rows of presets that match `columns`, at the largest C_s of each.

    Their ``panel`` names the tower, and the condition if there are several.
    """
    rows = where(table, kind="preset", **columns)
    c_s = rows["spurious_probability"]
    rows = rows[c_s == c_s.groupby(rows["condition"]).transform("max")]
    of = rows["condition"] + ": " if rows["condition"].nunique() > 1 else ""
    return rows.assign(panel=of + rows["tower"].str.capitalize() + " neurons")


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
    printed = published.figure1().melt(keys[:0:-1], [*style.MEASURES], "metric")
    chosen = each.groupby(keys)["value"].agg(best).dropna().reset_index()
    data = charts.layers(
        each[[*keys, "trial", "value"]], keys, chosen.assign(layer="best two thirds"),
        printed.assign(layer="published"),
    )  # fmt: skip
    data, left_out = charts.within(data, "spurious_probability")
    titles = data["metric"].map(style.MEASURES).map(_title_and_unit)
    chart = recipes.sweep(
        data.assign(panel=titles.str[0], y=titles.str[1]).sort_values(
            "metric", key=lambda names: names.map([*style.MEASURES].index), kind="stable"
        ),
        charts.x_axis("spurious_probability", style.CS), charts.y_axis(""), TRAINED_ON,
        ("trained_on:N:trained on", "spurious_probability:Q:share", "value:Q:value",
         "n:Q:runs", "trial:Q:trial"),
        lines=LINES, points=True, toggle=True,
    )  # fmt: skip
    return Drawing(chart, data, left_out, "trained_on")


def _title_and_unit(measure: str) -> tuple[str, str]:
    name, _, unit = measure.rstrip(")").partition(" (")
    return name, f"{unit[:1].upper()}{unit[1:]}" or name


def simulation_cosines(tables: Tables) -> Drawing | Hole:
    """Draw histograms of |cos| of neurons with the dictionaries, raw and filtered."""
    rows = _at_largest(tables.simulation, metric="cosine_histogram", trained_on=PAIR)
    rows = rows.dropna(subset=["value"])
    if rows.empty:
        return _hole(tables, Note("simulation", "hole_histogram"))
    rows["panel"] += ", " + rows["trained_on"]
    share = rows["value"] / rows.groupby(["panel", "trial"])["value"].transform("sum")
    keys = ["condition", "tower", "trained_on", "spurious_probability", "bin_low", "bin_high"]
    data = charts.summary(rows.assign(value=share), ["panel", *keys])
    # Raw and filtered of one preset are side by side.
    data = data.sort_values(keys, ascending=[True, False, False, True, True, True])
    chart = recipes.histogram(
        data,
        alt.X("bin_low:Q", title="|cos| of neuron and feature", scale=alt.Scale(domain=[0, 1])),
        alt.Y("value:Q", title="Share of pairs (square root)", scale=alt.Scale(type="sqrt"),
              axis=alt.Axis(labelExpr="format(100 * datum.value, '.3~g') + ' %'")),
        TRAINED_ON,
        ("bin_low:Q:from", "bin_high:Q:to", "value:Q:share of pairs", "low:Q:−1 s.d.",
         "high:Q:+1 s.d.", "n:Q:trials"),
    )  # fmt: skip
    return Drawing(chart, data.drop(columns="panel"))


def simulation_mixing(tables: Tables) -> Drawing | Hole:
    """Draw each neuron's largest against its second |cos|, raw and filtered, of one trial."""
    rows = _at_largest(tables.simulation_points, metric="neuron_alignment", trained_on=PAIR)
    rows = rows.dropna(subset=["x", "y"])
    rows = rows[rows["trial"] == rows.groupby("condition")["trial"].transform("min")]
    if rows.empty:
        return _hole(tables, Note("simulation", "hole_neurons"))
    columns = ["condition", "spurious_probability", "trial", "tower", "trained_on", "neuron"]
    data = rows[["panel", *columns, "x", "y"]].sort_values("panel", kind="stable")
    scale = alt.Scale(domain=[0, 1])
    chart = recipes.scatter(
        data[["panel", "trained_on", "neuron", "x", "y"]],
        alt.X("x:Q", title="Largest |cos| with a feature", scale=scale),
        alt.Y("y:Q", title="Second largest |cos|", scale=scale), TRAINED_ON,
        ("trained_on:N:trained on", "neuron:Q:neuron", "x:Q:largest", "y:Q:second"),
        slope=("half of the largest", AT_LEAST),
    )  # fmt: skip
    return Drawing(chart, data.drop(columns="panel"))


def simulation_bridge(tables: Tables) -> Drawing | Hole:
    """Draw what each switch between the presets changes in each measure, thrown alone."""
    data = bridge_changes(tables)
    if data.empty:
        return _hole(tables, Note("simulation", "hole_bridge"))
    data["panel"] = data["metric"].map(style.MEASURES)
    order = sorted({*data["switch"]}, key=lambda name: (name == FAR_END, name))
    chart = recipes.forest(
        data, "Change", alt.Y("switch:N", title="Switch", sort=order),
        charts.colour("trained_on", "Change of", CAPTIONS, [*PAIR, GAIN]),
        ("switch:N:switch", "trained_on:N:change of", "value:Q:change", "low:Q:from",
         "high:Q:to", "n:Q:pairs"),
        offset="trained_on", levels=(("no change", 0.0),), toggle=True, step=12,
    )  # fmt: skip
    return Drawing(chart, data.drop(columns="panel"), toggle="trained_on")


def simulation_scaling(tables: Tables) -> Drawing | Hole:
    """Draw each measure by d on logarithmic axes: a power law is a straight line."""
    data = pd.DataFrame(
        [row for wide in (False, True) for row in _means_over_d(of_sweep(tables, wide), wide)]
    )
    if data.empty:
        return _hole(tables, Note("simulation", "hole_scaling", profile=PROFILE))
    data = data.sort_values("measure", key=lambda names: names.map(CLAIMED.index), kind="stable")
    titles = data["measure"].map(MEASURES).map(_title_and_unit)
    chart = recipes.sweep(
        data.assign(panel=titles.str[0], y=titles.str[1] + " (log scale)"),
        charts.log_x("features", "Number of features d (log scale)", ticks=data["features"]),
        charts.log_y("value", ""), charts.colour("of", "Of", CAPTIONS, SWEEPS),
        ("of:N:of", "features:Q:d", "value:Q:mean", "low:Q:−1 s.d.", "high:Q:+1 s.d.",
         "n:Q:trials", "bound:N:upper bound"),
        points=True, toggle=True,
    )  # fmt: skip
    return Drawing(chart, data, toggle="of")


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


_curves = functools.partial(small_figures.curves, x_title=style.CS)


def small_purified(tables: Tables) -> Drawing | Hole:
    """Draw the number of purified features on raw captions against C_s, by preset."""
    table = tables.simulation
    raw = {
        name: runs(of_preset(table, name), "purified_features")["raw"] for name in presets(table)
    }
    data = _series(raw)
    if data.empty:
        return _hole(tables, Note("simulation", "hole_purified"))
    colours = style.colours("preset", PRESETS)
    return Drawing(*_curves(data, y_title="Purified features", colours=colours, legend="Settings"))


def small_filtering(tables: Tables) -> Drawing | Hole:
    """Draw accuracy on raw and filtered captions against C_s, in the last preset."""
    preset = next(reversed(presets(tables.simulation)), "")
    wide = runs(of_preset(tables.simulation, preset), "accuracy")
    data = _series({arm: wide[arm] for arm in PAIR})
    if data.empty:
        return _hole(tables, Note("simulation", "hole_accuracy"))
    return Drawing(*_curves(
        data, y_title="Accuracy (share)", colours=CAPTIONS, legend="Trained on",
        least=small_figures.LEAST_FALL,
    ))  # fmt: skip


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
        pd.DataFrame(measured), "Difference (tolerance: ±1)", colour=style.ONLY,
        levels=(-1.0, 0.0, 1.0),
    ))  # fmt: skip
