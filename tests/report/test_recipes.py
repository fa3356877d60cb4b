"""Recipes of figures: panels, layers, names of rows and the view that a toggle needs."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from mispair.report import charts, recipes, style

COLOUR = charts.colour("arm", "Arm", style.ARMS, ["raw", "filtered"])


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
    layers = ["run", "dashed", "run", "mark"]
    limits = {"low": [0.5, None, None, None], "high": [1.5, None, None, None]}
    assert marks(swept(table(layer=layers, **limits))) == [
        ["line", "line", "rule"], ["line", "point"],
    ]  # fmt: skip


def test_titles_of_panels_may_have_any_character_and_select_their_rows() -> None:
    first, second = swept(table()).to_dict(validate=False)["concat"]
    assert (first["title"], second["title"]) == ("a's", "b")
    assert first["transform"] == [{"filter": {"field": "panel", "equal": "a's"}}]
    ticks = first["layer"][0]["encoding"]["x"]["axis"]["values"]
    assert ticks == [1, 10]


def test_rows_of_both_panels_are_the_same_and_named_once() -> None:
    names = alt.Y("arm:N", title="Captions", sort=["raw", "filtered", "oracle"])
    data = table(layer=["run", "mean", "run", "run"])
    chart = recipes.forest(data, "Score", names, COLOUR, ("arm:N:arm",), levels=(0.0,))
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
