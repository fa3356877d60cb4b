"""The forms of a figure: pictures, PDF with fixed bytes, a table and an interactive chart."""

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
from mispair.report.notes import SHARED, Note
from mispair.report.studies import Figure
from mispair.report.tables import Tables

# PDF files whose bytes depend only on their content.
#
# The drawing engine numbers fonts and lists resources in an order that differs from call to call.

_OBJECT = re.compile(rb"(\d+) 0 obj\n")
_END = b"\nendobj\n"
_LENGTH = re.compile(rb"/Length (\d+)")
_REFERENCE = re.compile(rb"(\d+) 0 R\b")
_RESOURCES = re.compile(rb"(<<\n)((?: +/\w+ \d+ 0 R\n){2,})")


def in_order(pdf: bytes) -> bytes:
    """Sort the entries of a PDF's dictionaries of references, and renumber its objects.

    Objects are numbered in the order in which references from the catalogue reach them.

    Parameters
    ----------
    pdf : bytes
        With one table of objects and without object streams, as `vl_convert` writes it.
    """
    objects = {
        number: _RESOURCES.sub(_sorted, head) + stream
        for number, (head, stream) in _objects(pdf).items()
    }
    heads = {
        number: body.partition(b"\nstream\n")[0] if b"\nstream\n" in body else body
        for number, body in objects.items()
    }
    root = next(number for number, head in heads.items() if b"/Type /Catalog" in head)
    order: dict[int, int] = {}
    waiting = [root]
    while waiting:
        number = waiting.pop()
        if number not in order:
            order[number] = len(order) + 1
            waiting += [int(reference) for reference in reversed(_REFERENCE.findall(heads[number]))]
    written = pdf[: pdf.index(b"\n", pdf.index(b"\n") + 1) + 1]
    offsets = []
    for number, new in order.items():
        offsets.append(len(written))
        head = _REFERENCE.sub(lambda reference: b"%d 0 R" % order[int(reference[1])], heads[number])
        body = head + objects[number][len(heads[number]) :]
        written += b"%d 0 obj\n" % new + body + _END
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return written + (
        b"xref\n0 %d\n0000000000 65535 f \n" % (len(order) + 1) + table
        + b"trailer\n<<\n  /Size %d\n  /Root 1 0 R\n>>\n" % (len(order) + 1)
        + b"startxref\n%d\n%%%%EOF\n" % len(written)
    )  # fmt: skip


def _objects(pdf: bytes) -> dict[int, tuple[bytes, bytes]]:
    """Return the head and the stream (empty if there is none) of every object by its number."""
    objects = {}
    position = 0
    while start := _OBJECT.search(pdf, position):
        end = pdf.index(_END, start.end())
        stream = pdf.find(b"\nstream\n", start.end(), end)
        if stream >= 0:
            # A stream may hold any bytes, so only its length gives its end.
            (length,) = _LENGTH.findall(pdf[start.end() : stream])
            end = pdf.index(_END, stream + len(b"\nstream\n") + int(length))
        cut = end if stream < 0 else stream
        objects[int(start[1])] = pdf[start.end() : cut], pdf[cut:end]
        position = end + len(_END)
    return objects


def _sorted(objects: re.Match[bytes]) -> bytes:
    return objects[1] + b"".join(sorted(objects[2].splitlines(keepends=True)))


VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""Version of Vega-Lite that draws pictures; the page contains the same one."""


def compose(
    figure: Figure, tables: Tables, font_size: int, max_points: int
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return a figure as an interactive chart, and the numbers in it.

    Labels on the page have `font_size` pixels. A figure of more than `max_points` rows is a hole.

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
    if isinstance(drawing, Drawing) and len(drawing.data) > max_points:
        points = len(drawing.data)
        drawing = Hole(Note(SHARED, "too_many_points", points=points, most=max_points))
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
    spec = {**chart.to_dict(validate=False), "config": charts.config(font_size)}
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

    Labels have `font_size` pixels.
    """
    svg = as_svg(charts.for_paper(spec, font_size))
    pdf = in_order(vl_convert.svg_to_pdf(svg))
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
