"""Recipes of figures: panels, layers, names of rows and the view that a toggle needs."""

from typing import Any

import altair as alt
import pandas as pd
import pytest

from mispair.report import charts, recipes, small_figures, style

COLOUR = charts.colour("arm", "Arm", style.colours("captions"), ["raw", "filtered"])


LINES = {"mean": recipes.SOLID, "bound": recipes.DASHED, "level": recipes.LONG}


def table(**columns: Any) -> pd.DataFrame:
    rows = {"panel": ["a's", "a's", "b", "b"], "arm": ["raw", "filtered"] * 2, "x": [1, 10, 1, 10]}
    return pd.DataFrame({**rows, "value": [1.0, 2.0, 3.0, 4.0], **columns})


def marks(chart: alt.ConcatChart) -> list[list[str]]:
    """Return the marks of each panel."""
    layers = [panel["layer"] for panel in chart.to_dict(validate=False)["concat"]]
    return [[layer["mark"]["type"] for layer in panel] for panel in layers]


def swept(data: pd.DataFrame, **settings: Any) -> alt.ConcatChart:
    axes = charts.log_x("x", "K", ticks=data["x"]), charts.y_axis("Risk")
    return recipes.sweep(data, *axes, COLOUR, ("x:Q:K",), **settings)


def test_a_panel_has_the_layers_that_its_rows_need() -> None:
    assert marks(swept(table())) == [["line"], ["line"]]
    limits = {"low": [0.5, None, None, None], "high": [1.5, None, None, None]}
    assert marks(swept(table(**limits))) == [["line", "rule"], ["line"]]
    layers = ["mean", "bound", "run", "mark"]
    chart = swept(table(layer=layers, **limits), lines=LINES)
    assert marks(chart) == [["line", "rule"], ["line", "circle", "point"]]
    measured = table(layer="mean", panel="a", arm="raw", x=[1, 3, 10, 100], low=0.5, high=6.0)
    assert marks(swept(measured, lines=LINES)) == [["line", "area"]]


def test_a_legend_explains_the_dashes_that_are_drawn_and_a_row_without_x_is_a_level() -> None:
    data = table(layer=["mean", "bound", "mean", "level"], x=[1, 10, 1, None])
    chart = swept(data, lines=LINES | {"published": [2, 3]})
    assert marks(chart) == [["line"], ["line", "rule"]]
    for panel in chart.to_dict(validate=False)["concat"]:
        scale = panel["layer"][-1]["encoding"]["strokeDash"]["scale"]
        assert dict(zip(scale["domain"], scale["range"], strict=True)) == LINES
    alone = swept(table()).to_dict(validate=False)["concat"][0]["layer"][0]["encoding"]
    assert alone["strokeDash"]["legend"] is None


@pytest.mark.parametrize(
    ("xs", "settings", "widths"),
    [
        ([1, 3, 10], {}, None),
        ([1, 10, 10], {}, [charts.SPARSE]),
        ([1, 10, 10], {"exact": ["level"]}, None),
        ([1, 3, 10], {"runs": ["seed"]}, [charts.SPARSE]),
    ],
)
def test_a_curve_of_two_points_is_thin_and_in_the_legend(xs, settings, widths) -> None:
    data = pd.DataFrame({"panel": "a", "arm": "raw", "x": xs, "value": [1.0, 2.0, 3.0]})
    data = data.assign(layer="level", seed=[0, 0, 1])
    chart = swept(data, lines=LINES, **settings).to_dict(validate=False)
    line = chart["concat"][0]["layer"][0]["encoding"]
    assert line.get("strokeWidth", {"legend": {}})["legend"].get("values") == widths
    assert ("size" in line) == (widths is not None)
    runs = data.rename(columns={"arm": "series"}).assign(low=None)
    small, _ = small_figures.curves(
        runs, "x", "y", colours=style.colours("captions"), legend="Captions"
    )
    line = small.to_dict(validate=False)["layer"][1]["encoding"]
    assert ("size" in line) == (len({*xs}) == 2)


def test_axes_of_equal_titles_have_equal_ranges_that_a_clipped_level_does_not_widen() -> None:
    def ranges(data: pd.DataFrame) -> list[tuple[str, list[float]]]:
        panels = swept(data, lines=LINES, clipped=["level"]).to_dict(validate=False)["concat"]
        axes = [panel["layer"][0]["encoding"]["y"] for panel in panels]
        return [(axis["title"], axis["scale"]["domain"]) for axis in axes]

    assert ranges(table(layer="mean")) == [("Risk", [1.0, 4.0])] * 2
    apart = table(layer="mean", y=["acc1", "acc1", "recall", "recall"])
    assert ranges(apart) == [("Acc1", [1.0, 2.0]), ("Recall", [3.0, 4.0])]
    low = pd.DataFrame({"panel": ["b"], "layer": ["level"], "value": [-9.0]})
    assert ranges(pd.concat([table(layer="mean"), low])) == [("Risk", [1.0, 4.0])] * 2


def test_a_level_that_no_axis_reaches_is_in_no_legend() -> None:
    for level, legend in ((-9.0, ["mean"]), (0.5, ["mean", "level"])):
        rows = pd.DataFrame({"panel": ["b"], "layer": ["level"], "value": [level]})
        data = pd.concat([table(layer="mean"), rows], ignore_index=True)
        chart = swept(data, lines=LINES, clipped=["level"]).to_dict(validate=False)
        dash = chart["concat"][0]["layer"][0]["encoding"]["strokeDash"]
        assert dash["scale"]["domain"] == legend
        assert (dash["legend"] is None) == (len(legend) == 1)


def test_bars_of_a_histogram_begin_at_zero_in_all_panels_alike() -> None:
    data = table(bin_low=[0, 0.5] * 2, bin_high=[0.5, 1] * 2, low=0.5, high=6.0)
    y = alt.Y("value:Q", title="Share", scale=alt.Scale(type="sqrt"))
    chart = recipes.histogram(
        data, alt.X("bin_low:Q", title="|cos|"), y, COLOUR, (), level=("chance", 1.0)
    )
    assert marks(chart) == [["bar", "rule", "rule"]] * 2
    for panel in chart.to_dict(validate=False)["concat"]:
        assert panel["layer"][0]["encoding"]["y"]["scale"]["domain"] == [0, 6.0]


def test_points_have_a_line_of_a_slope() -> None:
    axes = alt.X("x:Q", title="first"), alt.Y("value:Q", title="second")
    assert marks(recipes.scatter(table(), *axes, COLOUR, ())) == [["circle"], ["circle"]]
    chart = recipes.scatter(table(low=0.5, high=6.0), *axes, COLOUR, (), slope=("half", 0.5))
    assert marks(chart) == [["circle", "rule", "rule"]] * 2
    line = chart.to_dict(validate=False)["concat"][0]["layer"][2]["encoding"]
    assert (line["x2"]["datum"], line["y2"]["datum"]) == (1, 0.5)


def test_a_logarithmic_axis_ends_at_round_numbers_around_its_values() -> None:
    data = table(value=[37.8, 64.8, 8.2, 101.5], y=["text", "text", "image", "image"])
    panels = swept(data, logs=["image"]).to_dict(validate=False)["concat"]
    linear, log = (panel["layer"][0]["encoding"]["y"] for panel in panels)
    assert linear["scale"].get("type") is None
    assert (log["scale"]["type"], log["scale"]["domain"]) == ("log", [8, 120])
    assert log["axis"]["values"] == [8, 20, 40, 60, 80, 120]
    below = table(value=[5.0, 9.0, 1.0, 2.0], low=[-1.0, 8.0, None, None], high=[11.0, 10.0, 1, 2])
    for data, domain in ((below, [1, 12]), (table(value=3.0), None)):
        panels = swept(data, logs=["Risk"]).to_dict(validate=False)["concat"]
        assert panels[0]["layer"][0]["encoding"]["y"]["scale"].get("domain") == domain


def test_titles_of_panels_may_have_any_character_and_select_their_rows() -> None:
    first, second = swept(table()).to_dict(validate=False)["concat"]
    assert (first["title"], second["title"]) == ("a's", "b")
    assert first["transform"] == [{"filter": {"field": "panel", "equal": "a's"}}]
    ticks = first["layer"][0]["encoding"]["x"]["axis"]["values"]
    assert ticks == [1, 10]


def test_rows_of_both_panels_are_the_same_and_named_once() -> None:
    names = alt.Y("arm:N", title="Captions", sort=["raw", "filtered", "oracle"])
    data = table(layer=["run", "mean", "run", "run"])
    chart = recipes.forest(data, "Score", names, COLOUR, ("arm:N:arm",), levels=(("none", 0.0),))
    assert marks(chart) == [["circle", "tick", "rule"], ["circle", "rule"]]
    axes = [panel["layer"][0]["encoding"]["y"] for panel in chart.to_dict(validate=False)["concat"]]
    assert [axis["axis"]["labels"] for axis in axes] == [True, False]
    assert all(axis["scale"]["domain"] == ["raw", "filtered", "oracle"] for axis in axes)


def test_a_toggle_has_one_named_view_of_each_panel() -> None:
    spec = swept(table(), toggle=True).to_dict(validate=False)
    charts.add_toggle(spec, "arm")
    (param,) = spec["params"]
    assert param["views"] == [f"{charts.VIEW}0", f"{charts.VIEW}1"]
    shown = [panel["layer"][0]["encoding"]["opacity"] for panel in spec["concat"]]
    assert all(opacity["condition"][0]["param"] == charts.TOGGLE for opacity in shown)
