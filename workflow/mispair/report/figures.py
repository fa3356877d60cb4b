"""All figures by name, and what becomes of them: pictures, a table and an interactive chart."""

from __future__ import annotations

import functools
import io
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd
import vl_convert
from PIL import Image

from mispair.evaluation.report import figures_basis, figures_pruning, figures_semantics
from mispair.image_text.report import (
    figures_image_text,
    figures_neurons,
    figures_schemes,
    figures_spectrum,
    figures_temperature,
)
from mispair.laclip.report import figures_checkpoints
from mispair.pairs.report import figures_corpus
from mispair.pretraining.report import figures_pretraining
from mispair.report import catalogue, charts, style
from mispair.report.charts import Drawing, Hole
from mispair.report.exports.pdf import in_order
from mispair.report.tables import Tables
from mispair.simulation.report import (
    figures_conditions,
    figures_features,
    figures_scaling,
    figures_simulation,
    figures_theory,
)
from mispair.stepsize.report import figures_stepsize
from mispair.sufficiency.report import figures_sufficiency

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""The Vega-Lite that draws; the page brings the same one."""

BUILDERS: dict[str, Callable[[Tables], Drawing | Hole]] = {
    "purity_by_shuffling": figures_image_text.overlap,
    "overlap_by_scale": figures_temperature.overlap_by_scale,
    "correlation_by_shuffling": figures_temperature.correlation,
    "participation_by_shuffling": figures_spectrum.participation_ratio,
    "cosine_histogram": figures_neurons.histogram,
    "cosine_ladder": figures_neurons.ladder,
    "overlap_map": figures_neurons.heat_map,
    "accuracy_by_shuffling": figures_image_text.accuracy,
    "silhouette_by_shuffling": figures_image_text.silhouette,
    "pruning": figures_pruning.pruning,
    "pruning_by_set": functools.partial(figures_pruning.by_set, metric="acc1"),
    "pruning_silhouette_by_set": functools.partial(figures_pruning.by_set, metric="silhouette"),
    "pruning_renormalised": figures_pruning.renormalised,
    "shape_ratio": figures_spectrum.shape_ratio,
    "semantics_by_shuffling": figures_semantics.semantics_by_shuffling,
    "identified_basis": figures_basis.identified,
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
    "simulation_samples": figures_features.samples,
    "simulation_dynamics": figures_theory.dynamics,
    "simulation_alignments": figures_theory.alignments,
    "simulation_bridge": figures_conditions.switches,
    "simulation_grid": figures_conditions.sensitivity,
    "simulation_scaling": figures_scaling.scaling,
    "checkpoints": figures_checkpoints.checkpoints,
    "sufficiency_divergence": figures_sufficiency.divergence,
    "sufficiency_prompts": figures_sufficiency.prompts,
    "sufficiency_transfer": figures_sufficiency.transfer,
    "sufficiency_shift": figures_sufficiency.shift,
    "sufficiency_published": figures_sufficiency.at_published_size,
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
    "pretraining_mixing": figures_pretraining.mixing,
    "pretraining_accuracy": figures_pretraining.accuracy,
}
"""What draws each figure of the catalogue."""

EVERY_SCHEME = frozenset(("purity_by_scheme",))
"""Figures that compare schemes of corruption; all others show the main scheme alone.

Every figure shows the main protocol alone.
"""


@dataclass(frozen=True)
class Rendered:
    """The forms of a figure: three to print, its numbers, and the chart for the page."""

    svg: str
    pdf: bytes
    png: bytes
    csv: pd.DataFrame
    spec: dict[str, Any]


def render(
    figure: catalogue.Figure, tables: Tables, font_size: int, paper_font_size: int, max_points: int
) -> Rendered:
    """Draw a figure; where nothing can be drawn, draw why.

    Parameters
    ----------
    figure, tables, font_size, max_points
        As in `compose`.
    paper_font_size : int
        Of labels in the forms to print, in pixels.
    """
    spec, data = compose(figure, tables, font_size, max_points)
    svg = _svg(charts.for_paper(spec, paper_font_size))
    return Rendered(svg, in_order(vl_convert.svg_to_pdf(svg)), _png(svg), data, spec)


def compose(
    figure: catalogue.Figure, tables: Tables, font_size: int, max_points: int
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return a figure as an interactive chart, and the numbers in it.

    Parameters
    ----------
    figure : catalogue.Figure
        Which one.
    tables : Tables
        All measurements.
    font_size : int
        Of labels on the page, in pixels.
    max_points : int
        More rows than this are not drawn: the figure says so.

    Returns
    -------
    spec : dict
        Vega-Lite; ``spec["usermeta"]["mispair"]`` holds the title, and the sentence or the reason
        of a hole.
    data : DataFrame
        Empty for a hole.
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
        if "low" in data and not data["low"].notna().any():
            text += " No band or bar is drawn: there is one run of each."
        meta |= {"sentence": text}
    spec = {**chart.to_dict(validate=False), "config": charts.config(font_size)}
    if isinstance(drawing, Drawing) and drawing.toggle:
        charts.add_toggle(spec, drawing.toggle)
    spec["description"] = f"{figure.title}. {text}"
    spec["usermeta"] = {"mispair": meta, "embedOptions": {"actions": False, "renderer": "svg"}}
    return spec, data


def _svg(spec: dict[str, Any]) -> str:
    """Draw a picture: coordinates to a hundredth of a pixel, and no label on every single mark."""
    svg = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    svg = _COORDINATES.sub(lambda found: _LONG.sub(_round, found[0]), svg)
    # The drawing engine counts its clip paths over all pictures that it has ever drawn.
    names = {name: f"part{number}" for number, name in enumerate(_IDENTIFIERS.findall(svg))}
    return _REFERENCES.sub(lambda found: found[1] + names.get(found[2], found[2]) + found[3], svg)


def few_colours(picture: Image.Image) -> Image.Image:
    """Return an RGB picture in 256 colours, which takes a tenth of the bytes.

    Maximum coverage keeps the hue of thin lines, and white. The median cut, Pillow's default,
    averages hues that few pixels have, and made blue and green lines equal.
    """
    return picture.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)


def _png(svg: str) -> bytes:
    with Image.open(io.BytesIO(vl_convert.svg_to_png(svg, scale=PIXELS))) as picture:
        few = few_colours(picture.convert("RGB"))
    buffer = io.BytesIO()
    few.save(buffer, "PNG", dpi=(300, 300))
    return buffer.getvalue()


PIXELS = 1.5
"""Pixels of a PNG for each of the figure: about 1,300 across, 400 to the inch in a column."""

_IDENTIFIERS = re.compile(r' id="(\w+)"')
_REFERENCES = re.compile(r'( id="|url\(#)(\w+)("|\))')


_COORDINATES = re.compile(r' (?:d|transform|x|y|x1|x2|y1|y2|width|height)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")


def _round(found: re.Match[str]) -> str:
    return f"{float(found[0]):.2f}".rstrip("0").rstrip(".")


def _hole(reason: str) -> alt.Chart:
    lines = ["Not measured", *textwrap.wrap(reason, 70)]
    return (
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_text(text=lines, color=style.QUIET, lineHeight=22)
        .properties(width=2 * charts.WIDTH, height=100)
    )
