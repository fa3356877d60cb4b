"""Functions that draw the figures of a study."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from mispair.report import studies
from mispair.report.charts import Drawing, Hole
from mispair.report.tables import Tables

Draw = Callable[[Tables], Drawing | Hole]
"""Draws a figure from all measurements, or returns why it cannot be drawn."""


def by_name(*functions: Draw) -> dict[str, Draw]:
    """Return the functions that draw the figures of a study by name, which is the figure's."""
    return {function.__name__: function for function in functions}


def draw_of(figure: str) -> Draw:
    """Return the function that draws a figure, by its name in its study's ``DRAWINGS``.

    Those of small figures are in ``SMALL``.
    """
    every = studies.studies()
    (name,) = (
        declared.key
        for declared in every
        if figure in {each.name for each in studies.drawn(declared.key)}
    )
    module = import_module(studies.module_name(name, "figures"))
    is_small = figure in {each.name for each in studies.study(name).small}
    draw: Draw = (module.SMALL if is_small else module.DRAWINGS)[figure]
    return draw
