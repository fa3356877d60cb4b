"""The forms of a figure: pictures, a table and an interactive chart."""

import io
import re
import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import Any

import altair as alt
import pandas as pd
import vl_convert
from altair.utils.schemapi import debug_mode
from PIL import Image

from mispair.report import charts, studies, style, texts
from mispair.report.charts import Drawing, Hole
from mispair.report.studies import Figure
from mispair.report.tables import Tables
from mispair.report.texts import SHARED, Note

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""Version of Vega-Lite that draws pictures; the page contains the same one."""


MOST_POINTS = 10_000
"""Most rows of a figure, so that browsers stay quick."""


def compose(figure: Figure, tables: Tables) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return a figure as an interactive chart, and the numbers in it.

    A figure of more than `MOST_POINTS` rows is a hole.

    Returns
    -------
    spec : dict
        Vega-Lite; ``spec["usermeta"]["mispair"]`` holds the title, and the sentence or the reason
        of a hole.
    data : DataFrame
        Empty for a hole.
    """
    shown = (tables if figure.every_scheme else tables.of_scheme()).of_protocol()
    draw = draw_of(figure.name)
    # Altair would check each part of a chart when it is made; a test checks all figures.
    with debug_mode(False):
        drawing = draw(shown)
    if isinstance(drawing, Drawing) and len(drawing.data) > MOST_POINTS:
        points = len(drawing.data)
        drawing = Hole(Note(SHARED, "too_many_points", points=points, most=MOST_POINTS))
    meta: dict[str, Any] = {"name": figure.name, "title": figure.title}
    if isinstance(drawing, Hole):
        reason = texts.text(drawing.reason)
        text = texts.text(Note(SHARED, "hole", reason=reason))
        chart: alt.TopLevelMixin = _hole(reason)
        data = pd.DataFrame()
        meta |= {"hole": reason}
    else:
        chart, data, notes = drawing.chart, drawing.data, [*drawing.notes]
        if "low" in data and not data["low"].notna().any():
            notes.append(Note(SHARED, "no_spread"))
        text = texts.joined(notes)
        meta |= {"sentence": text}
    spec = {**chart.to_dict(validate=False), "config": charts.config(charts.SCREEN_FONT)}
    if isinstance(drawing, Drawing) and drawing.toggle:
        charts.add_toggle(spec, drawing.toggle)
    spec["description"] = f"{figure.title}. {text}".strip()
    spec["usermeta"] = {"mispair": meta, "embedOptions": {"actions": False, "renderer": "svg"}}
    return spec, data


def draw_of(figure: str) -> Callable[[Tables], Drawing | Hole]:
    """Return the function that draws a figure: that of its name in its study's ``figures``.

    Raises
    ------
    LookupError
        If there is no such function.
    """
    (study,) = (
        name for name in studies.NAMES if figure in {each.name for each in studies.drawn(name)}
    )
    module = import_module(studies.module_name(study, "figures"))
    if figure not in vars(module):
        raise LookupError(f"{module.__name__}: no function {figure} draws the figure of that name")
    draw: Callable[[Tables], Drawing | Hole] = vars(module)[figure]
    return draw


def printed(spec: dict[str, Any], font_size: int) -> dict[str, bytes]:
    """Return the pictures of a figure for a paper, by their form: SVG, PDF and PNG.

    Labels have `font_size` pixels. A PDF has other bytes in each run: the drawing engine numbers
    its objects in another order.
    """
    svg = as_svg(charts.for_paper(spec, font_size))
    pdf = vl_convert.svg_to_pdf(svg)
    return {"svg": f"{svg}\n".encode(), "pdf": pdf, "png": _png(svg)}


def as_svg(spec: dict[str, Any]) -> str:
    """Draw a picture, with coordinates to a hundredth of a pixel."""
    svg = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    svg = _COORDINATES.sub(lambda match: _LONG.sub(_round, match[0]), svg)
    # The drawing engine numbers its clip paths over all pictures that it has drawn.
    names = {name: f"part{number}" for number, name in enumerate(_IDENTIFIERS.findall(svg))}
    return _REFERENCES.sub(lambda match: match[1] + names.get(match[2], match[2]) + match[3], svg)


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
"""Pixels of a PNG per pixel of the figure: about 1,300 across, 400 per inch in a column."""

_IDENTIFIERS = re.compile(r' id="(\w+)"')
_REFERENCES = re.compile(r'( id="|url\(#)(\w+)("|\))')


_COORDINATES = re.compile(r' (?:d|transform|x|y|x1|x2|y1|y2|width|height)="[^"]*"')
_LONG = re.compile(r"-?\d+\.\d{3,}(?:e-?\d+)?")


def _round(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2f}".rstrip("0").rstrip(".")


def _hole(reason: str) -> alt.Chart:
    lines = [texts.text(Note(SHARED, "not_measured")), *textwrap.wrap(reason, 70)]
    return (
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_text(text=lines, color=style.QUIET, lineHeight=22)
        .properties(width=2 * charts.WIDTH, height=100)
    )
