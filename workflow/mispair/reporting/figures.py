"""All figures by name, and what becomes of them: a picture, a table and an interactive chart."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from mispair.reporting import (
    catalogue,
    charts,
    figures_checkpoints,
    figures_conditions,
    figures_corpus,
    figures_features,
    figures_image_text,
    figures_pruning,
    figures_schemes,
    figures_semantics,
    figures_simulation,
    figures_stepsize,
    figures_theory,
    style,
)
from mispair.reporting.charts import Drawing, Hole
from mispair.reporting.tables import Tables

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""The Vega-Lite that draws; the page brings the same one."""

BUILDERS: dict[str, Callable[[Tables], Drawing | Hole]] = {
    "purity_by_shuffling": figures_image_text.overlap,
    "effective_rank_by_shuffling": figures_image_text.effective_rank,
    "cosine_histogram": figures_image_text.histogram,
    "accuracy_by_shuffling": figures_image_text.accuracy,
    "silhouette_by_shuffling": figures_image_text.silhouette,
    "pruning": figures_pruning.pruning,
    "pruning_by_set": functools.partial(figures_pruning.by_set, metric="acc1"),
    "pruning_silhouette_by_set": functools.partial(figures_pruning.by_set, metric="silhouette"),
    "pruning_renormalised": figures_pruning.renormalised,
    "semantic_purity": figures_semantics.semantic_purity,
    "pruning_controls": figures_pruning.controls,
    "realised_swaps": figures_image_text.swaps,
    "purity_by_scheme": figures_schemes.by_scheme,
    "caption_lengths": figures_corpus.caption_lengths,
    "image_sizes": figures_corpus.image_sizes,
    "simulation_figure1_as_written": functools.partial(
        figures_simulation.figure1, preset="as-written"
    ),
    "simulation_figure1_as_run": functools.partial(figures_simulation.figure1, preset="as-run"),
    "simulation_cosines": figures_features.cosines,
    "simulation_mixing": figures_features.mixing,
    "simulation_tsne": figures_features.tsne,
    "simulation_captions": figures_simulation.captions,
    "simulation_filter": figures_simulation.replaced,
    "simulation_alignments": figures_theory.alignments,
    "simulation_bridge": figures_conditions.switches,
    "simulation_grid": figures_conditions.sensitivity,
    "checkpoints": figures_checkpoints.checkpoints,
    "stepsize_risk": figures_stepsize.risk,
    "stepsize_thresholds": figures_stepsize.thresholds,
    "stepsize_steps": figures_stepsize.steps,
    "stepsize_margin": figures_stepsize.margin,
    "stepsize_neurons": figures_stepsize.neurons,
    "stepsize_rate": figures_stepsize.rate,
    "stepsize_speedup": figures_stepsize.speedup,
    "stepsize_acceleration": figures_stepsize.acceleration,
    "stepsize_sharpness": figures_stepsize.sharpness,
    "stepsize_bounds": figures_stepsize.bounds,
    "stepsize_activations": figures_stepsize.activations,
    "stepsize_accuracy": figures_stepsize.accuracy,
}
"""What draws each figure of the catalogue."""

EVERY_SCHEME = frozenset(("purity_by_scheme",))
"""Figures that compare schemes of corruption; all others show the main scheme alone.

Every figure shows the main protocol alone.
"""


@dataclass(frozen=True)
class Rendered:
    """The three forms of a figure."""

    svg: str
    csv: pd.DataFrame
    spec: dict[str, Any]


def render(figure: catalogue.Figure, tables: Tables, font_size: int, max_points: int) -> Rendered:
    """Draw a figure; where nothing can be drawn, draw why.

    Parameters
    ----------
    figure : catalogue.Figure
        Which one.
    tables : Tables
        All measurements.
    font_size : int
        Of labels, in pixels.
    max_points : int
        More rows than this are not drawn: the figure says so.

    Returns
    -------
    Rendered
        ``spec["usermeta"]["mispair"]`` holds the title, and the sentence or the reason of a hole.
    """
    shown = (tables if figure.name in EVERY_SCHEME else tables.of_scheme()).of_protocol()
    drawing = BUILDERS[figure.name](shown)
    if isinstance(drawing, Drawing) and len(drawing.data) > max_points:
        drawing = Hole(
            f"{len(drawing.data):,} points are more than the {max_points:,} of draw_figures"
        )
    meta: dict[str, Any] = {"name": figure.name, "title": figure.title}
    if isinstance(drawing, Hole):
        chart: alt.TopLevelMixin = _hole(drawing.reason)
        data = pd.DataFrame()
        meta |= {"hole": drawing.reason}
        text = f"Not measured: {drawing.reason}."
    else:
        chart, data, text = drawing.chart, drawing.data, drawing.sentence
        meta |= {"sentence": text}
    spec = charts.styled(chart, font_size).to_dict(validate=False)
    if isinstance(drawing, Drawing) and drawing.toggle:
        charts.add_toggle(spec, drawing.toggle)
    spec["description"] = f"{figure.title}. {text}"
    spec["usermeta"] = {"mispair": meta, "embedOptions": {"actions": False, "renderer": "svg"}}
    return Rendered(_svg(spec), data, spec)


def _svg(spec: dict[str, Any]) -> str:
    """Draw a picture: coordinates to a hundredth of a pixel, and no label on every single mark."""
    quiet = {**spec, "config": {**spec["config"], "aria": False}}
    svg = vl_convert.vegalite_to_svg(quiet, vl_version=VEGA_LITE)
    svg = _COORDINATES.sub(lambda found: _LONG.sub(_round, found[0]), svg)
    # The drawing engine counts its clip paths over all pictures that it has ever drawn.
    names = {name: f"part{number}" for number, name in enumerate(_IDENTIFIERS.findall(svg))}
    return _REFERENCES.sub(lambda found: found[1] + names.get(found[2], found[2]) + found[3], svg)


_IDENTIFIERS = re.compile(r' id="(\w+)"')
_REFERENCES = re.compile(r'( id="|url\(#)(\w+)("|\))')


_COORDINATES = re.compile(r' (?:d|transform|x|y|x1|x2|y1|y2|width|height)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")


def _round(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


def _hole(reason: str) -> alt.Chart:
    lines = ["Not measured", *textwrap.wrap(reason, 90)]
    return (
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_text(text=lines, fontSize=14, color=style.QUIET, lineHeight=20)
        .properties(width=2 * charts.WIDTH, height=100)
    )
